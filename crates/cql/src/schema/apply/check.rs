//! Which constraints a column can have (`ColumnConstraints.Raw.prepare`, `ColumnConstraint.validate`).

use super::found::{Result, missing};
use crate::schema::constraint::Constraint;
use crate::schema::data_type::DataType;
use crate::schema::error::SchemaErrorKind;
use crate::schema::model::Table;
use crate::syntax::ast::{
    Check, CheckFunction, ColumnDefinition, LiteralKind, Name, NativeType, RelationOperator, Term,
};

/// The constraints of a column: `NOT NULL` in front is one of them.
pub(super) fn constraints_of(column: &ColumnDefinition<'_>) -> Vec<Constraint> {
    let not_null = column.not_null.then_some(Constraint::NotNull);
    let checks = column.checks.iter().map(Constraint::of);
    not_null.into_iter().chain(checks).collect()
}

/// Refuses constraints that the column of a table cannot have.
pub(super) fn check_constraints(table: &Table, column: &ColumnDefinition<'_>) -> Result<()> {
    check_all(table, &column.name, &column.checks, column.not_null)
}

/// The same, by the column's name.
pub(super) fn check_all(table: &Table, name: &Name<'_>, checks: &[Check<'_>], not_null: bool) -> Result<()> {
    let Some(column) = table.column(name.as_str()) else {
        return Ok(());
    };
    let says_not_null = |check: &Check<'_>| matches!(check, Check::NotNull { .. });
    let not_nulls = usize::from(not_null) + checks.iter().filter(|check| says_not_null(check)).count();
    let jsons = checks
        .iter()
        .filter(|check| matches!(check, Check::Json { .. }))
        .count();
    let has_key_not_null = not_nulls > 0 && column.is_primary_key();
    let fits = |check: &Check<'_>| fits(check, name, &column.data_type);
    if has_key_not_null
        || not_nulls > 1
        || jsons > 1
        || !checks.iter().all(fits)
        || !may_hold_together(checks)
    {
        return Err(missing(name, SchemaErrorKind::ConstraintUnfit));
    }
    Ok(())
}

fn fits(check: &Check<'_>, column: &Name<'_>, data_type: &DataType) -> bool {
    use NativeType::{Ascii, Blob, Text, Varchar};
    let is_one_of =
        |types: &[NativeType]| matches!(data_type, DataType::Native(native) if types.contains(native));
    match check {
        Check::NotNull { has_arguments } => !has_arguments,
        Check::Json { has_arguments } => !has_arguments && is_one_of(&[Ascii, Text, Varchar]),
        Check::Function {
            function: CheckFunction::Regexp,
            has_arguments,
            operator,
            value,
        } => {
            let compares = matches!(operator, RelationOperator::Equal | RelationOperator::NotEqual);
            !has_arguments && compares && is_one_of(&[Ascii, Text, Varchar]) && is_constant(value)
        }
        Check::Function {
            has_arguments, value, ..
        } => !has_arguments && is_one_of(&[Ascii, Text, Varchar, Blob]) && is_constant(value),
        Check::Value {
            column: named, value, ..
        } => named.text == column.text && is_comparable(data_type, value),
    }
}

fn is_constant(value: &Term<'_>) -> bool {
    matches!(value, Term::Literal(_))
}

/// Whether the type is one that `ScalarColumnConstraint` compares, and the value one of that type.
fn is_comparable(data_type: &DataType, value: &Term<'_>) -> bool {
    use NativeType::{
        Bigint, Counter, Date, Decimal, Double, Float, Int, Smallint, Time, Timestamp, Tinyint, Varint,
    };
    let (DataType::Native(native), Term::Literal(literal)) = (data_type, value) else {
        return false;
    };
    let text = literal.decoded();
    match native {
        Tinyint => text.parse::<i8>().is_ok(),
        Smallint => text.parse::<i16>().is_ok(),
        Int => text.parse::<i32>().is_ok(),
        Bigint | Counter => text.parse::<i64>().is_ok(),
        Varint => {
            let digits = text.strip_prefix('-').unwrap_or(&text);
            !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
        }
        Decimal | Double | Float => text.parse::<f64>().is_ok(),
        Date | Time | Timestamp => matches!(literal.kind, LiteralKind::String | LiteralKind::Integer),
        _ => false,
    }
}

/// Of comparisons with one thing there may be two beside `!=`, one for each end.
fn may_hold_together(checks: &[Check<'_>]) -> bool {
    let subject = |check: &Check<'_>| match check {
        Check::Function {
            function,
            operator,
            value,
            ..
        } => Some((Some(*function), *operator, number(value))),
        Check::Value { operator, value, .. } => Some((None, *operator, number(value))),
        Check::NotNull { .. } | Check::Json { .. } => None,
    };
    let comparisons: Vec<_> = checks.iter().filter_map(subject).collect();
    comparisons
        .iter()
        .enumerate()
        .all(|(index, (what, operator, value))| {
            comparisons[index + 1..].iter().all(|(other, theirs, limit)| {
                use RelationOperator::{Equal, NotEqual};
                if what != other {
                    return true;
                }
                if operator == theirs {
                    return *operator == NotEqual && value != limit;
                }
                if comparisons.iter().filter(|(subject, ..)| subject == what).count() != 2 {
                    return true;
                }
                let is_lower = |operator: &RelationOperator| {
                    matches!(
                        operator,
                        RelationOperator::GreaterThan | RelationOperator::GreaterOrEqual
                    )
                };
                match (operator, theirs) {
                    (Equal, _) | (_, Equal) => false,
                    (NotEqual, _) | (_, NotEqual) => true,
                    _ if is_lower(operator) == is_lower(theirs) => false,
                    _ => match (value, limit) {
                        (Some(value), Some(limit)) if is_lower(operator) => value < limit,
                        (Some(value), Some(limit)) => limit < value,
                        _ => true,
                    },
                }
            })
        })
}

fn number(value: &Term<'_>) -> Option<f64> {
    match value {
        Term::Literal(literal) => literal.text.parse().ok(),
        _ => None,
    }
}
