//! The table that a statement reads or writes.

use std::sync::Arc;

use crate::footprint::Reason;
use crate::schema::{Keyspace, Schema, Table, TableName, is_virtual};
use crate::syntax::Work;
use crate::syntax::ast::{
    BindMarker, Body, Comparand, Insert, InsertSource, Modification, QualifiedName, RelationOperator,
    Subject, Term, Where,
};
use cqlens_proto::types::CqlType;

use super::compile::Compiler;
use super::constants::BoundConstants;
use super::facts::{Facts, SchemaFacts};
use super::refusal::{Absent, Refusal};
use super::restrictions::Restrictions;
use super::text_facts::TextFacts;
use super::translator::Translator;

/// A table that a statement reads or writes, found in the schema.
pub(super) struct Target<'s> {
    pub(super) keyspace: &'s Keyspace,
    pub(super) table: &'s Table,
    pub(super) name: Arc<TableName>,
    /// The types of its partition key, in order.
    pub(super) key_types: Vec<CqlType>,
    /// The type of its tokens.
    pub(super) token_type: CqlType,
    pub(super) key_markers: KeyMarkers,
    /// The server reads what a write changes.
    pub(super) in_transaction: bool,
    pub(super) work: &'s Work,
    /// The constants that are taken for markers; see [`BoundConstants`].
    pub(super) constants: Option<&'s BoundConstants<'s>>,
}

/// Markers that are values of partition key columns, by column.
pub(super) type KeyMarkers = Vec<(String, usize)>;

impl<'s> Target<'s> {
    pub(super) fn compiler(&'s self) -> Compiler<'s> {
        Compiler {
            keyspace: Some(self.keyspace),
            partition_key: &self.key_types,
            token_type: &self.token_type,
            work: self.work,
            constants: self.constants,
        }
    }

    pub(super) fn translator(&'s self) -> Translator<'s> {
        Translator {
            table: self.table,
            keyspace: self.keyspace,
            compiler: self.compiler(),
        }
    }

    /// What restrictions say by themselves.
    pub(super) fn facts(&self, restrictions: &Restrictions<'_>) -> SchemaFacts {
        let in_columns = restrictions
            .partition
            .iter()
            .flatten()
            .filter(|restriction| restriction.is_in())
            .count();
        SchemaFacts {
            in_on_partition_key: restrictions.has_partition_in(),
            in_cartesian: restrictions.has_partition_in() && in_columns > 1,
            in_on_clustering: restrictions.has_clustering_in(),
            on_token: restrictions.is_on_token(),
            uses_index: restrictions.uses_index,
            indexes: restrictions.indexes.clone(),
            counter: self.table.is_counter(),
            view: self.table.view.is_some(),
            partition_key_markers: markers_in_key_order(self.table, &self.key_markers),
            markers_of_one_table: true,
            refused_before_6: restrictions.refused_before_6.clone(),
            ..SchemaFacts::default()
        }
    }
}
/// The table of a name, or why it is not there.
pub(super) fn find<'s>(
    name: &QualifiedName<'_>,
    text: &TextFacts<'s, '_>,
    schema: &'s Schema,
    facts: &Facts,
) -> Result<Target<'s>, (Reason, Option<Refusal>)> {
    let refuse = |reason: Reason, absent: Option<Absent>, message: String| {
        let refusal = Refusal {
            reason,
            absent,
            ..Refusal::at(message, name.span())
        };
        Err((reason, Some(refusal)))
    };
    let Some(keyspace_name) = facts.keyspace.as_deref() else {
        let message =
            "No keyspace has been specified. USE a keyspace, or explicitly specify keyspace.tablename";
        return refuse(Reason::KeyspaceUnknown, None, message.to_owned());
    };
    let table_name = facts.table.as_deref().unwrap_or_default();
    let Some(keyspace) = schema.keyspace(keyspace_name) else {
        return refuse(
            Reason::TableUnknown,
            Some(Absent::Keyspace),
            format!("keyspace {keyspace_name} does not exist"),
        );
    };
    let Some(table) = keyspace.tables.get(table_name) else {
        return refuse(
            Reason::TableUnknown,
            Some(Absent::Table),
            format!("table {table_name} does not exist"),
        );
    };
    let name = TableName {
        keyspace: keyspace.name.clone(),
        table: table.name.clone(),
    };
    let key_types = table
        .partition_key()
        .iter()
        .map(|column| keyspace.resolve(&column.data_type))
        .collect::<Vec<_>>();
    // Virtual tables are ordered by their keys, not by hashes.
    let token_type = match key_types.as_slice() {
        [only] if is_virtual(&keyspace.name) => only.clone(),
        _ => CqlType::BigInt,
    };
    Ok(Target {
        keyspace,
        table,
        name: Arc::new(name),
        key_types,
        token_type,
        key_markers: Vec::new(),
        in_transaction: matches!(text.statement.body, Body::Transaction(_)),
        work: text.work,
        constants: text.constants,
    })
}

/// The part of a statement that says which partition.
#[derive(Clone, Copy)]
pub(super) enum KeyText<'t, 'a> {
    Where(&'t Where<'a>),
    Insert(&'t Insert<'a>),
}

impl KeyText<'_, '_> {
    /// The markers that are compared with, or assigned to, a partition key column:
    /// `VariableSpecifications.getPartitionKeyBindVariableIndexes`.
    pub(super) fn markers(self, table: &Table) -> KeyMarkers {
        let mut markers = Vec::new();
        let mut note = |column: &str, term: &Term<'_>| {
            if let Some(marker) = direct_marker(term)
                && table.partition_key().iter().any(|key| key.name == column)
            {
                markers.push((column.to_owned(), marker.index));
            }
        };
        match self {
            Self::Where(clause) => note_where(clause, &mut note),
            Self::Insert(insert) => note_insert(insert, &mut note),
        }
        markers
    }
}

impl<'t, 'a> From<&'t Modification<'a>> for KeyText<'t, 'a> {
    fn from(modification: &'t Modification<'a>) -> Self {
        match modification {
            Modification::Insert(insert) => Self::Insert(insert),
            Modification::Update(update) => Self::Where(&update.where_clause),
            Modification::Delete(delete) => Self::Where(&delete.where_clause),
        }
    }
}

/// Reports every value that a `WHERE` clause compares a single column with.
fn note_where(clause: &Where<'_>, note: &mut impl FnMut(&str, &Term<'_>)) {
    for relation in &clause.relations {
        let Subject::Column(column) = &relation.subject else {
            continue;
        };
        match (&relation.operator, &relation.comparand) {
            (
                RelationOperator::Contains
                | RelationOperator::ContainsKey
                | RelationOperator::NotContains
                | RelationOperator::NotContainsKey,
                _,
            ) => {}
            (_, Comparand::One(term)) => note(column.as_str(), term),
            (_, Comparand::Range(range)) => {
                note(column.as_str(), &range.0);
                note(column.as_str(), &range.1);
            }
            (_, Comparand::List(terms)) => terms.iter().for_each(|term| note(column.as_str(), term)),
            _ => {}
        }
    }
}

/// Reports every value that an `INSERT` gives a column.
fn note_insert(insert: &Insert<'_>, note: &mut impl FnMut(&str, &Term<'_>)) {
    if let InsertSource::Values { columns, values } = &insert.source {
        for (column, value) in columns.iter().zip(values) {
            note(column.as_str(), value);
        }
    }
}

/// One marker for each partition key column, or none at all; of several the last one counts.
pub(super) fn markers_in_key_order(table: &Table, markers: &[(String, usize)]) -> Option<Vec<usize>> {
    let last = |name: &str| {
        let of_column = markers.iter().filter(|(column, _)| column == name);
        of_column.map(|(_, index)| *index).max()
    };
    table
        .partition_key()
        .iter()
        .map(|column| last(&column.name))
        .collect()
}

/// The marker that a term is, in brackets or behind a type hint perhaps.
pub(super) fn direct_marker<'t, 'a>(term: &'t Term<'a>) -> Option<&'t BindMarker<'a>> {
    match term {
        Term::BindMarker(marker) => Some(marker),
        Term::TypeHint { term, .. } => direct_marker(term),
        Term::Tuple { items, .. } if items.len() == 1 => direct_marker(&items[0]),
        _ => None,
    }
}
