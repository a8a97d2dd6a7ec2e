//! Plans: what a statement does under a schema, compiled once, and which partitions an execution of it touches.
//!
//! A [`Plan`] mirrors what Cassandra 5.0 decides when it prepares a statement (`StatementRestrictions`,
//! `SelectStatement`, `ModificationStatement`, `BatchStatement`). [`Plan::footprint`] then does what Cassandra does with
//! the bound values. Plans hold no values and no text, and know neither connections nor windows.
//!
//! ```text
//! ast::Statement ─┐
//! Schema ─────────┴─> Plan ── facts, flags, tables, refusal
//!                      │ + Values
//!                      └─────> Footprint, Keys
//! ```

mod batch;
mod batch_sum;
mod cells;
mod clustering;
mod compile;
mod facts;
mod flag;
mod foreseen;
mod index;
mod json;
mod keys;
mod kind;
mod markers;
mod modification;
mod prepared;
mod refusal;
mod restriction;
mod restrictions;
mod rows;
mod select;
mod selector;
mod term;
#[cfg(test)]
mod tests;
mod token;
mod value;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use crate::syntax::ast::{
    BindMarker, Body, Comparand, Insert, InsertSource, Kind, Modification, QualifiedName, RelationOperator,
    Select, Statement, Subject, Term as AstTerm, Using, Where,
};
use crate::syntax::{Work, cut_name};
use cqlens_proto::message::Values;
use cqlens_proto::types::CqlType;

pub use batch_sum::BatchSum;
pub use facts::{DeleteKind, Facts, SchemaFacts};
pub use flag::Flag;
pub use kind::StatementKind;
pub use markers::Markers;
pub use refusal::{Refusal, Stage};

use crate::cells::Cells;
use crate::footprint::{Count, Footprint, Keys};
use crate::schema::{Keyspace, Schema, Table, is_virtual};
use crate::{
    footprint::{PartitionClass, Reason},
    schema::TableName,
};
use cells::MaybeCells;
use clustering::RowCheck;
use json::JsonKey;
use keys::{Counted, KeyPlan};
use restriction::Translator;
use restrictions::Restrictions;
use term::{Fault, Term};
use token::TokenRange;

/// What a statement does, compiled once for all its executions.
#[derive(Debug, Clone)]
pub struct Plan {
    facts: Facts,
    /// The tables that are read or written, in the order of the text, and by how many statements.
    tables: Vec<(Arc<TableName>, u32)>,
    shape: Shape,
}

/// How the partitions of an execution are found.
#[derive(Debug, Clone)]
#[allow(
    clippy::large_enum_variant,
    reason = "plans are kept behind pointers, one for each statement"
)]
enum Shape {
    Read(ReadPlan),
    Write(WritePlan),
    Batch(batch::BatchPlan),
    /// Not to be found, and why; a refusal goes with it where Cassandra would refuse the statement.
    Unknown(Reason, Option<Refusal>),
}

/// A `SELECT`.
#[derive(Debug, Clone)]
struct ReadPlan {
    reads: Reads,
    limit: Option<Term>,
    per_partition_limit: Option<Term>,
    cells: MaybeCells,
}

/// What a `SELECT` reads.
#[derive(Debug, Clone)]
enum Reads {
    /// Partitions that are named.
    Keys {
        keys: KeyPlan,
        row_check: Option<RowCheck>,
    },
    /// The ring, or a part of it.
    Range {
        token: Option<TokenRange>,
        by_index: bool,
        row_check: Option<RowCheck>,
    },
}

/// An `INSERT`, `UPDATE` or `DELETE`.
#[derive(Debug, Clone)]
struct WritePlan {
    writes: Writes,
    /// Which rows are named, where these can be none.
    row_check: Option<RowCheck>,
    /// The refusal of several partitions where a condition allows only one.
    conditional_in: Option<&'static str>,
    /// Deletes some columns of rows that are not named one by one: refused as soon as there is a partition.
    deletes_columns_of_range: bool,
    /// What is refused when executed, whatever is bound.
    refusal: Option<Refusal>,
    cells: MaybeCells,
}

#[derive(Debug, Clone)]
enum Writes {
    Keys(KeyPlan),
    Json(JsonKey),
    /// One partition, by a statement on a table that no schema describes: which, only the server knows.
    Unnamed,
}

/// What an execution does, beside its partitions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Limits {
    /// Rows of the whole read; none if there is no limit.
    pub limit: Option<i32>,
    /// Rows of each partition; none if there is no limit.
    pub per_partition_limit: Option<i32>,
}

impl Plan {
    /// Plans a statement whose unqualified names are `keyspace`'s.
    ///
    /// A statement that Cassandra would refuse has a plan too: one with a [`Plan::refusal`].
    pub fn of(statement: &Statement<'_>, keyspace: Option<&str>, schema: &Schema) -> Self {
        Self::of_within(statement, keyspace, schema, &Work::of_len(statement.span.len()))
    }

    /// As [`Plan::of`], with the steps taken from `work`: a statement that takes more than are left is not counted, for
    /// [`Reason::StatementTooComplex`].
    pub fn of_within(
        statement: &Statement<'_>,
        keyspace: Option<&str>,
        schema: &Schema,
        work: &Work,
    ) -> Self {
        let text = TextFacts {
            statement,
            keyspace,
            work,
        };
        match &statement.body {
            Body::Select(select) => {
                let facts = text.of_select(select);
                let key_text = KeyText::Where(&select.where_clause);
                text.of_table(facts, &select.table, key_text, schema, |target| {
                    select::plan(select, target).map(|(facts, plan)| (facts, Shape::Read(plan)))
                })
            }
            // A modification of its own is one of a batch of one.
            Body::Insert(insert) => text.of_modification(&Modification::Insert(insert.clone()), schema),
            Body::Update(update) => text.of_modification(&Modification::Update(update.clone()), schema),
            Body::Delete(delete) => text.of_modification(&Modification::Delete(delete.clone()), schema),
            Body::Batch(batch) => batch::plan(&text, batch, schema),
            Body::Truncate(truncate) => {
                let facts = text.of_other();
                let found = find(&truncate.table, &text, schema, &facts);
                let refusal = found.err().and_then(|(_, refusal)| refusal);
                let refusal = refusal.map(|refusal| Refusal {
                    stage: Stage::Validate,
                    ..refusal
                });
                Self::unknown(facts, Vec::new(), Reason::NotApplicable, refusal)
            }
            _ => Self::unknown(text.of_other(), Vec::new(), Reason::NotApplicable, None),
        }
    }

    /// What the text and the schema say.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Whether the schema has the tables of the statement; see [`Plan::without_schema`] for those that it has not.
    pub fn is_known(&self) -> bool {
        !matches!(
            self.shape,
            Shape::Unknown(Reason::TableUnknown | Reason::KeyspaceUnknown, _)
        )
    }

    /// The properties that patterns carry.
    pub fn flags(&self) -> BTreeSet<Flag> {
        self.facts.flags().collect()
    }

    /// The tables and views that are read or written, each once, and how many statements (of a batch) do; empty where
    /// neither schema nor server names them.
    pub fn tables(&self) -> &[(Arc<TableName>, u32)] {
        &self.tables
    }

    /// Why Cassandra would refuse the statement whatever is bound to it, as far as that is foreseen.
    pub fn refusal(&self) -> Option<&Refusal> {
        match &self.shape {
            Shape::Unknown(_, refusal) => refusal.as_ref(),
            Shape::Batch(batch) => batch.refusal(),
            Shape::Write(write) => write.refusal.as_ref(),
            Shape::Read(_) => None,
        }
    }

    /// The partitions of one execution; the keys that are known are pushed to `keys`, which must be clear.
    ///
    /// Nothing is allocated for a statement whose partition key is bound to markers one by one, once `keys` has been
    /// used before.
    #[inline]
    pub fn footprint(&self, values: &Values<'_>, keys: &mut Keys) -> Footprint {
        if let Some(plan) = self.only_keys()
            && let Some(pushed) = plan.push_bound(values, keys)
        {
            return Footprint {
                count: Count::Exact(1),
                keys_missing: keys::overflow(pushed),
            };
        }
        self.execute(Some(values), keys)
            .unwrap_or_else(|refusal| Footprint::unknown(refusal.reason))
    }

    /// The keys of a statement of which nothing else is to be looked at.
    #[inline]
    fn only_keys(&self) -> Option<&KeyPlan> {
        match &self.shape {
            Shape::Read(ReadPlan {
                reads:
                    Reads::Keys {
                        keys,
                        row_check: None,
                    },
                limit: None,
                per_partition_limit: None,
                ..
            }) => Some(keys),
            Shape::Write(WritePlan {
                writes: Writes::Keys(keys),
                row_check: None,
                conditional_in: None,
                deletes_columns_of_range: false,
                refusal: None,
                ..
            }) => Some(keys),
            _ => None,
        }
    }

    /// As [`Plan::footprint`], but says why Cassandra would refuse the execution; `values` are none where nothing was
    /// bound (a PREPARE).
    ///
    /// # Errors
    ///
    /// The refusal of the statement, or of what is bound to it.
    pub fn execute(&self, values: Option<&Values<'_>>, keys: &mut Keys) -> Result<Footprint, Refusal> {
        if let Some(refusal) = self.refusal() {
            return Err(refusal.clone());
        }
        let mut offsets = Vec::new();
        let values = values.map(|values| indexed(values, &mut offsets));
        let values = values.as_ref();
        // What was only prepared touches nothing, whatever its text says.
        if values.is_none() && self.facts.bind_markers > 0 {
            return Ok(Footprint::unknown(Reason::Unbound));
        }
        self.touch(values, keys).map(Touched::footprint)
    }

    /// What every execution touches, as far as that does not depend on what is bound: `WHERE k = ?` is one partition,
    /// `k IN ?` may be any number.
    pub fn class(&self) -> PartitionClass {
        let of_keys = |plan: &KeyPlan| {
            if plan.is_one() {
                PartitionClass::Single
            } else {
                PartitionClass::Multi
            }
        };
        match &self.shape {
            _ if self.refusal().is_some() => PartitionClass::Unknown,
            Shape::Read(ReadPlan {
                reads: Reads::Keys { keys, .. },
                ..
            }) => of_keys(keys),
            Shape::Read(ReadPlan {
                reads: Reads::Range { by_index: true, .. },
                ..
            }) => PartitionClass::Index,
            Shape::Read(ReadPlan {
                reads: Reads::Range { token: Some(_), .. },
                ..
            }) => PartitionClass::TokenRange,
            Shape::Read(ReadPlan {
                reads: Reads::Range { .. },
                ..
            }) => PartitionClass::Scan,
            Shape::Write(WritePlan {
                writes: Writes::Keys(keys),
                ..
            }) => of_keys(keys),
            Shape::Write(WritePlan {
                writes: Writes::Json(_) | Writes::Unnamed,
                ..
            }) => PartitionClass::Single,
            Shape::Batch(_) | Shape::Unknown(..) => PartitionClass::Unknown,
        }
    }

    /// Between which tokens an execution reads the ring: above the first one, up to and with the second one. None where
    /// it is not restricted by `token()`, reads nothing, or the tokens are not known.
    pub fn token_range(&self, values: &Values<'_>) -> Option<(i64, i64)> {
        let Shape::Read(ReadPlan {
            reads: Reads::Range {
                token: Some(token), ..
            },
            ..
        }) = &self.shape
        else {
            return None;
        };
        let span = token.evaluate(Some(values)).ok()?;
        (!span.is_empty()).then(|| span.tokens())
    }

    /// The limits of an execution of a `SELECT`.
    ///
    /// # Errors
    ///
    /// A limit that is not positive, or nothing bound where it is a marker.
    pub fn limits(&self, values: Option<&Values<'_>>) -> Result<Limits, Refusal> {
        let Shape::Read(ReadPlan {
            limit,
            per_partition_limit,
            ..
        }) = &self.shape
        else {
            return Ok(Limits::default());
        };
        let evaluate = |term: &Option<Term>| select::limit_of(term.as_ref(), values).map_err(Refusal::from);
        Ok(Limits {
            limit: evaluate(limit)?,
            per_partition_limit: evaluate(per_partition_limit)?,
        })
    }

    /// Adds to `cells` what an execution tells of rows and of columns that have an index, nothing for most statements.
    #[inline]
    pub fn note_cells(&self, values: &Values<'_>, cells: &mut Cells) {
        match &self.shape {
            Shape::Read(ReadPlan { cells: None, .. })
            | Shape::Write(WritePlan { cells: None, .. })
            | Shape::Unknown(..) => {}
            shape => shape.note_cells(&indexed(values, &mut Vec::new()), cells),
        }
    }

    /// Adds the keys of one execution to those of others.
    fn touch(&self, values: Option<&Values<'_>>, keys: &mut Keys) -> Result<Touched, Refusal> {
        match &self.shape {
            Shape::Unknown(_, Some(refusal)) => Err(refusal.clone()),
            Shape::Unknown(reason, None) => Ok(Touched::Unknown(*reason)),
            Shape::Read(plan) => self.read(plan, values, keys),
            Shape::Write(plan) => plan.touch(values, keys),
            Shape::Batch(batch) => batch.touch(values, keys),
        }
    }

    fn read(
        &self,
        plan: &ReadPlan,
        values: Option<&Values<'_>>,
        keys: &mut Keys,
    ) -> Result<Touched, Refusal> {
        if plan.limit.is_some() || plan.per_partition_limit.is_some() {
            match self.limits(values) {
                Err(refusal) if refusal.reason != Reason::Unbound => return Err(refusal),
                _ => {}
            }
        }
        match &plan.reads {
            Reads::Keys {
                keys: plan,
                row_check,
            } => {
                let counted = plan.count(values, keys);
                let is_empty_key =
                    matches!(&counted, Err(Fault::Refused(_, message)) if message == keys::EMPTY_KEY);
                match row_check {
                    Some(check) if (counted.is_ok() || is_empty_key) && check.is_impossible(values) => {
                        keys.clear();
                        Ok(check.without_rows())
                    }
                    _ => Touched::of(counted),
                }
            }
            Reads::Range { row_check, .. }
                if row_check
                    .as_ref()
                    .is_some_and(|check| check.is_impossible(values)) =>
            {
                Ok(Touched::Counted(Counted::default()))
            }
            Reads::Range {
                token: None,
                by_index: true,
                ..
            } => Ok(Touched::Index),
            Reads::Range { token: None, .. } => Ok(Touched::Scan),
            Reads::Range {
                token: Some(token),
                by_index,
                ..
            } => match token.evaluate(values) {
                Ok(span) if span.is_empty() => Ok(Touched::Counted(Counted::default())),
                Ok(_) if *by_index => Ok(Touched::Index),
                Ok(span) => Ok(Touched::TokenRange(span.share())),
                Err(Fault::Generated(_) | Fault::NotFollowed) if token.is_above_all(values) => {
                    Ok(Touched::Counted(Counted::default()))
                }
                Err(Fault::Generated(_) | Fault::NotFollowed) => Ok(Touched::TokenRange(1.0)),
                Err(fault) => Touched::of(Err(fault)),
            },
        }
    }

    fn too_complex(facts: Facts, tables: Vec<(Arc<TableName>, u32)>) -> Self {
        Self::unknown(facts, tables, Reason::StatementTooComplex, None)
    }

    fn unknown(
        facts: Facts,
        tables: Vec<(Arc<TableName>, u32)>,
        reason: Reason,
        refusal: Option<Refusal>,
    ) -> Self {
        Self {
            facts,
            tables,
            shape: Shape::Unknown(reason, refusal),
        }
    }
}

impl Shape {
    fn note_cells(&self, values: &Values<'_>, cells: &mut Cells) {
        match self {
            Self::Read(plan) => plan.cells.iter().for_each(|plan| plan.note(values, cells)),
            Self::Write(plan) if plan.refusal.is_none() => {
                plan.cells.iter().for_each(|plan| plan.note(values, cells));
            }
            Self::Batch(batch) => batch.note_cells(values, cells),
            Self::Write(_) | Self::Unknown(..) => {}
        }
    }
}

impl WritePlan {
    fn touch(&self, values: Option<&Values<'_>>, keys: &mut Keys) -> Result<Touched, Refusal> {
        if let Some(refusal) = &self.refusal {
            return Err(refusal.clone());
        }
        let count = |keys: &mut Keys| match &self.writes {
            Writes::Keys(plan) => plan.count(values, keys),
            Writes::Json(key) => key.count(values, keys),
            Writes::Unnamed => Ok(Counted {
                named: 1,
                incomplete: Some(Reason::SchemaUnknown),
                ..Counted::default()
            }),
        };
        let touched = match &self.row_check {
            Some(check) if check.is_impossible(values) => {
                // The keys are checked all the same; the buffer may hold those of a batch's other statements.
                Touched::of(count(&mut Keys::new()))?;
                check.without_rows()
            }
            _ => Touched::of(count(keys))?,
        };
        if self.deletes_columns_of_range && matches!(touched, Touched::Counted(Counted { named: 1.., .. })) {
            let message = "Range deletions are not supported for specific columns";
            return Err(Refusal::bind(Reason::InvalidStatement, message));
        }
        match (self.conditional_in, &touched) {
            (Some(_), Touched::Unknown(_)) | (None, _) => Ok(touched),
            (Some(message), _) => Err(Refusal::bind(Reason::InvalidStatement, message)),
        }
    }
}

/// What an execution touches, its keys being in a buffer that may hold those of others too.
#[derive(Debug, Clone, Copy)]
enum Touched {
    Counted(Counted),
    Scan,
    TokenRange(f64),
    Index,
    Unknown(Reason),
}

impl Touched {
    fn of(counted: Result<Counted, Fault>) -> Result<Self, Refusal> {
        match counted {
            Ok(counted) => Ok(Self::Counted(counted)),
            Err(fault @ Fault::Refused(..)) => Err(fault.into()),
            Err(fault) => Ok(Self::Unknown(fault.reason())),
        }
    }

    fn footprint(self) -> Footprint {
        let count = match self {
            Self::Counted(Counted {
                named,
                is_bound: true,
                incomplete,
                ..
            }) => Count::AtLeast(named, incomplete.unwrap_or(Reason::FunctionValue)),
            Self::Counted(Counted { named, .. }) => Count::Exact(named),
            Self::Scan => Count::Scan,
            Self::TokenRange(share) => Count::TokenRange { share },
            Self::Index => Count::Index,
            Self::Unknown(reason) => return Footprint::unknown(reason),
        };
        let keys_missing = match self {
            Self::Counted(counted) => counted.incomplete,
            _ => None,
        };
        Footprint { count, keys_missing }
    }
}

impl From<Fault> for Refusal {
    fn from(fault: Fault) -> Self {
        let reason = fault.reason();
        match fault {
            Fault::Refused(_, message) => Self::bind(reason, message),
            Fault::Unbound => Self::bind(reason, "nothing is bound"),
            Fault::Generated(_) | Fault::NotFollowed => Self::bind(reason, "computed by the server"),
        }
    }
}

/// A table that a statement reads or writes, found in the schema.
struct Target<'s> {
    keyspace: &'s Keyspace,
    table: &'s Table,
    name: Arc<TableName>,
    /// The types of its partition key, in order.
    key_types: Vec<CqlType>,
    /// The type of its tokens.
    token_type: CqlType,
    key_markers: KeyMarkers,
    work: &'s Work,
}

/// Markers that are values of partition key columns, by column.
type KeyMarkers = Vec<(String, usize)>;

impl<'s> Target<'s> {
    fn translator(&'s self) -> Translator<'s> {
        Translator {
            table: self.table,
            keyspace: self.keyspace,
            compiler: self.compiler(),
        }
    }

    /// What restrictions say by themselves.
    fn facts(&self, restrictions: &Restrictions<'_>) -> SchemaFacts {
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
            ..SchemaFacts::default()
        }
    }
}

/// What the text alone says of a statement.
struct TextFacts<'t, 'a> {
    statement: &'t Statement<'a>,
    keyspace: Option<&'t str>,
    /// What planning may cost.
    work: &'t Work,
}

impl TextFacts<'_, '_> {
    fn of_table(
        &self,
        facts: Facts,
        name: &QualifiedName<'_>,
        key_text: KeyText<'_, '_>,
        schema: &Schema,
        plan: impl FnOnce(&Target<'_>) -> Result<(SchemaFacts, Shape), Refusal>,
    ) -> Plan {
        if self.work.is_exhausted() {
            return Plan::too_complex(facts, Vec::new());
        }
        let target = match find(name, self, schema, &facts) {
            Ok(target) => target,
            Err((reason, refusal)) => return Plan::unknown(facts, Vec::new(), reason, refusal),
        };
        let target = Target {
            key_markers: key_text.markers(target.table),
            ..target
        };
        let tables = vec![(Arc::clone(&target.name), 1)];
        let planned = plan(&target);
        // What was decided without looking at all of it may be wrong.
        if self.work.is_exhausted() {
            return Plan::too_complex(facts, tables);
        }
        match planned {
            Ok((schema_facts, shape)) => Plan {
                facts: Facts {
                    schema: Some(schema_facts),
                    ..facts
                },
                tables,
                shape,
            },
            Err(refusal) => Plan::unknown(facts, tables, refusal.reason, Some(refusal)),
        }
    }

    fn of_modification(&self, modification: &Modification<'_>, schema: &Schema) -> Plan {
        let facts = self.facts_of_modification(modification);
        self.of_table(
            facts,
            modification.table(),
            modification.into(),
            schema,
            |target| {
                let (facts, plan) = match modification {
                    Modification::Insert(insert) => modification::insert(insert, target)?,
                    Modification::Update(update) => modification::update(update, target)?,
                    Modification::Delete(delete) => modification::delete(delete, target)?,
                };
                Ok((facts, Shape::Write(plan)))
            },
        )
    }

    fn named(&self, name: &QualifiedName<'_>) -> Facts {
        Facts {
            keyspace: name.keyspace_or(self.keyspace).map(kept),
            table: Some(kept(name.name.as_str())),
            ..Facts::new(self.statement.kind(), self.statement.bind_markers.len())
        }
    }

    fn of_select(&self, select: &Select<'_>) -> Facts {
        Facts {
            allow_filtering: select.allow_filtering,
            distinct: select.distinct,
            json: select.json,
            select_star: select::is_star(select),
            has_limit: select.limit.is_some(),
            groups: !select.group_by.is_empty(),
            ..self.named(&select.table)
        }
    }

    fn facts_of_modification(&self, modification: &Modification<'_>) -> Facts {
        let facts = self.named(modification.table());
        let (kind, using, lwt): (_, &Using<'_>, bool) = match modification {
            Modification::Insert(insert) => (Kind::Insert, &insert.using, insert.if_not_exists),
            Modification::Update(update) => (Kind::Update, &update.using, update.condition.is_some()),
            Modification::Delete(delete) => (Kind::Delete, &delete.using, delete.condition.is_some()),
        };
        let json = matches!(
            modification,
            Modification::Insert(insert)
                if matches!(insert.source, InsertSource::Json { .. })
        );
        Facts {
            kind,
            json,
            lwt,
            timestamp_set: using.timestamp.is_some(),
            ttl_set: using.ttl.is_some(),
            ..facts
        }
    }

    /// Names of everything that is neither read nor written.
    fn of_other(&self) -> Facts {
        let facts = Facts::new(self.statement.kind(), self.statement.bind_markers.len());
        let name = match &self.statement.body {
            Body::Use(using) => {
                return Facts {
                    keyspace: Some(kept(using.keyspace.as_str())),
                    ..facts
                };
            }
            Body::Truncate(truncate) => &truncate.table,
            Body::CreateTable(create) => &create.table,
            Body::AlterTable(alter) => &alter.table,
            Body::CreateView(create) => &create.view,
            Body::AlterView(alter) => &alter.view,
            Body::CreateIndex(create) => &create.table,
            Body::Drop(drop) if facts.kind == Kind::DropTable => &drop.name,
            Body::Drop(drop) if facts.kind == Kind::DropView => &drop.name,
            Body::Drop(drop) if facts.kind == Kind::DropKeyspace => {
                return Facts {
                    keyspace: Some(kept(drop.name.name.as_str())),
                    ..facts
                };
            }
            Body::CreateKeyspace(create) => {
                return Facts {
                    keyspace: Some(kept(create.name.as_str())),
                    ..facts
                };
            }
            Body::AlterKeyspace(alter) => {
                return Facts {
                    keyspace: Some(kept(alter.name.as_str())),
                    ..facts
                };
            }
            _ => {
                return Facts {
                    keyspace: self.keyspace.map(kept),
                    ..facts
                };
            }
        };
        Facts {
            kind: facts.kind,
            ..self.named(name)
        }
    }
}

/// More values than that are looked up in an index, which is worth while for so many.
const MANY_VALUES: usize = 64;

/// The same values, with an index where there are many.
fn indexed<'v>(values: &Values<'v>, offsets: &'v mut Vec<u32>) -> Values<'v> {
    if values.len() <= MANY_VALUES || values.has_index() {
        return *values;
    }
    *offsets = values.offsets();
    values.with_index(offsets)
}

/// A name as it is kept, whatever its length; no schema has one that is cut off.
fn kept(name: &str) -> String {
    cut_name(name).into_owned()
}

/// Tables in the order of their first appearance, with the sums of their counts.
pub fn summed<'t>(all: impl Iterator<Item = &'t (Arc<TableName>, u32)>) -> Vec<(Arc<TableName>, u32)> {
    let mut sums: Vec<(Arc<TableName>, u32)> = Vec::new();
    // Of a batch on thousands of tables each is looked for thousands of times.
    let mut places: HashMap<&TableName, usize> = HashMap::new();
    for (table, count) in all {
        let place = *places.entry(table).or_insert(sums.len());
        match sums.get_mut(place) {
            Some((_, sum)) => *sum += count,
            None => sums.push((Arc::clone(table), *count)),
        }
    }
    sums
}

/// The table of a name, or why it is not there.
fn find<'s>(
    name: &QualifiedName<'_>,
    text: &TextFacts<'s, '_>,
    schema: &'s Schema,
    facts: &Facts,
) -> Result<Target<'s>, (Reason, Option<Refusal>)> {
    let refuse = |reason: Reason, message: String| {
        let refusal = Refusal {
            reason,
            ..Refusal::at(message, name.span())
        };
        Err((reason, Some(refusal)))
    };
    let Some(keyspace_name) = facts.keyspace.as_deref() else {
        let message =
            "No keyspace has been specified. USE a keyspace, or explicitly specify keyspace.tablename";
        return refuse(Reason::KeyspaceUnknown, message.to_owned());
    };
    let table_name = facts.table.as_deref().unwrap_or_default();
    let Some(keyspace) = schema.keyspace(keyspace_name) else {
        return refuse(
            Reason::TableUnknown,
            format!("keyspace {keyspace_name} does not exist"),
        );
    };
    let Some(table) = keyspace.tables.get(table_name) else {
        return refuse(Reason::TableUnknown, format!("table {table_name} does not exist"));
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
        work: text.work,
    })
}

/// The part of a statement that says which partition.
#[derive(Clone, Copy)]
enum KeyText<'t, 'a> {
    Where(&'t Where<'a>),
    Insert(&'t Insert<'a>),
}

impl KeyText<'_, '_> {
    /// The markers that are compared with, or assigned to, a partition key column:
    /// `VariableSpecifications.getPartitionKeyBindVariableIndexes`.
    fn markers(self, table: &Table) -> KeyMarkers {
        let mut markers = Vec::new();
        let mut note = |column: &str, term: &AstTerm<'_>| {
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
fn note_where(clause: &Where<'_>, note: &mut impl FnMut(&str, &AstTerm<'_>)) {
    for relation in &clause.relations {
        let Subject::Column(column) = &relation.subject else {
            continue;
        };
        match (&relation.operator, &relation.comparand) {
            (RelationOperator::Contains | RelationOperator::ContainsKey, _) => {}
            (_, Comparand::One(term)) => note(column.as_str(), term),
            (_, Comparand::List(terms)) => terms.iter().for_each(|term| note(column.as_str(), term)),
            _ => {}
        }
    }
}

/// Reports every value that an `INSERT` gives a column.
fn note_insert(insert: &Insert<'_>, note: &mut impl FnMut(&str, &AstTerm<'_>)) {
    if let InsertSource::Values { columns, values } = &insert.source {
        for (column, value) in columns.iter().zip(values) {
            note(column.as_str(), value);
        }
    }
}

/// One marker for each partition key column, or none at all; of several the last one counts.
fn markers_in_key_order(table: &Table, markers: &[(String, usize)]) -> Option<Vec<usize>> {
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
fn direct_marker<'t, 'a>(term: &'t AstTerm<'a>) -> Option<&'t BindMarker<'a>> {
    match term {
        AstTerm::BindMarker(marker) => Some(marker),
        AstTerm::TypeHint { term, .. } => direct_marker(term),
        AstTerm::Tuple { items, .. } if items.len() == 1 => direct_marker(&items[0]),
        _ => None,
    }
}
