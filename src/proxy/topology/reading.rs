//! What the columns of a `SELECT` from a table of nodes say about them.
//!
//! Of a text that cannot concern nodes only its bytes are searched; only others are parsed. Which columns are rewritten, and why no
//! others are: [`Role`].

use std::sync::Arc;

use cqlens_cql::syntax::{
    self,
    ast::{Body, FunctionCall, NativeType, Select, Selection, Term},
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

/// How a cell shows its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// As its type has it: the bytes of an `inet` or `uuid`, a big-endian number.
    Binary,
    /// `CAST(… AS text)`, or a column of type text.
    Text,
    /// `toJson(…)`, or inside a row of `SELECT JSON`.
    Json,
}

/// What a column says about a node.
///
/// Rewritten are the addresses and ports that clients connect to. `peer`, `broadcast_address`, `listen_address`, `preferred_ip` and
/// their ports are where nodes meet each other: they are keys of `WHERE` clauses, which pass unchanged (Java and Python ask for one node
/// by its `peer`), so they have to stay what the node calls them. What the drivers' sources say of them:
///
/// | driver | connects to |
/// | --- | --- |
/// | Python 3.30 (`_NodeInfo`) | `native_transport_address`, `native_address` or `rpc_address`; `peer` where that is null or 0.0.0.0 |
/// | gocql 1.7 and 2.1 (`HostInfo.connectAddressLocked`) | `rpc_address` or `native_address`; where that is null or 0.0.0.0, `preferred_ip`, `broadcast_address`, `peer` |
/// | Java 4.19 (`DefaultTopologyMonitor`) | `native_address` or `rpc_address` |
/// | Node.js 4 (`control-connection.js`) | `rpc_address`; `peer` where that is 0.0.0.0 |
/// | Rust scylla 1.9 (`query_peers`) | `rpc_address` |
///
/// So a null is [filled in](super::rows) in rows of whole nodes, and what a node says of all its interfaces is replaced like any
/// address. gocql also finds the nodes of events by `peer`, and so gets the listeners' addresses there too (see
/// [`Sight`](super::rows::Sight)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// Nothing that is rewritten or identifies the node.
    Other,
    /// The node's identity.
    HostId(Form),
    /// The node's address for other nodes.
    Broadcast(Form),
    /// The node's address for clients.
    Address(Form),
    /// The node's port for clients.
    Port(Form),
    /// The only column of `SELECT JSON`.
    JsonRow,
    /// Computed of an address or a port in a way that is not undone here.
    Unclear,
}

impl Role {
    /// What a column of a table says.
    ///
    /// Names: Cassandra 3.0 to 5.0 (`org.apache.cassandra.db.SystemKeyspace`), DSE (`native_transport_…`), ScyllaDB.
    pub(super) fn of_column(table: Table, name: &str) -> Self {
        match (table, name) {
            (_, "host_id") => Self::HostId(Form::Binary),
            (Table::ClientRoutes, "address") => Self::Address(Form::Text),
            (Table::ClientRoutes, "port" | "tls_port") => Self::Port(Form::Binary),
            (Table::ClientRoutes, _) => Self::Other,
            (_, "peer" | "broadcast_address") => Self::Broadcast(Form::Binary),
            (_, "rpc_address" | "native_address" | "native_transport_address") => Self::Address(Form::Binary),
            (_, "rpc_port" | "native_port" | "native_transport_port" | "native_transport_port_ssl") => {
                Self::Port(Form::Binary)
            }
            _ => Self::Other,
        }
    }

    /// Whether cells of it may have to change.
    pub(super) fn tells(self) -> bool {
        matches!(
            self,
            Self::Address(_) | Self::Port(_) | Self::JsonRow | Self::Unclear
        )
    }

    /// The same, in another form; what is not rewritten in that form is unclear.
    pub(super) fn shown_as(self, form: Form) -> Self {
        match self {
            Self::HostId(Form::Binary) => Self::HostId(form),
            Self::Broadcast(Form::Binary) => Self::Broadcast(form),
            Self::Address(Form::Binary) => Self::Address(form),
            // A column of type text, such as the address of a client route, is a string in JSON too.
            Self::Address(Form::Text) => Self::Address(form),
            Self::Port(Form::Binary) => Self::Port(form),
            other => other.or_unclear(),
        }
    }

    fn or_unclear(self) -> Self {
        if self.tells() { Self::Unclear } else { Self::Other }
    }
}

/// What a statement reads of a table of nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reading {
    pub(super) table: Table,
    pub(super) columns: Columns,
}

/// The columns of a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Columns {
    /// All of the table: the result's metadata names them; `known` is what PREPARED named.
    All { known: Option<Vec<Role>> },
    /// One by one.
    Listed(Vec<Role>),
    /// One column of JSON, with all columns of the table by their names.
    JsonAll,
    /// One column of JSON, with these keys.
    JsonListed(Vec<(String, Role)>),
}

impl Columns {
    /// Whether any cell may have to change.
    pub(super) fn tell(&self) -> bool {
        match self {
            Self::All { .. } | Self::JsonAll => true,
            Self::Listed(roles) => roles.iter().any(|role| role.tells()),
            Self::JsonListed(keys) => keys.iter().any(|(_, role)| role.tells()),
        }
    }
}

/// What a text turns out to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Text {
    /// No rows of nodes answer it, or none with addresses.
    Harmless,
    /// It reads a table of nodes, if its keyspace is `system`: it is qualified so, or nothing says otherwise.
    Reads(Arc<Reading>),
    /// It may do so, but is not understood.
    Unclear,
}

impl Text {
    /// Reads a statement. `keyspace` is what the request says about unqualified names.
    pub(super) fn of(text: &str, keyspace: Option<&str>) -> Self {
        if !may_select(text.as_bytes()) || !may_name_a_table(text.as_bytes()) {
            return Self::Harmless;
        }
        if text.len() > MAX_PARSED {
            return Self::Unclear;
        }
        let Ok(statement) = syntax::parse(text) else {
            return Self::Unclear;
        };
        let Body::Select(select) = &statement.body else {
            return Self::Harmless;
        };
        // A name without keyspace may be one of the connection's keyspace: the result's metadata will tell.
        let keyspace = select.table.keyspace_or(keyspace);
        let table = Table::named(select.table.name.as_str());
        let (Some(table), None | Some(SYSTEM)) = (table, keyspace) else {
            return Self::Harmless;
        };
        match columns(table, select) {
            Some(columns) if columns.tell() => Self::Reads(Arc::new(Reading { table, columns })),
            Some(_) => Self::Harmless,
            None => Self::Unclear,
        }
    }
}

/// The keyspace of the tables of nodes.
pub(super) const SYSTEM: &str = "system";

/// Longer texts are not parsed on a thread that moves bytes: parsing takes some tens of nanoseconds a byte, for which all connections
/// of the thread wait. What drivers ask is shorter than 300 bytes, and a list of all columns of the widest table than 1 KiB. The
/// answer to a longer one is looked at by its metadata.
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
        Selection::All if select.json => return Some(Columns::JsonAll),
        Selection::All => return Some(Columns::All { known: None }),
        Selection::Selectors(selectors) => selectors,
    };
    if selectors.len() > MAX_SELECTORS {
        return None;
    }
    if !select.json {
        let roles = selectors.iter().map(|selector| role(table, &selector.term));
        return Some(Columns::Listed(roles.collect()));
    }
    let key = |selector: &syntax::ast::Selector<'_>| {
        let role = role(table, &selector.term).shown_as(Form::Json);
        match (&selector.alias, &selector.term) {
            (Some(name), _) | (None, Term::Column(name)) => (name.as_str().to_owned(), role),
            // The key of a computed value is how Cassandra would write the computation.
            (None, _) => (String::new(), role.or_unclear()),
        }
    };
    Some(Columns::JsonListed(selectors.iter().map(key).collect()))
}

fn role(table: Table, term: &Term<'_>) -> Role {
    match term {
        Term::Column(name) => Role::of_column(table, name.as_str()),
        Term::Cast { term, target, .. } => match target {
            NativeType::Text | NativeType::Varchar | NativeType::Ascii => {
                role(table, term).shown_as(Form::Text)
            }
            _ => cast_to_number(role(table, term), *target),
        },
        Term::Function(call) => called(table, call),
        // Brackets around one term are only brackets.
        Term::Tuple { items, .. } if items.len() == 1 => {
            items.first().map_or(Role::Other, |item| role(table, item))
        }
        Term::TypeHint { term, .. } => role(table, term),
        Term::Literal(_)
        | Term::Null(_)
        | Term::BindMarker(_)
        | Term::CountRows(_)
        | Term::Metadata { .. } => Role::Other,
        Term::List { items, .. } | Term::Set { items, .. } | Term::Tuple { items, .. } => {
            any_unclear(table, items)
        }
        Term::Map { entries, .. } => {
            let is_unclear =
                |(key, value): &(Term<'_>, Term<'_>)| role(table, key).tells() || role(table, value).tells();
            unclear_if(entries.iter().any(is_unclear))
        }
        Term::UserType { fields, .. } => {
            unclear_if(fields.iter().any(|(_, value)| role(table, value).tells()))
        }
        Term::Negation { term, .. } => role(table, term).or_unclear(),
        Term::Arithmetic { first, rest, .. } => {
            unclear_if(role(table, first).tells() || rest.iter().any(|(_, term)| role(table, term).tells()))
        }
        Term::Field { receiver, .. } | Term::Element { receiver, .. } | Term::Slice { receiver, .. } => {
            role(table, receiver).or_unclear()
        }
    }
}

/// An integer stays one of another width; what else a port can become is not undone.
fn cast_to_number(role: Role, target: NativeType) -> Role {
    match (role, target) {
        (
            Role::Port(Form::Binary),
            NativeType::Int | NativeType::Bigint | NativeType::Smallint | NativeType::Varint,
        ) => role,
        (Role::Address(Form::Binary), NativeType::Inet) => role,
        (role, _) => role.or_unclear(),
    }
}

/// Names: `org.apache.cassandra.cql3.functions`, 3.0 to 5.0; without underscores before 5.0.
fn called(table: Table, call: &FunctionCall<'_>) -> Role {
    let is_native = call
        .name
        .keyspace
        .as_ref()
        .is_none_or(|keyspace| keyspace == SYSTEM);
    let name = call.name.name.as_str().to_ascii_lowercase().replace('_', "");
    match (&name[..], &call.arguments[..]) {
        ("tojson", [argument]) if is_native => role(table, argument).shown_as(Form::Json),
        // The bytes of the value as they are.
        (
            "inetasblob" | "intasblob" | "uuidasblob" | "blobasinet" | "blobasint" | "blobasuuid",
            [argument],
        ) if is_native => role(table, argument),
        ("count" | "token" | "masknull", _) if is_native => Role::Other,
        (_, arguments) => any_unclear(table, arguments),
    }
}

fn any_unclear(table: Table, terms: &[Term<'_>]) -> Role {
    unclear_if(terms.iter().any(|term| role(table, term).tells()))
}

fn unclear_if(unclear: bool) -> Role {
    if unclear { Role::Unclear } else { Role::Other }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    const ADDRESS: Role = Role::Address(Form::Binary);

    fn listed(text: &str) -> Vec<Role> {
        match Text::of(text, None) {
            Text::Reads(reading) => match &reading.columns {
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
            assert!(matches!(Text::of(text, None), Text::Reads(_)), "{text}");
        }
        assert!(matches!(
            Text::of("SELECT * FROM peers_v2", Some("system")),
            Text::Reads(_)
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
            assert_eq!(Text::of(text, None), Text::Harmless, "{text}");
        }
        assert_eq!(Text::of("SELECT * FROM peers", Some("ks")), Text::Harmless);
    }

    #[test]
    fn a_text_that_cannot_be_parsed_and_names_a_table_is_unclear() {
        assert_eq!(Text::of("SELECT * FRM system.peers", None), Text::Unclear);
        assert_eq!(Text::of("SELECT * FRM system.users", None), Text::Harmless);
    }

    #[test]
    fn a_text_that_is_long_and_names_a_table_is_unclear() {
        let padded = |len: usize| {
            let mut text = "SELECT rpc_address FROM system.peers".to_owned();
            text.push_str(&" ".repeat(len - text.len()));
            text
        };
        assert!(matches!(Text::of(&padded(MAX_PARSED), None), Text::Reads(_)));
        assert_eq!(Text::of(&padded(MAX_PARSED + 1), None), Text::Unclear);
        let users = format!("SELECT a FROM users WHERE k IN ({})", "1, ".repeat(10_000));
        assert_eq!(Text::of(&users, None), Text::Harmless);
    }

    #[test]
    fn selectors_keep_their_place_and_lose_their_alias() {
        let roles = listed(
            "SELECT tokens, rpc_address AS a, host_id AS h, peer, native_port AS p, \"rpc_address\", (rpc_address) FROM system.peers",
        );
        let expected = [
            Role::Other,
            ADDRESS,
            Role::HostId(Form::Binary),
            Role::Broadcast(Form::Binary),
            Role::Port(Form::Binary),
            ADDRESS,
            ADDRESS,
        ];
        assert_eq!(roles, expected);
    }

    #[test]
    fn texts_of_addresses_are_addresses_and_other_computations_are_unclear() {
        let roles = listed(
            "SELECT CAST(rpc_address AS text), toJson(rpc_address), to_json(native_port), inetAsBlob(rpc_address), \
             max(rpc_address), native_port + 1, CAST(native_port AS bigint), writetime(rpc_address), toJson(tokens) \
             FROM system.peers_v2",
        );
        let expected = [
            Role::Address(Form::Text),
            Role::Address(Form::Json),
            Role::Port(Form::Json),
            ADDRESS,
            Role::Unclear,
            Role::Unclear,
            Role::Port(Form::Binary),
            Role::Other,
            Role::Other,
        ];
        assert_eq!(roles, expected);
    }

    #[test]
    fn json_has_the_columns_by_their_keys() {
        let Text::Reads(reading) = Text::of(
            "SELECT JSON rpc_address AS \"A\", host_id FROM system.local",
            None,
        ) else {
            panic!("not read");
        };
        let expected = vec![
            ("A".to_owned(), Role::Address(Form::Json)),
            ("host_id".to_owned(), Role::HostId(Form::Json)),
        ];
        assert_eq!(reading.columns, Columns::JsonListed(expected));
    }
}
