//! Rules on operations of several statements: what one operation of the application sends, one after the other or at
//! once.

mod batched_copies;
mod bucket;
mod bucket_fan_out;
mod bucket_size;
mod client_join;
mod copies_in_short;
mod dual_write_without_batch;
mod estimate;
mod index_table_lookup;
mod join;
mod read_before_write;
mod redundant_reads;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod time_bucket_walk;

use std::{cmp::Reverse, collections::BTreeMap};

use serde::Serialize;

use super::{
    About, Context, Finding, Findings, Rule, Severity, Threshold, application,
    figures::{often, share},
    severity::Impact,
    statement::table_of,
};
use cqlens_cql::schema::TableName;
use cqlens_window::{
    Distribution, Pattern, PatternId,
    number::{self, rounded},
};

pub(super) use bucket_fan_out::BucketFanOut;
pub(super) use client_join::{ClientJoin, lists_of_right_joins};
pub(super) use dual_write_without_batch::DualWriteWithoutBatch;
pub(super) use index_table_lookup::IndexTableLookup;
pub(super) use read_before_write::ReadBeforeWrite;
pub(super) use redundant_reads::RedundantReads;
pub(super) use time_bucket_walk::TimeBucketWalk;

/// The group of these rules.
const GROUP: &str = "sequences";

/// Statements that belong together, as a report lists them.
#[derive(Debug, Clone, PartialEq)]
pub struct Sequence {
    /// The rule about these.
    pub kind: &'static str,
    /// The tables, in the order in which they are come to.
    pub tables: Vec<TableName>,
    /// From table to table, as people read it: `` `shop.groups` → 20 × `shop.users` ``.
    pub path: String,
    /// The patterns, in the same order.
    pub patterns: Vec<PatternId>,
    /// Operations, estimated where only a sample was looked at.
    pub count: u64,
    /// Between how many and how many there were, at 95 %.
    pub count_range: (u64, u64),
    /// Operations that were looked at.
    pub sampled: u64,
    /// From table to table.
    pub steps: Vec<SequenceStep>,
    /// The applications that send the statements, those that send most of them first: at most
    /// [`Sequence::MOST_APPLICATIONS`].
    pub applications: Vec<String>,
    /// What the last step asks for, for each time that the step before it is taken.
    pub fan_out: Distribution,
    /// Partitions per operation, on average.
    pub partitions: f64,
    /// From the first request to the last answer; of copies to the last request.
    pub elapsed_us: Distribution,
    /// How the requests of the last step are sent.
    pub sent: Sent,
    /// The part of these requests that wait for the answer to the one before, 0.0..=1.0.
    pub serial_share: f64,
}

/// A step from one table to another one, or to more partitions of the same.
#[derive(Debug, Clone, PartialEq)]
pub struct SequenceStep {
    /// Where it begins.
    pub from: TableName,
    /// Where it leads.
    pub to: TableName,
    /// Partitions of the second table per step.
    pub fan_out: Distribution,
    /// How its requests are sent.
    pub sent: Sent,
}

impl Sequence {
    /// More applications are not named.
    pub const MOST_APPLICATIONS: usize = 5;
}

/// The applications that send statements of all these patterns.
fn applications(patterns: &[(PatternId, &Pattern)]) -> Vec<String> {
    let mut executions: BTreeMap<&str, u64> = BTreeMap::new();
    for (_, pattern) in patterns {
        for (client, count) in &pattern.clients {
            *executions.entry(application::name(client)).or_default() += count;
        }
    }
    let of_all = |name: &str| {
        let mut names = patterns.iter().map(|(_, pattern)| application::of(pattern));
        names.all(|names| names.contains(name))
    };
    let mut names: Vec<(&str, u64)> = executions.into_iter().filter(|(name, _)| of_all(name)).collect();
    names.sort_by_key(|&(name, count)| (Reverse(count), name));
    let names = names.into_iter().map(|(name, _)| name.to_owned());
    names.take(Sequence::MOST_APPLICATIONS).collect()
}

/// How the requests of one step are sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Sent {
    /// Each after the response to the one before it.
    #[default]
    OneAfterTheOther,
    /// Before the responses to the others.
    AtTheSameTime,
    /// In one request, by `IN`.
    InOneRequest,
}

impl Sent {
    /// As a title has it.
    pub fn words(self) -> &'static str {
        match self {
            Self::OneAfterTheOther => "one after the other",
            Self::AtTheSameTime => "in parallel",
            Self::InOneRequest => "with `IN`",
        }
    }
}

/// All sequences of a window, as the rules see them.
pub(super) fn all(context: &Context<'_>, found: &Findings<'_>) -> Vec<Sequence> {
    let mut all = Vec::new();
    for chain in join::chains(context, found) {
        let kind = match chain.is_join(found) {
            true => &client_join::ABOUT,
            false => &index_table_lookup::ABOUT,
        };
        all.push(chain.sequence(kind.id));
    }
    for buckets in bucket::all(context, found) {
        if buckets.is_of_all() {
            all.push(buckets.sequence(bucket_fan_out::ABOUT.id));
        } else if buckets.is_walk() {
            all.push(buckets.sequence(time_bucket_walk::ABOUT.id));
        }
    }
    all.extend(
        dual_write_without_batch::all(context, found)
            .iter()
            .map(|copies| copies.sequence()),
    );
    all.extend(
        batched_copies::unlogged(context, found)
            .iter()
            .map(|copies| copies.sequence()),
    );
    all
}
