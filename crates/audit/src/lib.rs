#![doc = include_str!("../README.md")]
//!
//! [`audit`] joins what [`cqlens_capture`] hands over to exchanges of requests and responses, counts the partitions
//! that they touch with what [`catalog`] knows, and folds them into a [`cqlens_window::Window`].

pub mod audit;
pub mod catalog;
