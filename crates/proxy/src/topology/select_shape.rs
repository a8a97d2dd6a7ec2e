//! Which columns of a `SELECT` from a table of nodes show addresses.
//!
//! A text is parsed only if a search of its bytes finds the name of such a table. [`ColumnRole`] says which
//! columns are rewritten, and why no others are.

use std::sync::Arc;

use cqlens_cql::syntax::{
    self,
    ast::{Body, FunctionCall, Select, Selection, Term},
};

/// A system table whose rows tell clients where to connect to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Table {
    /// `system.local`: the node that answers.
    Local,
    /// `system.peers` and `system.peers_v2`: the other nodes.
    Peers,
    /// ScyllaDB's `system.client_routes`: where clients behind a private link find the nodes.
    ClientRoutes,
}

impl Table {
    /// The table with a name in the keyspace `system`.
    pub(super) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "local" => Self::Local,
            "peers" | "peers_v2" => Self::Peers,
            "client_routes" => Self::ClientRoutes,
            _ => return None,
        })
    }
}

/// How a cell encodes an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AddressEncoding {
    /// The bytes of an `inet`.
    Inet,
    /// A column of type text.
    Text,
}

/// What a column says about a node.
///
/// Rewritten are the addresses and ports that clients connect to. `peer`, `broadcast_address`,
/// `listen_address`, `preferred_ip` and their ports are where nodes meet each other: they are keys of `WHERE`
/// clauses, which pass unchanged (Java and Python ask for one node by its `peer`), so they have to stay what
/// the node calls them. What the drivers' sources say of them:
///
/// | driver | connects to |
/// | --- | --- |
/// | Python 3.30 (`_NodeInfo`) | `native_transport_address`, `native_address` or `rpc_address`; `peer` where that is null or 0.0.0.0 |
/// | gocql 1.7 and 2.1 (`HostInfo.connectAddressLocked`) | `rpc_address` or `native_address`; where that is null or 0.0.0.0, `preferred_ip`, `broadcast_address`, `peer` |
/// | Java 4.19 (`DefaultTopologyMonitor`) | `native_address` or `rpc_address` |
/// | Node.js 4 (`control-connection.js`) | `rpc_address`; `peer` where that is 0.0.0.0 |
/// | Rust scylla 1.9 (`query_peers`) | `rpc_address` |
///
/// So a null is [filled in](super::rows) in rows of whole nodes, and what a node says of all its interfaces
/// is replaced like any address. gocql also finds the nodes of events by `peer`, and so gets the listeners'
/// addresses there too (see [`AddressView`](super::rows::AddressView)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ColumnRole {
    /// Nothing that is rewritten or identifies the node.
    Other,
    /// The node's identity.
    HostId,
    /// The node's address for other nodes.
    Broadcast,
    /// The node's address for clients.
    Address(AddressEncoding),
    /// The node's port for clients.
    Port,
    /// Computed from an address or a port: `SELECT JSON`, `CAST`, functions, arithmetic. No driver sends such
    /// statements, so their results pass as they are, and are counted.
    Undetermined,
}

impl ColumnRole {
    /// What a column of a table says.
    ///
    /// Names: Cassandra 3.0 to 5.0 (`org.apache.cassandra.db.SystemKeyspace`), DSE (`native_transport_…`),
    /// ScyllaDB.
    pub(super) fn of_column(table: Table, name: &str) -> Self {
        match (table, name) {
            (_, "host_id") => Self::HostId,
            (Table::ClientRoutes, "address") => Self::Address(AddressEncoding::Text),
            (Table::ClientRoutes, "port" | "tls_port") => Self::Port,
            (Table::ClientRoutes, _) => Self::Other,
            (_, "peer" | "broadcast_address") => Self::Broadcast,
            (_, "rpc_address" | "native_address" | "native_transport_address") => {
                Self::Address(AddressEncoding::Inet)
            }
            (_, "rpc_port" | "native_port" | "native_transport_port" | "native_transport_port_ssl") => {
                Self::Port
            }
            _ => Self::Other,
        }
    }

    /// Whether cells of it show where clients connect to.
    pub(super) fn shows_address(self) -> bool {
        matches!(self, Self::Address(_) | Self::Port | Self::Undetermined)
    }
}

/// What a statement reads of a table of nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SelectShape {
    pub(super) table: Table,
    pub(super) columns: Columns,
}

/// The columns of a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Columns {
    /// All of the table: the result's metadata names them; `known` is what PREPARED named.
    All { known: Option<Vec<ColumnRole>> },
    /// One by one.
    Listed(Vec<ColumnRole>),
}

impl Columns {
    /// Whether any cell may have to change.
    pub(super) fn show_addresses(&self) -> bool {
        match self {
            Self::All { .. } => true,
            Self::Listed(roles) => roles.iter().any(|role| role.shows_address()),
        }
    }
}

/// What a text turns out to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum StatementKind {
    /// No rows of nodes answer it, or none with addresses.
    NotAboutNodes,
    /// It reads a table of nodes, if its keyspace is `system`: it is qualified so, or nothing says otherwise.
    Reads(Arc<SelectShape>),
    /// It may do so, but cannot be parsed.
    Undetermined,
}

impl StatementKind {
    /// Reads a statement. `keyspace` is what the request says about unqualified names.
    pub(super) fn of(text: &str, keyspace: Option<&str>) -> Self {
        if !may_select(text.as_bytes()) || !may_name_a_table(text.as_bytes()) {
            return Self::NotAboutNodes;
        }
        if text.len() > MAX_PARSED {
            return Self::Undetermined;
        }
        let Ok(statement) = syntax::parse(text) else {
            return Self::Undetermined;
        };
        let Body::Select(select) = &statement.body else {
            return Self::NotAboutNodes;
        };
        // A name without keyspace may be one of the connection's keyspace: the result's metadata will tell.
        let keyspace = select.table.keyspace_or(keyspace);
        let table = Table::named(select.table.name.as_str());
        let (Some(table), None | Some(SYSTEM)) = (table, keyspace) else {
            return Self::NotAboutNodes;
        };
        match columns(table, select) {
            Some(columns) if columns.show_addresses() => {
                Self::Reads(Arc::new(SelectShape { table, columns }))
            }
            Some(_) => Self::NotAboutNodes,
            None => Self::Undetermined,
        }
    }
}

/// The keyspace of the tables of nodes.
pub(super) const SYSTEM: &str = "system";

/// Longer texts are not parsed on a thread that moves bytes: parsing takes some tens of nanoseconds a byte,
/// for which all connections of the thread wait. What drivers ask is shorter than 300 bytes, and a list of
/// all columns of the widest table than 1 KiB. The answer to a longer one is looked at by its metadata.
const MAX_PARSED: usize = 4 << 10;

/// Longer lists than drivers and people write are not kept: these tables have 20 to 30 columns.
const MAX_SELECTORS: usize = 256;

/// Whether a text begins like a `SELECT`, or with a comment: long ones seldom do.
fn may_select(text: &[u8]) -> bool {
    matches!(text.trim_ascii_start().first(), Some(b's' | b'S' | b'/' | b'-'))
}

/// Whether a text has the name of one of the tables in it, in any case.
fn may_name_a_table(text: &[u8]) -> bool {
    const NAMES: [&[u8]; 3] = [b"local", b"peers", b"client_routes"];
    let is_at = |at: usize| {
        let rest = text.get(at..).unwrap_or_default();
        let begins = |name: &&[u8]| {
            rest.get(..name.len())
                .is_some_and(|word| word.eq_ignore_ascii_case(name))
        };
        NAMES.iter().any(begins)
    };
    let first = |byte: &u8| matches!(byte, b'l' | b'L' | b'p' | b'P' | b'c' | b'C');
    let firsts = text.iter().enumerate().filter(|(_, byte)| first(byte));
    firsts.map(|(at, _)| at).any(is_at)
}

fn columns(table: Table, select: &Select<'_>) -> Option<Columns> {
    let selectors = match &select.selection {
        Selection::All if select.json => return Some(Columns::Listed(vec![ColumnRole::Undetermined])),
        Selection::All => return Some(Columns::All { known: None }),
        Selection::Selectors(selectors) => selectors,
    };
    if selectors.len() > MAX_SELECTORS {
        return None;
    }
    let roles = selectors.iter().map(|selector| role(table, &selector.term));
    Some(Columns::Listed(match select.json {
        // The result has one column.
        true => vec![undetermined_if(roles.into_iter().any(ColumnRole::shows_address))],
        false => roles.collect(),
    }))
}

fn role(table: Table, term: &Term<'_>) -> ColumnRole {
    match term {
        Term::Column(name) => ColumnRole::of_column(table, name.as_str()),
        // Brackets around one term are only brackets.
        Term::Tuple { items, .. } if items.len() == 1 => {
            items.first().map_or(ColumnRole::Other, |item| role(table, item))
        }
        Term::TypeHint { term, .. } => role(table, term),
        computed => undetermined_if(is_of_address(table, computed)),
    }
}

/// Whether a computed term shows an address or a port.
fn is_of_address(table: Table, term: &Term<'_>) -> bool {
    let shows = |term: &Term<'_>| role(table, term).shows_address();
    match term {
        Term::Column(_)
        | Term::Literal(_)
        | Term::Null(_)
        | Term::BindMarker(_)
        | Term::Reference(_)
        | Term::CountRows(_)
        | Term::Metadata { .. } => false,
        Term::Function(call) => !hides_arguments(call) && call.arguments.iter().any(shows),
        Term::List { items, .. } | Term::Set { items, .. } | Term::Tuple { items, .. } => {
            items.iter().any(shows)
        }
        Term::Map { entries, .. } => entries.iter().any(|(key, value)| shows(key) || shows(value)),
        Term::UserType { fields, .. } => fields.iter().any(|(_, value)| shows(value)),
        Term::Arithmetic { first, rest, .. } => shows(first) || rest.iter().any(|(_, term)| shows(term)),
        Term::Cast { term, .. } | Term::TypeHint { term, .. } | Term::Negation { term, .. } => shows(term),
        Term::Field { receiver, .. } | Term::Element { receiver, .. } | Term::Slice { receiver, .. } => {
            shows(receiver)
        }
    }
}

/// Whether a function's value says nothing of its arguments: `org.apache.cassandra.cql3.functions`, 3.0 to
/// 5.0; names have no underscores before 5.0.
fn hides_arguments(call: &FunctionCall<'_>) -> bool {
    let keyspace = call.name.keyspace.as_ref();
    let name = call.name.name.as_str().to_ascii_lowercase().replace('_', "");
    keyspace.is_none_or(|keyspace| keyspace == SYSTEM) && matches!(&name[..], "count" | "token" | "masknull")
}

fn undetermined_if(shows_address: bool) -> ColumnRole {
    if shows_address {
        ColumnRole::Undetermined
    } else {
        ColumnRole::Other
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    const ADDRESS: ColumnRole = ColumnRole::Address(AddressEncoding::Inet);

    fn listed(text: &str) -> Vec<ColumnRole> {
        match StatementKind::of(text, None) {
            StatementKind::Reads(shape) => match &shape.columns {
                Columns::Listed(roles) => roles.clone(),
                other => panic!("{text}: {other:?}"),
            },
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn a_table_is_found_however_it_is_written() {
        for text in [
            "SELECT * FROM system.peers",
            "select * from SYSTEM.Peers_V2 where peer = ?",
            "SELECT * FROM \"system\".\"local\" WHERE key='local'",
            "/* a */ SELECT * -- b\n FROM system . /* c */ local;",
            "SELECT * FROM peers",
            "SELECT * FROM system.client_routes WHERE connection_id IN ('a')",
        ] {
            assert!(
                matches!(StatementKind::of(text, None), StatementKind::Reads(_)),
                "{text}"
            );
        }
        assert!(matches!(
            StatementKind::of("SELECT * FROM peers_v2", Some("system")),
            StatementKind::Reads(_)
        ));
    }

    #[test]
    fn other_texts_are_harmless() {
        for text in [
            "SELECT * FROM ks.peers",
            "SELECT * FROM \"Peers\"",
            "SELECT * FROM system.peer_events",
            "INSERT INTO system.local (key) VALUES ('peers')",
            "SELECT host_id, tokens FROM system.peers",
            "SELECT count(*) FROM system.peers",
            "SELECT * FROM users",
        ] {
            assert_eq!(
                StatementKind::of(text, None),
                StatementKind::NotAboutNodes,
                "{text}"
            );
        }
        assert_eq!(
            StatementKind::of("SELECT * FROM peers", Some("ks")),
            StatementKind::NotAboutNodes
        );
    }

    #[test]
    fn a_text_that_cannot_be_parsed_and_names_a_table_is_unclear() {
        assert_eq!(
            StatementKind::of("SELECT * FRM system.peers", None),
            StatementKind::Undetermined
        );
        assert_eq!(
            StatementKind::of("SELECT * FRM system.users", None),
            StatementKind::NotAboutNodes
        );
    }

    #[test]
    fn a_text_that_is_long_and_names_a_table_is_unclear() {
        let padded = |len: usize| {
            let mut text = "SELECT rpc_address FROM system.peers".to_owned();
            text.push_str(&" ".repeat(len - text.len()));
            text
        };
        assert!(matches!(
            StatementKind::of(&padded(MAX_PARSED), None),
            StatementKind::Reads(_)
        ));
        assert_eq!(
            StatementKind::of(&padded(MAX_PARSED + 1), None),
            StatementKind::Undetermined
        );
        let users = format!("SELECT a FROM users WHERE k IN ({})", "1, ".repeat(10_000));
        assert_eq!(StatementKind::of(&users, None), StatementKind::NotAboutNodes);
    }

    #[test]
    fn selectors_keep_their_place_and_lose_their_alias() {
        let roles = listed(
            "SELECT tokens, rpc_address AS a, host_id AS h, peer, native_port AS p, \"rpc_address\", (rpc_address) FROM system.peers",
        );
        let expected = [
            ColumnRole::Other,
            ADDRESS,
            ColumnRole::HostId,
            ColumnRole::Broadcast,
            ColumnRole::Port,
            ADDRESS,
            ADDRESS,
        ];
        assert_eq!(roles, expected);
    }

    #[test]
    fn what_is_computed_of_addresses_is_unclear() {
        let roles = listed(
            "SELECT CAST(rpc_address AS text), toJson(rpc_address), to_json(native_port), inetAsBlob(rpc_address), \
             max(rpc_address), native_port + 1, CAST(native_port AS bigint), writetime(rpc_address), toJson(tokens), \
             CAST(peer AS text), count(rpc_address), toJson(CAST(rpc_address AS text)), rpc_address FROM system.peers_v2",
        );
        let expected = [
            ColumnRole::Undetermined,
            ColumnRole::Undetermined,
            ColumnRole::Undetermined,
            ColumnRole::Undetermined,
            ColumnRole::Undetermined,
            ColumnRole::Undetermined,
            ColumnRole::Undetermined,
            ColumnRole::Other,
            ColumnRole::Other,
            ColumnRole::Other,
            ColumnRole::Other,
            ColumnRole::Undetermined,
            ADDRESS,
        ];
        assert_eq!(roles, expected);
    }

    #[test]
    fn json_with_addresses_is_unclear() {
        for text in [
            "SELECT JSON * FROM system.peers",
            "SELECT JSON rpc_address AS \"A\", host_id FROM system.local",
            "SELECT JSON host_id, CAST(native_port AS text) FROM system.peers_v2",
        ] {
            assert_eq!(listed(text), [ColumnRole::Undetermined], "{text}");
        }
        let tokens = "SELECT JSON host_id, tokens FROM system.peers";
        assert_eq!(StatementKind::of(tokens, None), StatementKind::NotAboutNodes);
    }
}
