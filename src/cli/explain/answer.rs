//! What is said of one statement, in the fields of the JSON answer.
//!
//! A field that is left out has no meaning for the statement's kind; one that is null has, but cannot be known.

use std::collections::BTreeSet;

use cqlens_cql::syntax::ast::{BatchKind, Dialect, Kind, Statement};
use cqlens_cql::syntax::{self, ParseError, Template};
use cqlens_proto::message::Values;
use serde::Serialize;

use super::lint::Judge;
use super::touched::Touched;
use cqlens_audit::audit::Once;
use cqlens_audit::rules::{Finding, Severity};
use cqlens_cql::footprint::Reason;
use cqlens_cql::footprint::{Count, Footprint, Keys};
use cqlens_cql::plan::{BatchSum, Facts, Limits, Plan, Refusal};
use cqlens_cql::schema::Schema;

/// The answer to one statement.
#[derive(Debug, Default, Serialize)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "the fields of the answer, each a fact of its own"
)]
pub(super) struct Answer {
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    #[serde(flatten)]
    text: Option<Text>,
    #[serde(flatten)]
    read: Option<Read>,
    #[serde(flatten)]
    write: Option<Write>,
    #[serde(flatten)]
    batch: Option<InBatch>,
    #[serde(flatten)]
    touched: Option<Touched>,
    template: Option<String>,
    fingerprint: Option<String>,
    /// The rules that one execution makes fire, by id; what is not executed makes none fire.
    findings: Vec<&'static str>,
    /// Those that somebody has accepted; absent where there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    accepted: Vec<&'static str>,
    /// The severest of them.
    #[serde(skip)]
    pub(super) worst: Option<Severity>,
    pub(super) error: Option<Error>,
}

/// What the text says, whatever the kind.
#[derive(Debug, Serialize)]
struct Text {
    keyspace: Option<String>,
    table: Option<String>,
    bind_markers: usize,
}

/// What is asked of a SELECT.
#[derive(Debug, Serialize)]
struct Read {
    allow_filtering: bool,
    distinct: bool,
    json: bool,
    has_limit: bool,
    #[serde(flatten)]
    known: Option<KnownRead>,
}

/// What only the schema can tell of a SELECT.
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

/// What is asked of an INSERT, UPDATE, DELETE or BATCH.
#[derive(Debug, Serialize)]
struct Write {
    lwt: bool,
    timestamp_set: bool,
    ttl_set: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    json: Option<bool>,
    #[serde(flatten)]
    known: Option<KnownWrite>,
}

/// What only the schema can tell of a write.
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

/// What is asked of a BATCH.
#[derive(Debug, Serialize)]
struct InBatch {
    batch_kind: &'static str,
    batch_statements: usize,
    batch_partitions: Option<u64>,
    batch_keys: Option<u64>,
}

/// Why a statement would not be executed.
#[derive(Debug, Serialize)]
pub(super) struct Error {
    /// `parse`, `prepare`, `bind` or `validate`; `input` for a record that is no statement.
    pub(super) stage: &'static str,
    pub(super) message: String,
    /// The byte of the statement's text at which it is wrong, where that is one place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) offset: Option<u32>,
}

/// A statement with what is bound to it, and where its names belong.
#[derive(Clone, Copy)]
pub(super) struct Context<'c> {
    pub(super) judge: &'c Judge<'c>,
    pub(super) keyspace: Option<&'c str>,
    /// An empty schema where none was given.
    pub(super) schema: &'c Schema,
    pub(super) has_schema: bool,
}

impl Context<'_> {
    /// Without a schema every table is unknown: that is no fault of the statement.
    fn outcome<T>(&self, outcome: Result<T, Refusal>) -> Result<T, Refusal> {
        outcome.map_err(|refusal| match self.has_schema || !says_nothing(&refusal) {
            true => refusal,
            false => Refusal {
                reason: Reason::SchemaUnknown,
                ..refusal
            },
        })
    }
}

/// Whether a refusal only says that a table was not found.
pub(super) fn says_nothing(refusal: &Refusal) -> bool {
    matches!(refusal.reason, Reason::TableUnknown | Reason::KeyspaceUnknown)
}

impl Answer {
    /// The answer to a text; `values` are none where nothing is bound to its markers.
    pub(super) fn of_text(
        text: &str,
        values: Option<&Values<'_>>,
        context: Context<'_>,
        keys: &mut Keys,
    ) -> Self {
        match syntax::parse(text) {
            Ok(statement) => Self::of_statement(&statement, values, context, keys),
            Err(error) => Self::of_error((&error).into()),
        }
    }

    fn of_statement(
        statement: &Statement<'_>,
        values: Option<&Values<'_>>,
        context: Context<'_>,
        keys: &mut Keys,
    ) -> Self {
        if let Some(error) = extension_error(statement) {
            return Self::of_error(error);
        }
        let template = Template::of(statement, context.keyspace);
        let plan = Plan::of(statement, context.keyspace, context.schema);
        // Without markers, nothing has to be bound.
        let values = values.or((statement.bind_markers.is_empty()).then_some(&Values::NONE));
        keys.clear();
        let executed = context.outcome(plan.execute(values, keys));
        let limits = plan.limits(values);
        let error = executed
            .as_ref()
            .err()
            .or(limits.as_ref().err().filter(|_| values.is_some()));
        let limits = *limits.as_ref().unwrap_or(&Limits {
            limit: None,
            per_partition_limit: None,
        });
        let facts = plan.facts();
        let footprint = executed
            .as_ref()
            .map_or_else(|refusal| Footprint::unknown(refusal.reason), |known| *known);
        let batch_keys = distinct_keys(&footprint, keys);
        let answer = Self {
            kind: Some(facts.kind.as_str()),
            text: Some(text_of(facts)),
            read: (facts.kind == Kind::Select).then(|| read_of(facts, limits)),
            write: is_write(facts.kind).then(|| write_of(facts)),
            batch: facts
                .batch
                .map(|(kind, statements)| batch_of(kind, statements, &footprint, batch_keys)),
            touched: touches(facts.kind).then(|| Touched::of(&footprint, keys).within(plan.class())),
            template: Some(template.text.clone()),
            fingerprint: Some(template.fingerprint.to_string()),
            error: error
                .filter(|refusal| refusal.reason != Reason::SchemaUnknown)
                .map(Into::into),
            ..Self::default()
        };
        answer.judged(context, || Once::of(template, plan, &footprint))
    }

    /// The answer to a BATCH message, of texts that are given one by one.
    pub(super) fn of_batch(
        kind: BatchKind,
        statements: &[(&str, Option<Values<'_>>)],
        context: Context<'_>,
        keys: &mut Keys,
    ) -> Self {
        keys.clear();
        let mut sum = BatchSum::new(kind);
        let mut plans = Vec::new();
        let mut templates = Vec::new();
        let mut error = None;
        for (text, values) in statements {
            let statement = match syntax::parse(text) {
                Ok(statement) => statement,
                Err(error) => return Self::of_error((&error).into()),
            };
            if let Some(error) = extension_error(&statement) {
                return Self::of_error(error);
            }
            let plan = Plan::of(&statement, context.keyspace, context.schema);
            let values = values
                .as_ref()
                .or((statement.bind_markers.is_empty()).then_some(&Values::NONE));
            error = error.or(sum.add(&plan, values, keys).err());
            templates.push(Template::of(&statement, context.keyspace));
            plans.push(plan);
        }
        let footprint = context.outcome(error.map_or_else(|| sum.footprint(keys), Err));
        let (footprint, error) = match footprint {
            Ok(footprint) => (footprint, None),
            Err(refusal) => (Footprint::unknown(refusal.reason), Some(refusal)),
        };
        let template = Template::batch(kind, templates.iter().map(|template| template.text.as_str()));
        let facts = plans.iter().map(Plan::facts);
        let names: Vec<_> = facts
            .clone()
            .map(|facts| (&facts.keyspace, &facts.table))
            .collect();
        let one_table = names
            .first()
            .filter(|first| names.iter().all(|name| name == *first));
        let (keyspace, table) = one_table.map_or((None, None), |(keyspace, table)| {
            ((*keyspace).clone(), (*table).clone())
        });
        let schemas: Option<Vec<_>> = facts.clone().map(|facts| facts.schema.as_ref()).collect();
        let counter = schemas.map(|schemas| schemas.iter().any(|schema| schema.counter));
        let answer = Self {
            kind: Some(Kind::Batch.as_str()),
            text: Some(Text {
                keyspace,
                table,
                bind_markers: facts.clone().map(|facts| facts.bind_markers).sum(),
            }),
            write: Some(Write {
                lwt: facts.clone().any(|facts| facts.lwt),
                timestamp_set: false,
                ttl_set: false,
                json: None,
                known: counter.map(|counter| KnownWrite {
                    counter,
                    ..KnownWrite::nothing()
                }),
            }),
            batch: Some(batch_of(
                kind,
                plans.len(),
                &footprint,
                distinct_keys(&footprint, keys),
            )),
            touched: Some(Touched::of(&footprint, keys)),
            template: Some(template.text),
            fingerprint: Some(template.fingerprint.to_string()),
            error: error
                .as_ref()
                .filter(|refusal| refusal.reason != Reason::SchemaUnknown)
                .map(Into::into),
            ..Self::default()
        };
        let statements = templates.into_iter().zip(plans);
        answer.judged(context, || Once::of_batch(kind, statements, &footprint))
    }

    /// The answer with what the rules find, unless the statement is refused.
    fn judged(self, context: Context<'_>, once: impl FnOnce() -> Once) -> Self {
        if self.error.is_some() {
            return self;
        }
        let judged = context.judge.findings(&once(), context.schema);
        let ids = |findings: &[Finding]| -> Vec<_> {
            let ids: BTreeSet<_> = findings.iter().map(|finding| finding.rule).collect();
            ids.into_iter().collect()
        };
        Self {
            findings: ids(&judged.open),
            accepted: ids(&judged.accepted),
            worst: judged.open.iter().map(|finding| finding.severity).max(),
            ..self
        }
    }

    /// The answer to what is no statement.
    pub(super) fn of_error(error: Error) -> Self {
        Self {
            error: Some(error),
            ..Self::default()
        }
    }
}

/// Distinct keys whatever their table: those in the buffer, and those that the server makes up, which nobody has yet.
fn distinct_keys(footprint: &Footprint, keys: &Keys) -> u64 {
    let listed = BatchSum::new(BatchKind::Logged).distinct_keys(keys);
    match footprint.count {
        Count::Exact(count) => listed + count.saturating_sub(keys.len() as u64),
        _ => listed,
    }
}

fn is_write(kind: Kind) -> bool {
    matches!(kind, Kind::Insert | Kind::Update | Kind::Delete | Kind::Batch)
}

fn touches(kind: Kind) -> bool {
    kind == Kind::Select || is_write(kind)
}

fn text_of(facts: &Facts) -> Text {
    Text {
        keyspace: facts.keyspace.clone(),
        table: facts.table.clone(),
        bind_markers: facts.bind_markers,
    }
}

fn read_of(facts: &Facts, limits: Limits) -> Read {
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
    Read {
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

fn write_of(facts: &Facts) -> Write {
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
    Write {
        lwt: facts.lwt,
        timestamp_set: facts.timestamp_set,
        ttl_set: facts.ttl_set,
        json: (facts.kind == Kind::Insert).then_some(facts.json),
        known,
    }
}

fn batch_of(kind: BatchKind, statements: usize, footprint: &Footprint, keys: u64) -> InBatch {
    let batch_partitions = match footprint.count {
        Count::Exact(count) => Some(count),
        _ => None,
    };
    InBatch {
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

/// Syntax that Cassandra itself does not know is an error there.
pub(super) fn extension_error(statement: &Statement<'_>) -> Option<Error> {
    let extension = statement.extension.as_ref()?;
    let message = match extension.dialect {
        Dialect::Scylla => "syntax of ScyllaDB, which Cassandra does not know",
        _ => "syntax that Cassandra 5.0 does not know",
    };
    Some(Error {
        stage: "parse",
        message: message.to_owned(),
        offset: Some(extension.span.start),
    })
}

impl From<&ParseError> for Error {
    fn from(error: &ParseError) -> Self {
        Self {
            stage: "parse",
            message: error.to_string(),
            offset: Some(error.span.start),
        }
    }
}

impl From<&Refusal> for Error {
    fn from(refusal: &Refusal) -> Self {
        Self {
            stage: refusal.stage.name(),
            message: refusal.message.to_string(),
            offset: refusal.span.map(|span| span.start),
        }
    }
}
