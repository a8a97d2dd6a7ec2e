//! cqlens: a proxy for the Cassandra native protocol that audits live query patterns.
//!
//! `cqlens_proxy` forwards bytes and hands copies to the audit, `cqlens_sniff` finds them in packet captures; what
//! becomes of them is `cqlens_audit`'s business. Here is what makes a program of it: `control` asks the cluster for
//! its schema, nodes and prepared statements; `sink` puts reports and snapshots somewhere; `metrics` is what
//! Prometheus may ask; `cli` is what an operator
//! types; `in_process` is a proxy for the tests of other programs.

pub mod cli;
pub mod control;
pub mod in_process;
pub mod metrics;
pub mod sink;
