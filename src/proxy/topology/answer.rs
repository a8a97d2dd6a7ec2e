//! What becomes of a whole envelope that may name nodes.

use std::{net::SocketAddr, sync::Arc};

use cqlens_proto::{
    envelope::{Envelope, Flags, Header},
    message::{
        ColumnSpec, ColumnSpecs, Dialect, ErrorCode, ErrorDetails, ErrorMessage, Event, Extensions, Extras,
        Prepared, PreparedId, QueryResult, Response, Rows, event::NodeChange,
    },
    types::{CqlType, Uuid},
};

use super::{
    addresses::Addresses,
    cell,
    counts::Counters,
    node::Identity,
    reading::{Columns, Form, Reading, Role, SYSTEM, Table},
    rows::{self, Sight},
    shared::Expected,
};

/// What becomes of an envelope.
#[derive(Debug)]
pub(super) enum Outcome {
    /// It passes as it came.
    Same,
    /// This goes to the client in its place, uncompressed.
    New(Envelope),
    /// The client gets nothing.
    Dropped,
    /// It depends on these nodes, which may be known and ready in a moment.
    Waits(Vec<Identity>),
}

/// What is known while an envelope is looked at.
#[derive(Debug, Clone, Copy)]
pub(super) struct Judge<'a> {
    pub(super) addresses: &'a Addresses,
    pub(super) sight: Sight<'a>,
    pub(super) extensions: Extensions,
    /// Nodes may be waited for; else they are left out.
    pub(super) may_wait: bool,
}

impl Judge<'_> {
    /// Looks at an envelope, whose body is uncompressed.
    pub(super) fn outcome(self, envelope: &Envelope, expected: &Expected) -> Outcome {
        let Ok(decoded) = Response::decode(envelope, self.extensions) else {
            return self.unreadable(envelope, expected);
        };
        match (expected, decoded.message) {
            (Expected::Event, Response::Event(event)) => self.event(envelope, event, &decoded.extras),
            (Expected::Supported, Response::Supported(mut supported)) => {
                let before = supported.options.len();
                supported.options.retain(|(key, _)| !SHARD_PORTS.contains(key));
                if supported.options.len() == before {
                    return Outcome::Same;
                }
                self.count_rewritten();
                self.encoded(envelope, &Response::Supported(supported), &decoded.extras)
            }
            (Expected::Event | Expected::Supported, _) => Outcome::Same,
            (expected, Response::Result(result)) => self.result(envelope, expected, &result),
            _ => Outcome::Same,
        }
    }

    /// The error that stands in place of an answer.
    fn refused(self, envelope: &Envelope, expected: &Expected) -> Outcome {
        let counters = self.addresses.counters();
        if *expected == Expected::Event {
            Counters::add(&counters.events_left_out, 1);
            return Outcome::Dropped;
        }
        if Counters::add(&counters.refused, 1) {
            tracing::warn!("an answer about nodes cannot be rewritten: clients get an error in its place");
        }
        let error = ErrorMessage {
            code: ErrorCode::SERVER_ERROR,
            message: "cqlens cannot rewrite the addresses in this answer",
            details: ErrorDetails::None,
        };
        self.encoded(envelope, &Response::Error(error), &Extras::default())
    }

    /// What cannot be read, or is too long to be held.
    pub(super) fn unreadable(self, envelope: &Envelope, expected: &Expected) -> Outcome {
        match expected {
            // Nothing says that it names nodes.
            Expected::Unclear { .. } | Expected::PreparedHarmless | Expected::PreparedUnclear => {
                self.may_leak();
                Outcome::Same
            }
            _ => self.refused(envelope, expected),
        }
    }

    fn encoded(self, envelope: &Envelope, response: &Response<'_>, extras: &Extras<'_>) -> Outcome {
        const OF_EXTRAS: Flags = Flags::TRACING.with(Flags::WARNING).with(Flags::CUSTOM_PAYLOAD);
        let Header {
            version,
            flags,
            stream_id,
            ..
        } = envelope.header;
        let encoded = response.to_envelope(Dialect::with(version, self.extensions), stream_id, extras);
        match encoded {
            Ok(mut encoded) => {
                encoded.header.flags = encoded.header.flags.with(flags.without(OF_EXTRAS));
                Outcome::New(encoded)
            }
            // What was decoded can be encoded.
            Err(_) => Outcome::Dropped,
        }
    }

    fn count_rewritten(self) {
        Counters::add(&self.addresses.counters().rewritten, 1);
    }

    fn event<'e>(self, envelope: &Envelope, event: Event<'e>, extras: &Extras<'_>) -> Outcome {
        let (change, of): (_, fn(NodeChange<'e>) -> Event<'e>) = match event {
            Event::TopologyChange(change) => (change, Event::TopologyChange),
            Event::StatusChange(change) => (change, Event::StatusChange),
            _ => return Outcome::Same,
        };
        let identity = Identity {
            native: Some(change.address),
            port: u16::try_from(change.port).ok().filter(|port| *port != 0),
            ..Identity::default()
        };
        let is_gone = GONE.contains(&change.change);
        let found = self.sight.find(&identity);
        let listen = match found.filter(|node| node.ready || is_gone) {
            Some(node) => Some(node.listen),
            None if is_gone => self.former(&identity),
            None if self.may_wait => return Outcome::Waits(vec![identity]),
            None => None,
        };
        let Some(listen) = listen else {
            let counters = self.addresses.counters();
            Counters::add(&counters.events_left_out, 1);
            let later = |suppressed| {
                tracing::warn!(
                    suppressed,
                    "more events about nodes without listeners were left out"
                )
            };
            if counters.event_left_out.is_new(later) {
                tracing::warn!(node = %identity, change = change.change, "an event about a node without a listener is left out");
            }
            return Outcome::Dropped;
        };
        if (listen.ip(), i32::from(listen.port())) == (change.address, change.port) {
            return Outcome::Same;
        }
        let change = NodeChange {
            address: listen.ip(),
            port: listen.port().into(),
            ..change
        };
        self.count_rewritten();
        self.encoded(envelope, &Response::Event(of(change)), extras)
    }

    /// The listener of a node that has left.
    fn former(self, identity: &Identity) -> Option<SocketAddr> {
        let port = identity.port.unwrap_or(self.sight.own.native.port());
        let native = SocketAddr::new(identity.native?, port);
        self.sight.known.former(native).map(|node| node.listen)
    }

    fn result(self, envelope: &Envelope, expected: &Expected, result: &QueryResult<'_>) -> Outcome {
        match (expected, result) {
            (Expected::Rows(reading), QueryResult::Rows(rows)) => self.rows(envelope, rows, reading),
            (Expected::Unclear { id }, QueryResult::Rows(rows)) => {
                self.unclear_rows(envelope, rows, id.as_deref())
            }
            // Whatever it is, it has no rows.
            (Expected::Unclear { id: Some(id) }, _) => {
                self.addresses.prepared().remember(id, None);
                Outcome::Same
            }
            (_, QueryResult::Prepared(prepared)) => {
                self.prepared(prepared, expected);
                Outcome::Same
            }
            _ => Outcome::Same,
        }
    }

    /// Remembers what a statement reads. It passes: it names columns, and no nodes.
    fn prepared(self, prepared: &Prepared<'_>, expected: &Expected) {
        let columns = prepared.result.columns;
        let table = columns.map(|columns| table_of(&columns));
        let reading = match (expected, table) {
            (Expected::PreparedHarmless, _) | (_, Some(None)) => None,
            (Expected::PreparedReader(reading), _) => Some(match columns {
                Some(columns) => with_columns(reading, &columns),
                None => Arc::clone(reading),
            }),
            (_, Some(Some(table))) => columns.map(|columns| Arc::new(by_names(table, &columns))),
            // Nothing tells: its executions will.
            (_, None) => return,
        };
        self.addresses.prepared().remember(prepared.id.0, reading);
    }

    fn rows(self, envelope: &Envelope, rows: &Rows<'_>, reading: &Reading) -> Outcome {
        if rows
            .metadata
            .columns
            .is_some_and(|columns| table_of(&columns).is_none())
        {
            return Outcome::Same;
        }
        let Some(roles) = rows::roles(reading, rows) else {
            return self.unclear_rows(envelope, rows, None);
        };
        let body = &envelope.body;
        let Some(rewritten) = rows::rewrite(body, rows, reading, &roles, self.sight) else {
            return self.refused(envelope, &Expected::Supported);
        };
        if !rewritten.missing.is_empty() {
            if self.may_wait {
                return Outcome::Waits(rewritten.missing);
            }
            let counters = self.addresses.counters();
            Counters::add(&counters.rows_left_out, rewritten.missing.len());
        }
        if rewritten.may_leak {
            self.may_leak();
        }
        match rewritten.body(body) {
            None => Outcome::Same,
            Some(body) => {
                self.count_rewritten();
                let header = envelope.header;
                Outcome::New(Envelope { header, body })
            }
        }
    }

    /// Rows of a statement of which nothing is known but what the rows say.
    fn unclear_rows(self, envelope: &Envelope, rows: &Rows<'_>, id: Option<&[u8]>) -> Outcome {
        let remember_harmless = || {
            if let Some(id) = id {
                self.addresses.prepared().remember(id, None);
            }
        };
        if let Some(columns) = rows.metadata.columns {
            let Some(table) = table_of(&columns) else {
                remember_harmless();
                return Outcome::Same;
            };
            return self.rows(envelope, rows, &by_names(table, &columns));
        }
        match (self.content(rows), id) {
            (Content::Nodes, Some(id)) => self.unprepared(envelope, id),
            (Content::Nodes | Content::Address, _) => self.may_leak(),
            (Content::Nothing, _) if !rows.is_empty() => {
                remember_harmless();
                Outcome::Same
            }
            (Content::Nothing, _) => Outcome::Same,
        }
    }

    /// Looks for nodes in rows whose columns have no names. A row with a node's host id, which is random, and its address is about it.
    fn content(self, rows: &Rows<'_>) -> Content {
        let known = self.sight.known;
        let mut found = Content::Nothing;
        for row in rows.iter().map_while(Result::ok) {
            let is_about_node = row.iter().flatten().any(|value| {
                <[u8; 16]>::try_from(value).is_ok_and(|id| known.by_host_id(Uuid(id)).is_some())
            });
            let is_address = |value: &[u8]| cell::inet(value).is_some_and(|address| known.is_native(address));
            if row.iter().flatten().any(is_address) {
                if is_about_node {
                    return Content::Nodes;
                }
                found = Content::Address;
            }
        }
        found
    }

    /// The answer to an execution whose rows name nodes, but not which columns do: the client prepares the statement again, which reads
    /// and changes nothing, and all is known then.
    fn unprepared(self, envelope: &Envelope, id: &[u8]) -> Outcome {
        let error = ErrorMessage {
            code: ErrorCode::UNPREPARED,
            message: "cqlens has not seen this statement being prepared",
            details: ErrorDetails::Unprepared(PreparedId(id)),
        };
        self.encoded(envelope, &Response::Error(error), &Extras::default())
    }

    fn may_leak(self) -> Outcome {
        if Counters::add(&self.addresses.counters().may_have_leaked, 1) {
            tracing::warn!(
                "an answer may show a node's own address in a form that is not rewritten: a client that used it would go around cqlens"
            );
        }
        Outcome::Same
    }
}

/// What rows without named columns have in them.
#[derive(Clone, Copy)]
enum Content {
    Nothing,
    /// The bytes of some node's address, which may as well be a number.
    Address,
    Nodes,
}

/// Changes after which a node is not connected to.
const GONE: [&str; 2] = ["REMOVED_NODE", "DOWN"];

/// ScyllaDB's: behind these ports the client's source port selects the shard, which is not the one that the node sees. Without them
/// drivers fill their pools by trial.
const SHARD_PORTS: [&str; 2] = ["SCYLLA_SHARD_AWARE_PORT", "SCYLLA_SHARD_AWARE_PORT_SSL"];

/// The table of nodes that columns are of.
fn table_of(columns: &ColumnSpecs<'_>) -> Option<Table> {
    let of_column =
        |column: ColumnSpec<'_>| (column.keyspace == SYSTEM).then(|| Table::named(column.table))?;
    match columns.global_table() {
        Some((keyspace, table)) => (keyspace == SYSTEM).then(|| Table::named(table))?,
        None => columns.iter().find_map(of_column),
    }
}

fn with_columns(reading: &Arc<Reading>, columns: &ColumnSpecs<'_>) -> Arc<Reading> {
    let Columns::All { .. } = reading.columns else {
        return Arc::clone(reading);
    };
    let roles = columns
        .iter()
        .map(|column| Role::of_column(reading.table, column.name));
    Arc::new(Reading {
        table: reading.table,
        columns: Columns::All {
            known: Some(roles.collect()),
        },
    })
}

/// A reading of which only the result's own names are known, which may be aliases: every address is taken for one of clients unless its
/// name says otherwise.
fn by_names(table: Table, columns: &ColumnSpecs<'_>) -> Reading {
    let role = |column: ColumnSpec<'_>| match Role::of_column(table, column.name) {
        Role::Other if column.column_type == CqlType::Inet && !AMONG_NODES.contains(&column.name) => {
            Role::Address(Form::Inet)
        }
        _ if column.name == "[json]" => Role::Unclear,
        role => role,
    };
    Reading {
        table,
        columns: Columns::Listed(columns.iter().map(role).collect()),
    }
}

/// Where nodes meet each other.
const AMONG_NODES: [&str; 4] = ["peer", "preferred_ip", "broadcast_address", "listen_address"];
