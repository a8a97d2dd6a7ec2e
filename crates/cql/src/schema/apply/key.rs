//! The primary key of a table or view.

use std::collections::BTreeMap;

use super::found::{Result, missing};
use crate::schema::data_type::DataType;
use crate::schema::error::SchemaErrorKind;
use crate::schema::model::{Column, ColumnKind, Order};
use crate::syntax::ast::{Direction, Name};

/// The primary key of a table or view, as its definition writes it.
pub(super) struct KeyColumns<'a, 'text> {
    pub(super) partition_key: &'a [Name<'text>],
    pub(super) clustering: &'a [Name<'text>],
    pub(super) order: &'a [(Name<'text>, Direction)],
}

impl KeyColumns<'_, '_> {
    pub(super) fn contains(&self, name: &Name<'_>) -> bool {
        self.partition_key
            .iter()
            .chain(self.clustering)
            .any(|other| other.text == name.text)
    }

    pub(super) fn columns(&self, types: &BTreeMap<&str, DataType>) -> Result<Vec<Column>> {
        let partition_key = self
            .partition_key
            .iter()
            .map(|name| (name, ColumnKind::PartitionKey));
        let clustering = self
            .clustering
            .iter()
            .map(|name| (name, ColumnKind::Clustering(self.order_of(name))));
        let column = |(name, kind): (&Name<'_>, ColumnKind)| {
            let data_type = types.get(name.as_str()).cloned();
            let data_type = data_type.ok_or_else(|| missing(name, SchemaErrorKind::ColumnUnknown))?;
            Ok(Column {
                constraints: Vec::new(),
                name: name.as_str().to_owned(),
                kind,
                data_type,
            })
        };
        partition_key.chain(clustering).map(column).collect()
    }

    pub(super) fn order_of(&self, column: &Name<'_>) -> Order {
        match self.order.iter().find(|(name, _)| name.text == column.text) {
            Some((_, Direction::Descending)) => Order::Descending,
            _ => Order::Ascending,
        }
    }
}
