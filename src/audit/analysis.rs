//! What is the same for all executions of a statement: worked out once for each text and each version of the schema.

use std::{
    collections::{BTreeSet, HashMap},
    hash::BuildHasher,
    sync::Arc,
};

use cqlens_proto::{
    cql::{self, Fingerprint, Template, ast},
    message::{Batch, BatchKind, BatchQuery, Rows, Values},
};

use foldhash::fast::RandomState;
use rustc_hash::FxHashMap;

use super::{
    Cells, Footprint, Keys,
    exchange::Execution,
    plan::{BatchSum, Plan},
};
use crate::{
    catalog::{Live, Markers, PreparedStatement, schema::is_system},
    window::{Flag, PatternHead, PatternId, Reason, StatementKind, TableName},
};

/// A statement under one version of the schema.
#[derive(Debug)]
pub(super) struct Analysis {
    /// The fingerprint of its template.
    pub(super) id: PatternId,
    /// Its kind, names and template.
    pub(super) head: PatternHead,
    /// Its properties.
    pub(super) flags: BTreeSet<Flag>,
    /// How its partitions are counted; none where that cannot be known.
    pub(super) plan: Option<Plan>,
    /// Why there is no plan.
    pub(super) unknown: Option<Reason>,
    /// The tables that it names, and how many of its statements do.
    pub(super) tables: Vec<(Arc<TableName>, u32)>,
    /// For each bind marker of an INSERT the column that it is the value of.
    pub(super) marker_columns: Vec<Box<str>>,
    /// Whether all of its tables are in the schema.
    pub(super) is_known: bool,
    /// The parser did not understand it.
    pub(super) unparsed: bool,
    touches_partitions: bool,
}

impl Analysis {
    /// Whether executions touch partitions: SELECT, INSERT, UPDATE, DELETE, BATCH, and what may be one of them.
    #[inline]
    pub(super) fn touches_partitions(&self) -> bool {
        self.touches_partitions
    }

    /// Adds to `cells` what an execution tells of rows and of columns that have an index, nothing of the server's own tables.
    pub(super) fn note_cells(&self, values: &Values<'_>, cells: &mut Cells) {
        if let (Some(plan), false) = (&self.plan, self.head.system) {
            plan.note_cells(values, cells);
        }
    }

    /// Whether it was planned by what PREPARED and the text say.
    pub(super) fn lacks_schema(&self) -> bool {
        let plan = self.plan.as_ref();
        plan.is_some_and(|plan| plan.facts().schema.is_none())
    }

    fn template(&self) -> Template {
        Template {
            text: self.head.cql.clone(),
            fingerprint: Fingerprint(self.id.0),
        }
    }

    fn of(text: &str, keyspace: Option<&str>, prepared: Option<&PreparedStatement>, live: &Live) -> Self {
        match cql::parse(text) {
            Ok(statement) => Self::of_statement(&statement, keyspace, prepared, live),
            Err(_) => Self::unparsed(text),
        }
    }

    fn of_statement(
        statement: &ast::Statement<'_>,
        keyspace: Option<&str>,
        prepared: Option<&PreparedStatement>,
        live: &Live,
    ) -> Self {
        let template = Template::of(statement, keyspace);
        let mut plan = Plan::of(statement, keyspace, &live.schema());
        let markers = prepared.and_then(|prepared| prepared.markers.as_ref());
        match markers {
            _ if plan.is_known() => {}
            Some(markers) => plan = Plan::without_schema(statement, keyspace, markers),
            None if live.is_known() => {}
            None => plan = Plan::without_schema(statement, keyspace, &Markers::default()),
        }
        Self {
            marker_columns: marker_columns(statement),
            ..Self::of_plan(template, plan)
        }
    }

    /// A statement that is understood.
    pub(super) fn of_plan(template: Template, plan: Plan) -> Self {
        let names = plan.tables().to_vec();
        let first = names.first().map(|(name, _)| Arc::clone(name));
        let head = PatternHead {
            kind: plan.facts().statement_kind(),
            keyspace: first.as_ref().map(|name| cut(&name.keyspace)),
            table: first.as_ref().map(|name| cut(&name.table)),
            cql: shown(template.text),
            system: !names.is_empty() && names.iter().all(|(name, _)| is_system(&name.keyspace)),
        };
        Self {
            id: PatternId(template.fingerprint.0),
            touches_partitions: head.kind.is_read() || head.kind.is_write(),
            head,
            flags: plan.flags(),
            is_known: plan.is_known() && plan.facts().schema.is_some(),
            tables: names,
            plan: Some(plan),
            unknown: None,
            marker_columns: Vec::new(),
            unparsed: false,
        }
    }

    /// A text that is not CQL as we know it: counted under its words, without its values.
    fn unparsed(text: &str) -> Self {
        let template = Template::unparsed(text);
        Self {
            unparsed: true,
            ..Self::other(
                PatternId(template.fingerprint.0),
                shown(template.text),
                Reason::StatementUnknown,
            )
        }
    }

    /// An execution of an id that nobody has prepared before us.
    fn unknown_prepared() -> Self {
        let cql = "(a prepared statement that was not seen)".to_owned();
        Self::other(UNKNOWN_PREPARED, cql, Reason::PreparedIdUnknown)
    }

    fn other(id: PatternId, cql: String, unknown: Reason) -> Self {
        let head = PatternHead {
            kind: StatementKind::Other,
            keyspace: None,
            table: None,
            cql,
            system: false,
        };
        Self {
            id,
            head,
            flags: BTreeSet::new(),
            plan: None,
            unknown: Some(unknown),
            tables: Vec::new(),
            marker_columns: Vec::new(),
            is_known: false,
            unparsed: false,
            touches_partitions: unknown == Reason::PreparedIdUnknown,
        }
    }
}

/// The columns of an INSERT whose values are markers, in the order of the markers; they end where a value is computed, which may
/// hold markers of its own.
fn marker_columns(statement: &ast::Statement<'_>) -> Vec<Box<str>> {
    let ast::Body::Insert(insert) = &statement.body else {
        return Vec::new();
    };
    let ast::InsertSource::Values { columns, values } = &insert.source else {
        return Vec::new();
    };
    let values = columns.iter().zip(values);
    let simple = values.take_while(|(_, value)| {
        matches!(
            value,
            ast::Term::BindMarker(_) | ast::Term::Literal(_) | ast::Term::Null(_)
        )
    });
    let bound = simple.filter(|(_, value)| matches!(value, ast::Term::BindMarker(_)));
    bound.map(|(column, _)| cut(column.as_str()).into()).collect()
}

/// The pattern of all executions of unknown prepared statements.
const UNKNOWN_PREPARED: PatternId = PatternId(1);

/// Texts that are kept with their analysis: more than any application has, as long as it binds its values.
const MAX_TEXTS: usize = 4_096;

/// Longer texts are analysed each time.
const MAX_TEXT_LEN: usize = 4 << 10;

/// Longer texts of prepared statements are analysed for each execution.
const MAX_PREPARED_LEN: usize = 64 << 10;

/// Longer templates are cut off: a window keeps 20,000 of them. Which template it is its fingerprint tells.
const MAX_SHOWN: usize = 8 << 10;

/// Longer names are cut off: no server has a table that is called so (Cassandra allows 48 characters, of a column's name some more).
const MAX_NAME: usize = 256;

fn cut(name: &str) -> String {
    name[..name.floor_char_boundary(MAX_NAME)].to_owned()
}

fn shown(mut template: String) -> String {
    if template.len() > MAX_SHOWN {
        let end = (0..=MAX_SHOWN).rev().find(|&end| template.is_char_boundary(end));
        template.truncate(end.unwrap_or(0));
        template.push_str(" …");
        template.shrink_to_fit();
    }
    template
}

/// The analyses of one auditor.
///
/// Bounded: when a cache is full it is emptied, and what is still in use comes back with its next execution.
#[derive(Debug)]
pub(super) struct Analyses {
    live: Arc<Live>,
    /// The version of the schema under which everything here was worked out.
    version: u64,
    hashing: RandomState,
    /// By the hash of the keyspace of unqualified names and of the text: they are compared with what is here.
    texts: FxHashMap<u64, KnownText>,
    prepared: HashMap<Box<[u8]>, Arc<Analysis>, RandomState>,
    /// Of `prepared` what was executed last, each at the place that its id says.
    recent: [Option<(RecentId, Arc<Analysis>)>; RECENT],
    unknown_prepared: Arc<Analysis>,
}

/// An id as servers make them: a digest of the text.
type RecentId = [u8; 16];

/// An application executes a few statements again and again.
const RECENT: usize = 64;

#[derive(Debug)]
struct KnownText {
    keyspace: Option<Box<str>>,
    text: Box<str>,
    analysis: Arc<Analysis>,
}

impl Analyses {
    /// Nothing analysed yet.
    pub(super) fn new(live: Arc<Live>) -> Self {
        Self {
            version: live.version(),
            live,
            hashing: RandomState::default(),
            texts: FxHashMap::default(),
            prepared: HashMap::default(),
            recent: [const { None }; RECENT],
            unknown_prepared: Arc::new(Analysis::unknown_prepared()),
        }
    }

    /// The analysis of a statement that is sent as text.
    pub(super) fn of_text(&mut self, text: &str, keyspace: Option<&str>) -> Arc<Analysis> {
        self.refresh();
        let hash = self.hashing.hash_one((keyspace, text));
        if let Some(known) = self.texts.get(&hash)
            && (known.keyspace.as_deref(), &*known.text) == (keyspace, text)
        {
            return Arc::clone(&known.analysis);
        }
        let analysis = Arc::new(Analysis::of(text, keyspace, None, &self.live));
        if text.len() <= MAX_TEXT_LEN {
            if self.texts.len() >= MAX_TEXTS {
                self.texts.clear();
            }
            let known = KnownText {
                keyspace: keyspace.map(Box::from),
                text: text.into(),
                analysis: Arc::clone(&analysis),
            };
            self.texts.insert(hash, known);
        }
        analysis
    }

    /// The analysis of a prepared statement.
    #[inline]
    pub(super) fn of_prepared(&mut self, id: &[u8]) -> Arc<Analysis> {
        self.refresh();
        match id.try_into() {
            Ok(id) => match &self.recent[place(id)] {
                Some((known, analysis)) if known == id => Arc::clone(analysis),
                _ => self.of_prepared_before(id),
            },
            Err(_) => self.of_any_prepared(id),
        }
    }

    #[inline(never)]
    fn of_prepared_before(&mut self, id: &RecentId) -> Arc<Analysis> {
        let analysis = self.of_any_prepared(id);
        if self.prepared.contains_key(id.as_slice()) {
            self.recent[place(id)] = Some((*id, Arc::clone(&analysis)));
        }
        analysis
    }

    fn of_any_prepared(&mut self, id: &[u8]) -> Arc<Analysis> {
        if let Some(analysis) = self.prepared.get(id) {
            return Arc::clone(analysis);
        }
        let Some(statement) = self.live.prepared.get(id) else {
            self.live.prepared.want(id);
            return Arc::clone(&self.unknown_prepared);
        };
        let analysis = Analysis::of(
            &statement.cql,
            statement.keyspace.as_deref(),
            Some(&statement),
            &self.live,
        );
        let analysis = Arc::new(analysis);
        if statement.cql.len() > MAX_PREPARED_LEN {
            return analysis;
        }
        if self.prepared.len() >= MAX_TEXTS {
            self.forget_prepared();
        }
        self.prepared.insert(id.into(), Arc::clone(&analysis));
        analysis
    }

    /// A BATCH message: its template, and the distinct partitions of all its statements in `keys`.
    pub(super) fn batch(
        &mut self,
        batch: &Batch<'_>,
        keyspace: Option<&str>,
        keys: &mut Keys,
        cells: &mut Cells,
    ) -> Execution {
        let mut children = Vec::with_capacity(batch.statements.len());
        let mut sum = BatchSum::new(batch_kind(batch.kind));
        let mut refused = None;
        let mut prepared = false;
        for statement in &batch.statements {
            let analysis = match statement.query {
                BatchQuery::Text(text) => self.of_text(text, keyspace),
                BatchQuery::Prepared(id) => {
                    prepared = true;
                    self.of_prepared(id.0)
                }
            };
            match &analysis.plan {
                Some(plan) => {
                    refused = refused.or(sum.add(plan, Some(&statement.values), keys).err());
                    analysis.note_cells(&statement.values, cells);
                }
                None => sum.add_unknown(analysis.unknown.unwrap_or(Reason::StatementUnknown)),
            }
            children.push(analysis);
        }
        let footprint = refused.map_or_else(|| sum.footprint(keys), Err);
        let analysis = Arc::new(batch_analysis(batch_kind(batch.kind), &children));
        Execution {
            analysis,
            footprint: footprint.unwrap_or_else(|refusal| Footprint::unknown(refusal.reason)),
            prepared,
            consistency: Some(batch.consistency),
            first_page: true,
            nulls: 0,
            page_size: None,
        }
    }

    /// Takes over what a PREPARED result says.
    pub(super) fn prepared(&mut self, id: &[u8], statement: PreparedStatement) {
        self.prepared.remove(id);
        if let Ok(id) = id.try_into() {
            self.recent[place(id)] = None;
        }
        self.live.prepared.insert(id, statement);
    }

    /// Takes note of rows of the schema that a client has read.
    pub(super) fn see_rows(&self, rows: &Rows<'_>) {
        self.live.see_rows(rows);
    }

    /// The server has accepted a definition.
    pub(super) fn defined(&mut self, text: &str, keyspace: Option<&str>) {
        self.live.apply(text, keyspace);
    }

    /// The server has accepted a definition that was prepared before.
    pub(super) fn defined_by_prepared(&mut self, id: &[u8]) {
        if let Some(statement) = self.live.prepared.get(id) {
            self.defined(&statement.cql, statement.keyspace.as_deref());
        }
    }

    /// Forgets what was worked out under another schema.
    #[inline]
    fn refresh(&mut self) {
        let version = self.live.version();
        if version != self.version {
            self.version = version;
            self.texts.clear();
            self.forget_prepared();
        }
    }

    fn forget_prepared(&mut self) {
        self.prepared.clear();
        self.recent = [const { None }; RECENT];
    }
}

/// Where a recent id is: its bytes are as good as random.
#[inline]
fn place(id: &RecentId) -> usize {
    usize::from(id[0]) % RECENT
}

/// The kind of a BATCH message as CQL has it; kinds that no specification knows are taken for logged ones.
fn batch_kind(kind: BatchKind) -> ast::BatchKind {
    match kind {
        BatchKind::Unlogged => ast::BatchKind::Unlogged,
        BatchKind::Counter => ast::BatchKind::Counter,
        _ => ast::BatchKind::Logged,
    }
}

/// What the statements of a BATCH message are together.
pub(super) fn batch_analysis(kind: ast::BatchKind, children: &[Arc<Analysis>]) -> Analysis {
    let templates: Vec<_> = children.iter().map(|child| child.template()).collect();
    let flag = match kind {
        ast::BatchKind::Unlogged => Flag::UnloggedBatch,
        ast::BatchKind::Counter => Flag::Counter,
        ast::BatchKind::Logged => Flag::LoggedBatch,
    };
    let template = Template::batch(kind, &templates);
    let mut tables: Vec<(Arc<TableName>, u32)> = Vec::new();
    for (name, count) in children.iter().flat_map(|child| &child.tables) {
        match tables.iter_mut().find(|(known, _)| known == name) {
            Some((_, total)) => *total += count,
            None => tables.push((Arc::clone(name), *count)),
        }
    }
    let mut flags: BTreeSet<Flag> = children
        .iter()
        .flat_map(|child| child.flags.iter().copied())
        .collect();
    flags.insert(flag);
    if tables.len() > 1 {
        flags.insert(Flag::SeveralTables);
    }
    let head = PatternHead {
        kind: StatementKind::Batch,
        keyspace: tables.first().map(|(name, _)| cut(&name.keyspace)),
        table: tables.first().map(|(name, _)| cut(&name.table)),
        cql: shown(template.text),
        system: !tables.is_empty() && tables.iter().all(|(name, _)| is_system(&name.keyspace)),
    };
    Analysis {
        id: PatternId(template.fingerprint.0),
        head,
        flags,
        plan: None,
        unknown: None,
        tables,
        marker_columns: Vec::new(),
        is_known: !children.is_empty() && children.iter().all(|child| child.is_known),
        unparsed: false,
        touches_partitions: true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_prepared_again_is_not_what_it_was() {
        let mut analyses = Analyses::new(Arc::new(Live::default()));
        let mut execute = |id: &[u8], cql: Option<&str>| {
            if let Some(cql) = cql {
                let statement = PreparedStatement {
                    cql: cql.into(),
                    keyspace: None,
                    markers: Some(Markers::default()),
                };
                analyses.prepared(id, statement);
            }
            let again = analyses.of_prepared(id).id;
            assert_eq!(analyses.of_prepared(id).id, again);
            again
        };
        // Some ids share a place, and not all are digests.
        for ids in [[&[7_u8; 16][..], &[7 + 64; 16]], [b"a", b"b"]] {
            assert_eq!(ids.map(|id| execute(id, None)), [UNKNOWN_PREPARED; 2]);
            let [read, write] = ["SELECT a FROM k.t", "DELETE FROM k.t WHERE a = 1"];
            let [first, second] = ids;
            let (read, write) = (execute(first, Some(read)), execute(second, Some(write)));
            assert_ne!(read, write);
            assert_eq!((execute(first, None), execute(second, None)), (read, write));
            assert_eq!(execute(first, Some("DELETE FROM k.t WHERE a = 1")), write);
        }
    }
}
