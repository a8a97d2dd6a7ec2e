//! What a PREPARED result says of the values that it expects.

use cqlens_proto::{message::BindMetadata, types::CqlType};

/// The bind markers of a prepared statement, as the server described them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Markers {
    /// Name and type of each, in order.
    pub columns: Vec<(String, CqlType)>,
    /// The table, where all markers belong to one.
    pub table: Option<(String, String)>,
    /// For each partition key column in order, the marker that binds it; empty where the server did not say.
    pub partition_key: Vec<u16>,
}

impl Markers {
    /// The markers as a PREPARED result describes them.
    pub fn of(bind: &BindMetadata<'_>) -> Self {
        let table = bind
            .markers
            .iter()
            .next()
            .map(|first| (first.keyspace.to_owned(), first.table.to_owned()));
        let one = |table: &(String, String)| {
            bind.markers
                .iter()
                .all(|marker| marker.keyspace == table.0 && marker.table == table.1)
        };
        Self {
            table: table.filter(one),
            columns: bind
                .markers
                .iter()
                .map(|marker| (marker.name.to_owned(), marker.column_type))
                .collect(),
            partition_key: bind.partition_key_indices.clone(),
        }
    }
}
