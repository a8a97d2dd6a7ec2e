//! What is the same for all executions of a statement, under one version of the schema.

use std::{collections::BTreeSet, sync::Arc};

use cqlens_cql::{
    syntax,
    syntax::{ParseError, ParseErrorKind, Template, Templates, Token, Work, ast, cut_name},
};
use cqlens_proto::message::{Value, Values};

use crate::audit::statement::ids::{Ids, StatementId, TableId};
use crate::catalog::{Live, PreparedStatement};
use cqlens_cql::{cells::Cells, plan::Plan};
use cqlens_cql::{
    footprint::Reason,
    plan::{ConstantTypes, Flag, Markers, StatementKind},
    schema::{Schema, TableName, is_system},
};
use cqlens_window::{PatternHead, PatternId};

/// A statement under one version of the schema.
#[derive(Debug)]
pub(crate) struct Analysis {
    /// The fingerprint of its template.
    pub(crate) id: PatternId,
    /// The same as a small number, for the caches of this auditor.
    pub(crate) statement: StatementId,
    /// Its kind, names and template.
    pub(crate) head: PatternHead,
    /// Its properties.
    pub(crate) flags: BTreeSet<Flag>,
    /// How its partitions are counted; none where that cannot be known.
    pub(crate) plan: Option<Plan>,
    /// Where it is that of all texts of a shape: as which types their constants are bound to the plan.
    pub(crate) constants: Option<ConstantTypes>,
    /// Why there is no plan.
    pub(crate) unknown: Option<Reason>,
    /// The tables that it names, each once.
    pub(crate) tables: Vec<NamedTable>,
    /// For each bind marker of an INSERT or UPDATE the column that it is the value of, as far as markers stand for
    /// values of their own; empty for those of `USING`.
    pub(crate) marker_columns: Vec<Box<str>>,
    /// Which of the first 64 bind markers of an INSERT or UPDATE stand for a whole list, set or map: a bit for each,
    /// the lowest for the first.
    pub(crate) whole_collections: u64,
    /// Which of the first 64 bind markers of an UPDATE stand in its WHERE or IF, where null writes nothing: a bit for
    /// each, the lowest for the first.
    pub(crate) compared_markers: u64,
    /// Columns of an INSERT or UPDATE that its text sets to null.
    pub(crate) null_columns: Vec<Box<str>>,
    /// What `USING TIMESTAMP` says.
    pub(crate) timestamp: Option<StatedTimestamp>,
    /// Whether all of its tables are in the schema.
    pub(crate) is_known: bool,
    /// The parser did not understand it.
    pub(crate) unparsed: bool,
    /// Whether executions touch partitions: SELECT, INSERT, UPDATE, DELETE, BATCH, transactions, and
    /// what may be one of them.
    pub(crate) touches_partitions: bool,
    /// The server names other markers of the partition key than the text and the schema do: only what it says
    /// is used.
    pub(crate) disagrees: bool,
    /// What it takes up, about.
    pub(crate) weight: usize,
}

/// A table that a statement names.
#[derive(Debug, Clone)]
pub(crate) struct NamedTable {
    pub(crate) name: Arc<TableName>,
    pub(crate) id: TableId,
    /// How many statements name it: several do in the text of a batch.
    pub(crate) statements: u32,
}

impl Analysis {
    /// Adds to `cells` what an execution says of rows and of columns that have an index, nothing of the
    /// server's own tables.
    #[inline]
    pub(crate) fn note_cells(&self, values: &Values<'_>, cells: &mut Cells) {
        if let (Some(plan), false) = (&self.plan, self.head.system) {
            plan.note_cells(values, cells);
        }
    }

    /// Whether its only table has no keyspace: neither the statement names one nor was one set.
    #[inline]
    pub(crate) fn lacks_keyspace(&self) -> bool {
        let facts = self.plan.as_ref().map(Plan::facts);
        facts.is_some_and(|facts| facts.keyspace.is_none() && facts.table.is_some())
            && !matches!(self.head.kind, StatementKind::Batch | StatementKind::Transaction)
    }

    /// Whether it was planned by what PREPARED and the text say.
    pub(crate) fn lacks_schema(&self) -> bool {
        let plan = self.plan.as_ref();
        plan.is_some_and(|plan| plan.facts().schema.is_none())
    }

    /// Analyses a text, as the server has prepared it where it has; with its tokens, where it was cut into them.
    pub(crate) fn of(
        text: &str,
        tokens: Option<&[Token]>,
        keyspace: Option<&str>,
        prepared: Option<&PreparedStatement>,
        live: &Live,
        templates: &mut Templates,
        ids: &mut Ids,
    ) -> Self {
        let work = Work::of_text(text);
        let keyspace = keyspace.map(cut_name);
        let keyspace = keyspace.as_deref();
        let parsed = match tokens {
            Some(tokens) => syntax::parse_tokens(text, tokens, &work),
            None => syntax::parse_within(text, &work),
        };
        let mut analysis = match parsed {
            Ok(statement) => {
                let template = templates.template(&statement, keyspace, &work);
                let markers = prepared.and_then(|prepared| prepared.markers.as_ref());
                let statement = numbered_as(statement, markers, &work);
                Self::of_statement(&statement, template, keyspace, markers, live, &work, ids)
            }
            Err(error) => Self::unparsed(text, unparsed_reason(&error), &work, ids),
        };
        analysis.weight = weight(text, analysis.head.kind);
        analysis
    }

    /// Analyses a text for all texts of its shape, if it is a statement whose constants can be bound.
    pub(crate) fn of_shape(
        text: &str,
        tokens: &[Token],
        constants: &[ast::Literal<'_>],
        keyspace: Option<&str>,
        live: &Live,
        templates: &mut Templates,
        ids: &mut Ids,
    ) -> Option<Self> {
        let work = Work::of_text(text);
        let keyspace = keyspace.map(cut_name);
        let keyspace = keyspace.as_deref();
        let statement = syntax::parse_tokens(text, tokens, &work).ok()?;
        let template = templates.template(&statement, keyspace, &work);
        let (plan, types) = Plan::of_constants(&statement, keyspace, &live.schema(), &work, constants)?;
        if !plan.is_known() && !live.is_known() {
            return None;
        }
        let analysis = Self::of_plan(template, plan, ids);
        Some(Self {
            null_columns: null_columns(&statement),
            timestamp: StatedTimestamp::of_statement(&statement, constants),
            constants: Some(types),
            weight: weight(text, analysis.head.kind) + CONSTANT_WEIGHT * constants.len(),
            ..analysis
        })
    }

    fn of_statement(
        statement: &ast::Statement<'_>,
        template: Template,
        keyspace: Option<&str>,
        markers: Option<&Markers>,
        live: &Live,
        work: &Work,
        ids: &mut Ids,
    ) -> Self {
        let mut plan = Plan::of_within(statement, keyspace, &live.schema(), work);
        let disagrees = markers.is_some_and(|markers| plan.disagrees_with(markers));
        match markers {
            Some(markers) if disagrees => plan = Plan::without_schema(statement, keyspace, markers),
            _ if plan.is_known() => {}
            Some(markers) => plan = Plan::without_schema(statement, keyspace, markers),
            None if live.is_known() => {}
            None => plan = Plan::without_schema(statement, keyspace, &Markers::default()),
        }
        let marker_columns = marker_columns(statement);
        Self {
            whole_collections: whole_collections(&marker_columns, &plan, &live.schema()),
            marker_columns,
            compared_markers: compared_markers(statement),
            null_columns: null_columns(statement),
            timestamp: StatedTimestamp::of_statement(statement, &[]),
            disagrees,
            ..Self::of_plan(template, plan, ids)
        }
    }

    /// A statement that is understood.
    pub(crate) fn of_plan(template: Template, plan: Plan, ids: &mut Ids) -> Self {
        let named = |(name, statements): &(Arc<TableName>, u32)| NamedTable {
            id: ids.table(name),
            name: Arc::clone(name),
            statements: *statements,
        };
        let tables: Vec<_> = plan.tables().iter().map(named).collect();
        let first = tables.first().map(|table| &table.name);
        let head = PatternHead {
            kind: plan.facts().statement_kind(),
            keyspace: first.map(|name| name.keyspace.clone()),
            table: first.map(|name| name.table.clone()),
            cql: template.text,
            system: match plan.facts().keyspace.as_deref() {
                // A driver asks for tables that only other servers have.
                Some(keyspace) if tables.is_empty() => is_system(keyspace),
                _ => are_system(&tables),
            },
        };
        let id = PatternId(template.fingerprint.0);
        Self {
            id,
            statement: ids.statement(id),
            touches_partitions: head.kind.touches_partitions(),
            head,
            flags: plan.flags(),
            is_known: plan.is_known() && plan.facts().schema.is_some(),
            tables,
            plan: Some(plan),
            constants: None,
            unknown: None,
            marker_columns: Vec::new(),
            compared_markers: 0,
            whole_collections: 0,
            null_columns: Vec::new(),
            timestamp: None,
            unparsed: false,
            disagrees: false,
            weight: 0,
        }
    }

    /// A text that is not CQL as we know it: counted under its words, without its values.
    pub(crate) fn unparsed(text: &str, reason: Reason, work: &Work, ids: &mut Ids) -> Self {
        let template = Template::unparsed_within(text, work);
        Self {
            unparsed: true,
            ..Self::other(PatternId(template.fingerprint.0), template.text, reason, ids)
        }
    }

    /// A text that ends early: its pattern is that of its beginning.
    pub(crate) fn cut(text: &str, ids: &mut Ids) -> Self {
        let template = Template::unparsed_within(text, &Work::of_text(text));
        Self::other(
            PatternId(template.fingerprint.0),
            template.text,
            Reason::RequestCut,
            ids,
        )
    }

    /// An execution of an id whose PREPARE the auditor has not seen.
    pub(crate) fn unknown_prepared(ids: &mut Ids) -> Self {
        let cql = "(a prepared statement that was not seen)".to_owned();
        Self::other(UNKNOWN_PREPARED, cql, Reason::PreparedIdUnknown, ids)
    }

    fn other(id: PatternId, cql: String, unknown: Reason, ids: &mut Ids) -> Self {
        let head = PatternHead {
            kind: StatementKind::Other,
            keyspace: None,
            table: None,
            cql,
            system: false,
        };
        Self {
            id,
            statement: ids.statement(id),
            head,
            flags: BTreeSet::new(),
            plan: None,
            constants: None,
            unknown: Some(unknown),
            tables: Vec::new(),
            marker_columns: Vec::new(),
            compared_markers: 0,
            whole_collections: 0,
            null_columns: Vec::new(),
            timestamp: None,
            is_known: false,
            unparsed: false,
            touches_partitions: matches!(unknown, Reason::PreparedIdUnknown | Reason::RequestCut),
            disagrees: false,
            weight: 0,
        }
    }
}

/// Whether all of them are the server's own, of at least one.
pub(crate) fn are_system(tables: &[NamedTable]) -> bool {
    !tables.is_empty() && tables.iter().all(|table| is_system(&table.name.keyspace))
}

/// The statement with its markers numbered as the server has them: ScyllaDB takes a name that occurs twice
/// for one marker.
fn numbered_as<'text>(
    statement: ast::Statement<'text>,
    markers: Option<&Markers>,
    work: &Work,
) -> ast::Statement<'text> {
    let announced = markers.map_or(0, |markers| markers.columns.len());
    if announced == 0 || announced == statement.bind_markers.len() {
        return statement;
    }
    match syntax::parse_with_shared_markers(statement.text, work) {
        Ok(shared) if shared.bind_markers.len() == announced => shared,
        _ => statement,
    }
}

fn unparsed_reason(error: &ParseError) -> Reason {
    match error.kind {
        ParseErrorKind::TooDeep | ParseErrorKind::TooLong => Reason::StatementTooComplex,
        _ => Reason::StatementUnknown,
    }
}

/// What a constant takes up more where it is bound: a marker, and its type.
const CONSTANT_WEIGHT: usize = 64;

/// What the analysis of a text takes up, about. A plan has parts for each part of its text: 42 bytes for each
/// byte of a batch of short statements, 30 for one of a long list of numbers, 10 for one of a usual
/// statement.
fn weight(text: &str, kind: StatementKind) -> usize {
    const EACH: usize = 1 << 10;
    let of_a_byte = match kind {
        StatementKind::Batch | StatementKind::Transaction => 64,
        _ => 32,
    };
    EACH + of_a_byte * text.len()
}

/// The columns of an INSERT whose values are markers, in the order of the markers; they end where a value is
/// computed, which may hold markers of its own.
fn marker_columns(statement: &ast::Statement<'_>) -> Vec<Box<str>> {
    let assigned = assigned(statement);
    let simple = assigned.iter().take_while(|(_, value)| {
        matches!(
            value,
            ast::Term::BindMarker(_) | ast::Term::Literal(_) | ast::Term::Null(_)
        )
    });
    let bound = simple.filter_map(|(column, value)| match value {
        ast::Term::BindMarker(marker) => Some((marker.index, column)),
        _ => None,
    });
    let mut columns: Vec<Box<str>> = Vec::new();
    for (index, column) in bound {
        // Those of `USING` come first in an UPDATE.
        while columns.len() < index {
            columns.push("".into());
        }
        columns.push(cut_name(column.as_str()).into());
    }
    columns
}

/// The markers of an UPDATE behind its assignments, as bits.
fn compared_markers(statement: &ast::Statement<'_>) -> u64 {
    let ast::Body::Update(update) = &statement.body else {
        return 0;
    };
    let Some(first) = update.where_clause.relations.first() else {
        return 0;
    };
    let behind = statement
        .bind_markers
        .iter()
        .filter(|marker| marker.span.start >= first.span.start && marker.index < 64);
    behind.fold(0, |bits, marker| bits | 1 << marker.index)
}

/// Which of the markers, with the columns that they are the value of, stand for a whole collection.
fn whole_collections(marker_columns: &[Box<str>], plan: &Plan, schema: &Schema) -> u64 {
    let Some((name, _)) = plan.tables().first() else {
        return 0;
    };
    let Some(table) = schema.table(&name.keyspace, &name.table) else {
        return 0;
    };
    let is_collection = |column: &str| {
        let column = table.column(column);
        column.is_some_and(|column| column.data_type.is_collection())
    };
    let markers = marker_columns.iter().take(64).enumerate();
    let of_collections = markers.filter(|(_, column)| is_collection(column));
    of_collections.fold(0, |bits, (at, _)| bits | 1 << at)
}

/// The columns that a text sets to null: a literal, as what binds values in the text of a statement sends it.
pub(crate) fn null_columns(statement: &ast::Statement<'_>) -> Vec<Box<str>> {
    let assigned = assigned(statement);
    let null = assigned
        .iter()
        .filter(|(_, value)| matches!(value, ast::Term::Null(_)));
    null.map(|(column, _)| cut_name(column.as_str()).into()).collect()
}

/// The columns that an INSERT or UPDATE sets, with their values, in the order of the text.
fn assigned<'s, 'text>(
    statement: &'s ast::Statement<'text>,
) -> Vec<(&'s ast::Name<'text>, &'s ast::Term<'text>)> {
    match &statement.body {
        ast::Body::Insert(insert) => match &insert.source {
            ast::InsertSource::Values { columns, values } => columns.iter().zip(values).collect(),
            ast::InsertSource::Json { .. } => Vec::new(),
        },
        ast::Body::Update(update) => {
            let set = update.assignments.iter();
            set.map_while(|assignment| match &assignment.operation {
                ast::AssignmentOperation::Set(value) => Some((&assignment.column, value)),
                _ => None,
            })
            .collect()
        }
        _ => Vec::new(),
    }
}

/// What `USING TIMESTAMP` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StatedTimestamp {
    /// The text has it.
    Written(i64),
    /// It is bound to this marker, or is this one of the constants that are bound.
    Bound(usize),
}

impl StatedTimestamp {
    /// What a statement says, of whose constants those are bound.
    fn of_statement(statement: &ast::Statement<'_>, bound: &[ast::Literal<'_>]) -> Option<Self> {
        match statement.body.written_using()?.timestamp.as_ref()? {
            ast::Term::BindMarker(marker) => Some(Self::Bound(marker.index)),
            ast::Term::Literal(literal) => match bound.iter().position(|constant| constant == literal) {
                Some(place) => Some(Self::Bound(place)),
                None => literal.text.parse().ok().map(Self::Written),
            },
            _ => None,
        }
    }

    /// The timestamp of an execution with these values.
    #[inline]
    pub(crate) fn of(self, values: &Values<'_>) -> Option<i64> {
        match self {
            Self::Written(timestamp) => Some(timestamp),
            Self::Bound(at) => match values.nth(at)? {
                Value::Bytes(bytes) => Some(i64::from_be_bytes(bytes.try_into().ok()?)),
                _ => None,
            },
        }
    }
}

/// The pattern of all executions of unknown prepared statements.
pub(crate) const UNKNOWN_PREPARED: PatternId = PatternId(1);
