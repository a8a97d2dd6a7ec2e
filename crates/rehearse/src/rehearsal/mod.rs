//! Exchanges of one cluster, sent to another, compared and tallied.
//!
//! Nothing waits for a response: what is offered is sent or counted, and [`Rehearsal::turn`] handles what comes
//! back, one thing at a time.

mod judgeable;
mod pairs;
mod pending_differences;
mod settings;
mod writes;

use std::sync::Arc;

use tokio::time::{Instant, sleep_until};

pub use self::settings::{First, RehearsalSettings};
use self::{
    pairs::{Came, Pairs},
    pending_differences::{PendingDifferences, Side},
    writes::Writes,
};
use crate::{
    budget::Share,
    compare::{
        Counted, DifferenceExample, DifferenceKind, NotCompared, PageStep, PendingDifference, Settled, Tally,
        Terms, Verdict, WholeReads, compare,
    },
    digest::ResponseDigest,
    effect::effect,
    exchange::{Effect, Page, RecordedExchange},
    skipped::Skipped,
    statement::{StatementCache, Unstable},
    target::{Completed, Extent, Outcome, Purpose, Target, TargetRequest},
};

/// Exchanges of one cluster on their way to another.
#[derive(Debug)]
pub struct Rehearsal {
    settings: RehearsalSettings,
    first: First,
    other: Target,
    statements: StatementCache,
    tally: Tally,
    reads: WholeReads,
    pairs: Pairs,
    doubts: PendingDifferences,
    writes: Writes,
}

/// What a turn has brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Turn {
    /// The connection and number of an exchange that the other cluster is done with, answered or not.
    pub done: Option<(u64, u64)>,
    /// Whether the other cluster failed it.
    pub has_failed: bool,
}

impl Turn {
    const NOTHING: Self = Self {
        done: None,
        has_failed: false,
    };
}

impl Rehearsal {
    /// Begins with nothing compared.
    pub fn new(settings: RehearsalSettings, first: First, other: Target) -> Self {
        let memory = &settings.memory;
        Self {
            first,
            other,
            statements: StatementCache::within(memory),
            tally: Tally::within(memory),
            reads: WholeReads::within(memory),
            pairs: Pairs::within(Share::of(memory, 8)),
            doubts: PendingDifferences::within(Share::of(memory, 8)),
            writes: Writes::within(Share::of(memory, 16)),
            settings,
        }
    }

    /// What was found so far.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// The other cluster.
    pub fn other(&self) -> &Target {
        &self.other
    }

    /// Counts an exchange that is not to be sent.
    pub fn leave_out(&mut self, exchange: &Arc<RecordedExchange>, why: Skipped) {
        let exchange = &*self.as_it_is(Arc::clone(exchange));
        self.count(exchange, Counted::Execution);
        self.note_write(exchange, false);
        self.count(exchange, Counted::Skipped(why));
    }

    /// Sends an exchange, or counts why not; whether it was sent.
    pub fn offer(&mut self, exchange: Arc<RecordedExchange>) -> bool {
        let exchange = self.as_it_is(exchange);
        if let Err(why) = self
            .settings
            .permissions
            .check(&exchange.request, &mut self.statements)
        {
            self.leave_out(&exchange, why);
            return false;
        }
        let request = TargetRequest {
            exchange: Arc::clone(&exchange),
            extent: Extent::Page,
            purpose: Purpose::First,
        };
        if let Err(why) = self.other.send(request.clone()) {
            self.leave_out(&exchange, why);
            return false;
        }
        self.count(&exchange, Counted::Execution);
        self.note_write(&exchange, true);
        match &self.first {
            First::Beside(first) => match first.send(request) {
                Ok(()) => self.pairs.expect(exchange.number),
                Err(_) => self.count(&exchange, Counted::NotCompared(NotCompared::FirstUnknown)),
            },
            First::Recorded | First::CanRepeat(_) => {
                if let Some(latency) = exchange.latency {
                    self.count(&exchange, Counted::FirstAnswered(latency));
                }
                self.repeat_for_noise(&exchange, &exchange.response);
            }
        }
        true
    }

    /// The exchange with the effect that its statements have, whatever was recorded of it: a write is not
    /// repeated, and makes reads of its table incomparable.
    fn as_it_is(&mut self, exchange: Arc<RecordedExchange>) -> Arc<RecordedExchange> {
        let request = &exchange.request;
        let effect = effect(request, &mut self.statements).unwrap_or(Effect::Definition);
        if effect == request.effect {
            return exchange;
        }
        let mut corrected = RecordedExchange::clone(&exchange);
        corrected.request.effect = effect;
        Arc::new(corrected)
    }

    /// Handles what comes back next, or what is due. Cancel safe.
    pub async fn turn(&mut self) -> Turn {
        let due = self.doubts.next_due();
        let first = async {
            match &mut self.first {
                First::Recorded => None,
                First::CanRepeat(first) | First::Beside(first) => first.completed().await,
            }
        };
        let when_due = async {
            match due {
                Some(due) => sleep_until(due).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            Some(completed) = self.other.completed() => self.other_completed(completed),
            Some(completed) = first => {
                self.first_completed(completed);
                Turn::NOTHING
            }
            () = when_due => {
                self.ask_again(Instant::now());
                Turn::NOTHING
            }
            else => Turn::NOTHING,
        }
    }

    /// As [`turn`](Self::turn), for what is there now.
    pub fn try_turn(&mut self) -> Option<Turn> {
        if let Some(completed) = self.other.try_completed() {
            return Some(self.other_completed(completed));
        }
        let first = match &mut self.first {
            First::Recorded => None,
            First::CanRepeat(first) | First::Beside(first) => first.try_completed(),
        };
        self.first_completed(first?);
        Some(Turn::NOTHING)
    }

    /// Requests that wait for a response of either cluster.
    pub fn waiting(&self) -> usize {
        let first = match &self.first {
            First::Recorded => 0,
            First::CanRepeat(first) | First::Beside(first) => first.waiting(),
        };
        self.other.waiting().max(first)
    }

    /// Waits for what is under way, and gives up what has not come by `deadline`.
    pub async fn finish(&mut self, deadline: Instant) {
        while self.is_under_way() {
            if tokio::time::timeout_at(deadline, self.turn()).await.is_err() {
                break;
            }
        }
        for doubt in self.doubts.take_all() {
            self.count(&doubt.exchange, Counted::NotCompared(NotCompared::Unsettled));
        }
    }

    fn is_under_way(&self) -> bool {
        self.waiting() > 0 || !self.doubts.is_empty()
    }

    fn other_completed(&mut self, completed: Completed) -> Turn {
        let Completed { request, outcome } = completed;
        let exchange = request.exchange;
        match request.purpose {
            Purpose::Noise => Turn::NOTHING,
            Purpose::Again(_) => {
                self.answered_again(exchange.number, Side::Other, outcome);
                Turn::NOTHING
            }
            Purpose::First => {
                let done = Some((exchange.connection, exchange.number));
                let has_failed = has_failed(&exchange, &outcome);
                match outcome {
                    Outcome::Answered { response, latency } => {
                        self.count(&exchange, Counted::Answered(latency));
                        self.other_answered(&exchange, Some(response));
                    }
                    Outcome::Skipped(Skipped::NoFurtherPage) => self.other_answered(&exchange, None),
                    Outcome::Skipped(why) => {
                        self.pairs.forget(exchange.number);
                        self.note_write(&exchange, false);
                        self.count(&exchange, Counted::Skipped(why));
                    }
                }
                Turn { done, has_failed }
            }
        }
    }

    fn first_completed(&mut self, completed: Completed) {
        let Completed { request, outcome } = completed;
        let exchange = request.exchange;
        match (request.purpose, outcome) {
            (Purpose::Again(_), outcome) => self.answered_again(exchange.number, Side::First, outcome),
            (Purpose::Noise, Outcome::Answered { response, .. }) => {
                let Some(before) = self.pairs.take_noise(exchange.number) else {
                    return;
                };
                let terms = self.terms(&exchange);
                let verdict = compare(&before, &response, &terms, &self.settings.excluded);
                if !matches!(verdict, Verdict::NotCompared(_)) {
                    self.count(&exchange, Counted::Noise(verdict != Verdict::Equal));
                }
            }
            (Purpose::Noise, Outcome::Skipped(_)) => {
                self.pairs.take_noise(exchange.number);
            }
            (Purpose::First, Outcome::Answered { response, latency }) => {
                self.count(&exchange, Counted::FirstAnswered(latency));
                self.repeat_for_noise(&exchange, &response);
                let came = self.pairs.first(exchange.number, response);
                self.judge_both(&exchange, came);
            }
            (Purpose::First, Outcome::Skipped(_)) => {
                if self.pairs.forget(exchange.number) {
                    self.count(&exchange, Counted::NotCompared(NotCompared::FirstUnknown));
                }
            }
        }
    }

    fn other_answered(&mut self, exchange: &Arc<RecordedExchange>, actual: Option<ResponseDigest>) {
        match &self.first {
            First::Beside(_) => {
                let came = self.pairs.other(exchange.number, actual);
                self.judge_both(exchange, came);
            }
            First::Recorded | First::CanRepeat(_) => self.judge(exchange, &exchange.response, actual),
        }
    }

    fn judge_both(&mut self, exchange: &Arc<RecordedExchange>, came: Came) {
        match came {
            Came::Both((expected, actual)) => self.judge(exchange, &expected, actual),
            Came::NoRoom => self.count(exchange, Counted::NotCompared(NotCompared::FirstUnknown)),
            Came::One => {}
        }
    }

    /// Both have answered; the other cluster may have had no such page.
    fn judge(
        &mut self,
        exchange: &Arc<RecordedExchange>,
        expected: &ResponseDigest,
        actual: Option<ResponseDigest>,
    ) {
        let terms = self.terms(exchange);
        let excluded = &self.settings.excluded;
        let step = match (expected, &actual) {
            (ResponseDigest::Rows(expected), Some(ResponseDigest::Rows(actual))) => {
                let page = (exchange.number, exchange.request.page);
                self.reads.page(page, expected, Some(actual), &terms, excluded)
            }
            (ResponseDigest::Rows(expected), None) => {
                let page = (exchange.number, exchange.request.page);
                self.reads.page(page, expected, None, &terms, excluded)
            }
            (_, None) => PageStep::Single(Verdict::NotCompared(NotCompared::FirstUnknown)),
            (expected, Some(actual)) => PageStep::Single(compare(expected, actual, &terms, excluded)),
        };
        let rows = ResponseDigest::Rows;
        let both = match step {
            PageStep::GoesOn => return,
            PageStep::Single(Verdict::Differs(difference)) => {
                if exchange.request.effect != Effect::Read || exchange.request.page != Page::First {
                    // A write is not sent twice, and a page that fails is not asked for without those before.
                    return self.differs(exchange, difference);
                }
                let actual = actual.unwrap_or(ResponseDigest::Missing);
                (Extent::Page, (expected.clone(), actual))
            }
            PageStep::Ended {
                verdict: Verdict::Differs(_),
                expected,
                actual,
            } => (Extent::Whole, (rows(expected), rows(actual))),
            PageStep::AskWhole(expected) => (Extent::Whole, (rows(expected), ResponseDigest::Missing)),
            PageStep::Single(verdict) | PageStep::Ended { verdict, .. } => {
                return self.count_verdict(exchange, &verdict);
            }
        };
        let (extent, digests) = both;
        self.doubt(exchange, terms, extent, digests);
    }

    fn doubt(
        &mut self,
        exchange: &Arc<RecordedExchange>,
        terms: Terms,
        extent: Extent,
        digests: (ResponseDigest, ResponseDigest),
    ) {
        if self.is_after_unsent_writes(exchange) {
            return self.count(exchange, Counted::NotCompared(NotCompared::AfterUnsentWrites));
        }
        let is_sum = extent == Extent::Whole;
        // Of what was recorded nothing but this page is known.
        let is_page = self.first_is_recorded() || (!has_more(&digests.0) && !has_more(&digests.1));
        let extent = if is_page { extent } else { Extent::Whole };
        let doubt = PendingDifference::new(Arc::clone(exchange), extent, terms, is_sum, digests);
        let due = Instant::now() + self.settings.ask_again_after;
        if !self.doubts.add(doubt, due) {
            self.count(exchange, Counted::NotCompared(NotCompared::TooManyDoubts));
        }
    }

    fn ask_again(&mut self, now: Instant) {
        while let Some((exchange, extent, attempt)) = self.doubts.take_due(now) {
            let number = exchange.number;
            let request = TargetRequest {
                exchange,
                extent,
                purpose: Purpose::Again(attempt),
            };
            let first = match &self.first {
                First::Recorded => Ok(()),
                First::CanRepeat(first) | First::Beside(first) => first.send(request.clone()),
            };
            if let Err(why) = first.and_then(|()| self.other.send(request)) {
                self.answered_again(number, Side::Other, Outcome::Skipped(why));
            }
        }
    }

    fn answered_again(&mut self, number: u64, side: Side, outcome: Outcome) {
        let Outcome::Answered { response, .. } = outcome else {
            if let Some(doubt) = self.doubts.remove(number) {
                self.count(&doubt.exchange, Counted::NotCompared(NotCompared::Unsettled));
            }
            return;
        };
        let is_recorded = self.first_is_recorded();
        let Some((doubt, first, other)) = self.doubts.answered(number, side, response, is_recorded) else {
            return;
        };
        let settled = match first {
            Some(first) => doubt.both_again(first, other, &self.settings.excluded),
            None => doubt.other_again(other, &self.settings.excluded),
        };
        if settled == Settled::AskAgain {
            let pause = self.settings.ask_again_after * 2_u32.pow(doubt.attempts.into());
            return self.doubts.again(number, Instant::now() + pause);
        }
        let Some(doubt) = self.doubts.remove(number) else {
            return;
        };
        let exchange = doubt.exchange;
        let is_page_of_more = is_recorded && doubt.extent == Extent::Page && has_more(&exchange.response);
        match settled {
            Settled::Agreed => self.count(&exchange, Counted::AgreedLater),
            Settled::NotCompared(why) => self.count(&exchange, Counted::NotCompared(why)),
            Settled::Differs(_) if is_recorded && self.was_written_meanwhile(&exchange) => {
                self.count(&exchange, Counted::NotCompared(NotCompared::Unsettled));
            }
            // Of one page it is not known where the other cluster ends it.
            Settled::Differs(difference)
                if is_page_of_more && difference.kind == DifferenceKind::RowCount =>
            {
                self.count(&exchange, Counted::NotCompared(NotCompared::UnfinishedRead));
            }
            // Both were asked again after a write of which the other got no copy.
            Settled::Differs(_) if self.lacks_writes(&exchange) => {
                self.count(&exchange, Counted::NotCompared(NotCompared::AfterUnsentWrites));
            }
            Settled::Differs(difference) => self.differs(&exchange, difference),
            Settled::AskAgain => {}
        }
    }

    fn differs(&mut self, exchange: &RecordedExchange, difference: crate::compare::Difference) {
        let example = DifferenceExample {
            difference,
            at_us: exchange.at_us,
            exchange: exchange.number,
        };
        self.count(exchange, Counted::Differs(example));
    }

    fn count_verdict(&mut self, exchange: &RecordedExchange, verdict: &Verdict) {
        match verdict {
            Verdict::Equal => self.count(exchange, Counted::Equal),
            Verdict::NotCompared(why) => self.count(exchange, Counted::NotCompared(*why)),
            Verdict::Differs(difference) => self.differs(exchange, difference.clone()),
        }
    }

    fn repeat_for_noise(&mut self, exchange: &Arc<RecordedExchange>, expected: &ResponseDigest) {
        let first = match &self.first {
            First::CanRepeat(first) | First::Beside(first) => first,
            First::Recorded => return,
        };
        let request = &exchange.request;
        let is_fit = request.effect == Effect::Read && request.page == Page::First;
        if !is_fit || !is_sampled(exchange.number, self.settings.noise_share) {
            return;
        }
        let request = TargetRequest {
            exchange: Arc::clone(exchange),
            extent: Extent::Page,
            purpose: Purpose::Noise,
        };
        if first.send(request).is_ok() {
            self.pairs.expect_noise(exchange.number, expected.clone());
        }
    }

    fn terms(&mut self, exchange: &RecordedExchange) -> Terms {
        let request = &exchange.request;
        let unstable = match &*request.statements {
            [statement] => self.statements.facts(&statement.cql).unstable.clone(),
            _ => Unstable::NOTHING,
        };
        Terms {
            is_ordered: request.is_ordered,
            unstable,
        }
    }

    fn count(&mut self, exchange: &RecordedExchange, counted: Counted) {
        let request = &exchange.request;
        let Some(statement) = request.statements.first() else {
            return;
        };
        let facts = self.statements.facts(&statement.cql);
        let pattern = request.pattern.as_ref().unwrap_or(&facts.shape);
        let describe = || {
            let more = request.statements.len() - 1;
            let shape = match (request.batch, more) {
                (None, _) | (_, 0) => Arc::clone(&facts.shape),
                (Some(_), more) => format!("BEGIN BATCH {}; … ({more} more)", facts.shape).into(),
            };
            (shape, request.keyspace.clone())
        };
        self.tally.count(pattern, describe, counted);
    }
}

/// Whether a request failed that the first cluster has answered.
fn has_failed(exchange: &RecordedExchange, outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Skipped(why) => why.is_failure(),
        Outcome::Answered { response, .. } => {
            let is_error = |response: &ResponseDigest| matches!(response, ResponseDigest::Error(_));
            is_error(response) && !is_error(&exchange.response)
        }
    }
}

fn has_more(response: &ResponseDigest) -> bool {
    matches!(response, ResponseDigest::Rows(rows) if rows.has_more)
}

/// Whether a number is in a sample: the same ones in each run, evenly spread.
#[allow(clippy::cast_precision_loss, reason = "a share is not that precise")]
pub fn is_sampled(number: u64, share: f64) -> bool {
    let spread = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 11;
    (spread as f64) < share * (1_u64 << 53) as f64
}
