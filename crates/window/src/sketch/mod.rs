//! Bounded summaries of unbounded streams: distributions, distinct counts and heavy hitters.
//!
//! Each of them merges: the summary of two streams is the merge of their summaries, in any order and
//! grouping.

mod distinct;
mod distribution;
mod heavy;
mod largest;
pub(super) mod meter;
mod row_sample;
mod weights;

pub use distinct::Distinct;
pub use distribution::Distribution;
pub use heavy::{Heavy, HeavyEntry};
pub use largest::Largest;
pub use row_sample::{RowSample, WrittenRow};
pub use weights::{PartitionWeights, Weights};
