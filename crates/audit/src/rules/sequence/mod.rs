//! Rules on operations of several statements: what one operation of the application sends, one after the other or at
//! once.

mod batched_copies;
mod bucket;
mod bucket_fan_out;
mod bucket_size;
mod client_join;
mod dual_write_without_batch;
mod index_table_lookup;
mod join;
mod time_bucket_walk;

use serde::Serialize;

use super::{
    About, Context, Finding, Findings, Rule, Severity, Threshold,
    figures::{often, share},
    severity::Impact,
    statement::table_of,
};
use crate::{
    number::{self, rounded},
    window::{Distribution, Pattern, PatternId},
};
use cqlens_cql::schema::TableName;

pub(super) use bucket_fan_out::BucketFanOut;
pub(super) use client_join::ClientJoin;
pub(super) use dual_write_without_batch::DualWriteWithoutBatch;
pub(super) use index_table_lookup::IndexTableLookup;
pub(super) use time_bucket_walk::TimeBucketWalk;

/// The group of these rules.
const GROUP: &str = "sequences";

/// Statements that belong together, as a report lists them.
#[derive(Debug, Clone, PartialEq)]
pub struct Sequence {
    /// The rule that speaks of such.
    pub kind: &'static str,
    /// The tables, in the order in which they are come to.
    pub tables: Vec<TableName>,
    /// From table to table, as people read it: `` `shop.groups` → 20 × `shop.users` ``.
    pub path: String,
    /// The patterns, in the same order.
    pub patterns: Vec<PatternId>,
    /// Operations, estimated where only a sample was looked at.
    pub count: u64,
    /// Operations that were looked at.
    pub sampled: u64,
    /// What the last step asks for, for each time that the step before it is taken.
    pub fan_out: Distribution,
    /// Partitions of one operation, the mean.
    pub partitions: f64,
    /// From the answer of the first request to that of the last one of the last step.
    pub elapsed_us: Distribution,
    /// How the requests of the last step are sent.
    pub sent: Sent,
}

/// How the requests of one step are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sent {
    /// Each once the one before it is answered.
    OneAfterTheOther,
    /// Before the others are answered.
    AtTheSameTime,
    /// In one request, by `IN`.
    InOneRequest,
}

impl Sent {
    /// As a title has it.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::OneAfterTheOther => "one after the other",
            Self::AtTheSameTime => "at the same time",
            Self::InOneRequest => "by `IN`",
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
