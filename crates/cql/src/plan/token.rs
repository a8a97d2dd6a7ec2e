//! Restrictions of the token: which part of the ring is read, or which of the named keys.

use cqlens_proto::message::Values;

use super::restriction::Bound;
use super::restrictions::TokenTest;
use super::term::{CompiledTerm, Datum, Fault};
use crate::murmur3::MINIMUM;

/// A compiled restriction of the token.
#[derive(Debug, Clone)]
pub(super) enum TokenRange {
    Equal(CompiledTerm),
    Slice {
        start: Option<Bound>,
        end: Option<Bound>,
    },
}

/// An evaluated one: both ends, where they are given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TokenInterval {
    start: Option<End>,
    end: Option<End>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct End {
    token: i64,
    inclusive: bool,
}

impl From<TokenTest> for TokenRange {
    fn from(test: TokenTest) -> Self {
        match test {
            TokenTest::Equal(term) => Self::Equal(term),
            TokenTest::Slice(slice) => Self::Slice {
                start: slice.start,
                end: slice.end,
            },
        }
    }
}

impl TokenRange {
    pub(super) fn evaluate(&self, values: Option<&Values<'_>>) -> Result<TokenInterval, Fault> {
        match self {
            Self::Equal(term) => {
                let end = Some(End {
                    token: token(term, values)?,
                    inclusive: true,
                });
                Ok(TokenInterval { start: end, end })
            }
            Self::Slice { start, end } => {
                let evaluate = |bound: &Option<Bound>| {
                    let bound = bound.as_ref();
                    bound
                        .map(|bound| {
                            Ok(End {
                                token: token(&bound.term, values)?,
                                inclusive: bound.inclusive,
                            })
                        })
                        .transpose()
                };
                Ok(TokenInterval {
                    start: evaluate(start)?,
                    end: evaluate(end)?,
                })
            }
        }
    }

    /// Whether a range read knows that there is nothing to read, whichever token the server computes for the
    /// other end: above the last token is nothing.
    pub(super) fn is_above_all(&self, values: Option<&Values<'_>>) -> bool {
        match self {
            Self::Slice {
                start: Some(start), ..
            } => !start.inclusive && token(&start.term, values) == Ok(i64::MAX),
            _ => false,
        }
    }
}

fn token(term: &CompiledTerm, values: Option<&Values<'_>>) -> Result<i64, Fault> {
    match term.evaluate(values)? {
        Datum::Bytes(bytes) => match bytes.as_ref().try_into() {
            Ok(bytes) => Ok(i64::from_be_bytes(bytes)),
            Err(_) => Err(Fault::invalid("a token has eight bytes")),
        },
        Datum::Null | Datum::NotSet => Err(Fault::invalid("Invalid null token value")),
    }
}

impl TokenInterval {
    /// Whether a named key's token is in the range, which wraps around where its start is behind its end
    /// (`TokenFilter`).
    pub(super) fn contains(&self, token: i64) -> bool {
        let after = self
            .start
            .is_none_or(|start| token > start.token || (start.inclusive && token == start.token));
        let before = self
            .end
            .is_none_or(|end| token < end.token || (end.inclusive && token == end.token));
        match (self.start, self.end) {
            (Some(start), Some(end)) if start.token > end.token => after || before,
            _ => after && before,
        }
    }

    /// Whether a range read knows that there is nothing to read: such ranges do not wrap around, but the
    /// minimum token stands for an end that is not given
    /// (`StatementRestrictions.getPartitionKeyBoundsForTokenRestrictions`).
    pub(super) fn is_empty(&self) -> bool {
        match (self.start, self.end) {
            (Some(start), Some(end)) if start.token != MINIMUM && end.token != MINIMUM => {
                let point = start.token == end.token;
                start.token > end.token || (point && !(start.inclusive && end.inclusive))
            }
            _ => false,
        }
    }

    /// The tokens that a range read covers: those above the first one, up to and with the second one.
    ///
    /// An end that is not given is the ring's. A start that is included takes the token before it, which is
    /// too little to matter to anybody who asks for a part of the ring.
    pub(super) fn tokens(&self) -> (i64, i64) {
        let start = self.start.map_or(MINIMUM, |start| start.token);
        let end = self.end.map_or(MINIMUM, |end| end.token);
        (start, if end == MINIMUM { i64::MAX } else { end })
    }

    /// The part of the ring that is covered, 0.0 to 1.0.
    #[allow(clippy::cast_precision_loss, reason = "a share needs no more than 53 bits")]
    pub(super) fn share(&self) -> f64 {
        const RING: f64 = 18_446_744_073_709_551_616.0;
        let start = self.start.map_or(MINIMUM, |start| start.token);
        let end = self
            .end
            .map(|end| end.token)
            .filter(|&end| end != MINIMUM)
            .unwrap_or(i64::MAX);
        if self.is_empty() {
            return 0.0;
        }
        (i128::from(end) - i128::from(start)).max(0) as f64 / RING
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interval(start: Option<(i64, bool)>, end: Option<(i64, bool)>) -> TokenInterval {
        let end_of = |end: Option<(i64, bool)>| end.map(|(token, inclusive)| End { token, inclusive });
        TokenInterval {
            start: end_of(start),
            end: end_of(end),
        }
    }

    #[test]
    fn a_range_read_knows_impossible_ranges() {
        assert!(interval(Some((10, false)), Some((5, false))).is_empty());
        assert!(interval(Some((5, true)), Some((5, false))).is_empty());
        assert!(!interval(Some((5, true)), Some((5, true))).is_empty());
        assert!(!interval(Some((5, false)), Some((MINIMUM, true))).is_empty());
        assert!(!interval(Some((5, false)), None).is_empty());
    }

    #[test]
    fn a_filter_of_named_keys_wraps_around() {
        let wrapping = interval(Some((10, false)), Some((5, true)));
        assert!(
            wrapping.contains(11) && wrapping.contains(5) && !wrapping.contains(10) && !wrapping.contains(7)
        );
        let plain = interval(Some((5, false)), Some((10, true)));
        assert!(plain.contains(10) && !plain.contains(5));
    }

    #[test]
    fn a_half_of_the_ring_is_a_half() {
        assert!((interval(Some((0, false)), None).share() - 0.5).abs() < 1e-9);
        assert!((interval(None, None).share() - 1.0).abs() < 1e-9);
    }
}
