//! What rules read again in templates: which tables a statement writes, which columns a read restricts.

use cqlens_cql::syntax::{
    self,
    ast::{Body, Modification, Select, Statement},
};

use crate::window::{Pattern, PatternHead};
use cqlens_cql::schema::TableName;

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

/// What the pattern writes to the table, its template being read again.
pub(super) fn writes_of<'text>(head: &'text PatternHead, table: &TableName) -> Vec<Modification<'text>> {
    let Ok(statement) = syntax::parse(&head.cql) else {
        return Vec::new();
    };
    let mut all = modifications(&statement);
    all.retain(|one| written(one, head.keyspace.as_deref()).as_ref() == Some(table));
    all
}

/// The SELECT that the pattern is.
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
