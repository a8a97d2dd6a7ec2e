#![doc = include_str!("../README.md")]
//!
//! [`audit`] joins what [`capture`] hands over to exchanges of requests and responses, counts the partitions
//! that they touch with what [`catalog`] knows, and folds them into a [`window`]. [`rules`] judge windows, a
//! [`report`] shows what they found. [`memory`] is the budget that all of them keep to, [`pulse`] the sign of
//! life of their threads, [`number`] and [`text`] write for people.

pub mod audit;
pub mod capture;
pub mod catalog;
pub mod memory;
pub mod number;
pub mod pulse;
pub mod report;
pub mod rules;
pub mod text;
pub mod window;
