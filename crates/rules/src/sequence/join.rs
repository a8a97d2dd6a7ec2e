//! Reads by the values of rows that were read just before, step by step: what both rules on them go by.

use std::collections::BTreeSet;

use super::{
    Context, Finding, Findings, Pattern, PatternId, Sent, Sequence, SequenceStep, TableName, Threshold,
    applications, client_join, estimate, rounded, share, table_of,
};
use crate::{
    ColumnLink, EvidenceValue,
    statement::{select, updates},
};
use cqlens_cql::{
    plan::StatementKind,
    schema::{Column, DataType, Table, quote},
    syntax::ast::{NativeType, Selection, Term},
};
use cqlens_window::{Distribution, FollowedReads, Link, number};

/// A step from one table to the next.
pub(super) struct Step<'a> {
    pub(super) from: (PatternId, &'a Pattern),
    pub(super) to: (PatternId, &'a Pattern),
    pub(super) from_table: TableName,
    pub(super) to_table: TableName,
    reads: &'a FollowedReads,
    /// The type of the key's column that links most often, where the schema has it.
    key_type: Option<NativeType>,
    pub(super) link: &'a Link,
}

/// Steps that begin with one read: each begins with that, or where another one ends.
pub(super) struct Chain<'a> {
    pub(super) steps: Vec<Step<'a>>,
}

/// The different values that must have linked, where nothing else tells them from chance: what has fewer, as a status has, is
/// equal by chance.
pub(super) const VALUES: Threshold = Threshold {
    name: "values",
    unit: "distinct values that were returned",
    default: 16.0,
    origin: "cqlens default: columns with fewer are states, kinds and flags, which match by chance",
};

/// How many operations must have been seen.
pub(super) const OPERATIONS: Threshold = Threshold {
    name: "operations",
    unit: "sampled operations",
    default: 20.0,
    origin: "cqlens default: what happens less often during a report is not a habit",
};

/// Reads of which fewer are followed are no first step of anything: people go on from there, or nobody does.
const OFTEN: f64 = 0.5;

/// Reads of which so many are followed, or rows of which so many keys are asked for, are followed nearly always.
const NEARLY_ALWAYS: f64 = 0.8;

/// The same, where not even chance would bring as many.
const ALWAYS: f64 = 0.95;

/// Links of which more is explained by chance are none.
const MOST_BY_CHANCE: f64 = 0.1;

/// The same of the values of another execution: those that are popular are asked for by other users meanwhile, whose own reads
/// need not be among the sampled ones. By chance, as many would be.
const MOST_BY_CONTROL: f64 = 0.25;

/// As often as that, they are asked for as the values of the read itself.
const AS_OFTEN_BY_CONTROL: f64 = 0.75;

/// Of keys that come by chance half are in the order of the rows: where nearly all are, and so many or more were
/// compared, they come from the rows, whichever other clients read the same.
const IN_ORDER: (f64, u64) = (0.9, 40);

/// Requests for each key, from which on it is asked for again as a habit, and not by chance.
const OFTEN_AGAIN: f64 = 1.5;

/// All chains of a window, the first step of each first.
pub(super) fn chains<'a>(context: &Context<'a>, found: &Findings<'_>) -> Vec<Chain<'a>> {
    let mut steps: Vec<Step<'a>> = steps(context, found);
    let ends: BTreeSet<PatternId> = steps
        .iter()
        .filter(|step| step.from.0 != step.to.0)
        .map(|step| step.to.0)
        .collect();
    let mut chains = Vec::new();
    // First those that begin a chain; of a circle any.
    steps.sort_by_key(|step| ends.contains(&step.from.0));
    while let Some(first) = steps.first().map(|step| step.from.0) {
        let (mut chain, rest): (Vec<Step<'a>>, Vec<_>) =
            steps.into_iter().partition(|step| step.from.0 == first);
        steps = rest;
        let mut at = 0;
        while let Some(end) = chain.get(at).map(|step| step.to.0) {
            let (next, rest) = steps.into_iter().partition(|step| step.from.0 == end);
            let next: Vec<Step<'a>> = next;
            steps = rest;
            chain.extend(next);
            at += 1;
        }
        chains.push(Chain { steps: chain });
    }
    chains
}

fn steps<'a>(context: &Context<'a>, found: &Findings<'_>) -> Vec<Step<'a>> {
    let window = context.window;
    let mut steps = Vec::new();
    for (from, reads) in &window.sequences.followed {
        for (to, link) in &reads.links {
            let patterns = window.patterns.get(from).zip(window.patterns.get(to));
            let Some((first, second)) = patterns else { continue };
            let tables = table_of(first).zip(table_of(second));
            let Some((from_table, to_table)) = tables else {
                continue;
            };
            let mut step = Step {
                key_type: None,
                from: (*from, first),
                to: (*to, second),
                from_table,
                to_table,
                reads,
                link,
            };
            step.key_type = step.native_key_type(context);
            if second.head.kind == StatementKind::Select && step.is_believed(found) {
                steps.push(step);
            }
        }
    }
    steps
}

impl<'a> Step<'a> {
    /// Whether it is a habit and no chance.
    fn is_believed(&self, found: &Findings<'_>) -> bool {
        let of = |threshold: &Threshold| found.threshold(&client_join::ABOUT, threshold);
        let is_habit = self.followed() as f64 >= of(&OPERATIONS) && self.followed_share() >= OFTEN;
        let differs =
            self.link.values.estimate() as f64 >= of(&VALUES) || self.is_told_apart(of(&OPERATIONS));
        is_habit && differs && self.is_no_chance(found) && (self.is_fan_out(found) || self.is_lookup())
    }

    /// Whether few different values are enough: no two UUIDs are equal by chance, points in time hardly, and what is not asked
    /// for where another execution has it is no state that everybody asks for.
    fn is_told_apart(&self, least: f64) -> bool {
        match self.key_type {
            Some(NativeType::Uuid | NativeType::Timeuuid) => true,
            Some(NativeType::Timestamp) => self.is_rare_before(),
            _ => self.is_rare_by_control(least),
        }
    }

    /// Whether the rows are what the keys come from.
    fn is_no_chance(&self, found: &Findings<'_>) -> bool {
        let of_rows = share(self.link.keys.total(), self.link.rows);
        let is_at_once = share(self.link.late, self.followed()) <= MOST_BY_CHANCE;
        let follows = |share: f64| of_rows >= share && self.followed_share() >= share;
        let least = found.threshold(&client_join::ABOUT, &OPERATIONS);
        self.is_in_order(least)
            || self.is_listed()
            || (follows(NEARLY_ALWAYS) && self.is_rare_before())
            || (follows(ALWAYS) && is_at_once)
            || (self.is_rare_before() && self.is_rare_by_control(least))
    }

    /// Whether the values are hardly asked for in as much time before the rows are read.
    fn is_rare_before(&self) -> bool {
        self.link.by_chance as f64 <= MOST_BY_CHANCE * self.link.keys.total() as f64
    }

    /// Whether the values of another execution are hardly asked for after this one; of so many at least.
    fn is_rare_by_control(&self, least: f64) -> bool {
        self.reads.controlled as f64 >= least && self.by_control() <= MOST_BY_CONTROL
    }

    /// Whether they are asked for as its own ones are: who walks through all rows of a table, in the order of their keys, asks
    /// for those of a read in the order of its rows.
    fn is_common_by_control(&self, least: f64) -> bool {
        self.reads.controlled as f64 >= least && self.by_control() >= AS_OFTEN_BY_CONTROL
    }

    /// How often the values of another execution are asked for, of as many of its own.
    fn by_control(&self) -> f64 {
        let controlled = share(self.reads.controlled, self.reads.reads).min(1.0);
        let expected = self.link.keys.total() as f64 * controlled;
        self.link.by_control as f64 / expected
    }

    /// Whether most requests are lists, of which nearly all keys come from the rows: single values meet by chance, whole lists
    /// do not.
    fn is_listed(&self) -> bool {
        let link = self.link;
        let are_lists = link.lists * 2 > link.requests && link.listed >= link.lists * 2;
        are_lists && share(link.listed_found, link.listed) >= ALWAYS
    }

    fn native_key_type(&self, context: &Context<'_>) -> Option<NativeType> {
        let table = context
            .schema
            .table(&self.to_table.keyspace, &self.to_table.table)?;
        let (_, to) = self.columns()?;
        match &table.column(to)?.data_type {
            DataType::Native(native) => Some(*native),
            _ => None,
        }
    }

    fn is_in_order(&self, least: f64) -> bool {
        let (in_order, compared) = IN_ORDER;
        let link = self.link;
        let is_in_order = link.compared >= compared && share(link.in_order, link.compared) >= in_order;
        is_in_order && !self.is_common_by_control(least)
    }

    fn followed_share(&self) -> f64 {
        share(self.followed(), self.reads.reads)
    }

    /// Reads that were looked at, and were followed.
    pub(super) fn followed(&self) -> u64 {
        self.link.keys.count()
    }

    /// Keys for each read that was followed, the mean.
    pub(super) fn fan_out(&self) -> f64 {
        share(self.link.keys.total(), self.followed())
    }

    /// Whether one read leads to several.
    pub(super) fn is_fan_out(&self, found: &Findings<'_>) -> bool {
        self.fan_out() >= found.threshold(&client_join::ABOUT, &client_join::FAN_OUT)
    }

    /// Whether one row is read, and nearly always the row behind it.
    fn is_lookup(&self) -> bool {
        let is_of_one_row = self.reads.rows <= self.reads.reads + self.reads.reads / 2;
        is_of_one_row && self.followed_share() >= NEARLY_ALWAYS
    }

    /// Times that the first read was followed: counted of those that were sampled, estimated of the others.
    pub(super) fn times(&self) -> u64 {
        rounded(self.reads_with_rows() as f64 * self.followed_share())
    }

    /// Between how many and how many times that was.
    fn times_range(&self) -> (u64, u64) {
        let sampled = (self.followed(), self.reads.reads);
        estimate::range(self.times(), sampled, self.reads_with_rows())
    }

    fn reads_with_rows(&self) -> u64 {
        self.reads.reads + self.reads.passed_over
    }

    fn sequence_step(&self) -> SequenceStep {
        SequenceStep {
            from: self.from_table.clone(),
            to: self.to_table.clone(),
            fan_out: self.link.keys.clone(),
            sent: self.sent(),
        }
    }

    /// The part of its requests that wait for the answer to the one before. The first one always waits for the read, and says
    /// nothing where there are others.
    fn serial_share(&self) -> f64 {
        let link = self.link;
        let later = link.requests.saturating_sub(self.followed());
        let overlapping = share(link.overlapping, later).min(1.0);
        (1.0 - overlapping) * (1.0 - share(link.lists, link.requests).min(1.0))
    }

    /// Requests of each operation, those for keys that it has asked for before among them.
    fn requests(&self) -> f64 {
        share(self.link.requests, self.followed())
    }

    /// `` in 600 reads``, where the same keys are asked for again and again.
    fn in_more_reads(&self) -> String {
        match self.requests() >= OFTEN_AGAIN * self.fan_out() {
            true => format!(" in {} reads", number::decimal(round(self.requests()))),
            false => String::new(),
        }
    }

    /// How its requests are sent.
    pub(super) fn sent(&self) -> Sent {
        let requests = self.link.requests;
        // Beside the first one of each operation, which waits for the read.
        let later = requests.saturating_sub(self.followed());
        let has_several = later * 2 > self.followed();
        if self.link.lists * 2 > requests {
            Sent::InOneRequest
        } else if has_several && self.link.overlapping * 2 > later {
            Sent::AtTheSameTime
        } else {
            Sent::OneAfterTheOther
        }
    }

    /// `members.user_id → users.id`, of the columns that link most often.
    pub(super) fn columns(&self) -> Option<(&'a str, &'a str)> {
        let columns = self.link.columns.iter();
        let pairs = columns.flat_map(|(from, keys)| keys.iter().map(move |(to, count)| (*count, from, to)));
        let (_, from, to) =
            pairs.max_by_key(|(count, from, to)| (*count, std::cmp::Reverse((*from, *to))))?;
        (!from.is_empty() && !to.is_empty()).then_some((from, to))
    }
}

impl<'a> Chain<'a> {
    /// Whether one of its steps leads to several reads.
    pub(super) fn is_join(&self, found: &Findings<'_>) -> bool {
        self.steps.iter().any(|step| step.is_fan_out(found))
    }

    pub(super) fn first(&self) -> Option<&Step<'a>> {
        self.steps.first()
    }

    /// The step that leads to most reads.
    pub(super) fn widest(&self) -> Option<&Step<'a>> {
        let steps = self.steps.iter();
        steps.max_by(|left, right| left.fan_out().total_cmp(&right.fan_out()))
    }

    /// Its patterns, each once.
    pub(super) fn patterns(&self) -> Vec<(PatternId, &'a Pattern)> {
        let mut patterns: Vec<(PatternId, &'a Pattern)> = Vec::new();
        for step in &self.steps {
            for pattern in [step.from, step.to] {
                if !patterns.iter().any(|(id, _)| *id == pattern.0) {
                    patterns.push(pattern);
                }
            }
        }
        patterns
    }

    /// The partitions of one operation, the mean.
    pub(super) fn partitions(&self) -> f64 {
        let mut reached: Vec<(PatternId, f64)> = Vec::new();
        let mut all = 0.0;
        for step in &self.steps {
            let before = reached.iter().find(|(id, _)| *id == step.from.0);
            let before = match before {
                Some((_, partitions)) => *partitions,
                None => {
                    all += 1.0;
                    reached.push((step.from.0, 1.0));
                    1.0
                }
            };
            let here = before * step.fan_out();
            all += here;
            reached.push((step.to.0, here));
        }
        all
    }

    /// As a title tells it: `` `groups`, then 20 reads of `users` for each, one after the other ``.
    pub(super) fn words(&self) -> String {
        let mut words = String::new();
        let mut end = None;
        for step in &self.steps {
            let times = step.fan_out();
            let reads = match times < 1.5 {
                true => "1 read".to_owned(),
                false => format!("{} partitions", number::decimal(round(times))),
            };
            let sent = match times < 1.5 {
                true => String::new(),
                false => format!("{}, {}", step.in_more_reads(), step.sent().words()),
            };
            words += match end {
                None => "",
                Some(end) if end == step.from.0 => ", then for each of them ",
                Some(_) => ", and ",
            };
            words += &format!("{reads} of `{}`{sent}", step.to_table.table);
            end = Some(step.to.0);
        }
        words
    }

    /// From table to table.
    fn path(&self) -> String {
        let mut path = self
            .first()
            .map(|step| format!("`{}`", step.from_table))
            .unwrap_or_default();
        let mut end = self.first().map(|step| step.from.0);
        for step in &self.steps {
            let goes_on = if end == Some(step.from.0) { "→" } else { "and" };
            path += &format!(" {goes_on} {}", times(step.fan_out(), &step.to_table));
            end = Some(step.to.0);
        }
        path
    }

    pub(super) fn sequence(&self, kind: &'static str) -> Sequence {
        let mut tables: Vec<TableName> = Vec::new();
        for step in &self.steps {
            for table in [&step.from_table, &step.to_table] {
                if !tables.contains(table) {
                    tables.push(table.clone());
                }
            }
        }
        let (first, widest) = (self.first(), self.widest());
        let patterns = self.patterns();
        Sequence {
            kind,
            path: self.path(),
            tables,
            applications: applications(&patterns),
            patterns: patterns.iter().map(|(id, _)| *id).collect(),
            count: first.map_or(0, Step::times),
            count_range: first.map_or((0, 0), Step::times_range),
            steps: self.steps.iter().map(Step::sequence_step).collect(),
            sampled: first.map_or(0, Step::followed),
            fan_out: widest.map(|step| step.link.keys.clone()).unwrap_or_default(),
            partitions: round(self.partitions()),
            elapsed_us: self.elapsed_us(),
            sent: widest.map_or(Sent::OneAfterTheOther, Step::sent),
            serial_share: widest.map_or(1.0, Step::serial_share),
        }
    }

    /// From the time that the first read was asked to the last answer of all steps; snapshots of older versions have only
    /// those of the widest step.
    fn elapsed_us(&self) -> Distribution {
        let of_operation = self.first().map(|step| &step.reads.operation_us);
        let of_step = self.widest().map(|step| &step.link.elapsed_us);
        let known = of_operation.filter(|times| !times.is_empty()).or(of_step);
        known.cloned().unwrap_or_default()
    }

    /// With the evidence that both rules have.
    pub(super) fn put_evidence(&self, finding: Finding) -> Finding {
        let Some(widest) = self.widest() else {
            return finding;
        };
        let serial = widest.sent() == Sent::OneAfterTheOther;
        let linked = self.steps.iter().filter_map(|step| {
            let (from, to) = step.columns()?;
            Some(ColumnLink {
                from_table: step.from_table.to_string(),
                from_column: from.to_owned(),
                to_table: step.to_table.to_string(),
                to_column: to.to_owned(),
            })
        });
        let linked = EvidenceValue::Links(linked.collect());
        let elapsed_us = self.elapsed_us();
        finding
            .first("linked_columns", linked)
            .first("operations_looked_at", widest.followed())
            .first("operations", self.first().map_or(0, Step::times))
            .first("one_after_the_other", serial)
            .first("operation_p99_us", elapsed_us.quantile(0.99))
            .first("operation_p50_us", elapsed_us.quantile(0.5))
            .first("partitions_per_operation", round(self.partitions()))
            .first("requests_per_operation", round(widest.requests()))
            .first("fan_out_max", widest.link.keys.max())
            .first("fan_out_p99", widest.link.keys.quantile(0.99))
            .first("fan_out_mean", round(widest.fan_out()))
    }

    /// How often rows of the tables that are joined to change, for each time that they are joined; none where they
    /// hardly do.
    pub(super) fn updates_per_join(&self, context: &Context<'_>) -> f64 {
        let tables: BTreeSet<&TableName> = self.steps.iter().map(|step| &step.to_table).collect();
        let changes: u64 = tables.iter().map(|table| updates(context, table)).sum();
        let times = self.first().map_or(0, Step::times);
        share(changes, times)
    }

    /// CQL that puts what is joined into the table that is read first.
    pub(super) fn copied_columns(&self, context: &Context<'_>) -> Option<String> {
        let [step] = &self.steps[..] else { return None };
        let [from, to] =
            [&step.from_table, &step.to_table].map(|name| context.schema.table(&name.keyspace, &name.table));
        let (from, to) = (from?, to?);
        // A row that lists several has no place for what each of them has.
        let listing = step.columns().and_then(|(column, _)| from.column(column));
        if listing.is_some_and(|column| column.data_type.is_collection()) {
            return None;
        }
        let wanted = wanted_columns(step.to.1, to)?;
        let is_new = |column: &&Column| from.column(&column.name).is_none() && !column.is_primary_key();
        let new: Vec<&Column> = wanted.into_iter().filter(is_new).collect();
        if new.is_empty() || new.iter().any(|column| column.data_type.is_counter()) {
            return None;
        }
        let types = new
            .iter()
            .map(|column| format!("{} {}", quote(&column.name), column.data_type));
        let names = new.iter().map(|column| quote(&column.name).into_owned());
        let select = select(&step.from.1.head)?;
        if select.distinct || select.json {
            return None;
        }
        let key = from.partition_key().iter();
        let key = key
            .map(|column| format!("{} = ?", quote(&column.name)))
            .collect::<Vec<_>>();
        let before = wanted_columns(step.from.1, from)?.into_iter();
        let before = before.filter(|column| !from.partition_key().contains(column));
        let before = before.map(|column| quote(&column.name).into_owned());
        let columns = before.chain(names).collect::<Vec<_>>().join(", ");
        let (from, to) = (&step.from_table, &step.to_table);
        Some(format!(
            "-- 1. add the columns that are looked up\nALTER TABLE {from} ADD ({});\n-- 2. write them with \
             every write to {to}, in one logged batch\n-- 3. copy the existing values\n-- 4. then read \
             once\nSELECT {columns} FROM {from} WHERE {};",
            types.collect::<Vec<_>>().join(", "),
            key.join(" AND ")
        ))
    }
}

/// The columns that a read asks for, where they are columns of the table and nothing else.
fn wanted_columns<'t>(pattern: &Pattern, table: &'t Table) -> Option<Vec<&'t Column>> {
    let select = select(&pattern.head)?;
    match &select.selection {
        Selection::All => Some(table.columns.iter().collect()),
        Selection::Selectors(selectors) => {
            let columns = selectors.iter().map(|selector| match &selector.term {
                Term::Column(name) => table.column(name.as_str()),
                _ => None,
            });
            columns.collect()
        }
    }
}

/// `` 20 × `shop.users` ``; the table alone where that is once.
pub(super) fn times(times: f64, table: &TableName) -> String {
    match round(times) <= 1.0 {
        true => format!("`{table}`"),
        false => format!("{} × `{table}`", number::decimal(round(times))),
    }
}

/// One digit behind the point, as figures of evidence have.
pub(super) fn round(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}
