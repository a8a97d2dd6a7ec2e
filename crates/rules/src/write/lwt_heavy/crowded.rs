//! Tables whose partitions get many conditional writes each.

use std::{
    collections::BTreeMap,
    fmt::{self, Display},
};

use super::super::Threshold;
use super::ABOUT;
use crate::{Context, Findings, statement::table_of};
use cqlens_cql::schema::TableName;
use cqlens_window::{Pattern, PatternId, number};

/// A table of which each partition gets many conditional writes, which wait for each other there.
pub(super) struct Crowded {
    table: TableName,
    pub(super) partitions: u64,
    pub(super) each_per_second: f64,
}

impl Crowded {
    /// The table with most of them for each partition; none where they do not meet.
    pub(super) fn of(
        conditional: &[(PatternId, &Pattern)],
        found: &Findings<'_>,
        context: &Context<'_>,
    ) -> Option<Self> {
        let mut written: BTreeMap<TableName, u64> = BTreeMap::new();
        for (_, pattern) in conditional {
            if let Some(table) = table_of(pattern) {
                *written.entry(table).or_default() += pattern.count;
            }
        }
        let tables = written.into_iter().filter_map(|(table, count)| {
            let traffic = context.window.tables.get(&table)?;
            let partitions = traffic.distinct_partitions.estimate();
            let rate = number::per_second(count, context.watch_table(&table).seconds())?;
            (partitions > 0).then(|| Self {
                table,
                partitions,
                each_per_second: rate / partitions as f64,
            })
        });
        let most = tables.max_by(|one, other| one.each_per_second.total_cmp(&other.each_per_second))?;
        (most.each_per_second >= found.threshold(&ABOUT, &CROWDED)).then_some(most)
    }
}

impl Display for Crowded {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rate = number::rate(self.each_per_second);
        match self.partitions {
            1 => write!(formatter, "`{}` has one partition, which gets {rate}", self.table),
            many => write!(
                formatter,
                "`{}` has {many} partitions, which get {rate} each",
                self.table
            ),
        }
    }
}

pub(super) const CROWDED: Threshold = Threshold {
    name: "crowded",
    unit: "conditional writes a second to each partition of a table, on average",
    default: 5.0,
    origin: "\
        cqlens default: a round takes milliseconds, and more while others of its partition go on, so that from some a \
        second on they meet",
};
