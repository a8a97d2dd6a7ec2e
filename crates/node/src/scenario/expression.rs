//! Texts with expressions in them: `user-${i % 100}`.
//!
//! An expression is a number; `i`, the iteration; `j`, the run within a step; `random(n)`, evenly from 0 up
//! to but without n; `skewed(n)`, the same with small numbers far more often; `uuid(x)` and `timeuuid(x)`,
//! the same UUID for the same number; `step.column`, a cell of an earlier step; `null`. Numbers can be added,
//! subtracted, multiplied, divided and reduced with `+ - * / %`; there is no precedence, the left goes first.

use std::collections::BTreeMap;

use cqlens_proto::types::Uuid;
use serde::Deserialize;

use super::Results;

/// A text with expressions.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Template {
    pieces: Vec<Piece>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Text(String),
    Expression(Expression),
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Expression {
    Number(i128),
    Iteration,
    Turn,
    Null,
    Call(Function, Box<Expression>),
    Cell { step: String, column: String },
    Arithmetic(Box<Expression>, Vec<(char, Expression)>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Function {
    Random,
    Skewed,
    Uuid,
    TimeUuid,
}

/// An expression that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an expression")]
pub struct ExpressionError(String);

/// What expressions refer to.
#[derive(Debug)]
pub(super) struct Scope<'a> {
    /// The iteration.
    pub(super) iteration: u64,
    /// The run within the step.
    pub(super) turn: u64,
    /// Rows of earlier steps; of the step that is being walked over, the row that it is at.
    pub(super) results: &'a Results,
    /// The step that is being walked over, and the row that it is at.
    pub(super) at: Option<(&'a str, &'a BTreeMap<String, String>)>,
    /// Where `random` takes its numbers from.
    pub(super) random: &'a mut Random,
}

impl TryFrom<String> for Template {
    type Error = ExpressionError;

    fn try_from(text: String) -> Result<Template, ExpressionError> {
        let mut pieces = Vec::new();
        let mut rest = text.as_str();
        while let Some((before, behind)) = rest.split_once("${") {
            let unclosed = || ExpressionError(format!("${{{behind}"));
            let (expression, after) = behind.split_once('}').ok_or_else(unclosed)?;
            if !before.is_empty() {
                pieces.push(Piece::Text(before.to_owned()));
            }
            pieces.push(Piece::Expression(Expression::parse(expression)?));
            rest = after;
        }
        if !rest.is_empty() {
            pieces.push(Piece::Text(rest.to_owned()));
        }
        Ok(Template { pieces })
    }
}

impl Template {
    /// The text with its expressions computed; `None` is null.
    pub(super) fn text(&self, scope: &mut Scope<'_>) -> Option<String> {
        if let [Piece::Expression(Expression::Null)] = self.pieces[..] {
            return None;
        }
        let piece = |piece: &Piece| match piece {
            Piece::Text(text) => text.clone(),
            Piece::Expression(expression) => expression.text(scope),
        };
        Some(self.pieces.iter().map(piece).collect())
    }

    /// The text, if there is no expression in it.
    pub fn constant(&self) -> Option<&str> {
        match &self.pieces[..] {
            [Piece::Text(text)] => Some(text),
            _ => None,
        }
    }
}

impl Expression {
    fn parse(text: &str) -> Result<Expression, ExpressionError> {
        let mut parser = Parser { rest: text.trim() };
        let expression = parser.arithmetic().filter(|_| parser.rest.is_empty());
        expression.ok_or_else(|| ExpressionError(text.to_owned()))
    }

    fn text(&self, scope: &mut Scope<'_>) -> String {
        match self {
            Expression::Call(Function::Uuid, number) => uuid(number.number(scope), 4).to_string(),
            Expression::Call(Function::TimeUuid, number) => uuid(number.number(scope), 1).to_string(),
            Expression::Cell { step, column } => scope.cell(step, column).unwrap_or_default(),
            other => other.number(scope).to_string(),
        }
    }

    fn number(&self, scope: &mut Scope<'_>) -> i128 {
        match self {
            Expression::Number(number) => *number,
            Expression::Iteration => scope.iteration.into(),
            Expression::Turn => scope.turn.into(),
            Expression::Call(function, argument) => {
                let limit = argument.number(scope);
                match function {
                    Function::Random => scope.random.below(limit),
                    Function::Skewed => scope.random.skewed_below(limit),
                    Function::Uuid | Function::TimeUuid => limit,
                }
            }
            Expression::Cell { step, column } => scope
                .cell(step, column)
                .and_then(|cell| cell.parse().ok())
                .unwrap_or(0),
            Expression::Arithmetic(first, others) => {
                let first = first.number(scope);
                others.iter().fold(first, |left, (operator, right)| {
                    let right = right.number(scope);
                    match operator {
                        '+' => left.saturating_add(right),
                        '-' => left.saturating_sub(right),
                        '*' => left.saturating_mul(right),
                        '/' => left.checked_div_euclid(right).unwrap_or(0),
                        _ => left.checked_rem_euclid(right).unwrap_or(0),
                    }
                })
            }
            Expression::Null => 0,
        }
    }
}

impl Scope<'_> {
    fn cell(&self, step: &str, column: &str) -> Option<String> {
        let row = match self.at {
            Some((at, row)) if at == step => row,
            _ => self.results.get(step)?.first()?,
        };
        row.get(column).cloned()
    }
}

struct Parser<'t> {
    rest: &'t str,
}

impl<'t> Parser<'t> {
    /// `term ((+|-|*|/|%) term)*`
    fn arithmetic(&mut self) -> Option<Expression> {
        let first = self.term()?;
        let mut others = Vec::new();
        while let Some(operator) = self.rest.chars().next().filter(|sign| "+-*/%".contains(*sign)) {
            self.skip(1);
            others.push((operator, self.term()?));
        }
        if others.is_empty() {
            return Some(first);
        }
        Some(Expression::Arithmetic(Box::new(first), others))
    }

    /// `number | name | name(arithmetic) | step.column`
    fn term(&mut self) -> Option<Expression> {
        let is_part = |character: char| character.is_ascii_alphanumeric() || "_-.".contains(character);
        // A minus belongs to a name only between its letters: `new-users.id`, but `i - 1`.
        let end = self
            .rest
            .find(|character| !is_part(character))
            .unwrap_or(self.rest.len());
        let word = self.skip(end);
        if let Ok(number) = word.parse() {
            return Some(Expression::Number(number));
        }
        if let Some((step, column)) = word.split_once('.') {
            return Some(Expression::Cell {
                step: step.to_owned(),
                column: column.to_owned(),
            });
        }
        let function = match word {
            "i" => return Some(Expression::Iteration),
            "j" => return Some(Expression::Turn),
            "null" => return Some(Expression::Null),
            "random" => Function::Random,
            "skewed" => Function::Skewed,
            "uuid" => Function::Uuid,
            "timeuuid" => Function::TimeUuid,
            _ => return None,
        };
        self.rest = self.rest.strip_prefix('(')?.trim_start();
        let argument = self.arithmetic()?;
        self.rest = self.rest.strip_prefix(')')?.trim_start();
        Some(Expression::Call(function, Box::new(argument)))
    }

    fn skip(&mut self, length: usize) -> &'t str {
        let (skipped, rest) = self.rest.split_at(length);
        self.rest = rest.trim_start();
        skipped
    }
}

/// The same UUID for the same number; of version 1, its time is that many seconds after the start of 2024.
fn uuid(number: i128, version: u8) -> Uuid {
    let number = i64::try_from(number).unwrap_or(i64::MAX);
    // From the UUID epoch, 1582-10-15, to 2024-01-01, in 100 ns.
    const START: i64 = 0x01b2_1dd2_1381_4000 + 1_704_067_200 * 10_000_000;
    let mut mixed = Random::new(number.cast_unsigned(), 0);
    let high = match version {
        1 => START
            .wrapping_add(number.wrapping_mul(10_000_000))
            .cast_unsigned(),
        _ => mixed.next(),
    };
    let [t6, t7, t4, t5, t0, t1, t2, t3] = high.to_be_bytes();
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&[t0, t1, t2, t3, t4, t5, (t6 & 0x0f) | version << 4, t7]);
    bytes[8..].copy_from_slice(&mixed.next().to_be_bytes());
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    Uuid(bytes)
}

/// SplitMix64: small, and the same on every machine.
#[derive(Debug, Clone)]
pub(super) struct Random {
    state: u64,
}

impl Random {
    /// Numbers that follow from a seed and what they are for.
    pub(super) fn new(seed: u64, purpose: u64) -> Random {
        let mut random = Random {
            state: seed ^ purpose.rotate_left(32),
        };
        // Neighbouring seeds shall not give neighbouring first numbers.
        random.next();
        random
    }

    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, limit: i128) -> i128 {
        let limit = u64::try_from(limit).unwrap_or(0).max(1);
        i128::from(self.next() % limit)
    }

    /// The smallest of four: of 100 numbers, the first ten come a third of the time.
    fn skewed_below(&mut self, limit: i128) -> i128 {
        (0..4).map(|_| self.below(limit)).min().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn text(template: &str, iteration: u64) -> String {
        let row = BTreeMap::from([("id".to_owned(), "7".to_owned())]);
        let results = Results::from([("new-users".to_owned(), vec![row])]);
        let mut random = Random::new(1, 2);
        let mut scope = Scope {
            iteration,
            turn: 2,
            results: &results,
            at: None,
            random: &mut random,
        };
        Template::try_from(template.to_owned())
            .unwrap()
            .text(&mut scope)
            .unwrap_or_else(|| "null".to_owned())
    }

    #[test]
    fn expressions_are_computed_where_they_stand() {
        assert_eq!(text("user-${i}@${j + 1 * 10}.org", 5), "user-5@30.org");
        assert_eq!(text("${i % 4}${i / 4}", 6), "21");
        assert_eq!(text("${i - 10}", 6), "-4");
        assert_eq!(text("${new-users.id} ${new-users.id + 1}", 0), "7 8");
        assert_eq!(text("${null}", 0), "null");
    }

    #[test]
    fn the_same_number_gives_the_same_uuid_of_the_right_version() {
        assert_eq!(text("${uuid(i)}", 3), text("${uuid(3)}", 0));
        assert_ne!(text("${uuid(1)}", 0), text("${uuid(2)}", 0));
        let made = Uuid::parse(&text("${timeuuid(60)}", 0)).unwrap();
        assert_eq!(made.unix_millis(), Some(1_704_067_260_000));
        assert_eq!(Uuid::parse(&text("${uuid(60)}", 0)).unwrap().version(), 4);
    }

    #[test]
    fn random_numbers_stay_below_their_limit_and_skewed_ones_are_small() {
        let mut random = Random::new(1, 1);
        let even: Vec<_> = (0..1000).map(|_| random.below(100)).collect();
        let skewed: Vec<_> = (0..1000).map(|_| random.skewed_below(100)).collect();
        assert!(even.iter().chain(&skewed).all(|number| (0..100).contains(number)));
        let small = |numbers: &[i128]| numbers.iter().filter(|number| **number < 10).count();
        assert!(small(&skewed) > 2 * small(&even));
        assert_eq!(random.below(0), 0);
    }

    #[test]
    fn what_is_no_expression_is_refused() {
        for wrong in [
            "${",
            "${}",
            "${i +}",
            "${random 3}",
            "${random(3}",
            "${u}",
            "${i i}",
        ] {
            assert!(Template::try_from(wrong.to_owned()).is_err(), "{wrong}");
        }
    }
}
