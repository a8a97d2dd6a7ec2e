//! cqlens: a proxy for the Cassandra native protocol that audits live query patterns.
//!
//! The modules stand in the order of the data flow: `proxy` forwards bytes and hands copies to `capture`, `sniff` finds them in packet captures;
//! `audit` turns them into exchanges and folds those into a `window`; `rules` judge windows; `report` renders
//! what they found and `sink` puts it somewhere. `catalog` knows the schema and the prepared statements. `tls` is what
//! connections are wrapped in where that is asked for, `timers` what they wait with, `pulse` the sign of life that threads give, and
//! `memory` the budget that all of them keep to. `files` reads small files within limits.

mod files;

mod throttle;
mod timers;

pub mod memory;

pub mod pulse;

pub mod tls;

pub mod proxy;

pub mod sniff;

pub mod capture;

pub mod catalog;

pub mod client;

pub mod control;

pub mod audit;

pub mod window;

pub mod number;

pub mod text;

pub mod rules;

pub mod report;

pub mod sink;

pub mod node;

pub mod cli;
