//! The report in a few sentences: where the time goes, is it bad, what is worst, can it be trusted.

mod time;

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::{FindingReport, PatternReport, ProblemReport, Report, Summary, TableReport, Totals};
use cqlens_cql::footprint::PartitionClass;
use cqlens_rules::Severity;
use cqlens_window::{Coverage, OVERFLOW, number};

/// What the sentences are made of.
pub(super) struct Facts<'a> {
    pub(super) coverage: &'a Coverage,
    pub(super) totals: &'a Totals,
    pub(super) tables: &'a [TableReport],
    pub(super) patterns: &'a [PatternReport],
    pub(super) problems: &'a [ProblemReport],
    pub(super) findings: &'a [FindingReport],
    pub(super) accepted: usize,
    pub(super) rules: usize,
}

impl<'a> Facts<'a> {
    /// Those of a report that is made.
    pub(super) fn of(report: &'a Report) -> Self {
        Self {
            coverage: &report.coverage,
            totals: &report.totals,
            tables: &report.tables,
            patterns: &report.patterns,
            problems: &report.problems,
            findings: &report.findings,
            accepted: report.accepted.len(),
            rules: report.rules.len(),
        }
    }
}

/// Below this share of time and of work, patterns with findings cost nothing that anybody would see.
const WORTH_A_COST: f64 = 0.01;

/// What takes so many times its share of the statements is worth more than another look at the others.
const CONCENTRATED: f64 = 2.0;

/// More than this share of requests left out or of executions uncounted, and the first screen says so.
const WORTH_A_CAUTION: f64 = 0.05;

pub(super) fn summarize(facts: &Facts<'_>) -> Summary {
    let (headline, detail) = if facts.coverage.requests == 0 && facts.patterns.is_empty() {
        (
            "No requests were seen.".to_owned(),
            "There is nothing to say about the data model: is the application's traffic going through \
                cqlens?"
                .to_owned(),
        )
    } else if facts.patterns.is_empty() {
        (
            "No application statements were seen.".to_owned(),
            format!(
                "{} passed, all of them sent by drivers and tools themselves: there is nothing to say \
                    about the data model.",
                number::plural(facts.coverage.requests, "request", "requests")
            ),
        )
    } else {
        (headline(facts), detail(facts))
    };
    Summary {
        time: time::sentence(facts),
        headline,
        detail,
        caution: caution(facts.coverage),
    }
}

fn headline(facts: &Facts<'_>) -> String {
    let but = match facts.accepted {
        0 => String::new(),
        1 => " except an accepted one".to_owned(),
        more => format!(" except {} accepted ones", number::word(more as u64)),
    };
    let costly = facts.problems.iter();
    let costly: Vec<_> = costly
        .filter(|problem| problem.severity >= Severity::Medium)
        .collect();
    if costly.is_empty() {
        let no = match facts.findings.first().map(|finding| finding.severity) {
            None => format!("No findings{but}"),
            Some(worst) => format!("No finding above {worst}{but}"),
        };
        return match unjudged(facts.coverage) {
            None => format!("{no}."),
            Some(others) => format!("{no} among the {}; {others}.", kept(facts.patterns)),
        };
    }
    let others = unjudged(facts.coverage).map(|others| format!(" {}.", capitalized(&others)));
    format!("{}.{}", costs(facts, &costly), others.unwrap_or_default())
}

/// What the statements of these problems cost: whether a few of them take much (concentrated), whether they take about what
/// as many others would (spread), or are a risk that costs nothing today.
fn costs(facts: &Facts<'_>, problems: &[&ProblemReport]) -> String {
    let findings: BTreeSet<_> = problems.iter().flat_map(|problem| &problem.findings).collect();
    let findings = facts
        .findings
        .iter()
        .filter(|finding| findings.contains(&finding.id));
    let ids: BTreeSet<_> = findings.flat_map(|finding| &finding.patterns).collect();
    let patterns = facts.patterns.iter().filter(|pattern| ids.contains(&pattern.id));
    let patterns: Vec<_> = patterns.collect();
    let all: u64 = facts.patterns.iter().map(|pattern| pattern.count).sum();
    let count: u64 = patterns.iter().map(|pattern| pattern.count).sum();
    let time: Option<f64> = patterns.iter().map(|pattern| pattern.time_share).sum();
    let work: f64 = patterns.iter().map(|pattern| pattern.work_share).sum();
    let is_one = problems.len() == 1;
    let (these, take) = (these(problems), if is_one { "takes" } else { "take" });
    let shares = shares(time, work);
    if time.unwrap_or_default().max(work) < WORTH_A_COST {
        let are = if is_one { "is" } else { "are" };
        return format!("{these} {are} a risk rather than a cost: {shares} today");
    }
    let (of_statements, most) = (number::share(count, all), time.unwrap_or_default().max(work));
    let times_their_share = most * all as f64 / count.max(1) as f64;
    if times_their_share >= CONCENTRATED {
        return format!("{these} {take} {shares} with {of_statements} of the statements");
    }
    let costly = if times_their_share >= 1.0 / CONCENTRATED {
        "about as costly as the average"
    } else {
        "cheaper than the average"
    };
    format!("{these} {take} {shares} with {of_statements} of the statements, each {costly}")
}

/// `The medium problem`, `The 5 high and medium problems`.
fn these(problems: &[&ProblemReport]) -> String {
    let has = |severity| problems.iter().any(|problem| problem.severity == severity);
    let severities = match (has(Severity::High), has(Severity::Medium)) {
        (true, true) => "high and medium",
        (true, false) => "high",
        (false, _) => "medium",
    };
    match problems.len() {
        1 => format!("The {severities} problem"),
        many => format!("The {many} {severities} problems"),
    }
}

/// `11 % of the measured time and 38 % of the work`; the work alone where no time was measured.
pub(super) fn shares(time: Option<f64>, work: f64) -> String {
    let work = number::percent(work);
    match time {
        Some(time) => format!(
            "{} of the measured time and {work} of the work",
            number::percent(time)
        ),
        None => format!("{work} of the work"),
    }
}

/// What rules have not seen because there was no room for it: as long as there is anything, nothing is called
/// clean.
fn unjudged(coverage: &Coverage) -> Option<String> {
    let of = |count: u64, one: &str, many: &str| (count > 0).then(|| number::plural(count, one, many));
    let counts = [
        of(
            coverage.patterns_overflowed,
            "execution of another statement",
            "executions of other statements",
        ),
        of(
            coverage.tables_overflowed,
            "read or write of another table",
            "reads and writes of other tables",
        ),
        of(
            coverage.indexed_columns_overflowed,
            "use of another index",
            "uses of other indexes",
        ),
    ];
    let counts: Vec<_> = counts.into_iter().flatten().collect();
    let total = coverage
        .patterns_overflowed
        .saturating_add(coverage.tables_overflowed)
        .saturating_add(coverage.indexed_columns_overflowed);
    let were = if total == 1 { "was" } else { "were" };
    (total > 0).then(|| format!("{} {were} not judged", counts.join(" and ")))
}

/// `20,000 patterns kept`.
fn kept(patterns: &[PatternReport]) -> String {
    let kept = patterns.iter().filter(|pattern| pattern.id != OVERFLOW).count();
    number::plural(kept as u64, "pattern kept", "patterns kept")
}

/// The same for the first lines of a report.
pub(super) fn overflow(coverage: &Coverage, patterns: &[PatternReport]) -> Option<String> {
    unjudged(coverage).map(|others| {
        format!(
            "There was not enough room for everything: {others}, in addition to the {}.",
            kept(patterns)
        )
    })
}

fn detail(facts: &Facts<'_>) -> String {
    let Some(worst) = facts.findings.first() else {
        return format!("{} {}", looked_at(facts), single_partition(facts.totals));
    };
    let counted = [Severity::High, Severity::Medium, Severity::Low, Severity::Info]
        .map(|severity| {
            let problems = facts.problems.iter();
            let number = problems.filter(|problem| problem.severity == severity).count();
            (severity, number)
        })
        .into_iter()
        .filter(|&(_, number)| number > 0)
        .map(|(severity, number)| format!("{} {severity}", number::count(number as u64)))
        .chain((facts.accepted > 0).then(|| format!("{} accepted", number::count(facts.accepted as u64))))
        .collect::<Vec<_>>()
        .join(", ");
    if worst.severity < Severity::Medium {
        return format!("Problems: {counted}. {}", single_partition(facts.totals));
    }
    format!("Problems: {counted}. The worst: {}.", lower_first(&worst.title))
}

/// What a report without findings rests on.
fn looked_at(facts: &Facts<'_>) -> String {
    format!(
        "{} rules checked {} on {}.",
        capitalized(&number::word(facts.rules as u64)),
        number::plural(facts.patterns.len() as u64, "query pattern", "query patterns"),
        number::plural(facts.tables.len() as u64, "table", "tables"),
    )
}

fn single_partition(totals: &Totals) -> String {
    match totals.single_partition_share() {
        Some(share) => format!("{} of the reads touch one partition.", number::percent(share)),
        None => "The number of partitions is not known for any read.".to_owned(),
    }
}

fn caution(coverage: &Coverage) -> Option<String> {
    let missed = coverage.dropped + coverage.undecoded;
    let counted = coverage.partitions_exact + coverage.partitions_bounded + coverage.partitions_scan;
    let executions = counted + coverage.partitions_unknown;
    let large = |part: u64, whole: u64| part as f64 > whole as f64 * WORTH_A_CAUTION;
    let mut sentences = Vec::new();
    if large(missed, coverage.requests) {
        let share = number::share(missed, coverage.requests);
        sentences.push(format!("{share} of the requests were not audited."));
    }
    if large(coverage.partitions_unknown, executions) {
        let share = number::share(coverage.partitions_unknown, executions);
        sentences.push(format!(
            "The partitions of {share} of the executions are not known."
        ));
    }
    (!sentences.is_empty()).then(|| sentences.join(" "))
}

impl Report {
    /// The findings of a problem, the one that says it best first.
    pub fn findings_of<'r>(&'r self, problem: &'r ProblemReport) -> impl Iterator<Item = &'r FindingReport> {
        let ids: BTreeSet<_> = problem.findings.iter().collect();
        let its = self.findings.iter().filter(|finding| ids.contains(&finding.id));
        let its: BTreeMap<_, _> = its.map(|finding| (finding.id, finding)).collect();
        problem.findings.iter().filter_map(move |id| its.get(id).copied())
    }

    /// What stands where findings would.
    pub(super) fn none(&self) -> &'static str {
        match unjudged(&self.coverage) {
            None => "None",
            Some(_) => "None among the patterns that were kept",
        }
    }

    /// From when to when, as short as it can be said.
    pub(super) fn period(&self) -> String {
        let (start, end) = (self.window.start, self.window.end);
        let day = |time: Timestamp| time.strftime("%-d %B %Y").to_string();
        let clock = if self.seconds() < 600.0 {
            "%H:%M:%S"
        } else {
            "%H:%M"
        };
        let (from, to) = (start.strftime(clock), end.strftime(clock));
        if day(start) == day(end) {
            format!("{}, {from}–{to} UTC", day(start))
        } else {
            format!("{}, {from} – {}, {to} UTC", day(start), day(end))
        }
    }

    /// How much of what passed was audited.
    pub(super) fn audited(&self) -> String {
        let coverage = &self.coverage;
        let requests = number::exact(coverage.requests);
        match (coverage.requests, coverage.audited) {
            (0, _) => "No requests".to_owned(),
            (1, 1) => "1 request, audited".to_owned(),
            (all, audited) if audited >= all => format!("{requests} requests, all audited"),
            (all, audited) => format!("{requests} requests, {} audited", number::share(audited, all)),
        }
    }
}

/// The CQL of each of a problem's findings; what stands with one before it is not printed again.
pub(super) fn cql_of_all<'r>(findings: &[&'r FindingReport]) -> Vec<Vec<&'r str>> {
    let mut before: BTreeSet<&str> = BTreeSet::new();
    let of_finding = |finding: &&'r FindingReport| {
        let suggested = finding.suggested_cql.iter().map(String::as_str);
        let (again, new): (Vec<_>, Vec<_>) = suggested.partition(|cql| before.contains(cql));
        before.extend(&new);
        let above = (!again.is_empty()).then_some("-- the table above serves this as well");
        above.into_iter().chain(new).collect()
    };
    findings.iter().map(of_finding).collect()
}

impl Totals {
    /// The share of reads that touch one partition at most, of those of which anything is known; none without
    /// such reads.
    pub fn single_partition_share(&self) -> Option<f64> {
        self.class_share(&[PartitionClass::Single])
    }

    /// The share of reads without the partition key: scans, token ranges and index reads.
    pub fn ring_share(&self) -> Option<f64> {
        self.class_share(&[
            PartitionClass::Scan,
            PartitionClass::TokenRange,
            PartitionClass::Index,
        ])
    }

    fn class_share(&self, classes: &[PartitionClass]) -> Option<f64> {
        let known = self
            .reads_by_class
            .iter()
            .filter(|(class, _)| **class != PartitionClass::Unknown);
        let all: u64 = known.map(|(_, count)| count).sum();
        let part: u64 = classes
            .iter()
            .filter_map(|class| self.reads_by_class.get(class))
            .sum();
        (all > 0).then(|| part as f64 / all as f64)
    }
}

fn capitalized(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}

fn lower_first(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|letter| letter.to_ascii_lowercase());
    first.into_iter().chain(letters).collect()
}

#[cfg(test)]
mod tests;
