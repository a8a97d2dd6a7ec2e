//! cqlens: a proxy for the Cassandra native protocol that audits live query patterns.
//!
//! `proxy` forwards bytes and hands copies to the audit, `cqlens_sniff` finds them in packet captures; what becomes
//! of them is `cqlens_audit`'s business. `control` asks the cluster for its schema, nodes and prepared
//! statements. `sink` puts reports and snapshots somewhere. `tls` is what connections are wrapped in where
//! that is asked for, `timers` what they wait with. `files` reads small files within limits. `cli` is what an
//! operator types, `in_process` a proxy for the tests of other programs.

mod files;
mod throttle;
mod timers;

pub mod cli;
pub mod control;
pub mod in_process;
pub mod proxy;
pub mod sink;
pub mod tls;
