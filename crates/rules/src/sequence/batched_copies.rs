//! Copies of rows in several tables that are written by one batch: unlogged ones are judged, logged ones counted.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    Context, Finding, Findings, Pattern, PatternId, Sent, Sequence, Severity, TableName, applications,
    copies_in_short::Several,
    dual_write_without_batch::{ABOUT, HABIT, OPERATIONS, names, on_tables, severity, steps},
    estimate, number, often, rounded, share,
};
use crate::statement::{modifications, written};
use cqlens_cql::plan::Flag;
use cqlens_window::{BatchedCopies, Distribution};

/// Batches of one pattern that write the same values into several tables.
pub(super) struct Batches<'a> {
    id: PatternId,
    pattern: &'a Pattern,
    tables: BTreeSet<TableName>,
    seen: BatchedCopies,
}

/// Judges those that are unlogged: those of which none failed together, for each application.
pub(super) fn judge(logged: &LoggedBatches, context: &Context<'_>, found: &mut Findings<'_>) {
    let mut harmless: BTreeMap<String, Vec<Batches<'_>>> = BTreeMap::new();
    for batches in unlogged(context, found) {
        match severity(batches.seen.failed, batches.seen.copies, found) {
            Severity::Info => {
                let senders = applications(&[(batches.id, batches.pattern)]).join(", ");
                harmless.entry(senders).or_default().push(batches);
            }
            severity => found.push(batches.finding(severity, logged, context)),
        }
    }
    for (senders, batches) in harmless {
        found.push(match batches.as_slice() {
            [one] => one.finding(Severity::Info, logged, context),
            several => several_in_batches(several)
                .finding(&senders, context)
                .about(format!("{senders} unlogged"))
                .advice(MAKE_IT_LOGGED),
        });
    }
}

const MAKE_IT_LOGGED: &str = "\
    Use a logged batch: it costs about a third more, and eventually either all of its statements are applied \
    or none.";

fn several_in_batches<'a>(batches: &[Batches<'a>]) -> Several<'a> {
    let most = batches.iter().max_by_key(|batches| batches.times());
    Several {
        patterns: batches
            .iter()
            .map(|batches| (batches.id, batches.pattern))
            .collect(),
        sets: batches
            .iter()
            .map(|batches| (batches.tables.iter().cloned().collect(), batches.times()))
            .collect(),
        how: "in unlogged batches",
        batch: most.map(Batches::as_logged),
    }
}

/// Those that are unlogged.
pub(super) fn unlogged<'a>(context: &Context<'a>, found: &Findings<'_>) -> Vec<Batches<'a>> {
    let operations = found.threshold(&ABOUT, &OPERATIONS);
    all(context)
        .filter(|batches| batches.pattern.is(Flag::UnloggedBatch))
        .filter(|batches| batches.seen.copies as f64 >= operations)
        .collect()
}

/// How often logged batches write copies, by the tables.
pub(super) struct LoggedBatches(BTreeMap<BTreeSet<TableName>, u64>);

/// What logged batches write to several tables at once.
pub(super) fn logged(context: &Context<'_>) -> LoggedBatches {
    let mut tables = BTreeMap::new();
    for batches in all(context).filter(|batches| batches.pattern.is(Flag::LoggedBatch)) {
        let times = batches.times();
        *tables.entry(batches.tables).or_default() += times;
    }
    LoggedBatches(tables)
}

impl LoggedBatches {
    /// How often they write copies to exactly these tables.
    pub(super) fn of(&self, tables: &[&TableName]) -> u64 {
        let tables = tables.iter().copied().cloned().collect();
        self.0.get(&tables).copied().unwrap_or_default()
    }
}

fn all<'a>(context: &Context<'a>) -> impl Iterator<Item = Batches<'a>> {
    let batched = context.window.sequences.batched.iter();
    batched.filter_map(|(id, seen)| {
        let pattern = context.window.patterns.get(id)?;
        let is_habit = share(seen.copies, seen.batches) >= HABIT;
        // Counters cannot be in any other batch, and add.
        let may_be_logged = !pattern.is(Flag::Counter);
        let statement = context.statement(*id).filter(|_| is_habit && may_be_logged)?;
        let keyspace = pattern.head.keyspace.as_deref();
        let tables = modifications(&statement)
            .iter()
            .filter_map(|modification| written(modification, keyspace))
            .collect();
        Some(Batches {
            id: *id,
            pattern,
            tables,
            seen: *seen,
        })
    })
}

impl Batches<'_> {
    /// Batches with copies, of all executions.
    fn times(&self) -> u64 {
        rounded(self.pattern.count as f64 * share(self.seen.copies, self.seen.batches))
    }

    fn finding(&self, severity: Severity, logged: &LoggedBatches, context: &Context<'_>) -> Finding {
        let because = match self.seen.failed {
            0 => String::new(),
            failed => format!(
                "; {} failed and may have written only some of the tables",
                number::plural(failed, "batch", "batches")
            ),
        };
        let title = format!(
            "The client writes the same values to {} in an unlogged batch{}{because}",
            names(&self.tables),
            often(self.times(), context.watch(self.pattern))
        );
        let tables: Vec<&TableName> = self.tables.iter().collect();
        let finding = Finding::on(&ABOUT, severity, (self.id, self.pattern), context);
        let finding = on_tables(finding, &tables);
        let subject = format!("{} unlogged", finding.subject.clone().unwrap_or_default());
        finding
            .about(subject)
            .title(title)
            .advice(MAKE_IT_LOGGED)
            .first("failed_batches", self.seen.failed)
            .first("in_logged_batches", logged.of(&tables))
            .first("operations_looked_at", self.seen.batches)
            .first("operations", self.times())
            .suggest([self.as_logged()])
    }

    fn as_logged(&self) -> String {
        let logged = self.pattern.head.cql.replacen("UNLOGGED ", "", 1);
        format!("{};", logged.trim_end_matches(';'))
    }

    pub(super) fn sequence(&self) -> Sequence {
        let names: Vec<String> = self.tables.iter().map(|table| format!("`{table}`")).collect();
        let mut writes = Distribution::default();
        writes.record_n(self.tables.len() as u64, self.seen.copies);
        Sequence {
            kind: ABOUT.id,
            path: names.join(" + "),
            tables: self.tables.iter().cloned().collect(),
            patterns: vec![self.id],
            count: self.times(),
            count_range: estimate::range(
                self.times(),
                (self.seen.copies, self.seen.batches),
                self.pattern.count,
            ),
            steps: steps(&self.tables, Sent::InOneRequest, self.seen.copies),
            applications: applications(&[(self.id, self.pattern)]),
            sampled: self.seen.copies,
            fan_out: writes,
            partitions: self.tables.len() as f64,
            elapsed_us: self.pattern.latency_us.clone(),
            sent: Sent::InOneRequest,
            serial_share: 0.0,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::{
        sequence::DualWriteWithoutBatch,
        testing::{amid, run, write},
    };
    use cqlens_cql::plan::StatementKind;
    use cqlens_window::Window;

    /// Two hundred batches of this kind into two tables, of which so many are copies and so many of these failed.
    fn window(kind: &str, flag: Flag, (copies, failed): (u64, u64)) -> Window {
        let cql = format!(
            "BEGIN {kind}BATCH INSERT INTO shop.by_email (a, b) VALUES (?, ?); \
             INSERT INTO shop.by_name (b, a) VALUES (?, ?); APPLY BATCH"
        );
        let pattern = write(&cql, StatementKind::Batch, &[flag, Flag::SeveralTables], 200);
        let mut window = amid([pattern]);
        let seen = BatchedCopies {
            batches: 200,
            copies,
            failed,
        };
        window.sequences.batched.insert(PatternId(1), seen);
        window
    }

    fn found(window: &Window) -> Vec<Finding> {
        run(&DualWriteWithoutBatch, window).findings
    }

    #[test]
    fn copies_in_unlogged_batches_have_a_title_of_their_own() {
        let [finding] = &found(&window("UNLOGGED ", Flag::UnloggedBatch, (200, 0)))[..] else {
            unreachable!("one finding")
        };
        assert_eq!(finding.severity, Severity::Info);
        assert_eq!(
            finding.title,
            "The client writes the same values to `shop.by_email` and `shop.by_name` in an unlogged batch, 3.3 a second"
        );
        let suggested = "BEGIN BATCH INSERT INTO shop.by_email (a, b) VALUES (?, ?); \
                         INSERT INTO shop.by_name (b, a) VALUES (?, ?); APPLY BATCH;";
        assert_eq!(finding.suggested_cql, [suggested]);
        let failing = found(&window("UNLOGGED ", Flag::UnloggedBatch, (200, 2)));
        assert_eq!(failing[0].severity, Severity::Medium);
        let expected = "; 2 batches failed and may have written only some of the tables";
        assert!(failing[0].title.ends_with(expected), "{}", failing[0].title);
    }

    #[test]
    fn batches_of_which_none_failed_are_said_once_of_an_application() {
        let mut both = window("UNLOGGED ", Flag::UnloggedBatch, (200, 0));
        let cql = "BEGIN UNLOGGED BATCH INSERT INTO shop.c (a, b) VALUES (?, ?); \
                   INSERT INTO shop.d (b, a) VALUES (?, ?); APPLY BATCH";
        let flags = [Flag::UnloggedBatch, Flag::SeveralTables];
        let other = write(cql, StatementKind::Batch, &flags, 200);
        both.patterns.insert(PatternId(2), other);
        let seen = |failed| BatchedCopies {
            batches: 200,
            copies: 200,
            failed,
        };
        both.sequences.batched.insert(PatternId(2), seen(0));
        let [finding] = &found(&both)[..] else {
            unreachable!("one finding")
        };
        assert_eq!(
            finding.title,
            "A client writes the same values to 2 sets of tables in unlogged batches, 6.7 a second"
        );
        both.sequences.batched.insert(PatternId(2), seen(1));
        assert_eq!(found(&both).len(), 2, "what failed has a finding of its own");
    }

    #[test]
    fn other_values_and_logged_batches_are_no_finding() {
        assert_eq!(found(&window("UNLOGGED ", Flag::UnloggedBatch, (90, 0))), []);
        let logged_ones = window("", Flag::LoggedBatch, (200, 5));
        assert_eq!(found(&logged_ones), []);
        let (schema, cluster) = (Default::default(), Default::default());
        let context = Context::new(&logged_ones, &schema, &cluster);
        let [email, name] = ["by_email", "by_name"].map(|table| TableName {
            keyspace: "shop".to_owned(),
            table: table.to_owned(),
        });
        assert_eq!(logged(&context).of(&[&email, &name]), 200);
        assert_eq!(logged(&context).of(&[&email]), 0);
    }
}
