//! What is known of writes where the first cluster cannot be asked again.

use std::time::Duration;

use tokio::time::Instant;

use super::{First, Rehearsal};
use crate::{
    compare::is_trouble,
    digest::ResponseDigest,
    exchange::{Effect, RecordedExchange},
    statement::StatementCache,
};

impl Rehearsal {
    /// Writes of unknown tables were lost on their way here, the last of them at `at_us`.
    pub fn lost_writes(&mut self, at_us: i64) {
        self.writes.lost(at_us, Instant::now());
    }

    pub(super) fn first_is_recorded(&self) -> bool {
        matches!(self.first, First::Recorded)
    }

    pub(super) fn note_write(&mut self, exchange: &RecordedExchange, is_sent: bool) {
        // One that timed out may have been done.
        let is_refused = matches!(exchange.response, ResponseDigest::Error(code) if !is_trouble(code));
        // Where the first can be asked again, all that counts is what the other lacks for good.
        let counts = !is_sent || self.first_is_recorded();
        if exchange.request.effect != Effect::Read && !is_refused && counts {
            let tables = tables(&mut self.statements, exchange);
            self.writes.note(tables, exchange.at_us, is_sent, Instant::now());
        }
    }

    /// Whether the other cluster gets the writes of a table from here, so that it lacks those that were not sent for
    /// good. Where two clusters are asked the same at the same time, both lack them.
    fn carries_writes_of(&self, table: &str) -> bool {
        let keyspace = table.split('.').next().unwrap_or_default();
        !matches!(self.first, First::Beside(_)) && self.settings.permissions.writes.contains(keyspace)
    }

    /// Whether the first cluster may have had rows, when it responded, that the other was not sent. Where writes count
    /// for a while only, the other gets them by another way, and may have got them later or earlier.
    pub(super) fn is_after_unsent_writes(&mut self, exchange: &RecordedExchange) -> bool {
        let responded_us = exchange.at_us.saturating_add(exchange.latency.map_or(0, micros));
        let is_recorded = self.first_is_recorded();
        self.any_table_of(exchange, |this, table| {
            let is_carried = this.carries_writes_of(table);
            let for_a_while = this.settings.unsent_writes_count_for.filter(|_| !is_carried);
            (is_carried || is_recorded)
                && match for_a_while {
                    None => this.writes.unsent_before(table, responded_us),
                    Some(time) => this
                        .writes
                        .unsent_after(table, exchange.at_us.saturating_sub(micros(time))),
                }
        })
    }

    /// Whether the other cluster lacks writes for good that the first has got until now.
    pub(super) fn lacks_writes(&mut self, exchange: &RecordedExchange) -> bool {
        self.any_table_of(exchange, |this, table| {
            this.carries_writes_of(table) && this.writes.unsent_before(table, i64::MAX)
        })
    }

    /// Whether writes came between the first response and the last.
    pub(super) fn was_written_meanwhile(&mut self, exchange: &RecordedExchange) -> bool {
        // All attempts, each after twice as long, and the time before the first.
        let since = Instant::now().checked_sub(self.settings.ask_again_after * 32);
        let is_written_otherwise = self.settings.unsent_writes_count_for.is_some();
        self.any_table_of(exchange, |this, table| match is_written_otherwise {
            true => this.writes.seen_since(table, since),
            false => this.writes.sent_since(table, since),
        })
    }

    fn any_table_of(&mut self, exchange: &RecordedExchange, holds: impl Fn(&Self, &str) -> bool) -> bool {
        let tables = tables(&mut self.statements, exchange);
        tables.iter().any(|table| holds(self, table))
    }
}

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

/// The tables of a request, with their keyspaces.
fn tables(statements: &mut StatementCache, exchange: &RecordedExchange) -> Vec<Box<str>> {
    let request = &exchange.request;
    let mut tables = Vec::new();
    for statement in &request.statements {
        for (keyspace, table) in &statements.facts(&statement.cql).tables {
            let keyspace = keyspace
                .as_deref()
                .or(request.keyspace.as_deref())
                .unwrap_or_default();
            tables.push(format!("{keyspace}.{table}").into());
        }
    }
    tables
}
