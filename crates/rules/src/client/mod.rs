//! Rules on how clients use the cluster: preparing, routing, consistency levels, and what the server answers
//! to it.

mod connection_churn;
mod consistency_all;
mod cross_dc_consistency;
mod future_timestamp;
mod many_connections;
mod mixed_serial_consistency;
mod no_compression;
mod not_token_aware;
mod old_driver;
mod old_protocol;
mod overlap;
mod past_timestamp;
mod prepare_churn;
mod retries;
mod schema_change;
mod schema_disagreement;
mod server_error;
mod server_warning;
mod timeouts;
mod traced_requests;
mod unprepared_statement;
mod weak_consistency;

use super::{
    About, Findings, Severity, Threshold,
    application::{self, Patterns, by_application},
    figures::user_patterns,
};
use crate::Context;
use cqlens_cql::schema::{Keyspace, Schema};
use cqlens_window::{Pattern, PatternId};

pub(super) use connection_churn::ConnectionChurn;
pub(super) use consistency_all::ConsistencyAll;
pub(super) use cross_dc_consistency::CrossDcConsistency;
pub(super) use future_timestamp::FutureTimestamp;
pub(super) use many_connections::ManyConnections;
pub(super) use mixed_serial_consistency::MixedSerialConsistency;
pub(super) use no_compression::NoCompression;
pub(super) use not_token_aware::NotTokenAware;
pub(super) use old_driver::OldDriver;
pub(super) use old_protocol::OldProtocol;
pub(super) use past_timestamp::PastTimestamp;
pub(super) use prepare_churn::PrepareChurn;
pub(super) use retries::Retries;
pub(super) use schema_change::SchemaChange;
pub(super) use schema_disagreement::SchemaDisagreement;
pub(super) use server_error::ServerError;
pub(super) use server_warning::ServerWarning;
pub(super) use timeouts::Timeouts;
pub(super) use traced_requests::TracedRequests;
pub(super) use unprepared_statement::UnpreparedStatement;
pub(super) use weak_consistency::WeakConsistency;

/// The application's own SELECTs, INSERTs, UPDATEs, DELETEs and batches, those that the server refused
/// included.
fn user_statements<'a>(context: &Context<'a>) -> impl Iterator<Item = (PatternId, &'a Pattern)> {
    user_patterns(context).filter(|(_, pattern)| {
        let kind = pattern.head.kind;
        (kind.is_read() || kind.is_write()) && pattern.count > 0
    })
}

/// The replicas of a keyspace by datacenter (none where the strategy does not name any); nothing where they
/// are not known.
fn replicas<'a>(pattern: &Pattern, schema: &'a Schema) -> Option<Vec<(&'a str, u64)>> {
    replicas_of(pattern.head.keyspace.as_deref()?, schema)
}

/// The same of a keyspace by its name.
fn replicas_of<'a>(keyspace: &str, schema: &'a Schema) -> Option<Vec<(&'a str, u64)>> {
    let keyspace: &Keyspace = schema.keyspace(keyspace)?;
    let counts = keyspace.replication.iter().filter(|(name, _)| *name != "class");
    // A transient replica (`3/1`) is one of the three.
    let count = |text: &str| text.split('/').next()?.trim().parse::<u64>().ok();
    let replicas: Option<Vec<_>> = counts
        .map(|(name, text)| Some((name.as_str(), count(text)?)))
        .collect();
    replicas.filter(|replicas| !replicas.is_empty())
}

/// Executions at a consistency level.
fn at_level(pattern: &Pattern, level: &str) -> u64 {
    pattern.consistency.get(level).copied().unwrap_or_default()
}
