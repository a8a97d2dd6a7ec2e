//! Reads that are sent again and again with the same values.

use super::{
    About, Context, Finding, Findings, GROUP, Impact, Pattern, PatternId, Rule, Severity, Threshold, number,
    often, rounded, share, table_of,
};
use cqlens_cql::plan::StatementKind;
use cqlens_window::RepeatedReads;

pub(crate) struct RedundantReads;

impl Rule for RedundantReads {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, context: &Context<'_>, found: &mut Findings<'_>) {
        let window = context.window;
        for (id, repeated) in &window.sequences.repeats {
            let Some(pattern) = window.patterns.get(id) else {
                continue;
            };
            let requests = window.sequences.requests.get(id).copied().unwrap_or(0);
            let of = |threshold: &Threshold| found.threshold(&ABOUT, threshold);
            let is_habit =
                |habit: &Habit| habit.runs as f64 >= of(&RUNS) && share(habit.reads, requests) >= of(&SHARE);
            let habits = [Some(Habit::in_a_row(repeated)), Habit::in_bursts(repeated)];
            let habit = habits.into_iter().flatten().find(is_habit);
            if let Some(habit) = habit
                && pattern.head.kind == StatementKind::Select
            {
                judge((*id, pattern), (habit, repeated), requests, context, found);
            }
        }
    }
}

/// How often the same is read again and again.
#[derive(Clone, Copy)]
struct Habit {
    runs: u64,
    /// Of all runs.
    reads: u64,
    /// Of each run, the mean.
    each: f64,
}

impl Habit {
    /// Of what one user at a time sends.
    fn in_a_row(repeated: &RepeatedReads) -> Self {
        Self {
            runs: repeated.runs,
            reads: repeated.reads,
            each: share(repeated.reads, repeated.runs),
        }
    }

    /// Of what many send at the same time, without what chance brings; none where that is too much to tell one from the other.
    fn in_bursts(repeated: &RepeatedReads) -> Option<Self> {
        let bursts = repeated.bursts;
        let is_rare = bursts.runs_by_chance as f64 <= MOST_BY_CHANCE * bursts.runs as f64;
        is_rare.then(|| {
            let runs = bursts.runs.saturating_sub(bursts.runs_by_chance);
            let reads = bursts.reads.saturating_sub(bursts.reads_by_chance);
            Self {
                runs,
                reads,
                // Two that fall into one moment are counted as one run: the reads of the other one are what chance brings.
                each: 1.0 + share(reads.saturating_sub(runs), bursts.runs),
            }
        })
    }
}

/// What is popular comes as often in the one moment as in the next: a part of one.
const MOST_BY_CHANCE: f64 = 0.5;

fn judge(
    (id, pattern): (PatternId, &Pattern),
    (habit, repeated): (Habit, &RepeatedReads),
    requests: u64,
    context: &Context<'_>,
    found: &mut Findings<'_>,
) {
    let Some(table) = table_of(pattern) else { return };
    let spared = share(habit.reads.saturating_sub(habit.runs), requests).min(1.0);
    let times = rounded(pattern.count as f64 * spared);
    let impact = Impact::each(Severity::Low).of(pattern).times(times);
    let severity = context.severity(found, &impact.at_most(Severity::Medium));
    let each = habit.each;
    let title = format!(
        "The application repeats a read of `{table}` {} times within a second; {} of these reads are \
            redundant{}",
        number::decimal(super::join::round(each)),
        number::percent(spared),
        often(times, context.watch(pattern))
    );
    found.push(
        Finding::on(&ABOUT, severity, (id, pattern), context)
            .title(title)
            .first("different_reads", repeated.keys.estimate())
            .first("reads_within_a_second", each)
            .first("spared_share", spared),
    );
}

const RUNS: Threshold = Threshold {
    name: "runs",
    unit: "times that the same read was sent five times or more within a second",
    default: 20.0,
    origin: "cqlens default: what happens less often during a report is not a habit",
};

const SHARE: Threshold = Threshold {
    name: "share",
    unit: "of the reads that are sent five times or more within a second",
    default: 0.5,
    origin: "cqlens default: below that, most reads differ, and a few keys are popular",
};

const ABOUT: About = About {
    id: "redundant-reads",
    group: GROUP,
    summary: "The application keeps sending the same read with the same values.",
    why: "Each time, the coordinator queries replicas, which read the same rows from memory or disk, and the \
        client waits a round trip for what it already knows. If all of these reads go to one partition, its \
        replicas carry the load of all clients.",
    fix: "\
        Read once per user request and pass the result on. Cache data that seldom changes (settings, rates, \
        names) in the application, for as long as an old value does no harm. A loop that waits for a change \
        can poll less often.",
    fix_in_short: "Read once",
    before: "SELECT value FROM shop.settings WHERE name = 'currency';  -- for each line of an order",
    after: "SELECT value FROM shop.settings WHERE name = 'currency';  -- once a minute, and cached",
    severity: "\
        From `runs` and a `share` of the reads: low, by the share of time and work of the redundant reads; \
        medium at most.",
    severities: &[Severity::Low, Severity::Medium],
    thresholds: &[RUNS, SHARE],
    needs: "\
        Reads of the same statement with the same values in the same session (or from the same application \
        and address), each sent after the response to the previous one: five or more within a second, with \
        no more other reads by the statement in between; or, if users share a session, five or more within \
        50 ms, and more often than in the following 50 ms, because a popular key is read just as often there \
        by chance. Not seen: slower repetitions by users who share a session, and those of a key so popular \
        that it is read as often all the time (from some tens of reads per second). Left out: retries, \
        speculative executions, further pages, and reads of a partition that the same application has \
        written since.",
    source: "Datadog and Sentry, detection of repeated queries; DataStax documentation, best practices for drivers",
    cause: None,
    quantity: None,
    rewrite: None,
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{amid, read, run};
    use cqlens_cql::footprint::PartitionClass;
    use cqlens_window::Bursts;

    /// A thousand reads in a minute that were looked at, of which so many came in so many runs.
    fn found(runs: u64, reads: u64) -> Vec<String> {
        let repeated = RepeatedReads {
            runs,
            reads,
            ..RepeatedReads::default()
        };
        found_of(repeated)
    }

    /// The same, in bursts; and those that came by chance.
    fn found_in_bursts(
        (runs, reads): (u64, u64),
        (runs_by_chance, reads_by_chance): (u64, u64),
    ) -> Vec<String> {
        let bursts = Bursts {
            runs,
            reads,
            runs_by_chance,
            reads_by_chance,
        };
        found_of(RepeatedReads {
            bursts,
            ..RepeatedReads::default()
        })
    }

    fn found_of(repeated: RepeatedReads) -> Vec<String> {
        let cql = "SELECT value FROM shop.settings WHERE name = ?";
        let mut window = amid([read(cql, &[], PartitionClass::Single, 1_000)]);
        let mut patterns = window.patterns.iter();
        let id = patterns
            .find(|(_, pattern)| pattern.head.cql == cql)
            .map(|(id, _)| *id);
        if let Some(id) = id {
            window.sequences.repeats.insert(id, repeated);
            window.sequences.requests.insert(id, 1_000);
        }
        let findings = run(&RedundantReads, &window).findings.into_iter();
        findings.map(|finding| finding.title).collect()
    }

    #[test]
    fn reads_that_come_again_are_found() {
        assert_eq!(
            found(100, 900),
            [
                "The application repeats a read of `shop.settings` 9 times within a second; 80 % of these \
                    reads are redundant, 13 a second"
            ]
        );
    }

    #[test]
    fn users_who_share_a_session_repeat_what_they_read_in_bursts() {
        assert_eq!(
            found_in_bursts((100, 900), (20, 100)),
            [
                "The application repeats a read of `shop.settings` 8.2 times within a second; 72 % of \
                    these reads are redundant, 12 a second"
            ]
        );
        assert_eq!(
            found_in_bursts((70, 700), (50, 200)),
            Vec::<String>::new(),
            "popular"
        );
        assert_eq!(found_in_bursts((40, 900), (20, 200)).len(), 1);
        assert_eq!(found_in_bursts((40, 900), (21, 200)), Vec::<String>::new());
        assert_eq!(
            found_in_bursts((60, 600), (20, 101)),
            Vec::<String>::new(),
            "few of all"
        );
    }

    #[test]
    fn a_few_popular_keys_are_none() {
        assert_eq!(found(20, 500).len(), 1);
        assert_eq!(found(20, 499), Vec::<String>::new());
        assert_eq!(found(19, 900), Vec::<String>::new());
    }
}
