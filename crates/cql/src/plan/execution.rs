//! Executions: what a plan touches once values are bound.

use crate::cells::Cells;
use crate::footprint::{Count, Footprint, Keys, Reason};
use cqlens_proto::message::Values;

use super::batch_sum::BatchSum;
use super::checks;
use super::keys::{self, Counted, KeyPlan};
use super::limits::{self, ReadLimits};
use super::refusal::Refusal;
use super::shape::{BatchPlan, Plan, ReadPlan, Reads, Shape, WritePlan, Writes};
use super::term::{CompiledTerm, Fault};
use super::touched::Touched;

impl Plan {
    /// How many values of its clustering columns a read lists with `IN`, the lists of several columns multiplied:
    /// so many rows, or slices of rows, are looked up in each partition. None without such a list.
    #[inline]
    pub fn listed_rows(&self, values: &Values<'_>) -> Option<u64> {
        let Shape::Read(read) = &self.shape else {
            return None;
        };
        let (Reads::Keys { row_check, .. } | Reads::Range { row_check, .. }) = &read.reads;
        row_check.as_ref()?.listed(values)
    }

    /// The columns that an `INSERT … JSON` deletes: that its document sets to null or, unless it says
    /// `DEFAULT UNSET`, does not name. Empty for all other statements.
    pub fn json_nulls(&self, values: &Values<'_>) -> Vec<&str> {
        match &self.shape {
            Shape::Write(WritePlan {
                writes: Writes::Json(key),
                ..
            }) => key.nulls(values),
            _ => Vec::new(),
        }
    }

    /// The partitions of one execution; the keys that are known are pushed to `keys`, which must be clear.
    ///
    /// Nothing is allocated for a statement whose partition key is bound to markers one by one, once `keys`
    /// has been used before.
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
                refusal: None,
                filters,
                ..
            }) if filters.is_empty() => Some(keys),
            Shape::Write(WritePlan {
                writes: Writes::Keys(keys),
                row_check: None,
                checks,
                conditional_in: None,
                deletes_columns_of_range: false,
                refusal: None,
                ..
            }) if checks.is_empty() => Some(keys),
            _ => None,
        }
    }

    /// As [`Plan::footprint`], but says why Cassandra would refuse the execution; `values` are none where
    /// nothing was bound (a PREPARE).
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

    /// Between which tokens an execution reads the ring: above the first one, up to and with the second one.
    /// None where it is not restricted by `token()`, reads nothing, or the tokens are not known.
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
    pub fn limits(&self, values: Option<&Values<'_>>) -> Result<ReadLimits, Refusal> {
        let Shape::Read(ReadPlan {
            limit,
            per_partition_limit,
            ..
        }) = &self.shape
        else {
            return Ok(ReadLimits::default());
        };
        let evaluate =
            |term: &Option<CompiledTerm>| limits::evaluate(term.as_ref(), values).map_err(Refusal::from);
        Ok(ReadLimits {
            limit: evaluate(limit)?,
            per_partition_limit: evaluate(per_partition_limit)?,
        })
    }

    /// Adds to `cells` what an execution tells of rows and of columns that have an index, nothing for most
    /// statements.
    #[inline]
    pub fn note_cells(&self, values: &Values<'_>, cells: &mut Cells) {
        match &self.shape {
            Shape::Read(ReadPlan { cells: None, .. })
            | Shape::Write(WritePlan { cells: None, .. })
            | Shape::Unknown(..) => {}
            shape => shape.note_cells(values, cells),
        }
    }

    /// Adds the keys of one execution to those of others.
    pub(super) fn touch(&self, values: Option<&Values<'_>>, keys: &mut Keys) -> Result<Touched, Refusal> {
        match &self.shape {
            Shape::Unknown(_, Some(refusal)) => Err(refusal.clone()),
            Shape::Unknown(reason, None) => Ok(Touched::Unknown(*reason)),
            Shape::Read(plan) => self.read(plan, values, keys),
            Shape::Write(plan) => plan.touch(values, keys),
            Shape::Batch(batch) => batch.touch(values, keys),
            Shape::Transaction(transaction) => transaction.touch(values, keys),
        }
    }

    fn read(
        &self,
        plan: &ReadPlan,
        values: Option<&Values<'_>>,
        keys: &mut Keys,
    ) -> Result<Touched, Refusal> {
        plan.filters.iter().try_for_each(|filter| filter.check(values))?;
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
}

impl Shape {
    #[inline(never)]
    fn note_cells(&self, values: &Values<'_>, cells: &mut Cells) {
        let mut index = Vec::new();
        let values = &indexed(values, &mut index);
        match self {
            Self::Read(plan) => plan.cells.iter().for_each(|plan| plan.note(values, cells)),
            Self::Write(plan) if plan.refusal.is_none() => {
                plan.cells.iter().for_each(|plan| plan.note(values, cells));
            }
            Self::Batch(batch) => batch.note_cells(values, cells),
            Self::Transaction(transaction) if transaction.refusal.is_none() => {
                transaction
                    .children()
                    .for_each(|child| child.note_cells(values, cells));
            }
            Self::Write(_) | Self::Transaction(_) | Self::Unknown(..) => {}
        }
    }
}
impl WritePlan {
    fn touch(&self, values: Option<&Values<'_>>, keys: &mut Keys) -> Result<Touched, Refusal> {
        if let Some(refusal) = &self.refusal {
            return Err(refusal.clone());
        }
        self.checks.iter().try_for_each(|checked| checked.check(values))?;
        if let (Writes::Json(document), Some(values)) = (&self.writes, values)
            && let Some(column) = document.violation(values)
        {
            return Err(checks::null_of(column));
        }
        let touched = match &self.row_check {
            Some(check) if check.is_impossible(values) => {
                // The keys are checked all the same; the buffer may hold those of a batch's other statements.
                Touched::of(self.writes.count(values, &mut Keys::new()))?;
                check.without_rows()
            }
            _ => Touched::of(self.writes.count(values, keys))?,
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

impl Writes {
    /// Pushes the keys of one execution.
    pub(super) fn count(&self, values: Option<&Values<'_>>, keys: &mut Keys) -> Result<Counted, Fault> {
        match self {
            Self::Keys(plan) => plan.count(values, keys),
            Self::Json(key) => key.count(values, keys),
            Self::Unnamed => Ok(Counted {
                named: 1,
                incomplete: Some(Reason::SchemaUnknown),
                ..Counted::default()
            }),
        }
    }
}

impl BatchPlan {
    /// What each statement tells of rows and of columns that have an index.
    fn note_cells(&self, values: &Values<'_>, cells: &mut Cells) {
        if self.refusal.is_none() {
            self.children
                .iter()
                .for_each(|child| child.note_cells(values, cells));
        }
    }

    /// All statements of a batch in text share the batch's values.
    fn touch(&self, values: Option<&Values<'_>>, keys: &mut Keys) -> Result<Touched, Refusal> {
        if let Some(refusal) = &self.refusal {
            return Err(refusal.clone());
        }
        let mut sum = BatchSum::new(self.kind);
        for child in &self.children {
            sum.add(child, values, keys)?;
        }
        sum.touched(keys)
    }
}

impl BatchSum {
    /// Adds a statement with its own values, none where nothing was bound.
    ///
    /// # Errors
    ///
    /// The refusal of the statement: Cassandra then refuses the batch.
    pub fn add(&mut self, plan: &Plan, values: Option<&Values<'_>>, keys: &mut Keys) -> Result<(), Refusal> {
        self.rules.add(plan)?;
        if values.is_none() && plan.facts.bind_markers > 0 && plan.refusal().is_none() {
            self.add_unknown(Reason::Unbound);
            return Ok(());
        }
        let mut offsets = Vec::new();
        // A batch in text has one list of values, which has its index.
        let values = values.map(|values| indexed(values, &mut offsets));
        self.add_touched(plan.touch(values.as_ref(), keys)?);
        Ok(())
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
