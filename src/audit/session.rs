//! What a connection has agreed on and set, which the meaning of its requests depends on.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    net::{IpAddr, Ipv6Addr},
    sync::Arc,
};

use cqlens_proto::{
    envelope::Envelope,
    message::{Extensions, Request, Response, Startup},
};

use super::load::Coordinator;
use crate::capture::Connection;

/// What the connection's own requests have set.
#[derive(Debug, Clone)]
pub(super) struct Session {
    /// The keyspace of unqualified names: what USE has set.
    pub(super) keyspace: Option<Arc<str>>,
    /// How much of the client's address is in its name.
    shown: ClientAddresses,
    /// What the client calls itself, its address, and the name in its certificate if it has shown one.
    pub(super) client: Arc<str>,
    /// Stands for the client's host: connections from one address have the same one.
    pub(super) host: u64,
    /// The node that its requests go to.
    pub(super) coordinator: Coordinator,
    /// What was agreed beyond the version.
    pub(super) extensions: Extensions,
    announced: Extensions,
    /// Whether its STARTUP is complete, or may be: something that the server only does then has been seen, or its beginning was not.
    pub(super) is_started: bool,
    /// Whether a STARTUP has said how the client calls itself.
    is_named: bool,
    /// Nobody asks the cluster, perhaps: what clients read of the schema is looked at.
    pub(super) is_recorded: bool,
}

impl Session {
    /// That of a connection on which nothing has been said.
    pub(super) fn new(connection: &Connection, shown: ClientAddresses) -> Self {
        Self {
            keyspace: None,
            shown,
            client: client_name(&Startup { options: Vec::new() }, connection, shown).into(),
            host: host(connection.client.ip()),
            coordinator: Coordinator::at(connection.upstream()),
            extensions: Extensions::NONE,
            announced: Extensions::NONE,
            is_started: false,
            is_named: false,
            is_recorded: connection.is_recorded(),
        }
    }

    /// Learns from a STARTUP.
    pub(super) fn start(&mut self, envelope: &Envelope, connection: &Connection) {
        let Ok(decoded) = Request::decode(envelope, Extensions::NONE) else {
            return;
        };
        if let Request::Startup(startup) = decoded.message {
            self.extensions = self.announced.agreed(&startup);
            self.client = client_name(&startup, connection, self.shown).into();
            self.is_named = true;
        }
    }

    /// Whether its name is more than an address, and from somebody whom the server may not have let in.
    pub(super) fn is_only_claimed(&self) -> bool {
        self.is_named && !self.is_started
    }

    /// Learns from a SUPPORTED.
    pub(super) fn supported(&mut self, envelope: &Envelope) {
        let Ok(decoded) = Response::decode(envelope, Extensions::NONE) else {
            return;
        };
        if let Response::Supported(supported) = decoded.message {
            self.announced = Extensions::announced(&supported);
        }
    }
}

/// How much of clients' addresses is shown: they are personal data in some places, and the whole story in others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
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

/// `certificate application (driver version) address`, as far as the client says and addresses are shown. First what it cannot make up.
fn client_name(startup: &Startup<'_>, connection: &Connection, shown: ClientAddresses) -> String {
    let joined = |name, version| match (startup.get(name), startup.get(version)) {
        (Some(name), Some(version)) => Some(format!("{name} {version}")),
        (Some(name), None) => Some(name.to_owned()),
        (None, _) => None,
    };
    let application = joined("APPLICATION_NAME", "APPLICATION_VERSION");
    let driver = joined("DRIVER_NAME", "DRIVER_VERSION");
    let parts = [
        connection.certificate().map(str::to_owned),
        application,
        driver.map(|driver| format!("({driver})")),
        shown.show(connection.client.ip()),
    ];
    let name = parts.into_iter().flatten().collect::<Vec<_>>().join(" ");
    if name.is_empty() {
        return "(unnamed)".to_owned();
    }
    // A client may call itself what it likes, at any length.
    name.chars()
        .filter(|c| !c.is_control())
        .take(MAX_CLIENT_NAME)
        .collect()
}

const MAX_CLIENT_NAME: usize = 160;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::capture::ConnectionId;

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
        assert_eq!(name(&startup, ClientAddresses::Full).len(), MAX_CLIENT_NAME);
        let of_version_6 = Connection::new(ConnectionId(0), "[2001:db8:7:8::9]:4".parse().unwrap());
        assert_eq!(
            client_name(&nobody, &of_version_6, ClientAddresses::Network),
            "2001:db8:7::/48"
        );
    }
}
