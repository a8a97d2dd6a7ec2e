//! Serialized values, judged and compared as Cassandra's types do (`AbstractType.validate`, `compare`,
//! `decompose`).
//!
//! Planning works on bytes: a key is bytes, and so is every bound value. What a type adds is which bytes are
//! its values, which of them are equal, and which bytes Cassandra keeps of a value that it takes apart and
//! packs again.

mod compare;
mod number;
mod pack;
mod parse;
mod repack;
mod time;
mod valid;

pub(super) use compare::compare;
pub(super) use number::{DIGITS_SQUARED_PER_STEP, Decimal, Integer};
pub(super) use pack::{components, elements, pack, pack_vector, push_element};
pub(super) use parse::{accepts, days_of_date, is_host_name, parse};
pub(super) use repack::{repacked, sorted_map, sorted_set};
pub(super) use valid::is_valid;
