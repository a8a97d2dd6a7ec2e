//! What is checked row by row, because neither a key nor an order leads to it.

use bytes::Bytes;
use cqlens_cql::syntax::ast::IndexTargetKind;
use cqlens_proto::types::CqlType;

use super::predicate::Predicate;
use crate::bind;
use crate::layout::{Column, Layout, RowView};
use crate::store::{PartitionId, order};

/// What a row has to pass.
#[derive(Debug, Clone)]
pub(crate) struct Filter {
    /// Places in the layout.
    pub(super) columns: Vec<usize>,
    /// How the columns are compared, and with what.
    pub(super) predicate: Predicate,
}

impl Filter {
    /// Whether a row passes.
    pub(crate) fn passes(&self, row: &RowView<'_>) -> bool {
        let columns: Vec<&Column> = self
            .columns
            .iter()
            .map(|index| &row.layout.columns[*index])
            .collect();
        if let Predicate::Token(range) = &self.predicate {
            return PartitionId::of(&row.partition.key).is_some_and(|id| range.contains(&id.token));
        }
        let values: Option<Vec<&Bytes>> = columns.iter().map(|column| row.value(column)).collect();
        let Some(values) = values else { return false };
        let forms = |values: &mut dyn Iterator<Item = &Bytes>| -> Vec<Vec<u8>> {
            values
                .zip(&columns)
                .map(|(value, column)| order::of(&column.cql_type, value))
                .collect()
        };
        let found = forms(&mut values.iter().copied());
        let given = |values: &Vec<Bytes>| forms(&mut values.iter());
        match &self.predicate {
            Predicate::Equal(values) => found == given(values),
            Predicate::NotEqual(values) => found != given(values),
            Predicate::In(alternatives) => alternatives.iter().any(|values| found == given(values)),
            Predicate::Lower { values, inclusive } => {
                found > given(values) || (*inclusive && found == given(values))
            }
            Predicate::Upper { values, inclusive } => {
                found < given(values) || (*inclusive && found == given(values))
            }
            Predicate::Contains(element) => contains(&columns[0].cql_type, values[0], element),
            Predicate::ContainsKey(key) => bind::map_entries(values[0])
                .iter()
                .any(|(its_key, _)| its_key == key),
            Predicate::Element { key, value } => bind::map_entries(values[0])
                .iter()
                .any(|(its_key, its_value)| its_key == key && its_value == value),
            Predicate::NotNull | Predicate::Token(_) => true,
        }
    }

    /// Whether an index answers it.
    pub(super) fn is_indexed(&self, layout: &Layout) -> bool {
        let [column] = self.columns[..] else { return false };
        let fits = |kind: IndexTargetKind| match self.predicate {
            Predicate::Equal(_) => matches!(kind, IndexTargetKind::Simple | IndexTargetKind::Full),
            Predicate::Contains(_) => matches!(kind, IndexTargetKind::Simple | IndexTargetKind::Values),
            Predicate::ContainsKey(_) => kind == IndexTargetKind::Keys,
            Predicate::Element { .. } => kind == IndexTargetKind::Entries,
            _ => false,
        };
        layout
            .indexes
            .iter()
            .any(|(name, kind)| *name == layout.columns[column].name && fits(*kind))
    }
}

fn contains(cql_type: &CqlType, collection: &[u8], element: &Bytes) -> bool {
    match cql_type {
        CqlType::Map(_) => bind::map_entries(collection)
            .iter()
            .any(|(_, value)| value == element),
        _ => bind::elements(collection)
            .unwrap_or_default()
            .contains(&bind::Bound::Value(element.clone())),
    }
}
