//! Sums, products and negations: the types that operands take (`OperationFcts`) and what they give.
//!
//! Cassandra tries all pairs of types for each operator, and all pairs again for each operand; here the types that an
//! operand can take are worked out once, so that time grows with the length of the expression.

use crate::syntax::ast::{self, ArithmeticOperator};
use cqlens_proto::types::CqlType;
use num_bigint::BigInt;

use super::function::{self, Function, Signature};
use super::refusal::Refusal;
use super::term::{Compiler, Fault, Fit, Receiver, Term, accepts};
use super::value::{Decimal, Integer};

/// The types that operands can have, in the order in which Cassandra tries them.
const NUMBERS: [CqlType; 9] = [
    CqlType::TinyInt,
    CqlType::SmallInt,
    CqlType::Int,
    CqlType::BigInt,
    CqlType::Float,
    CqlType::Double,
    CqlType::Decimal,
    CqlType::Varint,
    CqlType::Counter,
];

/// An expression, seen as its last operation and what stands left of it.
#[derive(Debug, Clone, Copy)]
pub(super) enum Operation<'t> {
    Operand(&'t ast::Term<'t>),
    Negation(&'t ast::Term<'t>),
    /// `first`, and each of `rest` applied to what stands left of it.
    Chain {
        first: &'t ast::Term<'t>,
        rest: &'t [(ArithmeticOperator, ast::Term<'t>)],
    },
}

impl<'t> Operation<'t> {
    pub(super) fn of(term: &'t ast::Term<'t>) -> Self {
        match term {
            ast::Term::Negation { term, .. } => Self::Negation(term),
            ast::Term::Arithmetic { first, rest, .. } => Self::Chain { first, rest },
            // Brackets around one operand.
            ast::Term::Tuple { items, .. } if items.len() == 1 => Self::of(&items[0]),
            other => Self::Operand(other),
        }
    }
}

/// How well an operand fits each of [`NUMBERS`].
type Fits = [Fit; NUMBERS.len()];

pub(super) fn fit(compiler: Compiler<'_>, operation: &Operation<'_>, cql_type: &CqlType) -> Fit {
    if let Some(index) = NUMBERS.iter().position(|number| number == cql_type) {
        return fits(compiler, operation)[index];
    }
    match operation {
        Operation::Chain { first, rest } if is_of_others(first, rest) => Fit::Weakly,
        _ => Fit::Not,
    }
}

/// Whether a sum is not of numbers, as far as the text shows: strings and dates have operators too.
fn is_of_others(first: &ast::Term<'_>, rest: &[(ArithmeticOperator, ast::Term<'_>)]) -> bool {
    let mut operands = rest.iter().map(|(_, operand)| operand).chain([first]);
    operands.any(|operand| {
        use ast::LiteralKind::{Duration, String};
        matches!(operand, ast::Term::Literal(literal) if matches!(literal.kind, String | Duration))
    })
}

/// Whether a term is a sum that is not of numbers.
pub(super) fn is_other_sum(term: &ast::Term<'_>) -> bool {
    matches!(Operation::of(term), Operation::Chain { first, rest } if is_of_others(first, rest))
}

fn fits(compiler: Compiler<'_>, operation: &Operation<'_>) -> Fits {
    if compiler.is_exhausted() {
        return [Fit::Weakly; NUMBERS.len()];
    }
    match operation {
        Operation::Operand(term) => match Operation::of(term) {
            Operation::Operand(_) => NUMBERS.each_ref().map(|number| compiler.fit(term, number)),
            nested => fits(compiler, &nested),
        },
        Operation::Negation(term) => {
            let inner = fits(compiler, &Operation::of(term));
            std::array::from_fn(|index| match negation(&inner, &NUMBERS[index]) {
                Ok(chosen) => fit_of(&NUMBERS[index], &NUMBERS[chosen]),
                Err(_) => Fit::Weakly,
            })
        }
        Operation::Chain { first, rest } => {
            let mut left = fits(compiler, &Operation::of(first));
            let mut left_is_marker = is_marker(first);
            for (_, right) in *rest {
                compiler.work.spend(COMBINED_STEPS);
                let any_marker = left_is_marker || is_marker(right);
                left = combined(&left, &fits(compiler, &Operation::of(right)), any_marker);
                left_is_marker = false;
            }
            left
        }
    }
}

/// What [`combined`] takes: all pairs of types for each type.
const COMBINED_STEPS: u64 = (NUMBERS.len() * NUMBERS.len() * NUMBERS.len()) as u64;

/// How well the result of an operation fits, given how well its operands do.
fn combined(left: &Fits, right: &Fits, any_marker: bool) -> Fits {
    std::array::from_fn(|index| match pair(left, right, &NUMBERS[index], any_marker) {
        Ok((_, _, result)) => fit_of(&NUMBERS[index], &result),
        Err(_) => Fit::Weakly,
    })
}

fn is_marker(term: &ast::Term<'_>) -> bool {
    matches!(term, ast::Term::BindMarker(_))
}

fn fit_of(receiver: &CqlType, result: &CqlType) -> Fit {
    if receiver == result {
        Fit::Exactly
    } else if accepts(receiver, result) {
        Fit::Weakly
    } else {
        Fit::Not
    }
}

/// Which of [`NUMBERS`] is negated to give the receiver's type.
fn negation(inner: &Fits, receiver: &CqlType) -> Result<usize, &'static str> {
    let mut candidates = Vec::new();
    for (index, fit) in inner.iter().enumerate() {
        match fit {
            _ if !accepts(receiver, &NUMBERS[index]) => {}
            Fit::Exactly => return Ok(index),
            Fit::Weakly => candidates.push(index),
            Fit::Not => {}
        }
    }
    match candidates.as_slice() {
        [only] => Ok(*only),
        [] => Err("only numbers can be negated"),
        _ => Err("ambiguous negation: use type casts to disambiguate"),
    }
}

/// Which two of [`NUMBERS`] the operands are, and the type that they give.
fn pair(
    left: &Fits,
    right: &Fits,
    receiver: &CqlType,
    any_marker: bool,
) -> Result<(usize, usize, CqlType), &'static str> {
    let mut only = None;
    let mut several = false;
    for (left_index, left_fit) in left.iter().enumerate() {
        for (right_index, right_fit) in right.iter().enumerate() {
            let result = result_type(&NUMBERS[left_index], &NUMBERS[right_index]);
            if !accepts(receiver, &result) {
                continue;
            }
            match left_fit.min(right_fit) {
                Fit::Exactly => return Ok((left_index, right_index, result)),
                Fit::Weakly => {
                    several = only.is_some();
                    only.get_or_insert((left_index, right_index, result));
                }
                Fit::Not => {}
            }
        }
    }
    let same = NUMBERS.iter().position(|number| number == receiver);
    match (only, same) {
        (None, _) => Err("the operation is not supported between these types"),
        (Some(only), _) if !several => Ok(only),
        (Some(_), Some(same)) if !any_marker && left[same].min(right[same]) != Fit::Not => {
            Ok((same, same, receiver.clone()))
        }
        _ => Err("ambiguous operation: use a type hint to disambiguate, example '(int) ?'"),
    }
}

/// The type of a sum: floating if one operand is, as wide as the wider one.
fn result_type(left: &CqlType, right: &CqlType) -> CqlType {
    let is_floating =
        |number: &CqlType| matches!(number, CqlType::Float | CqlType::Double | CqlType::Decimal);
    let width = |number: &CqlType| match number {
        CqlType::TinyInt => 1,
        CqlType::SmallInt => 2,
        CqlType::Int | CqlType::Float => 4,
        CqlType::BigInt | CqlType::Counter | CqlType::Double => 8,
        _ => u8::MAX,
    };
    match (
        is_floating(left) || is_floating(right),
        width(left).max(width(right)),
    ) {
        (false, 1) => CqlType::TinyInt,
        (false, 2) => CqlType::SmallInt,
        (false, 4) => CqlType::Int,
        (false, 8) => CqlType::BigInt,
        (false, _) => CqlType::Varint,
        (true, 4) => CqlType::Float,
        (true, 8) => CqlType::Double,
        (true, _) => CqlType::Decimal,
    }
}

pub(super) fn compile(
    compiler: Compiler<'_>,
    operation: &Operation<'_>,
    receiver: Receiver<'_>,
) -> Result<Term, Refusal> {
    match operation {
        Operation::Operand(term) => compiler.term(term, receiver),
        Operation::Negation(term) => {
            let inner = fits(compiler, &Operation::of(term));
            let chosen = negation(&inner, receiver.cql_type);
            let chosen = chosen.map_err(|message| Refusal::at(message, term.span()))?;
            let number = &NUMBERS[chosen];
            let signature = Signature::new(Function::Negate, [number.clone()], number.clone());
            function::call_of(compiler, "_negate", signature, std::iter::once(*term))
        }
        Operation::Chain { first, rest } => chain(compiler, first, rest, receiver),
    }
}

/// Longer chains of operations are not followed.
const MAX_CHAIN: usize = 1_000;

/// Types go from the last operation to the first, since its result decides what its left side must be; the terms are
/// then built from the first to the last.
fn chain(
    compiler: Compiler<'_>,
    first: &ast::Term<'_>,
    rest: &[(ArithmeticOperator, ast::Term<'_>)],
    receiver: Receiver<'_>,
) -> Result<Term, Refusal> {
    // Dates and strings have operators too; what they give is the server's business.
    if !NUMBERS.contains(receiver.cql_type) || rest.len() > MAX_CHAIN {
        return Ok(Term::Unknown(Fault::NotFollowed));
    }
    let mut lefts = vec![fits(compiler, &Operation::of(first))];
    for (index, (_, right)) in rest.iter().enumerate() {
        compiler.work.spend(COMBINED_STEPS);
        let any_marker = (index == 0 && is_marker(first)) || is_marker(right);
        let right = fits(compiler, &Operation::of(right));
        lefts.push(combined(&lefts[index], &right, any_marker));
    }
    let mut types = Vec::new();
    let mut wanted = receiver.cql_type.clone();
    for (index, (_, right)) in rest.iter().enumerate().rev() {
        let any_marker = (index == 0 && is_marker(first)) || is_marker(right);
        let chosen = pair(
            &lefts[index],
            &fits(compiler, &Operation::of(right)),
            &wanted,
            any_marker,
        );
        let (left, right, result) = chosen.map_err(|message| Refusal::at(message, right.span()))?;
        wanted = NUMBERS[left].clone();
        types.push((NUMBERS[left].clone(), NUMBERS[right].clone(), result));
    }
    let argument = |index: usize, operator: ArithmeticOperator, term: &ast::Term<'_>, cql_type: &CqlType| {
        let name = &function::argument_name(index, function_name(operator));
        compile(compiler, &Operation::of(term), Receiver { name, cql_type })
    };
    let Some((first_operator, _)) = rest.first() else {
        return compile(compiler, &Operation::of(first), receiver);
    };
    let mut value = argument(0, *first_operator, first, &wanted)?;
    for ((operator, right), (left_type, right_type, result)) in rest.iter().zip(types.into_iter().rev()) {
        let right = argument(1, *operator, right, &right_type)?;
        let arguments = vec![(left_type, value), (right_type, right)];
        let call = function::Call {
            function: Function::Operate(*operator),
            arguments,
            result,
        };
        value = Term::Call(Box::new(call)).folded();
    }
    Ok(value)
}

/// The function behind an operator, spelled as Cassandra's `OperationFcts` spells it.
fn function_name(operator: ArithmeticOperator) -> &'static str {
    match operator {
        ArithmeticOperator::Add => "_add",
        ArithmeticOperator::Subtract => "_substract",
        ArithmeticOperator::Multiply => "_multiply",
        ArithmeticOperator::Divide => "_divide",
        ArithmeticOperator::Modulo => "_modulo",
    }
}

/// A number of any of the types.
#[derive(Debug, Clone)]
enum Number {
    Integer(Integer),
    Double(f64),
    Decimal(Decimal),
}

/// Numbers of more bytes are not computed with: to divide and to print them takes time that grows with their square.
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

    #[test]
    fn the_wider_type_wins_and_floats_win_over_integers() {
        assert_eq!(result_type(&CqlType::Int, &CqlType::BigInt), CqlType::BigInt);
        assert_eq!(result_type(&CqlType::Int, &CqlType::Float), CqlType::Float);
        assert_eq!(result_type(&CqlType::BigInt, &CqlType::Float), CqlType::Double);
        assert_eq!(result_type(&CqlType::Varint, &CqlType::Float), CqlType::Decimal);
    }
}
