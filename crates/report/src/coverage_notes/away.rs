//! Sources that did not watch while others did: a proxy that was restarted, a capture that was interrupted.
//!
//! When a source began and ended says nothing: proxies come and go with the nodes and clients beside them.

use super::super::Span;
use cqlens_window::{Interval, Observed, number};

/// A sentence for each of them, those that were away longest first.
pub(super) fn lines(span: &Span) -> Vec<String> {
    let mut all = Observed::default();
    for (source, intervals) in &span.observed {
        intervals.iter().for_each(|interval| all.add(source, *interval));
    }
    let watched = all.union();
    let sources = span.observed.iter();
    let mut away: Vec<_> = sources
        .filter_map(|(source, intervals)| Some((Away::of(intervals, &watched)?, source)))
        .collect();
    away.sort_by(|(left, _), (right, _)| right.seconds.total_cmp(&left.seconds));
    let more = away.len().saturating_sub(MOST_SOURCES);
    let named = away.iter().take(MOST_SOURCES);
    let mut lines: Vec<_> = named.map(|(away, source)| away.line(source)).collect();
    if more > 0 {
        let sources = number::plural(more as u64, "more source", "more sources");
        lines.push(format!("{sources} paused while others were watching."));
    }
    lines
}

const MOST_SOURCES: usize = 5;

/// Seconds; shorter ones are windows that were late.
const SHORTEST: f64 = 60.0;

/// The time in which a source did not watch and another one did.
struct Away {
    seconds: f64,
    longest: Interval,
}

impl Away {
    fn of(intervals: &[Interval], watched: &[Interval]) -> Option<Self> {
        let gaps = intervals.iter().zip(intervals.iter().skip(1));
        let gaps = gaps.map(|(before, after)| Interval {
            start: before.end,
            end: after.start,
        });
        let missed: Vec<_> = gaps
            .flat_map(|gap| watched.iter().filter_map(move |watched| both(gap, *watched)))
            .filter(|missed| missed.seconds() >= SHORTEST)
            .collect();
        let longest = missed
            .iter()
            .max_by(|left, right| left.seconds().total_cmp(&right.seconds()))?;
        Some(Self {
            seconds: missed.iter().map(|missed| missed.seconds()).sum(),
            longest: *longest,
        })
    }

    fn line(&self, source: &str) -> String {
        let [from, to] =
            [self.longest.start, self.longest.end].map(|at| at.strftime("%Y-%m-%d %H:%M").to_string());
        let longest = match self.longest.seconds() < self.seconds {
            true => "the longest time ",
            false => "",
        };
        format!(
            "`{source}` was not watching for {} while others were, {longest}from {from} to {to} (UTC): \
                traffic in that time is not counted.",
            number::seconds(self.seconds)
        )
    }
}

fn both(left: Interval, right: Interval) -> Option<Interval> {
    let (start, end) = (left.start.max(right.start), left.end.min(right.end));
    (start < end).then_some(Interval { start, end })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use jiff::Timestamp;

    fn span(observed: &[(&str, &[(i64, i64)])]) -> Span {
        let minute = |minute: i64| Timestamp::from_second(minute * 60).unwrap();
        let observed = observed.iter().map(|(source, intervals)| {
            let intervals = intervals.iter().map(|&(start, end)| Interval {
                start: minute(start),
                end: minute(end),
            });
            ((*source).to_owned(), intervals.collect())
        });
        Span {
            start: minute(0),
            end: minute(600),
            seconds: 36_000.0,
            observed: observed.collect(),
            gaps: Vec::new(),
            sources: std::collections::BTreeSet::new(),
        }
    }

    #[test]
    fn a_source_that_was_away_is_named_with_the_time_and_when_nobody_watched_is_not_in_it() {
        let away = span(&[
            ("a", &[(0, 240), (300, 600)]),
            ("b", &[(0, 60), (150, 200), (360, 600)]),
        ]);
        assert_eq!(
            lines(&away),
            [
                "`b` was not watching for 3 h 10 min while others were, the longest time from 1970-01-01 \
                 01:00 to 1970-01-01 02:30 (UTC): traffic in that time is not counted."
            ]
        );
    }

    #[test]
    fn time_that_nobody_watched_and_beginnings_and_ends_are_no_absences() {
        let minute = span(&[("a", &[(0, 300), (301, 600)]), ("b", &[(200, 400)])]);
        assert_eq!(lines(&minute).len(), 1);
        let nobody = span(&[("a", &[(0, 300), (360, 600)]), ("b", &[(0, 300), (360, 400)])]);
        assert_eq!(lines(&nobody), Vec::<String>::new());
        let there = span(&[("a", &[(0, 600)]), ("b", &[(200, 400)])]);
        assert_eq!(lines(&there), Vec::<String>::new());
    }
}
