//! What a SELECT makes of the rows that it reads: columns, functions of them, and aggregates.

use bytes::Bytes;
use cqlens_cql::syntax::ast::{FunctionCall, MetadataFunction, Selection, Selector, Term};
use cqlens_proto::types::CqlType;

use crate::answer::ResultColumn;
use crate::bind;
use crate::execution::Execution;
use crate::failure::Failure;
use crate::function::{Conversion, long};
use crate::layout::{Layout, RowView};
use crate::store::{PartitionId, order};

/// The selected expressions and the columns that they make.
#[derive(Debug)]
pub(crate) struct Projection {
    /// The columns of the result.
    pub(crate) columns: Vec<ResultColumn>,
    expressions: Vec<SelectExpression>,
}

#[derive(Debug)]
enum SelectExpression {
    Column(usize),
    Constant(Bytes),
    Token,
    Metadata(MetadataFunction, usize),
    Conversion(Conversion, Box<SelectExpression>, CqlType),
    /// `count(*)`, or `count(column)`: rows in which it is not null.
    Count(Option<Box<SelectExpression>>),
    Aggregate(Aggregate, Box<SelectExpression>, CqlType),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Aggregate {
    Min,
    Max,
    Sum,
    Average,
}

impl Aggregate {
    /// The aggregate of a name in lower case, over values of a type.
    fn of(name: &str, of: &CqlType) -> Result<Aggregate, Failure> {
        let aggregate = match name {
            "min" => Aggregate::Min,
            "max" => Aggregate::Max,
            "sum" => Aggregate::Sum,
            "avg" => Aggregate::Average,
            _ => return Err(Failure::invalid(format!("Unknown function '{name}'"))),
        };
        let is_number = matches!(
            of,
            CqlType::TinyInt
                | CqlType::SmallInt
                | CqlType::Int
                | CqlType::BigInt
                | CqlType::Counter
                | CqlType::Float
                | CqlType::Double
        );
        match aggregate {
            Aggregate::Sum | Aggregate::Average if !is_number => Err(unsupported()),
            _ => Ok(aggregate),
        }
    }
}

impl Projection {
    /// Reads a selection.
    ///
    /// # Errors
    /// Columns that there are not, and expressions that this node does not compute.
    pub(crate) fn of(
        selection: &Selection<'_>,
        layout: &Layout,
        execution: &Execution<'_>,
    ) -> Result<Projection, Failure> {
        let mut projection = Projection {
            columns: Vec::new(),
            expressions: Vec::new(),
        };
        match selection {
            Selection::All => {
                for column in &layout.columns {
                    projection
                        .columns
                        .push(layout.result_column(&column.name, &column.cql_type));
                    projection
                        .expressions
                        .push(SelectExpression::Column(column.index));
                }
            }
            Selection::Selectors(selectors) => {
                for selector in selectors {
                    projection.push(selector, layout, execution)?;
                }
            }
        }
        Ok(projection)
    }

    fn push(
        &mut self,
        selector: &Selector<'_>,
        layout: &Layout,
        execution: &Execution<'_>,
    ) -> Result<(), Failure> {
        let (expression, name, cql_type) = SelectExpression::of(&selector.term, layout, execution)?;
        let name = selector
            .alias
            .as_ref()
            .map_or(name, |alias| alias.as_str().to_owned());
        self.columns.push(layout.result_column(&name, &cql_type));
        self.expressions.push(expression);
        Ok(())
    }

    /// Whether all rows become one.
    pub(super) fn is_aggregate(&self) -> bool {
        self.expressions.iter().any(SelectExpression::is_aggregate)
    }

    /// The columns that are selected as they are.
    pub(super) fn plain_columns(&self) -> impl Iterator<Item = Option<usize>> {
        self.expressions.iter().map(|expression| match expression {
            SelectExpression::Column(index) => Some(*index),
            _ => None,
        })
    }

    /// A row of the result.
    pub(super) fn row(&self, row: &RowView<'_>) -> Vec<Option<Bytes>> {
        self.expressions
            .iter()
            .map(|expression| expression.value(row))
            .collect()
    }

    /// Aggregates over no rows yet.
    pub(super) fn group(&self) -> Group<'_> {
        Group {
            expressions: &self.expressions,
            states: vec![AggregateState::default(); self.expressions.len()],
        }
    }
}

impl SelectExpression {
    /// The expression of a term, the name of its column and its type.
    fn of(
        term: &Term<'_>,
        layout: &Layout,
        execution: &Execution<'_>,
    ) -> Result<(SelectExpression, String, CqlType), Failure> {
        match term {
            Term::Column(name) => {
                let column = layout.column(name.as_str())?;
                Ok((
                    SelectExpression::Column(column.index),
                    column.name.clone(),
                    column.cql_type.clone(),
                ))
            }
            Term::CountRows(_) => Ok((SelectExpression::Count(None), "count".to_owned(), CqlType::BigInt)),
            Term::Metadata { function, column, .. } => {
                let Term::Column(name) = &**column else {
                    return Err(unsupported());
                };
                let column = layout.column(name.as_str())?;
                let (label, cql_type) = match function {
                    MetadataFunction::WriteTime => ("writetime", CqlType::BigInt),
                    MetadataFunction::MaxWriteTime => ("maxwritetime", CqlType::BigInt),
                    MetadataFunction::Ttl => ("ttl", CqlType::Int),
                };
                if column.is_primary_key() {
                    return Err(Failure::invalid(format!(
                        "Cannot use selection function {label} on PRIMARY KEY part {}",
                        column.name
                    )));
                }
                let name = format!("{label}({})", column.name);
                Ok((
                    SelectExpression::Metadata(*function, column.index),
                    name,
                    cql_type,
                ))
            }
            Term::Function(call) => SelectExpression::of_call(call, layout, execution),
            Term::Tuple { items, .. } if items.len() == 1 => {
                SelectExpression::of(&items[0], layout, execution)
            }
            _ => Err(unsupported()),
        }
    }

    fn of_call(
        call: &FunctionCall<'_>,
        layout: &Layout,
        execution: &Execution<'_>,
    ) -> Result<(SelectExpression, String, CqlType), Failure> {
        let name = call.name.name.as_str().to_ascii_lowercase();
        if name == "token" {
            let columns: Vec<_> = layout
                .partition_key()
                .iter()
                .map(|column| column.name.as_str())
                .collect();
            return Ok((
                SelectExpression::Token,
                format!("system.token({})", columns.join(", ")),
                CqlType::BigInt,
            ));
        }
        let Some(argument) = call.arguments.first() else {
            let cql_type = match name.as_str() {
                "uuid" => CqlType::Uuid,
                "currenttimestamp" | "current_timestamp" => CqlType::Timestamp,
                "currentdate" | "current_date" => CqlType::Date,
                _ => CqlType::TimeUuid,
            };
            let value = bind::call(call, &cql_type, execution)?;
            return Ok((
                SelectExpression::Constant(value),
                format!("system.{name}()"),
                cql_type,
            ));
        };
        let (inner, inner_name, inner_type) = SelectExpression::of(argument, layout, execution)?;
        let label = format!("system.{name}({inner_name})");
        let inner = Box::new(inner);
        if let Some(conversion) = Conversion::of(&name) {
            let cql_type = conversion.result_type();
            return Ok((
                SelectExpression::Conversion(conversion, inner, inner_type),
                label,
                cql_type,
            ));
        }
        if name == "count" {
            return Ok((SelectExpression::Count(Some(inner)), label, CqlType::BigInt));
        }
        let aggregate = Aggregate::of(&name, &inner_type)?;
        Ok((
            SelectExpression::Aggregate(aggregate, inner, inner_type.clone()),
            label,
            inner_type,
        ))
    }

    fn is_aggregate(&self) -> bool {
        matches!(self, SelectExpression::Count(_) | SelectExpression::Aggregate(..))
    }

    fn value(&self, row: &RowView<'_>) -> Option<Bytes> {
        match self {
            SelectExpression::Column(index) => row.value(&row.layout.columns[*index]).cloned(),
            SelectExpression::Constant(value) => Some(value.clone()),
            SelectExpression::Token => PartitionId::of(&row.partition.key).map(|id| long(id.token)),
            SelectExpression::Metadata(function, index) => {
                let column = &row.layout.columns[*index];
                let cell = row
                    .cells(column)?
                    .cells
                    .get(&column.name)
                    .filter(|cell| cell.is_live(row.now))?;
                match function {
                    MetadataFunction::WriteTime | MetadataFunction::MaxWriteTime => {
                        Some(long(cell.timestamp))
                    }
                    MetadataFunction::Ttl => {
                        let left = i32::try_from(cell.expiry?.at - row.now).ok()?;
                        Some(Bytes::copy_from_slice(&left.to_be_bytes()))
                    }
                }
            }
            SelectExpression::Conversion(conversion, inner, from) => {
                conversion.apply(from, &inner.value(row)?)
            }
            SelectExpression::Count(_) | SelectExpression::Aggregate(..) => None,
        }
    }
}

/// Rows on their way to becoming one.
#[derive(Debug)]
pub(super) struct Group<'a> {
    expressions: &'a [SelectExpression],
    states: Vec<AggregateState>,
}

#[derive(Debug, Clone, Default)]
struct AggregateState {
    rows: i64,
    whole: i128,
    float: f64,
    value: Option<Bytes>,
}

impl Group<'_> {
    /// Takes a row in.
    pub(super) fn add(&mut self, row: &RowView<'_>) {
        for (expression, state) in self.expressions.iter().zip(&mut self.states) {
            state.add(expression, row);
        }
    }

    /// The one row.
    pub(super) fn finish(self) -> Vec<Option<Bytes>> {
        self.expressions
            .iter()
            .zip(self.states)
            .map(|(expression, state)| state.finish(expression))
            .collect()
    }
}

impl AggregateState {
    fn add(&mut self, expression: &SelectExpression, row: &RowView<'_>) {
        match expression {
            SelectExpression::Count(None) => self.rows += 1,
            SelectExpression::Count(Some(inner)) => self.rows += i64::from(inner.value(row).is_some()),
            SelectExpression::Aggregate(aggregate, inner, cql_type) => {
                if let Some(value) = inner.value(row) {
                    self.fold(*aggregate, cql_type, value);
                }
            }
            // Beside aggregates, a column is that of the first row.
            other => {
                if self.rows == 0 {
                    self.value = other.value(row);
                }
                self.rows += 1;
            }
        }
    }

    fn fold(&mut self, aggregate: Aggregate, cql_type: &CqlType, value: Bytes) {
        self.rows += 1;
        let form = |value: &Bytes| order::of(cql_type, value);
        let is_better = |best: &Bytes| match aggregate {
            Aggregate::Min => form(&value) < form(best),
            _ => form(&value) > form(best),
        };
        match aggregate {
            Aggregate::Min | Aggregate::Max => {
                if self.value.as_ref().is_none_or(is_better) {
                    self.value = Some(value);
                }
            }
            Aggregate::Sum | Aggregate::Average => {
                self.whole += i128::from(whole_number(&value));
                self.float += float_number(cql_type, &value);
            }
        }
    }

    fn finish(self, expression: &SelectExpression) -> Option<Bytes> {
        match expression {
            SelectExpression::Count(_) => Some(long(self.rows)),
            SelectExpression::Aggregate(Aggregate::Sum, _, cql_type) => {
                Some(number(cql_type, self.whole, self.float))
            }
            SelectExpression::Aggregate(Aggregate::Average, _, cql_type) => {
                let rows = self.rows.max(1);
                // More than 2^53 rows do not fit into this node.
                #[allow(clippy::cast_precision_loss)]
                let mean = self.float / rows as f64;
                Some(number(cql_type, self.whole / i128::from(rows), mean))
            }
            _ => self.value,
        }
    }
}

/// A big-endian integer of up to eight bytes.
fn whole_number(value: &[u8]) -> i64 {
    let filler = if value.first().is_some_and(|byte| byte & 0x80 != 0) {
        0xff
    } else {
        0
    };
    let mut bytes = [filler; 8];
    if let Some(start) = 8_usize.checked_sub(value.len()) {
        bytes[start..].copy_from_slice(value);
    }
    i64::from_be_bytes(bytes)
}

fn float_number(cql_type: &CqlType, value: &[u8]) -> f64 {
    match cql_type {
        CqlType::Float => value
            .try_into()
            .map_or(0.0, |bytes| f64::from(f32::from_be_bytes(bytes))),
        CqlType::Double => value.try_into().map_or(0.0, f64::from_be_bytes),
        _ => 0.0,
    }
}

/// A sum in the type of what was summed; like Cassandra's, it wraps around.
fn number(cql_type: &CqlType, whole: i128, float: f64) -> Bytes {
    let length = match cql_type {
        CqlType::Double => return Bytes::copy_from_slice(&float.to_be_bytes()),
        // The sum of floats is a float.
        #[allow(clippy::cast_possible_truncation)]
        CqlType::Float => return Bytes::copy_from_slice(&(float as f32).to_be_bytes()),
        CqlType::TinyInt => 1,
        CqlType::SmallInt => 2,
        CqlType::Int => 4,
        _ => 8,
    };
    Bytes::copy_from_slice(&whole.to_be_bytes()[16 - length..])
}

fn unsupported() -> Failure {
    Failure::invalid("This stand-in node does not compute that selector")
}
