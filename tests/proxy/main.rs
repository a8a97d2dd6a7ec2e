//! What the data path promises, without a Cassandra: a scripted node on one side, raw bytes on the other.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot be set up has failed"
)]

use cqlens_testing as support;

mod admin;
mod bad_input;
mod bypass;
mod catalog;
mod certificates;
mod client_names;
mod descriptors;
mod files;
mod floods;
mod forwarding;
mod handover;
mod healthcheck;
mod judging;
mod keeping;
mod limits;
mod load;
mod local_users;
mod log;
mod logins;
mod long_bodies;
mod metrics;
mod operators;
mod outages;
mod pace;
mod procfs;
mod proxy_protocol;
mod rates;
mod reads;
mod redirections;
mod reload;
mod reloaded_limits;
mod ring;
mod routes;
mod secrets;
mod settings;
mod shadow;
mod shadow_choice;
mod shadow_faults;
mod silence;
mod slow_answers;
mod stopping;
mod tls;
mod tls_edge;
mod topology_changes;
mod topology_events;
mod topology_faults;
mod topology_listeners;
mod topology_rewriting;
mod topology_start;
mod topology_tls;
mod transparent;
mod wire;
