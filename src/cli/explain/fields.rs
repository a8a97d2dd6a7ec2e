//! The fields of an answer, made from what the plan knows of a statement.

use cqlens_cql::syntax::ast::{BatchKind, Kind};
use serde::Serialize;

use cqlens_cql::footprint::{Count, Footprint, Keys};
use cqlens_cql::plan::{BatchSum, Facts, Plan, ReadLimits};

/// The properties of a text of any kind.
#[derive(Debug, Serialize)]
pub(super) struct TextFields {
    keyspace: Option<String>,
    table: Option<String>,
    bind_markers: usize,
}

/// The properties of a SELECT.
#[derive(Debug, Serialize)]
pub(super) struct ReadFields {
    allow_filtering: bool,
    distinct: bool,
    json: bool,
    has_limit: bool,
    #[serde(flatten)]
    known: Option<KnownRead>,
}

/// The properties of a SELECT that need the schema.
#[derive(Debug, Serialize)]
struct KnownRead {
    filtering_needed: bool,
    in_on_partition_key: bool,
    in_on_clustering: bool,
    on_token: bool,
    uses_index: bool,
    indexes: Vec<String>,
    reversed: bool,
    aggregate: bool,
    limit: Option<i32>,
    per_partition_limit: Option<i32>,
    pk_bind_indexes: Option<Vec<usize>>,
    pk_bind_indexes_wire: Option<Vec<usize>>,
}

/// The properties of an INSERT, UPDATE, DELETE or BATCH.
#[derive(Debug, Serialize)]
pub(super) struct WriteFields {
    lwt: bool,
    timestamp_set: bool,
    ttl_set: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    json: Option<bool>,
    #[serde(flatten)]
    known: Option<KnownWrite>,
}

/// The properties of a write that need the schema.
#[derive(Debug, Serialize)]
struct KnownWrite {
    counter: bool,
    pk_bind_indexes: Option<Vec<usize>>,
    pk_bind_indexes_wire: Option<Vec<usize>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    in_on_partition_key: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    in_on_clustering: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    static_only: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delete_kind: Option<&'static str>,
}

/// The properties of a BATCH.
#[derive(Debug, Serialize)]
pub(super) struct BatchFields {
    batch_kind: &'static str,
    batch_statements: usize,
    batch_partitions: Option<u64>,
    batch_keys: Option<u64>,
}

/// Distinct keys of any table: those in the buffer, and those that the server generates,
/// which cqlens cannot know.
pub(super) fn distinct_keys(footprint: &Footprint, keys: &Keys) -> u64 {
    let listed = BatchSum::new(BatchKind::Logged).distinct_keys(keys);
    match footprint.count {
        Count::Exact(count) => listed + count.saturating_sub(keys.len() as u64),
        _ => listed,
    }
}

pub(super) fn is_write(kind: Kind) -> bool {
    matches!(kind, Kind::Insert | Kind::Update | Kind::Delete | Kind::Batch)
}

pub(super) fn touches(kind: Kind) -> bool {
    kind == Kind::Select || kind == Kind::Transaction || is_write(kind)
}

pub(super) fn text_of(facts: &Facts) -> TextFields {
    TextFields {
        keyspace: facts.keyspace.clone(),
        table: facts.table.clone(),
        bind_markers: facts.bind_markers,
    }
}

pub(super) fn read_of(facts: &Facts, limits: ReadLimits) -> ReadFields {
    let known = facts.schema.as_ref().map(|schema| KnownRead {
        filtering_needed: schema.filtering_needed,
        in_on_partition_key: schema.in_on_partition_key,
        in_on_clustering: schema.in_on_clustering,
        on_token: schema.on_token,
        uses_index: schema.uses_index,
        indexes: schema.indexes.clone(),
        reversed: schema.reversed,
        aggregate: schema.aggregate,
        limit: limits.limit,
        per_partition_limit: limits.per_partition_limit,
        pk_bind_indexes: schema.partition_key_markers.clone(),
        pk_bind_indexes_wire: schema
            .partition_key_markers
            .clone()
            .filter(|_| schema.markers_of_one_table),
    });
    ReadFields {
        allow_filtering: facts.allow_filtering,
        distinct: facts.distinct,
        json: facts.json,
        has_limit: facts.has_limit,
        known,
    }
}

impl KnownWrite {
    fn nothing() -> Self {
        Self {
            counter: false,
            pk_bind_indexes: None,
            pk_bind_indexes_wire: None,
            in_on_partition_key: None,
            in_on_clustering: None,
            static_only: None,
            delete_kind: None,
        }
    }
}

pub(super) fn write_of(facts: &Facts) -> WriteFields {
    let is_batch = facts.kind == Kind::Batch;
    let restricts = matches!(facts.kind, Kind::Update | Kind::Delete);
    let known = facts.schema.as_ref().map(|schema| KnownWrite {
        counter: schema.counter,
        pk_bind_indexes: schema.partition_key_markers.clone(),
        pk_bind_indexes_wire: schema
            .partition_key_markers
            .clone()
            .filter(|_| schema.markers_of_one_table),
        in_on_partition_key: restricts.then_some(schema.in_on_partition_key),
        in_on_clustering: restricts.then_some(schema.in_on_clustering),
        static_only: (!is_batch).then_some(schema.static_only),
        delete_kind: schema.delete_kind.map(cqlens_cql::plan::DeleteKind::name),
    });
    WriteFields {
        lwt: facts.lwt,
        timestamp_set: facts.timestamp_set,
        ttl_set: facts.ttl_set,
        json: (facts.kind == Kind::Insert).then_some(facts.json),
        known,
    }
}

pub(super) fn batch_of(kind: BatchKind, statements: usize, footprint: &Footprint, keys: u64) -> BatchFields {
    let batch_partitions = match footprint.count {
        Count::Exact(count) => Some(count),
        _ => None,
    };
    BatchFields {
        batch_kind: match kind {
            BatchKind::Logged => "logged",
            BatchKind::Unlogged => "unlogged",
            BatchKind::Counter => "counter",
        },
        batch_statements: statements,
        batch_partitions,
        batch_keys: batch_partitions.map(|_| keys),
    }
}

/// The text of a BATCH message: the one table of its statements, if there is one, and all their markers.
pub(super) fn text_of_batch(plans: &[Plan]) -> TextFields {
    let facts = plans.iter().map(Plan::facts);
    let mut names = facts.clone().map(|facts| (&facts.keyspace, &facts.table));
    let first = names.next();
    let one_table = first.filter(|first| names.all(|name| name == *first));
    let (keyspace, table) = one_table.map_or((None, None), |(keyspace, table)| {
        (keyspace.clone(), table.clone())
    });
    TextFields {
        keyspace,
        table,
        bind_markers: facts.map(|facts| facts.bind_markers).sum(),
    }
}

/// What a BATCH message writes, as far as its statements say.
pub(super) fn write_of_batch(plans: &[Plan]) -> WriteFields {
    let facts = plans.iter().map(Plan::facts);
    let schemas: Option<Vec<_>> = facts.clone().map(|facts| facts.schema.as_ref()).collect();
    let counter = schemas.map(|schemas| schemas.iter().any(|schema| schema.counter));
    WriteFields {
        lwt: facts.clone().any(|facts| facts.lwt),
        timestamp_set: false,
        ttl_set: false,
        json: None,
        known: counter.map(|counter| KnownWrite {
            counter,
            ..KnownWrite::nothing()
        }),
    }
}
