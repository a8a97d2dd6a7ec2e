//! The answer to one statement, in the fields of its JSON form.
//!
//! A field that is left out has no meaning for the statement's kind; one that is null
//! has, but cannot be known.

use std::collections::BTreeSet;

use cqlens_cql::syntax::ast::{BatchKind, Body, Dialect, Kind, Modification, Select, Statement};
use cqlens_cql::syntax::{self, ParseError, Template};
use cqlens_proto::message::Values;
use serde::Serialize;

use super::fields::{
    BatchFields, ReadFields, TextFields, WriteFields, batch_of, distinct_keys, is_write, read_of, text_of,
    text_of_batch, touches, write_of, write_of_batch,
};
use super::lint::Judge;
use super::server::Server;
use super::touched::PartitionsTouched;
use super::transaction::{TransactionFields, transaction_of};
use cqlens_audit::audit::Once;
use cqlens_cql::footprint::{Count, Footprint, Keys, Reason};
use cqlens_cql::plan::{BatchSum, Plan, ReadLimits, Refusal};
use cqlens_cql::schema::{Schema, SchemaErrorKind, is_system};
use cqlens_rules::Finding;

/// The answer to one statement.
#[derive(Debug, Default, Serialize)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "the fields of the answer, each a fact of its own"
)]
pub(super) struct StatementAnswer {
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    #[serde(flatten)]
    text: Option<TextFields>,
    #[serde(flatten)]
    read: Option<ReadFields>,
    #[serde(flatten)]
    write: Option<WriteFields>,
    #[serde(flatten)]
    batch: Option<BatchFields>,
    #[serde(flatten)]
    transaction: Option<TransactionFields>,
    #[serde(flatten)]
    touched: Option<PartitionsTouched>,
    template: Option<String>,
    fingerprint: Option<String>,
    /// The rules that one execution makes fire, by id; what is not executed makes none fire.
    findings: Vec<&'static str>,
    /// The accepted ones; absent if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    accepted: Vec<&'static str>,
    /// Those that are not accepted, in full.
    #[serde(skip)]
    pub(super) open: Vec<Finding>,
    /// How many are.
    #[serde(skip)]
    pub(super) accepted_count: usize,
    /// Whether most rules had nothing to go by: the table is not known, since there is no schema.
    #[serde(skip)]
    pub(super) is_unjudged: bool,
    pub(super) error: Option<StatementError>,
}

/// Why a statement would not be executed.
#[derive(Debug, Serialize)]
pub(super) struct StatementError {
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

impl Context<'_> {
    /// Why a definition does not fit the schema, of which it is not taken to be a part.
    fn refused_definition(&self, statement: &Statement<'_>) -> Option<StatementError> {
        let Server::Cassandra(version) = self.judge.server else {
            return None;
        };
        if !self.has_schema || !defines(statement) {
            return None;
        }
        let validated = self.schema.validate(statement, self.keyspace, version);
        let applied = validated.and_then(|()| self.schema.clone().apply(statement, self.keyspace));
        let error = applied.err()?;
        (!matches!(error.kind, SchemaErrorKind::NotADefinition(_))).then(|| StatementError {
            stage: "apply",
            message: error.to_string(),
            offset: Some(error.span.start),
        })
    }
}

/// Whether a statement changes the schema: others need no copy of it.
fn defines(statement: &Statement<'_>) -> bool {
    !matches!(
        statement.body,
        Body::Select(_)
            | Body::Insert(_)
            | Body::Update(_)
            | Body::Delete(_)
            | Body::Batch(_)
            | Body::Transaction(_)
    )
}

/// Whether a refusal only says that a table was not found.
pub(super) fn says_nothing(refusal: &Refusal) -> bool {
    matches!(refusal.reason, Reason::TableUnknown | Reason::KeyspaceUnknown)
}

/// What the text alone shows where the schema does not say more: a SELECT without WHERE reads the whole table, whatever
/// its key is, and each table of a batch has partitions of its own.
pub(super) fn of_text(statement: &Statement<'_>, reason: Reason) -> Footprint {
    let unknown = Footprint::unknown(reason);
    if reason != Reason::SchemaUnknown {
        return unknown;
    }
    let count = match &statement.body {
        Body::Select(select) if reads_all(select) => Count::Scan,
        Body::Batch(batch) => {
            let tables = batch.statements.iter().map(Modification::table);
            return of_tables(tables.map(|table| (table.keyspace_or(None), table.name.as_str())));
        }
        _ => unknown.count,
    };
    Footprint { count, ..unknown }
}

/// The same of a BATCH message of statements with these plans.
fn of_texts(plans: &[Plan], reason: Reason) -> Footprint {
    if reason != Reason::SchemaUnknown {
        return Footprint::unknown(reason);
    }
    let facts = plans.iter().map(Plan::facts);
    of_tables(facts.map(|facts| {
        (
            facts.keyspace.as_deref(),
            facts.table.as_deref().unwrap_or_default(),
        )
    }))
}

/// What is written to these tables is at least a partition of each.
fn of_tables<'t>(tables: impl Iterator<Item = (Option<&'t str>, &'t str)>) -> Footprint {
    let unknown = Footprint::unknown(Reason::SchemaUnknown);
    let tables = tables.collect::<BTreeSet<_>>().len() as u64;
    let count = match tables {
        0 | 1 => unknown.count,
        several => Count::AtLeast(several, Reason::SchemaUnknown),
    };
    Footprint { count, ..unknown }
}

fn reads_all(select: &Select<'_>) -> bool {
    let has_condition = !select.where_clause.relations.is_empty()
        || !select.where_clause.custom_index_expressions.is_empty()
        || select.order_by.iter().any(|order| order.ann_of.is_some());
    let is_of_system = select
        .table
        .keyspace
        .as_ref()
        .is_some_and(|keyspace| is_system(keyspace.as_str()));
    !has_condition && !is_of_system
}

/// Whether a footprint says that there is no schema to judge by.
pub(super) fn is_unjudged(footprint: &Footprint) -> bool {
    matches!(
        footprint.count,
        Count::Unknown(Reason::SchemaUnknown) | Count::AtLeast(_, Reason::SchemaUnknown)
    )
}

impl StatementAnswer {
    /// The answer to a text; `values` are none where nothing is bound to its markers.
    pub(super) fn from_text(
        text: &str,
        values: Option<&Values<'_>>,
        context: Context<'_>,
        keys: &mut Keys,
    ) -> Self {
        match syntax::parse(text) {
            Ok(statement) => Self::from_statement(&statement, values, context, keys),
            Err(error) => Self::from_error((&error).into()),
        }
    }

    fn from_statement(
        statement: &Statement<'_>,
        values: Option<&Values<'_>>,
        context: Context<'_>,
        keys: &mut Keys,
    ) -> Self {
        let server = context.judge.server;
        if let Some(error) = extension_error(statement, server) {
            return Self::from_error(error);
        }
        let template = Template::of(statement, context.keyspace);
        let plan = Plan::of(statement, context.keyspace, context.schema).on(server.language());
        // Without markers, nothing has to be bound.
        let values = values.or((statement.bind_markers.is_empty()).then_some(&Values::NONE));
        keys.clear();
        let executed = context.outcome(plan.execute(values, keys));
        let limits = plan.limits(values);
        let error = executed
            .as_ref()
            .err()
            .or(limits.as_ref().err().filter(|_| values.is_some()));
        let limits = *limits.as_ref().unwrap_or(&ReadLimits {
            limit: None,
            per_partition_limit: None,
        });
        let facts = plan.facts();
        let footprint = executed
            .as_ref()
            .map_or_else(|refusal| of_text(statement, refusal.reason), |known| *known);
        let batch_keys = distinct_keys(&footprint, keys);
        let answer = Self {
            kind: Some(facts.kind.as_str()),
            text: Some(text_of(facts)),
            read: (facts.kind == Kind::Select).then(|| read_of(facts, limits)),
            write: is_write(facts.kind).then(|| write_of(facts)),
            batch: facts
                .batch
                .map(|(kind, statements)| batch_of(kind, statements, &footprint, batch_keys)),
            transaction: transaction_of(&plan, values),
            touched: touches(facts.kind)
                .then(|| PartitionsTouched::new(&footprint, keys).within(plan.class())),
            template: Some(template.text.clone()),
            fingerprint: Some(template.fingerprint.to_string()),
            error: error
                .filter(|refusal| refusal.reason != Reason::SchemaUnknown)
                .map(Into::into)
                .or_else(|| context.refused_definition(statement)),
            is_unjudged: touches(facts.kind) && is_unjudged(&footprint),
            ..Self::default()
        };
        answer.judged(context, Some(statement), || {
            Once::of(statement, template, plan, &footprint)
        })
    }

    /// The answer to a BATCH message, of texts that are given one by one.
    pub(super) fn from_batch(
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
                Err(error) => return Self::from_error((&error).into()),
            };
            let server = context.judge.server;
            if let Some(error) = extension_error(&statement, server) {
                return Self::from_error(error);
            }
            let plan = Plan::of(&statement, context.keyspace, context.schema).on(server.language());
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
            Err(refusal) => (of_texts(&plans, refusal.reason), Some(refusal)),
        };
        let template = Template::batch(kind, templates.iter().map(|template| template.text.as_str()));
        let answer = Self {
            kind: Some(Kind::Batch.as_str()),
            text: Some(text_of_batch(&plans)),
            write: Some(write_of_batch(&plans)),
            batch: Some(batch_of(
                kind,
                plans.len(),
                &footprint,
                distinct_keys(&footprint, keys),
            )),
            touched: Some(PartitionsTouched::new(&footprint, keys)),
            template: Some(template.text),
            fingerprint: Some(template.fingerprint.to_string()),
            error: error
                .as_ref()
                .filter(|refusal| refusal.reason != Reason::SchemaUnknown)
                .map(Into::into),
            is_unjudged: is_unjudged(&footprint),
            ..Self::default()
        };
        let statements = templates.into_iter().zip(plans);
        answer.judged(context, None, || Once::of_batch(kind, statements, &footprint))
    }

    /// The answer with what the rules find, unless the statement is refused.
    fn judged(
        self,
        context: Context<'_>,
        statement: Option<&Statement<'_>>,
        once: impl FnOnce() -> Once,
    ) -> Self {
        if self.error.is_some() {
            return self;
        }
        let judged = context.judge.findings(&once(), statement, context.schema);
        let ids = |findings: &[Finding]| -> Vec<_> {
            let ids: BTreeSet<_> = findings.iter().map(|finding| finding.rule).collect();
            ids.into_iter().collect()
        };
        Self {
            findings: ids(&judged.open),
            accepted: ids(&judged.accepted),
            accepted_count: judged.accepted.len(),
            open: judged.open,
            ..self
        }
    }

    /// The answer to what is no statement.
    pub(super) fn from_error(error: StatementError) -> Self {
        Self {
            error: Some(error),
            ..Self::default()
        }
    }
}

/// Syntax that the server does not know is an error there.
pub(super) fn extension_error(statement: &Statement<'_>, server: Server) -> Option<StatementError> {
    let extension = statement.extension.filter(|extension| !server.reads(extension))?;
    let message = match extension.dialect {
        Dialect::Scylla => format!(
            "ScyllaDB syntax, which {} does not support (see --server)",
            server.name()
        ),
        Dialect::Dse => format!(
            "a type of DataStax Enterprise, which {} does not support (see --server)",
            server.name()
        ),
        Dialect::Keyspaces => format!(
            "syntax of Amazon Keyspaces, which {} does not support (see --server)",
            server.name()
        ),
        Dialect::Cassandra(since) => {
            format!(
                "syntax that {} does not support, but {since} does (see --server)",
                server.name()
            )
        }
        Dialect::CassandraUpTo(last) => {
            format!("a name that Cassandra supports up to {last} only, unless it is quoted")
        }
    };
    Some(StatementError {
        stage: "parse",
        message,
        offset: Some(extension.span.start),
    })
}

impl From<&ParseError> for StatementError {
    fn from(error: &ParseError) -> Self {
        Self {
            stage: "parse",
            message: error.to_string(),
            offset: Some(error.span.start),
        }
    }
}

impl From<&Refusal> for StatementError {
    fn from(refusal: &Refusal) -> Self {
        Self {
            stage: refusal.stage.name(),
            message: refusal.message.to_string(),
            offset: refusal.span.map(|span| span.start),
        }
    }
}
