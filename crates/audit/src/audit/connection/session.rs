//! What a connection has agreed on and set, which the meaning of its requests depends on.

use std::{
    collections::VecDeque,
    hash::{DefaultHasher, Hash, Hasher},
    net::{IpAddr, Ipv6Addr},
    sync::Arc,
};

use cqlens_cql::syntax::cut_name;
use cqlens_proto::{
    cutter::Handshake,
    envelope::{Envelope, Header, Opcode},
    message::{Dialect, Extensions, Request, Response, Startup, fits},
};

use crate::audit::{
    exchange::replicas::{Coordinator, ReplicaLookup},
    statement::ids::{ClientId, ClientIds},
};
use cqlens_capture::Connection;
use cqlens_window::is_client_address;

/// What the connection's own requests have set.
#[derive(Debug, Clone)]
pub(crate) struct Session {
    /// Whose it is.
    pub(crate) connection: Arc<Connection>,
    /// The keyspace of unqualified names: what USE has set.
    keyspace: Option<Arc<str>>,
    /// How many times USE has changed it.
    changes: u64,
    /// What it was before each of the last changes, the latest last: requests may have come before them.
    earlier: VecDeque<Option<Arc<str>>>,
    /// How much of the client's address is in its name.
    shown: ClientAddresses,
    /// What the client calls itself, its address, and the name in its certificate if it has shown one.
    pub(crate) client: Arc<str>,
    /// The id of that name, once an exchange was counted under it.
    client_id: Option<ClientId>,
    /// Stands for the client's host: connections from one address have the same one.
    pub(crate) host: u64,
    /// Who sends: what a driver says of itself (`CLIENT_ID`), the same on all connections of a session; else the name
    /// and the host, whichever connection it is.
    pub(crate) actor: u64,
    /// The node that its requests go to.
    coordinator: Coordinator,
    /// What was agreed beyond the version.
    pub(crate) extensions: Extensions,
    /// What the server has announced, if its SUPPORTED was seen.
    announced: Option<Extensions>,
    /// Whether it is known how EXECUTE and PREPARED results are laid out: see [`Session::decide_layout`].
    is_layout_known: bool,
    /// Whether its STARTUP is complete, or may be: something that the server only does then has been seen, or
    /// its beginning was not.
    pub(crate) is_started: bool,
    /// Whether a STARTUP has said how the client calls itself.
    is_named: bool,
    /// What the STARTUPs say that the server may have accepted.
    introductions: Handshake<Introduction>,
    /// There may be no control connection: what clients read of the schema is taken over.
    pub(crate) is_recorded: bool,
}

impl Session {
    /// That of a connection on which nothing has been said.
    pub(crate) fn new(connection: &Arc<Connection>, shown: ClientAddresses) -> Self {
        let host = host(connection.client.ip());
        Self {
            actor: host,
            connection: Arc::clone(connection),
            keyspace: None,
            changes: 0,
            earlier: VecDeque::new(),
            shown,
            client: client_name(&Startup { options: Vec::new() }, connection, shown).into(),
            client_id: None,
            host,
            coordinator: Coordinator::at(connection.upstream()),
            extensions: Extensions::NONE,
            announced: None,
            is_layout_known: false,
            is_started: false,
            is_named: false,
            introductions: Handshake::default(),
            is_recorded: connection.is_recorded(),
        }
    }

    /// Learns from a STARTUP.
    pub(crate) fn start(&mut self, envelope: &Envelope) {
        if self.introductions.is_settled() {
            return;
        }
        let Ok(decoded) = Request::decode(envelope, Extensions::NONE) else {
            return;
        };
        if let Request::Startup(startup) = decoded.message {
            let introduction = self.introduction(&startup);
            self.introductions.propose(&envelope.header, introduction);
            self.is_named = true;
            self.is_layout_known = true;
            self.introduce();
        }
    }

    /// Learns from a response what the server made of a STARTUP: nothing once the session
    /// [is started](Self::is_started).
    pub(crate) fn answer(&mut self, header: &Header) {
        if !self.introductions.is_settled() {
            self.introductions.answer(header);
            self.introduce();
        }
    }

    /// The server does what it only does once it has accepted a STARTUP; or what it has done is not known.
    pub(crate) fn has_started(&mut self) {
        self.is_started = true;
        self.introductions.settle();
    }

    /// Whether a message could be read in two ways, of which nothing has shown the right one yet.
    pub(crate) fn is_layout_open(&self, message: &Header) -> bool {
        !self.is_layout_known && matches!(message.opcode, Opcode::EXECUTE | Opcode::RESULT)
    }

    /// Takes an EXECUTE or a result, of whose body of `body_len` bytes there may be the beginning only, as evidence
    /// of how both are laid out on a connection whose STARTUP was not seen: with a result metadata id (ScyllaDB's
    /// extension of version 4) or without. What fits one layout alone decides; before, none of them is believed.
    #[cold]
    pub(crate) fn decide_layout(&mut self, message: &Envelope, body_len: usize) {
        let agreed = [Extensions::NONE, Extensions::RESULT_METADATA_ID];
        match agreed.map(|extensions| fits(message, body_len, extensions)) {
            // The version itself specifies the id.
            _ if Dialect::new(message.header.version).has_result_metadata_id() => {}
            [true, false] => self.extensions.result_metadata_id = false,
            [false, true] => self.extensions.result_metadata_id = true,
            [true, true] | [false, false] => return,
        }
        self.is_layout_known = true;
    }

    fn introduction(&self, startup: &Startup<'_>) -> Introduction {
        let client: Arc<str> = client_name(startup, &self.connection, self.shown).into();
        Introduction {
            // Drivers name what the server has announced.
            extensions: match self.announced {
                Some(announced) => announced.agreed(startup),
                None => Extensions::named(startup),
            },
            actor: actor(startup, &client, self.host),
            client,
        }
    }

    /// Goes by the STARTUP that is in force. A client whose only one was refused keeps its name: it is the
    /// one that was refused.
    fn introduce(&mut self) {
        if let Some(introduction) = self.introductions.in_force() {
            self.extensions = introduction.extensions;
            self.actor = introduction.actor;
            if self.client != introduction.client {
                self.client = Arc::clone(&introduction.client);
                self.client_id = None;
            }
        }
    }

    /// The two ends of its requests.
    #[inline]
    pub(crate) fn sender(&mut self, clients: &mut ClientIds, replicas: &ReplicaLookup) -> Sender {
        Sender {
            client: *self.client_id.get_or_insert_with(|| clients.of(&self.client)),
            coordinator: self.coordinator.node(replicas),
        }
    }

    /// Changes of the keyspace that are remembered. Drivers change it once, if at all; a request that stays
    /// in flight for longer has an unknown one.
    const EARLIER: usize = 16;

    /// How many times USE has changed the keyspace: for [`Session::keyspace_after`].
    pub(crate) fn keyspace_changes(&self) -> u64 {
        self.changes
    }

    /// The keyspace after so many changes of it.
    pub(crate) fn keyspace_after(&self, changes: u64) -> Option<&str> {
        let keyspace = match usize::try_from(self.changes.checked_sub(changes)?).ok()? {
            0 => self.keyspace.as_ref(),
            ago => self.earlier.get(self.earlier.len().checked_sub(ago)?)?.as_ref(),
        };
        keyspace.map(AsRef::as_ref)
    }

    /// The server has answered a USE.
    pub(crate) fn use_keyspace(&mut self, keyspace: &str) {
        let keyspace = cut_name(keyspace);
        if self.keyspace.as_deref() == Some(&*keyspace) {
            return;
        }
        if self.earlier.len() == Self::EARLIER {
            self.earlier.pop_front();
        }
        self.earlier.push_back(self.keyspace.replace(keyspace.into()));
        self.changes += 1;
    }

    /// The server has resolved an unqualified name, sent after so many changes, to this keyspace, and no USE was seen that
    /// set it: it was set before anything was captured. It holds until the first USE.
    #[cold]
    pub(crate) fn learn_keyspace(&mut self, changes: u64, keyspace: &str) {
        if changes > 0 || self.keyspace_after(changes).is_some() {
            return;
        }
        let keyspace = Some(cut_name(keyspace).into());
        match usize::try_from(self.changes) {
            Ok(0) => self.keyspace = keyspace,
            // What was before the first change is still remembered.
            Ok(later) if later == self.earlier.len() => self.earlier[0] = keyspace,
            _ => {}
        }
    }

    /// Whether its name is more than an address, and from a client whom the server may not have let in.
    pub(crate) fn is_only_claimed(&self) -> bool {
        self.is_named && !self.is_started
    }

    /// Learns from a SUPPORTED.
    pub(crate) fn supported(&mut self, envelope: &Envelope) {
        let Ok(decoded) = Response::decode(envelope, Extensions::NONE) else {
            return;
        };
        if let Response::Supported(supported) = decoded.message {
            self.announced = Some(Extensions::announced(&supported));
        }
    }
}

/// What a STARTUP says of a client.
#[derive(Debug, Clone)]
struct Introduction {
    extensions: Extensions,
    client: Arc<str>,
    actor: u64,
}

/// The ends of a request, as ids.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sender {
    pub(crate) client: ClientId,
    /// The node that it was sent to, by its place in the cluster; none where it is not known.
    pub(crate) coordinator: Option<u16>,
}

/// How much of clients' addresses is shown: they are personal data in some places, and the whole story in
/// others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum ClientAddresses {
    /// The whole address, without the port.
    #[default]
    Full,
    /// The network: the first 24 bits of an address of version 4, the first 48 of one of version 6.
    Network,
    /// Nothing of it.
    None,
}

impl ClientAddresses {
    /// `10.1.2.3`, `10.1.2.0/24`, or nothing.
    fn show(self, address: IpAddr) -> Option<String> {
        match (self, address.to_canonical()) {
            (Self::Full, address) => Some(address.to_string()),
            (Self::Network, IpAddr::V4(address)) => {
                let [a, b, c, _] = address.octets();
                Some(format!("{a}.{b}.{c}.0/24"))
            }
            (Self::Network, IpAddr::V6(address)) => {
                let [a, b, c, ..] = address.segments();
                Some(format!("{}/48", Ipv6Addr::new(a, b, c, 0, 0, 0, 0, 0)))
            }
            (Self::None, _) => None,
        }
    }
}

fn host(address: IpAddr) -> u64 {
    let mut hasher = DefaultHasher::new();
    address.to_canonical().hash(&mut hasher);
    hasher.finish()
}

/// Drivers that name their sessions do so by an id of their own making.
fn actor(startup: &Startup<'_>, client: &str, host: u64) -> u64 {
    let mut hasher = DefaultHasher::new();
    match startup.get("SESSION_ID").or(startup.get("CLIENT_ID")) {
        Some(id) => id.hash(&mut hasher),
        None => (client, host).hash(&mut hasher),
    }
    hasher.finish()
}

/// `certificate application (driver version) address`, as far as the client says and addresses are shown.
/// First what it cannot make up, and last; what it says of itself takes the place of neither.
fn client_name(startup: &Startup<'_>, connection: &Connection, shown: ClientAddresses) -> String {
    let joined = |name, version| match (startup.get(name), startup.get(version)) {
        (Some(name), Some(version)) => Some(format!("{name} {version}")),
        (Some(name), None) => Some(name.to_owned()),
        (None, _) => None,
    };
    let application = joined("APPLICATION_NAME", "APPLICATION_VERSION").map(|name| application(&name));
    let driver = joined("DRIVER_NAME", "DRIVER_VERSION").map(|name| cut(&name));
    let parts = [
        connection.certificate().map(str::to_owned),
        application.filter(|name| !name.is_empty()),
        driver.map(|driver| format!("({driver})")),
        shown.show(connection.client.ip()),
    ];
    let name = parts.into_iter().flatten().collect::<Vec<_>>().join(" ");
    match name.is_empty() {
        true => "(unnamed)".to_owned(),
        false => name,
    }
}

/// What a client says that its application is, without what would be taken for a driver, an address, or `(others)`.
fn application(name: &str) -> String {
    let plain = name.replace(['(', ')'], " ");
    let words = plain.split_whitespace().filter(|word| !is_client_address(word));
    cut(&words.collect::<Vec<_>>().join(" "))
}

/// A client may give its application and its driver any name, of any length.
fn cut(name: &str) -> String {
    name.chars().filter(|c| !c.is_control()).take(MAX_CLAIM).collect()
}

/// Characters of the name of an application, or of a driver.
const MAX_CLAIM: usize = 64;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use cqlens_capture::ConnectionId;

    #[test]
    fn what_a_client_says_of_itself_hides_no_address() {
        let connection = Connection::new(ConnectionId(0), "10.0.0.1:40000".parse().unwrap());
        let named = |options: &[(&str, &str)]| {
            let options = options.to_vec();
            client_name(&Startup { options }, &connection, ClientAddresses::Full)
        };
        let forged = format!(
            "orders 1.4 (DataStax Java driver 4.17.0){}10.9.9.9",
            " ".repeat(120)
        );
        assert_eq!(
            named(&[("APPLICATION_NAME", &forged)]),
            "orders 1.4 DataStax Java driver 4.17.0 10.0.0.1"
        );
        assert_eq!(named(&[("APPLICATION_NAME", "(others)")]), "others 10.0.0.1");
        assert_eq!(named(&[("APPLICATION_NAME", "10.9.9.9")]), "10.0.0.1");
        let long = "x".repeat(500);
        let name = named(&[("APPLICATION_NAME", &long), ("DRIVER_NAME", &long)]);
        assert!(name.len() < 200 && name.ends_with("x) 10.0.0.1"), "{name}");
        let driver = [
            ("DRIVER_NAME", "DataStax Java driver for Apache Cassandra(R)"),
            ("DRIVER_VERSION", "4.19.4"),
        ];
        assert_eq!(
            named(&driver),
            "(DataStax Java driver for Apache Cassandra(R) 4.19.4) 10.0.0.1"
        );
    }

    #[test]
    fn a_bounded_number_of_keyspaces_is_remembered() {
        let connection = Arc::new(Connection::new(
            ConnectionId(0),
            "10.0.0.1:40000".parse().unwrap(),
        ));
        let mut session = Session::new(&connection, ClientAddresses::default());
        assert_eq!(session.keyspace_after(0), None);
        for number in 1..=100 {
            session.use_keyspace(&format!("k{number}"));
            session.use_keyspace(&format!("k{number}"));
        }
        assert_eq!(session.keyspace_changes(), 100);
        assert_eq!(session.earlier.len(), Session::EARLIER);
        for (changes, keyspace) in [
            (100, Some("k100")),
            (99, Some("k99")),
            (84, Some("k84")),
            (83, None),
            (0, None),
        ] {
            assert_eq!(session.keyspace_after(changes), keyspace, "{changes}");
        }
    }

    #[test]
    fn a_client_is_known_by_what_startup_says() {
        let options = vec![
            ("APPLICATION_NAME", "shop"),
            ("DRIVER_NAME", "a\ndriver"),
            ("DRIVER_VERSION", "3.1"),
        ];
        let connection = Connection::new(ConnectionId(0), "[::ffff:10.1.2.3]:4".parse().unwrap());
        let startup = Startup { options };
        let name = |startup, shown| client_name(startup, &connection, shown);
        assert_eq!(
            name(&startup, ClientAddresses::Full),
            "shop (adriver 3.1) 10.1.2.3"
        );
        assert_eq!(
            name(&startup, ClientAddresses::Network),
            "shop (adriver 3.1) 10.1.2.0/24"
        );
        assert_eq!(name(&startup, ClientAddresses::None), "shop (adriver 3.1)");
        let nobody = Startup { options: Vec::new() };
        assert_eq!(name(&nobody, ClientAddresses::None), "(unnamed)");
        connection.certified("CN=orders\n");
        assert_eq!(
            name(&startup, ClientAddresses::Full),
            "CN=orders shop (adriver 3.1) 10.1.2.3"
        );
        let long = "x".repeat(10_000);
        let startup = Startup {
            options: vec![("APPLICATION_NAME", &long)],
        };
        let shown = format!("CN=orders {} 10.1.2.3", &long[..MAX_CLAIM]);
        assert_eq!(name(&startup, ClientAddresses::Full), shown);
        let of_version_6 = Connection::new(ConnectionId(0), "[2001:db8:7:8::9]:4".parse().unwrap());
        assert_eq!(
            client_name(&nobody, &of_version_6, ClientAddresses::Network),
            "2001:db8:7::/48"
        );
    }
    #[test]
    fn who_sends_is_a_session_by_its_own_id_or_else_a_name_at_an_address() {
        let of = |options: &[(&'static str, &'static str)], host| {
            let startup = Startup {
                options: options.to_vec(),
            };
            actor(&startup, "shop", host)
        };
        let session = ("SESSION_ID", "5e55-1011");
        let client = ("CLIENT_ID", "c11e-0001");
        for id in [session, client] {
            assert_eq!(of(&[id], 1), of(&[id], 2), "from another address");
            assert_ne!(of(&[id], 1), of(&[], 1));
            assert_ne!(of(&[id], 1), of(&[(id.0, "another")], 1), "from the same address");
        }
        assert_eq!(of(&[client, session], 1), of(&[session], 1), "the narrower one");
        assert_eq!(of(&[], 1), of(&[], 1), "any connection");
        assert_ne!(of(&[], 1), of(&[], 2));
    }
}
