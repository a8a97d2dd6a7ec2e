//! Sums, products and negations of numbers, as bytes (`OperationFcts`).

use crate::plan::value::{Decimal, Integer};
use crate::syntax::ast::ArithmeticOperator;
use cqlens_proto::types::CqlType;
use num_bigint::BigInt;

use super::fault::Fault;

/// A number of any of the types.
#[derive(Debug, Clone)]
enum Number {
    Integer(Integer),
    Double(f64),
    Decimal(Decimal),
}

/// Numbers of more bytes are not computed with: to divide and to print them takes time that grows with their
/// square.
pub(super) const MAX_OPERAND: usize = 1 << 10;

fn read(cql_type: &CqlType, bytes: &[u8]) -> Option<Number> {
    if bytes.len() > MAX_OPERAND {
        return None;
    }
    Some(match cql_type {
        CqlType::Float => Number::Double(f64::from(f32::from_be_bytes(*bytes.first_chunk()?))),
        CqlType::Double => Number::Double(f64::from_be_bytes(*bytes.first_chunk()?)),
        CqlType::Decimal => Number::Decimal(Decimal::read(bytes)),
        _ => Number::Integer(Integer::from_signed_bytes_be(bytes)),
    })
}

pub(super) fn negate(cql_type: &CqlType, bytes: &[u8]) -> Result<Vec<u8>, Fault> {
    match read(cql_type, bytes).ok_or(Fault::NotFollowed)? {
        Number::Integer(integer) => Ok(write_integer(-integer, cql_type)),
        Number::Double(double) => Ok(write_double(-double, cql_type)),
        Number::Decimal(Decimal { unscaled, scale }) => Ok(Decimal {
            unscaled: -unscaled,
            scale,
        }
        .to_bytes()),
    }
}

/// The result of one operation, in the arithmetic of the result's type: integers wrap around, floats do not.
pub(super) fn operate(
    operator: ArithmeticOperator,
    left: (&CqlType, &[u8]),
    right: (&CqlType, &[u8]),
    result: &CqlType,
) -> Result<Vec<u8>, Fault> {
    let left = read(left.0, left.1).ok_or(Fault::NotFollowed)?;
    let right = read(right.0, right.1).ok_or(Fault::NotFollowed)?;
    match (result, left, right) {
        (CqlType::Float | CqlType::Double, left, right) => {
            let (left, right) = (as_double(left)?, as_double(right)?);
            Ok(double(operator, left, right, result))
        }
        (CqlType::Decimal, left, right) => decimal(operator, as_decimal(left)?, as_decimal(right)?),
        (_, Number::Integer(left), Number::Integer(right)) => integer(operator, left, right, result),
        _ => Err(Fault::NotFollowed),
    }
}

fn integer(
    operator: ArithmeticOperator,
    left: BigInt,
    right: BigInt,
    result: &CqlType,
) -> Result<Vec<u8>, Fault> {
    let divides = matches!(operator, ArithmeticOperator::Divide | ArithmeticOperator::Modulo);
    if divides && right == BigInt::ZERO {
        return Err(Fault::invalid("the operation failed: / by zero"));
    }
    let number = match operator {
        ArithmeticOperator::Add => left + right,
        ArithmeticOperator::Subtract => left - right,
        ArithmeticOperator::Multiply => left * right,
        ArithmeticOperator::Divide => left / right,
        ArithmeticOperator::Modulo => left % right,
    };
    Ok(write_integer(number, result))
}

/// The lowest bytes of a number, as many as its type has.
pub(super) fn write_integer(number: BigInt, cql_type: &CqlType) -> Vec<u8> {
    let width = match cql_type {
        CqlType::TinyInt => 1,
        CqlType::SmallInt => 2,
        CqlType::Int => 4,
        CqlType::BigInt | CqlType::Counter => 8,
        _ => return number.to_signed_bytes_be(),
    };
    let bytes = number.to_signed_bytes_be();
    let sign = if bytes[0] >> 7 == 1 { 0xff } else { 0 };
    let padding = std::iter::repeat_n(sign, width);
    let padded: Vec<u8> = padding.chain(bytes).collect();
    padded[padded.len() - width..].to_vec()
}

fn double(operator: ArithmeticOperator, left: f64, right: f64, result: &CqlType) -> Vec<u8> {
    let apply = |left: f64, right: f64| match operator {
        ArithmeticOperator::Add => left + right,
        ArithmeticOperator::Subtract => left - right,
        ArithmeticOperator::Multiply => left * right,
        ArithmeticOperator::Divide => left / right,
        ArithmeticOperator::Modulo => left % right,
    };
    // Two floats give the same in double precision and rounded as in single precision.
    write_double(apply(left, right), result)
}

#[allow(
    clippy::cast_possible_truncation,
    reason = "a float is the double rounded, as Java rounds it"
)]
fn write_double(number: f64, cql_type: &CqlType) -> Vec<u8> {
    let number = if number.is_nan() { f64::NAN } else { number };
    if *cql_type == CqlType::Float {
        (number as f32).to_be_bytes().to_vec()
    } else {
        number.to_be_bytes().to_vec()
    }
}

fn as_double(number: Number) -> Result<f64, Fault> {
    match number {
        Number::Double(double) => Ok(double),
        // Correctly rounded, as `BigInteger.doubleValue` is.
        Number::Integer(integer) => integer.to_string().parse().map_err(|_| Fault::NotFollowed),
        Number::Decimal(_) => Err(Fault::NotFollowed),
    }
}

fn as_decimal(number: Number) -> Result<Decimal, Fault> {
    match number {
        Number::Decimal(decimal) => Ok(decimal),
        Number::Integer(unscaled) => Ok(Decimal { unscaled, scale: 0 }),
        // The digits that Java prints for a double are its own.
        Number::Double(_) => Err(Fault::NotFollowed),
    }
}

/// Sums, differences and products; the digits of a quotient are the server's choice.
fn decimal(operator: ArithmeticOperator, left: Decimal, right: Decimal) -> Result<Vec<u8>, Fault> {
    /// Aligning numbers of very different scales makes very long ones.
    const MAX_SHIFT: u32 = 1_000;
    let scale = left.scale.max(right.scale);
    let align = |decimal: &Decimal| {
        let shift = u32::try_from(i64::from(scale) - i64::from(decimal.scale)).unwrap_or(u32::MAX);
        (shift <= MAX_SHIFT)
            .then(|| &decimal.unscaled * BigInt::from(10).pow(shift))
            .ok_or(Fault::NotFollowed)
    };
    let sum = match operator {
        ArithmeticOperator::Add => Decimal {
            unscaled: align(&left)? + align(&right)?,
            scale,
        },
        ArithmeticOperator::Subtract => Decimal {
            unscaled: align(&left)? - align(&right)?,
            scale,
        },
        ArithmeticOperator::Multiply => {
            let scale = left.scale.checked_add(right.scale).ok_or(Fault::NotFollowed)?;
            Decimal {
                unscaled: left.unscaled * right.unscaled,
                scale,
            }
        }
        ArithmeticOperator::Divide | ArithmeticOperator::Modulo => return Err(Fault::NotFollowed),
    };
    Ok(sum.to_bytes())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn integers_wrap_around_in_their_own_width() {
        let max = i32::MAX.to_be_bytes();
        let one = 1_i32.to_be_bytes();
        let sum = operate(
            ArithmeticOperator::Add,
            (&CqlType::Int, &max),
            (&CqlType::Int, &one),
            &CqlType::Int,
        );
        assert_eq!(sum.unwrap(), i32::MIN.to_be_bytes());
        assert_eq!(negate(&CqlType::TinyInt, &[0x80]).unwrap(), [0x80]);
    }

    #[test]
    fn integers_divide_towards_zero_and_not_by_it() {
        let int = |number: i32| number.to_be_bytes();
        let divide = |left: i32, right: i32| {
            let (left, right) = (int(left), int(right));
            operate(
                ArithmeticOperator::Divide,
                (&CqlType::Int, &left),
                (&CqlType::Int, &right),
                &CqlType::Int,
            )
        };
        assert_eq!(divide(-7, 2).unwrap(), int(-3));
        assert!(matches!(divide(1, 0), Err(Fault::Refused(..))));
    }
}
