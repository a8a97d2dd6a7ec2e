//! What a rule says of a window, and what it could not see.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use jiff::Timestamp;
use serde::Serialize;

use super::{
    About, Applied, Client, Context, Cost, EvidenceValue, Example, PartitionGrowth, RuleSeverity, Sequence,
    Settings, Severity, Threshold, Unwritten, Wish,
    severity::{self, Impact},
    watch::WatchedTime,
    wish,
};
use cqlens_cql::{plan::StatementKind, schema::TableName};
use cqlens_window::{Pattern, PatternHead, PatternId, number};

/// What supports a finding, in the order in which it is shown.
///
/// Names end in their unit (`_us`, `_bytes`, `_per_second`, `_share`); plain counts have no ending.
pub type Evidence = Vec<(&'static str, EvidenceValue)>;

/// One rule's judgement of one pattern or table.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// The rule's id.
    pub rule: &'static str,
    /// How much it matters.
    pub severity: Severity,
    /// Where.
    pub keyspace: Option<String>,
    /// Where.
    pub table: Option<String>,
    /// What tells it from other findings of its rule on its table (or on none): a template's fingerprint, a
    /// column, an application. It does not change from one report to the next.
    pub subject: Option<String>,
    /// The part of the table's definition that it speaks of; none for its columns and key, or for all of it.
    pub part: Option<DefinitionPart>,
    /// The patterns that it speaks of, the most expensive first.
    pub patterns: Vec<PatternId>,
    /// The fact in one sentence, with the table and the number that matters most. Names and CQL stand in
    /// backticks.
    pub title: String,
    /// The numbers.
    pub evidence: Evidence,
    /// What to do. Names and CQL stand in backticks.
    pub advice: String,
    /// The same in about three words.
    pub fix_in_short: &'static str,
    /// The program that sends its statements, if it is a known one, whose CQL its users cannot change.
    pub program: Option<&'static str>,
    /// CQL that would help, where it can be written.
    pub suggested_cql: Vec<String>,
    /// What to write instead, where there is no such CQL.
    pub example: Option<Example>,
    /// The partition that it is about, where that grows.
    pub growth: Option<PartitionGrowth>,
    /// What its patterns cost.
    pub cost: Cost,
    /// The part of the measured time of the application's statements that its patterns take, 0.0..=1.0;
    /// nothing where no time was measured.
    pub time_share: Option<f64>,
    /// The part of the partitions, rows and tombstones that its patterns touch, 0.0..=1.0.
    pub work_share: f64,
    /// The rule's source.
    pub reference: &'static str,
    /// By whom it is accepted, or was.
    pub acceptance: Option<Applied>,
    /// CQL that is written for it if it is among the first that are shown.
    pub(super) wishes: Vec<Wish>,
    /// What its severity was decided by, where it may be put together with others.
    pub(super) impact: Option<Impact<'static>>,
}

/// What a statement of its own can define or set of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DefinitionPart {
    /// An index, by its name.
    Index(String),
    /// A view of the table, by its name.
    View(String),
    /// An option, such as `gc_grace_seconds`.
    Option(&'static str),
}

impl Finding {
    /// A finding on `pattern`, with the rule's general advice and the evidence that belongs to every pattern.
    pub fn on(
        about: &'static About,
        severity: Severity,
        (id, pattern): (PatternId, &Pattern),
        context: &Context<'_>,
    ) -> Self {
        let cost = Cost::of(pattern);
        Self {
            rule: about.id,
            severity,
            keyspace: pattern.head.keyspace.clone(),
            table: pattern.head.table.clone(),
            subject: Some(id.to_string()),
            part: None,
            patterns: vec![id],
            title: about.summary.to_owned(),
            evidence: common_evidence(pattern, context),
            advice: about.fix.to_owned(),
            fix_in_short: about.fix_in_short,
            program: None,
            suggested_cql: Vec::new(),
            example: None,
            growth: None,
            cost,
            time_share: cost.time_share(context),
            work_share: cost.work_share(context),
            reference: about.source,
            acceptance: None,
            wishes: Vec::new(),
            impact: None,
        }
    }

    /// A finding on several patterns together, the costliest first; it is of a table if all of them are.
    pub fn on_all(
        about: &'static About,
        severity: Severity,
        mut patterns: Vec<(PatternId, &Pattern)>,
        context: &Context<'_>,
    ) -> Self {
        patterns.sort_by(|(left_id, left), (right_id, right)| {
            let (left, right) = (Cost::of(left), Cost::of(right));
            let by_cost = right.time_us.cmp(&left.time_us).then(right.work.cmp(&left.work));
            by_cost.then(left_id.cmp(right_id))
        });
        // A batch that writes several things is named for each of them, and was executed once.
        patterns.dedup_by_key(|(id, _)| *id);
        let same = |name: fn(&Pattern) -> &Option<String>| {
            let first = patterns.first().and_then(|(_, pattern)| name(pattern).clone());
            let all = patterns.iter().all(|(_, pattern)| *name(pattern) == first);
            first.filter(|_| all)
        };
        let keyspace = same(|pattern| &pattern.head.keyspace);
        let executions: u64 = patterns.iter().map(|(_, pattern)| pattern.count).sum();
        let mut evidence: Evidence = vec![("executions", executions.into())];
        let watch = context.watch_all(patterns.iter().map(|&(_, pattern)| pattern));
        evidence.extend(per_second(executions, watch));
        let mut all = Pattern::new(overall(&patterns), BTreeSet::new());
        patterns.iter().for_each(|(_, pattern)| all.merge(pattern));
        let cost: Cost = patterns.iter().map(|(_, pattern)| Cost::of(pattern)).sum();
        evidence.extend(shares(cost, context));
        evidence.extend(origin(&all, context));
        Self {
            rule: about.id,
            severity,
            table: same(|pattern| &pattern.head.table).filter(|_| keyspace.is_some()),
            keyspace,
            subject: None,
            part: None,
            patterns: patterns.iter().map(|&(id, _)| id).collect(),
            title: about.summary.to_owned(),
            evidence,
            advice: about.fix.to_owned(),
            fix_in_short: about.fix_in_short,
            program: None,
            suggested_cql: Vec::new(),
            example: None,
            growth: None,
            cost,
            time_share: cost.time_share(context),
            work_share: cost.work_share(context),
            reference: about.source,
            acceptance: None,
            wishes: Vec::new(),
            impact: None,
        }
    }

    /// A finding on what the schema says, whatever the traffic.
    pub fn on_definition(about: &'static About, severity: Severity, context: &Context<'_>) -> Self {
        let mut finding = Self::on_all(about, severity, Vec::new(), context);
        finding.evidence.clear();
        finding
    }

    /// The same, of this keyspace as a whole.
    pub fn of_keyspace(mut self, name: &str) -> Self {
        self.keyspace = Some(name.to_owned());
        self
    }

    /// The same, of this table: where patterns that write several are looked at for one.
    pub fn of_table(mut self, name: &TableName) -> Self {
        self.keyspace = Some(name.keyspace.clone());
        self.table = Some(name.table.clone());
        self
    }

    /// The same, told from others of its rule on its table by this: a column, an application.
    pub fn about(mut self, subject: impl Into<String>) -> Self {
        self.subject = Some(subject.into());
        self
    }

    /// The same, of this part of the table's definition.
    #[must_use]
    pub fn of_part(mut self, part: DefinitionPart) -> Self {
        self.part = Some(part);
        self
    }

    /// The same with this title.
    pub fn title(mut self, title: String) -> Self {
        self.title = title;
        self
    }

    /// The same with this number put before all others.
    pub fn first(mut self, name: &'static str, value: impl Into<EvidenceValue>) -> Self {
        self.evidence.insert(0, (name, value.into()));
        self
    }

    /// What to do in about three words, where that is not what the rule says in general.
    #[must_use]
    pub fn fix_in_short(mut self, words: &'static str) -> Self {
        self.fix_in_short = words;
        self
    }

    /// The same with this advice.
    pub fn advice(mut self, advice: impl Into<String>) -> Self {
        self.advice = advice.into();
        self
    }

    /// The same, which may be one of many on statements of one application, each of them with this impact: together they
    /// matter more than the worst.
    pub(super) fn weighing(mut self, impact: Impact<'_>) -> Self {
        self.impact = Some(impact.kept());
        self
    }

    /// The same, of a partition that grows like this.
    pub fn growing(mut self, growth: Option<PartitionGrowth>) -> Self {
        self.growth = growth;
        self
    }

    /// The same with CQL that is written if it is shown.
    pub(super) fn wish(mut self, wish: Wish) -> Self {
        self.wishes.push(wish);
        self
    }

    /// The same with these statements as a suggestion.
    pub fn suggest(mut self, cql: impl IntoIterator<Item = String>) -> Self {
        self.suggested_cql.extend(cql);
        self
    }
}

/// What a rule could not see, and therefore does not judge.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct BlindSpot {
    /// The rule's id.
    pub rule: &'static str,
    /// One sentence, with the number of executions if it is known.
    pub text: String,
    /// Whether the rule could judge nothing at all.
    pub whole: bool,
}

/// All that the rules say of a window.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Judgement {
    /// What they found and nobody has accepted: the severest first, then the costliest.
    pub findings: Vec<Finding>,
    /// Findings that are accepted.
    pub accepted: Vec<Finding>,
    /// Acceptances of what was not found.
    pub idle: Vec<Applied>,
    /// Comments and settings that look like acceptances but are not valid, in full sentences.
    pub mistakes: Vec<String>,
    /// What they found to belong together.
    pub sequences: Vec<Sequence>,
    /// What they could not see.
    pub blind_spots: Vec<BlindSpot>,
    /// The thresholds that are set otherwise than by default, by rule and name.
    pub thresholds: BTreeMap<(String, String), f64>,
    /// What was not suggested, because there was too much of it.
    pub unwritten: Unwritten,
    /// The rules that were run, by their ids: all that are not switched off.
    pub rules: Vec<&'static str>,
    /// Those that are switched off.
    pub off: Vec<&'static str>,
}

/// Collects what rules find, and gives them their thresholds.
pub struct Findings<'a> {
    settings: &'a Settings,
    judgement: Judgement,
}

impl<'a> Findings<'a> {
    /// Nothing found yet; thresholds as in `settings`, else their defaults.
    pub fn new(settings: &'a Settings) -> Self {
        Self {
            settings,
            judgement: Judgement::default(),
        }
    }

    /// The value of one of the rule's thresholds.
    pub fn threshold(&self, about: &About, threshold: &Threshold) -> f64 {
        let declared = about
            .thresholds
            .iter()
            .any(|declared| declared.name == threshold.name);
        debug_assert!(declared, "{}: {} is not on its page", about.id, threshold.name);
        self.settings.threshold(about.id, threshold)
    }

    /// The value of one of the thresholds that all severities depend on.
    pub(super) fn severity_threshold(&self, threshold: &Threshold) -> f64 {
        self.settings.threshold(severity::ID, threshold)
    }

    /// Adds a finding, no more severe than the settings let its rule be.
    pub fn push(&mut self, mut finding: Finding) {
        match self.settings.severities.get(finding.rule) {
            Some(RuleSeverity::Off) => {}
            Some(RuleSeverity::AtMost(most)) => {
                finding.severity = finding.severity.min(*most);
                self.judgement.findings.push(finding);
            }
            None => self.judgement.findings.push(finding),
        }
    }

    /// Notes that the rule could not see a part of what it needs.
    pub fn blind(&mut self, about: &About, text: String) {
        self.judgement.blind_spots.push(BlindSpot {
            rule: about.id,
            text,
            whole: false,
        });
    }

    /// Notes that a rule on what nodes share cannot judge a cluster of one.
    pub(crate) fn blind_on_one_node(&mut self, about: &About) {
        self.judgement.blind_spots.push(BlindSpot {
            rule: about.id,
            text: "the cluster has one node, which cannot show what these rules are about".to_owned(),
            whole: true,
        });
    }

    /// Everything, ranked, with the CQL that would help.
    pub fn ranked(self, context: &Context<'_>) -> Judgement {
        let mut judgement = self.unwritten(context);
        judgement.unwritten = wish::fulfil(&mut judgement.findings, context);
        judgement
    }

    /// Everything, ranked, before CQL is written for it.
    pub(super) fn unwritten(mut self, context: &Context<'_>) -> Judgement {
        rank(&mut self.judgement.findings, context);
        self.judgement
    }
}

/// The severest first; then by the share of the measured time, in steps of a factor of two so that noise does not
/// reorder; then by work.
pub(super) fn rank(findings: &mut [Finding], context: &Context<'_>) {
    findings.sort_by_cached_key(|finding| {
        (
            Reverse((finding.severity, finding.cost.rank(context))),
            finding.title.clone(),
        )
    });
}

/// What patterns that are put together are called.
fn overall(patterns: &[(PatternId, &Pattern)]) -> PatternHead {
    let kind = patterns.first().map(|(_, pattern)| pattern.head.kind);
    PatternHead {
        kind: kind.unwrap_or(StatementKind::Other),
        keyspace: None,
        table: None,
        cql: String::new(),
        system: false,
    }
}

/// What the patterns take of the measured time and of the work.
fn shares(cost: Cost, context: &Context<'_>) -> Evidence {
    let time = cost
        .time_share(context)
        .map(|share| ("of_measured_time_share", share.into()));
    // Of a statement that was only read nothing is known.
    let work = (context.total().work > 0).then(|| ("of_work_share", cost.work_share(context).into()));
    time.into_iter().chain(work).collect()
}

/// The rate, where so many executions make one.
fn per_second(executions: u64, watch: WatchedTime) -> Option<(&'static str, EvidenceValue)> {
    let rate = number::per_second(executions, watch.seconds())?;
    Some(("executions_per_second", rate.into()))
}

fn common_evidence(pattern: &Pattern, context: &Context<'_>) -> Evidence {
    let mut evidence: Evidence = vec![("executions", pattern.count.into())];
    evidence.extend(per_second(pattern.count, context.watch(pattern)));
    evidence.extend(shares(Cost::of(pattern), context));
    if !pattern.latency_us.is_empty() {
        evidence.push(("latency_p50_us", pattern.latency_us.quantile(0.5).into()));
        evidence.push(("latency_p99_us", pattern.latency_us.quantile(0.99).into()));
    }
    if !pattern.rows.is_empty() {
        evidence.push(("rows_p99", pattern.rows.quantile(0.99).into()));
    }
    if pattern.errors > 0 {
        evidence.push(("errors", pattern.errors.into()));
    }
    evidence.extend(origin(pattern, context));
    evidence
}

/// How much of the application's requests it is, who sent it, at which consistency levels, and when. What is
/// not known is left out, as all of it is of a statement that was only read.
fn origin(pattern: &Pattern, context: &Context<'_>) -> Evidence {
    let mut origin = Evidence::new();
    let coverage = &context.window.coverage;
    let requests = coverage.audited.saturating_sub(coverage.system_requests);
    if pattern.count > 0 && pattern.count <= requests {
        let share = pattern.count as f64 / requests as f64;
        origin.push(("of_all_requests_share", share.into()));
    }
    origin.extend(clients(&pattern.clients));
    if !pattern.consistency.is_empty() {
        let levels = EvidenceValue::Counts(pattern.consistency.clone());
        origin.push(("consistency_levels", levels));
    }
    if let Some((first, last)) = pattern.seen {
        let second = |at: Timestamp| at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        origin.push(("first_seen", second(first).into()));
        origin.push(("last_seen", second(last).into()));
    }
    origin
}

/// Those that send most, and how many others there are.
fn clients(executions: &BTreeMap<String, u64>) -> Evidence {
    let mut clients: Vec<_> = executions.iter().collect();
    clients.sort_by_key(|&(name, executions)| (Reverse(executions), name));
    let others = clients.split_off(clients.len().min(MOST_CLIENTS));
    let named: Vec<_> = clients
        .into_iter()
        .map(|(name, executions)| Client::of(name, *executions))
        .collect();
    let mut evidence = Evidence::new();
    if !named.is_empty() {
        evidence.push(("sent_by", EvidenceValue::Clients(named)));
    }
    if !others.is_empty() {
        evidence.push(("sent_by_left_out", others.len().into()));
    }
    evidence
}

/// Its statements have them all.
const MOST_CLIENTS: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use cqlens_cql::schema::Schema;
    use cqlens_window::{Cluster, Window};

    #[test]
    fn the_origin_says_how_much_who_how_and_when_as_far_as_that_is_known() {
        let mut pattern = testing::pattern("SELECT * FROM s.t", StatementKind::Select, 30);
        let mut window = testing::window([]);
        let (schema, cluster) = (Schema::default(), Cluster::default());
        let of =
            |window: &Window, pattern: &Pattern| origin(pattern, &Context::new(window, &schema, &cluster));
        assert_eq!(of(&window, &pattern), []);
        (window.coverage.audited, window.coverage.system_requests) = (130, 10);
        pattern.see(Timestamp::UNIX_EPOCH);
        pattern.consistency = [("ONE".to_owned(), 10), ("LOCAL_QUORUM".to_owned(), 20)].into();
        let named = |name: &str| (name.to_owned(), 1);
        pattern.clients = ["a", "b", "c", "d"].map(named).into();
        let expected: Evidence = vec![
            ("of_all_requests_share", 0.25.into()),
            (
                "sent_by",
                EvidenceValue::Clients(["a", "b", "c"].map(|name| Client::of(name, 1)).into()),
            ),
            ("sent_by_left_out", 1.into()),
            (
                "consistency_levels",
                EvidenceValue::Counts(pattern.consistency.clone()),
            ),
            ("first_seen", "1970-01-01T00:00:00Z".into()),
            ("last_seen", "1970-01-01T00:00:00Z".into()),
        ];
        assert_eq!(of(&window, &pattern), expected);
    }
}
