//! The types that the operands of sums, products and negations take, and the type of the result
//! (`OperationFcts`).
//!
//! Cassandra tries all pairs of types for each operator, and all pairs again for each operand; here the types
//! that an operand can take are worked out once, so that time grows with the length of the expression.

use crate::plan::refusal::Refusal;
use crate::syntax::Work;
use crate::syntax::ast::{self, ArithmeticOperator};
use cqlens_proto::types::CqlType;

use super::fit::{Fit, accepts};

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

/// What the compiler knows of operands that are no operations themselves.
#[derive(Clone, Copy)]
pub(super) struct Operands<'c> {
    /// How well an operand fits a type.
    pub(super) fit: &'c dyn Fn(&ast::Term<'_>, &CqlType) -> Fit,
    /// What planning the statement may cost.
    pub(super) work: &'c Work,
}

/// How well the result of an operation fits a type.
pub(super) fn fit(operands: Operands<'_>, operation: &Operation<'_>, cql_type: &CqlType) -> Fit {
    if let Some(index) = NUMBERS.iter().position(|number| number == cql_type) {
        return fits(operands, operation)[index];
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

fn fits(operands: Operands<'_>, operation: &Operation<'_>) -> Fits {
    if operands.work.is_exhausted() {
        return [Fit::Weakly; NUMBERS.len()];
    }
    match operation {
        Operation::Operand(term) => match Operation::of(term) {
            Operation::Operand(_) => NUMBERS.each_ref().map(|number| (operands.fit)(term, number)),
            nested => fits(operands, &nested),
        },
        Operation::Negation(term) => {
            let inner = fits(operands, &Operation::of(term));
            std::array::from_fn(|index| match negation(&inner, &NUMBERS[index]) {
                Ok(chosen) => Fit::of_type(&NUMBERS[chosen], &NUMBERS[index]),
                Err(_) => Fit::Weakly,
            })
        }
        Operation::Chain { first, rest } => {
            let mut left = fits(operands, &Operation::of(first));
            let mut left_is_marker = is_marker(first);
            for (_, right) in *rest {
                operands.work.spend(COMBINED_STEPS);
                let any_marker = left_is_marker || is_marker(right);
                left = combined(&left, &fits(operands, &Operation::of(right)), any_marker);
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
        Ok((_, _, result)) => Fit::of_type(&result, &NUMBERS[index]),
        Err(_) => Fit::Weakly,
    })
}

fn is_marker(term: &ast::Term<'_>) -> bool {
    matches!(term, ast::Term::BindMarker(_))
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

/// The type that a negated term has, for a result that the receiver's type takes.
///
/// # Errors
///
/// What Cassandra says where there is no such type, or several.
pub(super) fn negated_type(
    operands: Operands<'_>,
    term: &ast::Term<'_>,
    receiver: &CqlType,
) -> Result<CqlType, &'static str> {
    let inner = fits(operands, &Operation::of(term));
    negation(&inner, receiver).map(|chosen| NUMBERS[chosen].clone())
}

/// Longer chains of operations are not followed.
const MAX_CHAIN: usize = 1_000;

/// Whether a chain is followed: sums of dates and strings are the server's business.
pub(super) fn is_followed(rest: &[(ArithmeticOperator, ast::Term<'_>)], receiver: &CqlType) -> bool {
    NUMBERS.contains(receiver) && rest.len() <= MAX_CHAIN
}

/// The types of one operation of a chain.
pub(super) struct OperationTypes {
    /// Of what stands left of the operator.
    pub(super) left: CqlType,
    /// Of the operand behind it.
    pub(super) right: CqlType,
    pub(super) result: CqlType,
}

/// The types of each operation of a chain, in the order of the text.
///
/// They are found from the last operation to the first, since the result of each decides what its left side
/// must be.
///
/// # Errors
///
/// The refusal of operands whose types do not go together, or go together in several ways.
pub(super) fn chain_types(
    operands: Operands<'_>,
    first: &ast::Term<'_>,
    rest: &[(ArithmeticOperator, ast::Term<'_>)],
    receiver: &CqlType,
) -> Result<Vec<OperationTypes>, Refusal> {
    let any_marker =
        |index: usize, right: &ast::Term<'_>| (index == 0 && is_marker(first)) || is_marker(right);
    let mut lefts = vec![fits(operands, &Operation::of(first))];
    for (index, (_, right)) in rest.iter().enumerate() {
        operands.work.spend(COMBINED_STEPS);
        let right_fits = fits(operands, &Operation::of(right));
        lefts.push(combined(&lefts[index], &right_fits, any_marker(index, right)));
    }
    let mut types = Vec::with_capacity(rest.len());
    let mut wanted = receiver.clone();
    for (index, (_, right)) in rest.iter().enumerate().rev() {
        let right_fits = fits(operands, &Operation::of(right));
        let chosen = pair(&lefts[index], &right_fits, &wanted, any_marker(index, right));
        let (left, right, result) = chosen.map_err(|message| Refusal::at(message, right.span()))?;
        wanted = NUMBERS[left].clone();
        types.push(OperationTypes {
            left: NUMBERS[left].clone(),
            right: NUMBERS[right].clone(),
            result,
        });
    }
    types.reverse();
    Ok(types)
}

/// The function behind an operator, spelled as Cassandra's `OperationFcts` spells it.
pub(super) fn function_name(operator: ArithmeticOperator) -> &'static str {
    match operator {
        ArithmeticOperator::Add => "_add",
        ArithmeticOperator::Subtract => "_substract",
        ArithmeticOperator::Multiply => "_multiply",
        ArithmeticOperator::Divide => "_divide",
        ArithmeticOperator::Modulo => "_modulo",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wider_type_wins_and_floats_win_over_integers() {
        assert_eq!(result_type(&CqlType::Int, &CqlType::BigInt), CqlType::BigInt);
        assert_eq!(result_type(&CqlType::Int, &CqlType::Float), CqlType::Float);
        assert_eq!(result_type(&CqlType::BigInt, &CqlType::Float), CqlType::Double);
        assert_eq!(result_type(&CqlType::Varint, &CqlType::Float), CqlType::Decimal);
    }
}
