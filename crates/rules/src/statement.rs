//! What rules read again in templates: which tables a statement writes, which columns a read restricts.

use std::collections::BTreeMap;

use cqlens_cql::syntax::{
    self,
    ast::{Body, Modification, Select, Statement, Term},
};

use super::{Context, figures::user_writes};
use cqlens_cql::{plan::Flag, schema::TableName};
use cqlens_window::{Pattern, PatternHead, PatternId};

/// What a statement writes, the statements of a batch each.
pub(super) fn modifications<'text>(statement: &Statement<'text>) -> Vec<Modification<'text>> {
    match &statement.body {
        Body::Insert(insert) => vec![Modification::Insert(insert.clone())],
        Body::Update(update) => vec![Modification::Update(update.clone())],
        Body::Delete(delete) => vec![Modification::Delete(delete.clone())],
        Body::Batch(batch) => batch.statements.clone(),
        _ => Vec::new(),
    }
}

/// The table that a modification writes; `keyspace` is that of unqualified names.
pub(super) fn written(modification: &Modification<'_>, keyspace: Option<&str>) -> Option<TableName> {
    let table = modification.table();
    Some(TableName {
        keyspace: table.keyspace_or(keyspace)?.to_owned(),
        table: table.name.as_str().to_owned(),
    })
}

/// The SELECT that a pattern of the window is.
pub(super) fn selected<'a>(id: PatternId, context: &Context<'a>) -> Option<Select<'a>> {
    match &context.statement(id)?.body {
        Body::Select(select) => Some(select.clone()),
        _ => None,
    }
}

/// The SELECT that a template is, read again: for what is not at hand as a pattern of the window.
pub(super) fn select(head: &PatternHead) -> Option<Select<'_>> {
    match syntax::parse(&head.cql).ok()?.body {
        Body::Select(select) => Some(select),
        _ => None,
    }
}

/// The table or view that a pattern names (first).
pub(super) fn table_of(pattern: &Pattern) -> Option<TableName> {
    Some(TableName {
        keyspace: pattern.head.keyspace.clone()?,
        table: pattern.head.table.clone()?,
    })
}

/// The columns that a SELECT restricts, and the one whose neighbours it asks for: each once, in alphabetical
/// order.
pub(super) fn restricted(select: &Select<'_>) -> Vec<String> {
    let relations = select.where_clause.relations.iter();
    let names = relations.flat_map(|relation| relation.subject.columns());
    let nearest = select.order_by.iter().filter(|order| order.ann_of.is_some());
    let names = names.chain(nearest.map(|order| &order.column));
    let mut names: Vec<_> = names.map(|name| name.as_str().to_owned()).collect();
    names.sort();
    names.dedup();
    names
}

/// A modification of a table, in a pattern that is one or a batch of them.
#[derive(Debug)]
pub(super) struct TableWrite<'a> {
    pub(super) id: PatternId,
    pub(super) pattern: &'a Pattern,
    pub(super) modification: Modification<'a>,
}

impl TableWrite<'_> {
    /// Whether it deletes rows or parts of them by a statement.
    pub(super) fn is_delete(&self) -> bool {
        matches!(self.modification, Modification::Delete(_))
    }

    pub(super) fn is_insert(&self) -> bool {
        matches!(self.modification, Modification::Insert(_))
    }

    pub(super) fn is_update(&self) -> bool {
        matches!(self.modification, Modification::Update(_))
    }

    /// Whether it is written under a condition: its own, or one of the same batch, which is one Paxos round as a whole.
    pub(super) fn is_conditional(&self) -> bool {
        self.pattern.is(Flag::Lwt) || self.has_condition()
    }

    fn has_condition(&self) -> bool {
        match &self.modification {
            Modification::Insert(insert) => insert.if_not_exists,
            Modification::Update(update) => update.condition.is_some(),
            Modification::Delete(delete) => delete.condition.is_some(),
        }
    }

    /// `USING` of it; none for a DELETE, whose timestamp is all that there can be.
    pub(super) fn ttl(&self) -> Option<&Term<'_>> {
        match &self.modification {
            Modification::Insert(insert) => insert.using.ttl.as_ref(),
            Modification::Update(update) => update.using.ttl.as_ref(),
            Modification::Delete(_) => None,
        }
    }
}

/// What the application writes, by table: [`Context::writes`] keeps it.
pub(super) fn writes_by_table<'a>(context: &Context<'a>) -> BTreeMap<TableName, Vec<TableWrite<'a>>> {
    let mut tables: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for (id, pattern) in user_writes(context) {
        let Some(statement) = context.statement(id) else {
            continue;
        };
        for modification in modifications(&statement) {
            let Some(table) = written(&modification, pattern.head.keyspace.as_deref()) else {
                continue;
            };
            tables.entry(table).or_default().push(TableWrite {
                id,
                pattern,
                modification,
            });
        }
    }
    tables
}

/// Changes of rows of a table that the application sent: UPDATEs, and INSERTs of rows that were there. Counters do not
/// count, which are added to.
pub(super) fn updates(context: &Context<'_>, table: &TableName) -> u64 {
    let traffic = context.window.tables.get(table);
    let overwrites = traffic.map_or(0, |traffic| traffic.inserted.overwrites());
    let updates = context
        .writes_to(table)
        .iter()
        .filter(|write| write.is_update() && !write.pattern.is(Flag::Counter));
    executions(updates) + overwrites
}

/// The patterns of these writes, each once.
pub(super) fn patterns<'w, 'a: 'w>(
    writes: impl IntoIterator<Item = &'w TableWrite<'a>>,
) -> Vec<(PatternId, &'a Pattern)> {
    let patterns: BTreeMap<_, _> = writes
        .into_iter()
        .map(|write| (write.id, write.pattern))
        .collect();
    patterns.into_iter().collect()
}

/// Executions of these writes, those of a batch counted for each of its statements.
pub(super) fn executions<'w, 'a: 'w>(writes: impl IntoIterator<Item = &'w TableWrite<'a>>) -> u64 {
    writes.into_iter().map(|write| write.pattern.count).sum()
}
