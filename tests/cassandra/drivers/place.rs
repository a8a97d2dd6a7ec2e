//! The clusters that drivers are run against, and how they are spoken to.

use crate::support::cassandra::Options;

use super::certificates::Certificates;
use super::mode::Mode;

/// The superuser of a new cluster with passwords.
const USER: &str = "cassandra";

/// The racks of the three nodes.
pub(crate) const RACKS: [&str; 3] = ["r1", "r1", "r2"];

/// Where all of them are.
pub(crate) const DATA_CENTER: &str = "dc1";

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place {
    /// One node, which asks for a password.
    OneNode,
    /// The same, over TLS.
    Tls,
    /// The same, over TLS with a certificate of the client's.
    MutualTls,
    /// Three nodes.
    Ring,
}

impl Place {
    pub(super) const ALL: [Self; 4] = [Self::OneNode, Self::Tls, Self::MutualTls, Self::Ring];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::OneNode => "one node",
            Self::Tls => "one node, TLS",
            Self::MutualTls => "one node, mutual TLS",
            Self::Ring => "three nodes",
        }
    }

    /// Whether drivers are to be run here: everywhere, or in the places that `CQLENS_PLACES` names (`one
    /// node`, `three nodes`, with semicolons between them).
    ///
    /// # Panics
    /// If it names something else.
    pub(super) fn is_chosen(self) -> bool {
        let chosen = std::env::var("CQLENS_PLACES").unwrap_or_default();
        let mut names = chosen.split(';').filter(|name| !name.is_empty());
        let is_place = |name: &str| Self::ALL.iter().any(|place| place.name() == name);
        assert!(names.clone().all(is_place), "CQLENS_PLACES names {chosen:?}");
        chosen.is_empty() || names.any(|name| name == self.name())
    }

    pub(super) fn nodes(self) -> usize {
        match self {
            Self::OneNode | Self::Tls | Self::MutualTls => 1,
            Self::Ring => 3,
        }
    }

    fn data_center(self) -> &'static str {
        match self {
            Self::OneNode | Self::Tls | Self::MutualTls => "datacenter1",
            Self::Ring => DATA_CENTER,
        }
    }

    /// What TLS could change: how a connection begins, large bodies, many requests, many connections.
    pub(super) fn checks(self) -> &'static str {
        match self {
            Self::OneNode | Self::Ring => "session",
            Self::Tls | Self::MutualTls => "connect,ddl,simple,prepared,blob,password,in-flight,connections",
        }
    }

    /// What is looked at while a node falls silent, ends and comes back.
    pub(super) fn checks_of_outage(self) -> &'static str {
        match self {
            Self::Ring => "connect,ddl,outage",
            Self::OneNode | Self::Tls | Self::MutualTls => "connect,ddl,reconnect",
        }
    }

    /// Who may do everything, whose password is the name; nobody where no password is asked for.
    pub(super) fn user(self) -> Option<&'static str> {
        (self != Self::Ring).then_some(USER)
    }

    /// What the program of a driver is told of it.
    pub(super) fn program_arguments(self, mode: Mode, certificates: &Certificates) -> Vec<String> {
        let mut arguments = vec![format!("dc={}", self.data_center())];
        if let Some(user) = self.user() {
            arguments.extend([format!("user={user}"), format!("password={user}")]);
        }
        if matches!(self, Self::Tls | Self::MutualTls) {
            arguments.push(format!("ca={}", certificates.authority()));
        }
        // The node itself insists on a certificate.
        if self == Self::MutualTls || self == Self::Tls && mode == Mode::Direct {
            arguments.push(format!("cert={}", certificates.client()));
            arguments.push(format!("key={}", certificates.client_key()));
        }
        arguments
    }

    /// What a proxy is told of it.
    pub(super) fn proxy_arguments(self, certificates: &Certificates) -> Vec<String> {
        let to_clients = [
            ("--client-tls-cert", certificates.server()),
            ("--client-tls-key", certificates.server_key()),
        ];
        let to_nodes = [
            ("--upstream-tls-ca", certificates.authority()),
            ("--upstream-tls-cert", certificates.client()),
            ("--upstream-tls-key", certificates.client_key()),
        ];
        let of_clients = [("--client-tls-ca", certificates.authority())];
        let given: Vec<(&str, String)> = match self {
            Self::OneNode | Self::Ring => Vec::new(),
            Self::Tls => to_clients.into_iter().chain(to_nodes).collect(),
            Self::MutualTls => to_clients.into_iter().chain(to_nodes).chain(of_clients).collect(),
        };
        given
            .into_iter()
            .flat_map(|(name, value)| [name.to_owned(), value])
            .collect()
    }

    /// The user of the proxy's own connection.
    pub(super) fn proxy_environment(self) -> Vec<(String, String)> {
        let Some(user) = self.user() else {
            return Vec::new();
        };
        ["CQLENS_USERNAME", "CQLENS_PASSWORD"]
            .map(|name| (name.to_owned(), user.to_owned()))
            .to_vec()
    }

    /// How its cluster is started. The places of one node share one. `has_outages` if nodes are ended and come back.
    pub(crate) fn options(self, certificates: &Certificates, has_outages: bool) -> Options {
        let options = Options {
            nodes: self.nodes(),
            comes_back: has_outages,
            ..Options::default()
        };
        let options = options
            .with("user_defined_functions_enabled", "true")
            .with("tombstone_warn_threshold", "10")
            .with("tombstone_failure_threshold", "100");
        // Each node of a ring has its own certificate, and its rack.
        let in_ring = |options: Options| {
            options.on_racks(&RACKS).with(
                "client_encryption_options",
                &certificates.encryption_options_of_each(),
            )
        };
        match self {
            Self::Ring if !has_outages => in_ring(options),
            // A replica that is silent is waited for this long: long enough for one that is only slow, and
            // twice of it ends before the others take it for dead.
            Self::Ring => in_ring(options)
                .with("read_request_timeout", "3s")
                .with("write_request_timeout", "3s"),
            // It is killed, and what it has acknowledged must be there when it comes back.
            Self::OneNode | Self::Tls | Self::MutualTls => options
                .with("commitlog_sync", "batch")
                .with("commitlog_sync_period", "0ms")
                .with("authenticator", "PasswordAuthenticator")
                .with("authorizer", "CassandraAuthorizer")
                .with("client_encryption_options", &certificates.encryption_options()),
        }
    }
}
