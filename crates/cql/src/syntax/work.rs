//! How much work a text may cause: a budget of steps, linear in its bytes.
//!
//! A step is a byte read, a token taken, a byte of a template written or a term visited: some nanoseconds
//! each. Steps, unlike seconds, are the same on every machine, so that a test can hold the parser and the
//! planner to them.

use std::cell::Cell;

/// The steps that one statement may take and has taken, from lexer to plan.
///
/// What runs out of steps is not looked at further, and is counted as such; nothing is guessed from half of a
/// statement.
#[derive(Debug)]
pub struct Work {
    spent: Cell<u64>,
    allowed: u64,
}

impl Work {
    /// Steps that every text has, however short: half a millisecond. The most entangled statements that
    /// people write need a tenth of it.
    pub(crate) const BASE: u64 = 1 << 16;

    /// Steps for each byte. Lexer, parser and template take up to eight; the rest is for the plan.
    pub(crate) const PER_BYTE: u64 = 16;

    /// The budget of a text.
    #[must_use]
    pub const fn of_text(text: &str) -> Self {
        Self::of_len(text.len())
    }

    /// The budget of a text of `len` bytes.
    #[must_use]
    pub(crate) const fn of_len(len: usize) -> Self {
        Self {
            spent: Cell::new(0),
            allowed: Self::BASE + Self::PER_BYTE * len as u64,
        }
    }

    /// Takes steps; false when more were taken than are allowed.
    #[inline]
    pub(crate) fn spend(&self, steps: u64) -> bool {
        let spent = self.spent.get().saturating_add(steps);
        self.spent.set(spent);
        spent <= self.allowed
    }

    /// The steps taken so far.
    #[must_use]
    pub const fn spent(&self) -> u64 {
        self.spent.get()
    }

    /// Whether more steps were taken than are allowed.
    #[must_use]
    pub(crate) const fn is_exhausted(&self) -> bool {
        self.spent.get() > self.allowed
    }
}
