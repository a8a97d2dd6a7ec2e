//! What the statements of a BATCH message are together.
//!
//! Batches are told apart by their kind and the set of their statements' templates, as templates of batches
//! are: so batches of any number of the same statements, with ever new values or in another order, share an
//! analysis.

use std::{collections::BTreeSet, sync::Arc};

use cqlens_cql::syntax::{Template, ast};
use cqlens_proto::message::BatchKind;

use crate::audit::statement::{
    analysis::{Analysis, NamedTable, are_system},
    ids::{Ids, StatementId},
};
use cqlens_cql::plan::{Flag, StatementKind};
use cqlens_window::{PatternHead, PatternId};

/// The statements of a BATCH message, each once. A buffer that its owner reuses.
#[derive(Debug, Default)]
pub(crate) struct Children {
    /// In the order of their first appearance.
    distinct: Vec<Child>,
    /// Where a statement may be in `distinct`, by its id. Never cleared: what is there says whether it is the
    /// one.
    places: Vec<u32>,
    /// Positions among a batch's tables, by their ids.
    positions: Vec<u32>,
}

/// A statement of a BATCH message.
#[derive(Debug)]
struct Child {
    analysis: Arc<Analysis>,
    /// How often it is there.
    times: u32,
}

/// The key under which the analysis of a batch is cached.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct BatchShape {
    kind: ast::BatchKind,
    /// Its table is that of the pattern.
    first: Option<StatementId>,
    /// In order, each once.
    statements: Box<[StatementId]>,
    /// Of all statements together: they may differ between texts with one template.
    flags: BTreeSet<Flag>,
    is_known: bool,
    disagrees: bool,
}

impl Children {
    /// Forgets all statements and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.distinct.clear();
    }

    /// Adds a statement.
    pub(crate) fn add(&mut self, analysis: Arc<Analysis>) {
        let id = analysis.statement.index();
        if id >= self.places.len() {
            self.places.resize(id + 1, 0);
        }
        let next = self.distinct.len();
        let place = &mut self.places[id];
        match self.distinct.get_mut(*place as usize) {
            Some(child) if child.analysis.is_same_in_batches(&analysis) => child.times += 1,
            _ => {
                *place = u32::try_from(next).unwrap_or(u32::MAX);
                self.distinct.push(Child { analysis, times: 1 });
            }
        }
    }

    fn analyses(&self) -> impl Iterator<Item = &Analysis> {
        self.distinct.iter().map(|child| &*child.analysis)
    }

    /// The key of a batch of `kind` with these statements.
    pub(crate) fn shape(&self, kind: ast::BatchKind) -> BatchShape {
        let mut statements: Vec<_> = self.analyses().map(|child| child.statement).collect();
        statements.sort_unstable();
        statements.dedup();
        BatchShape {
            kind,
            first: self.analyses().next().map(|child| child.statement),
            statements: statements.into(),
            flags: self
                .analyses()
                .flat_map(|child| child.flags.iter().copied())
                .collect(),
            is_known: self.analyses().all(|child| child.is_known),
            disagrees: self.analyses().any(|child| child.disagrees),
        }
    }

    /// How many statements name each of the tables of their batch, whose analysis is `batch`.
    pub(crate) fn statements_by_table(&mut self, batch: &Analysis) -> Vec<u32> {
        for (position, table) in (0..).zip(&batch.tables) {
            let id = table.id.index();
            if id >= self.positions.len() {
                self.positions.resize(id + 1, 0);
            }
            self.positions[id] = position;
        }
        let mut statements = vec![0_u32; batch.tables.len()];
        for child in &self.distinct {
            for table in &child.analysis.tables {
                let position = self.positions.get(table.id.index());
                let count = position.and_then(|&position| statements.get_mut(position as usize));
                if let Some(count) = count {
                    *count = count.saturating_add(child.times.saturating_mul(table.statements));
                }
            }
        }
        statements
    }
}

impl Analysis {
    /// Whether the other one makes no difference beside this one in a batch.
    fn is_same_in_batches(&self, other: &Self) -> bool {
        self.statement == other.statement
            && self.is_known == other.is_known
            && self.disagrees == other.disagrees
            && self.flags == other.flags
    }
}

/// The kind of a BATCH message as CQL has it; kinds that no specification knows are taken for logged ones.
pub(crate) fn batch_kind(kind: BatchKind) -> ast::BatchKind {
    match kind {
        BatchKind::Unlogged => ast::BatchKind::Unlogged,
        BatchKind::Counter => ast::BatchKind::Counter,
        _ => ast::BatchKind::Logged,
    }
}

/// What the statements of a BATCH message are together.
pub(crate) fn batch_analysis(kind: ast::BatchKind, children: &Children, ids: &mut Ids) -> Analysis {
    let flag = match kind {
        ast::BatchKind::Unlogged => Flag::UnloggedBatch,
        ast::BatchKind::Counter => Flag::Counter,
        ast::BatchKind::Logged => Flag::LoggedBatch,
    };
    let template = Template::batch(kind, children.analyses().map(|child| child.head.cql.as_str()));
    let tables = tables_of(children);
    let mut flags: BTreeSet<Flag> = children
        .analyses()
        .flat_map(|child| child.flags.iter().copied())
        .collect();
    flags.insert(flag);
    if tables.len() > 1 {
        flags.insert(Flag::SeveralTables);
    }
    let head = PatternHead {
        kind: StatementKind::Batch,
        keyspace: tables.first().map(|table| table.name.keyspace.clone()),
        table: tables.first().map(|table| table.name.table.clone()),
        cql: template.text,
        system: are_system(&tables),
    };
    let id = PatternId(template.fingerprint.0);
    Analysis {
        id,
        statement: ids.statement(id),
        head,
        flags,
        plan: None,
        constants: None,
        unknown: None,
        tables,
        marker_columns: Vec::new(),
        compared_markers: 0,
        whole_collections: 0,
        null_columns: Vec::new(),
        timestamp: None,
        is_known: !children.distinct.is_empty() && children.analyses().all(|child| child.is_known),
        unparsed: false,
        touches_partitions: true,
        disagrees: children.analyses().any(|child| child.disagrees),
        weight: 0,
    }
}

/// The tables of all statements, each once, in the order of their first appearance.
fn tables_of(children: &Children) -> Vec<NamedTable> {
    let mut seen = Vec::new();
    let mut is_new = |table: &NamedTable| {
        let id = table.id.index();
        if id >= seen.len() {
            seen.resize(id + 1, false);
        }
        !std::mem::replace(&mut seen[id], true)
    };
    let tables = children.analyses().flat_map(|child| &child.tables);
    tables.filter(|table| is_new(table)).cloned().collect()
}

/// The approximate bytes of a batch's analysis and its key.
pub(crate) fn batch_weight(shape: &BatchShape, analysis: &Analysis) -> usize {
    const EACH: usize = 1 << 10;
    const TABLE: usize = 64;
    EACH + 2 * analysis.head.cql.len() + TABLE * analysis.tables.len() + size_of_val(&*shape.statements)
}
