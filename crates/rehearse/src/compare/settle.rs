//! A difference is believed when it stays: writes that pass between two reads make one, too.

use std::sync::Arc;

use super::{Difference, ExcludedColumns, NotCompared, Terms, Verdict, compare};
use crate::{digest::ResponseDigest, exchange::RecordedExchange, target::Extent};

/// A difference that has to be looked at again.
#[derive(Debug, Clone)]
pub struct PendingDifference {
    /// The request.
    pub exchange: Arc<RecordedExchange>,
    /// How much of its result is compared.
    pub extent: Extent,
    /// Attempts so far.
    pub attempts: u8,
    /// Attempts in a row in which the cluster that has to be consistent was.
    stable: u8,
    terms: Terms,
    /// The terms for what was recorded: of several pages the order is not known.
    terms_of_first: Terms,
    expected: ResponseDigest,
    actual: ResponseDigest,
}

/// What has become of a doubt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Settled {
    /// The responses are the same now: something had passed between.
    Agreed,
    /// The difference stays while the data does.
    Differs(Difference),
    /// The data keeps changing, or the question cannot be answered.
    NotCompared(NotCompared),
    /// Not yet: ask again.
    AskAgain,
}

/// Attempts for one request, at most.
const MOST_ATTEMPTS: u8 = 4;
/// The other cluster may only be late with a write: a difference has to be there twice more.
const CONFIRMATIONS: u8 = 2;

impl PendingDifference {
    /// What it takes up, about: the responses that come when both are asked again are as long.
    pub(crate) fn weight(&self) -> usize {
        self.exchange.weight() + 2 * (self.expected.weight() + self.actual.weight())
    }

    /// A difference between what was recorded and what the other cluster has answered. The terms are those for
    /// responses that both come of now; `is_sum` says that what was recorded is the sum of several pages.
    pub fn new(
        exchange: Arc<RecordedExchange>,
        extent: Extent,
        terms: Terms,
        is_sum: bool,
        (expected, actual): (ResponseDigest, ResponseDigest),
    ) -> Self {
        let terms_of_first = match is_sum {
            true => super::whole_read::unordered(&terms),
            false => terms.clone(),
        };
        Self {
            exchange,
            extent,
            attempts: 0,
            stable: 0,
            terms,
            terms_of_first,
            expected,
            actual,
        }
    }

    /// Both clusters have answered again: a difference counts if the first gives what it gave before.
    pub fn both_again(
        &mut self,
        expected: ResponseDigest,
        actual: ResponseDigest,
        excluded: &ExcludedColumns,
    ) -> Settled {
        self.attempts += 1;
        let difference = match compare(&expected, &actual, &self.terms, excluded) {
            Verdict::Equal => return Settled::Agreed,
            Verdict::NotCompared(why) => return Settled::NotCompared(why),
            Verdict::Differs(difference) => difference,
        };
        let terms = if self.attempts == 1 {
            &self.terms_of_first
        } else {
            &self.terms
        };
        let is_stable = compare(&self.expected, &expected, terms, excluded) == Verdict::Equal;
        (self.expected, self.actual) = (expected, actual);
        self.judge(difference, is_stable)
    }

    /// Only the other cluster could be asked again: a difference counts if it gives what it gave before.
    pub fn other_again(&mut self, actual: ResponseDigest, excluded: &ExcludedColumns) -> Settled {
        self.attempts += 1;
        let difference = match compare(&self.expected, &actual, &self.terms_of_first, excluded) {
            Verdict::Equal => return Settled::Agreed,
            Verdict::NotCompared(why) => return Settled::NotCompared(why),
            Verdict::Differs(difference) => difference,
        };
        let terms = if self.attempts == 1 {
            &self.terms_of_first
        } else {
            &self.terms
        };
        let is_stable = compare(&self.actual, &actual, terms, excluded) == Verdict::Equal;
        self.actual = actual;
        self.judge(difference, is_stable)
    }

    fn judge(&mut self, difference: Difference, is_stable: bool) -> Settled {
        self.stable = if is_stable { self.stable + 1 } else { 0 };
        match self.stable >= CONFIRMATIONS {
            true => Settled::Differs(difference),
            false if self.attempts < MOST_ATTEMPTS => Settled::AskAgain,
            false => Settled::NotCompared(NotCompared::Unsettled),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{digest::RowsDigest, statement::Unstable, testing::exchange};

    fn rows(unordered: u128) -> ResponseDigest {
        ResponseDigest::Rows(RowsDigest {
            count: 1,
            ordered: unordered,
            unordered,
            columns: vec![unordered],
            ..RowsDigest::default()
        })
    }

    fn doubt(expected: u128, actual: u128) -> PendingDifference {
        let terms = Terms {
            is_ordered: true,
            unstable: Unstable::NOTHING,
        };
        let exchange = exchange(1, "SELECT a FROM k.t", rows(expected)).into();
        PendingDifference::new(
            exchange,
            Extent::Page,
            terms,
            false,
            (rows(expected), rows(actual)),
        )
    }

    #[test]
    fn a_difference_counts_if_the_first_cluster_gives_what_it_gave_twice_more() {
        let none = ExcludedColumns::new();
        assert_eq!(doubt(1, 2).both_again(rows(3), rows(3), &none), Settled::Agreed);
        for last in [2, 7] {
            let mut doubt = doubt(1, 2);
            assert_eq!(doubt.both_again(rows(1), rows(2), &none), Settled::AskAgain);
            let settled = doubt.both_again(rows(1), rows(last), &none);
            assert!(matches!(settled, Settled::Differs(_)));
        }
    }

    #[test]
    fn who_is_late_with_a_write_agrees_later() {
        let none = ExcludedColumns::new();
        let mut doubt = doubt(1, 2);
        assert_eq!(doubt.both_again(rows(1), rows(2), &none), Settled::AskAgain);
        assert_eq!(doubt.both_again(rows(1), rows(1), &none), Settled::Agreed);
    }

    #[test]
    fn data_that_keeps_changing_is_no_difference() {
        let none = ExcludedColumns::new();
        let mut doubt = doubt(1, 2);
        for round in 1..4 {
            let (first, other) = (rows(10 * round), rows(10 * round + 1));
            assert_eq!(doubt.both_again(first, other, &none), Settled::AskAgain);
        }
        let unsettled = Settled::NotCompared(NotCompared::Unsettled);
        assert_eq!(doubt.both_again(rows(7), rows(8), &none), unsettled);
    }

    #[test]
    fn where_only_the_other_can_be_asked_it_has_to_stay_by_its_word() {
        let none = ExcludedColumns::new();
        assert_eq!(doubt(1, 2).other_again(rows(1), &none), Settled::Agreed);
        let mut doubt = doubt(1, 2);
        assert_eq!(doubt.other_again(rows(3), &none), Settled::AskAgain);
        assert_eq!(doubt.other_again(rows(3), &none), Settled::AskAgain);
        assert!(matches!(doubt.other_again(rows(3), &none), Settled::Differs(_)));
    }
}
