//! The settings of the edge: how many connections, how long they may be silent, the PROXY protocol.

use std::num::{NonZeroU32, NonZeroUsize};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::config::{OrOff, duration_or_off};
use cqlens_proxy::{ClientNetworks, Policy, REFUSALS_AT_A_TIME};

/// What connections may cost.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Connections")]
pub(super) struct LimitArgs {
    /// Maximum number of client connections
    ///
    /// Of the whole process; further ones are refused with an ERROR that says so. Each takes two file descriptors. By
    /// default 16384, or as many as the limit of file descriptors allows.
    #[arg(long, env = "CQLENS_MAX_CONNECTIONS", value_name = "NUMBER")]
    max_connections: Option<NonZeroUsize>,
    /// Maximum number of connections per listener
    ///
    /// No separate limit by default.
    #[arg(
        long,
        env = "CQLENS_MAX_CONNECTIONS_PER_LISTENER",
        value_name = "NUMBER",
        hide_short_help = true
    )]
    max_connections_per_listener: Option<NonZeroUsize>,
    /// Maximum number of connections per client (see --client-networks)
    ///
    /// If not set, one client may have all but a sixteenth of --max-connections.
    #[arg(
        long,
        env = "CQLENS_MAX_CONNECTIONS_PER_CLIENT",
        value_name = "NUMBER",
        hide_short_help = true
    )]
    max_connections_per_client: Option<NonZeroUsize>,
    /// Maximum rate of new connections, per second
    ///
    /// Of the whole process; further ones wait in the kernel's backlog. No limit if not set.
    #[arg(
        long,
        env = "CQLENS_MAX_CONNECTION_RATE",
        value_name = "PER_SECOND",
        hide_short_help = true
    )]
    max_connection_rate: Option<NonZeroU32>,
    /// Maximum rate of new connections per client, per second
    ///
    /// Further ones are refused with an ERROR that says so. No limit if not set.
    #[arg(
        long,
        env = "CQLENS_MAX_CONNECTION_RATE_PER_CLIENT",
        value_name = "PER_SECOND",
        hide_short_help = true
    )]
    max_connection_rate_per_client: Option<NonZeroU32>,
    /// Prefix lengths that identify a client, for IPv4 and IPv6 addresses
    #[arg(
        long,
        env = "CQLENS_CLIENT_NETWORKS",
        value_name = "BITS,BITS",
        default_value = "32,64",
        hide_short_help = true
    )]
    client_networks: ClientNetworks,
    /// Timeout for clients to log in
    ///
    /// From the connection to READY or AUTH_SUCCESS. A client that only sends OPTIONS does not log in.
    #[arg(long, env = "CQLENS_LOGIN_TIMEOUT", value_name = "DURATION", default_value = "30s", value_parser = duration_or_off, hide_short_help = true)]
    login_timeout: OrOff,
    /// Idle time after which the kernel probes the other end (TCP keepalive)
    ///
    /// For connections of clients and to nodes. `off` disables it.
    #[arg(long, env = "CQLENS_KEEPALIVE", value_name = "DURATION", default_value = "60s", value_parser = duration_or_off, hide_short_help = true)]
    keepalive: OrOff,
    /// Close connections whose other end acknowledges nothing for this long
    ///
    /// Or accepts no pending data. `off` leaves that to the kernel, which takes about a quarter of an hour.
    #[arg(long, env = "CQLENS_UNACKNOWLEDGED_TIMEOUT", value_name = "DURATION", default_value = "2m", value_parser = duration_or_off, hide_short_help = true)]
    unacknowledged_timeout: OrOff,
    /// Close connections that carry no byte in either direction for this long
    ///
    /// It may take up to a quarter longer.
    #[arg(long, env = "CQLENS_IDLE_TIMEOUT", value_name = "DURATION", default_value = "off", value_parser = duration_or_off, hide_short_help = true)]
    idle_timeout: OrOff,
    /// Close half-closed connections after this time
    ///
    /// Such as a client that does not close after its node did.
    #[arg(long, env = "CQLENS_HALF_CLOSED_TIMEOUT", value_name = "DURATION", default_value = "2m", value_parser = duration_or_off, hide_short_help = true)]
    half_closed_timeout: OrOff,
    /// Expect the PROXY protocol from clients, version 1 or 2
    ///
    /// A load balancer then passes on their addresses. Connections without such a header are refused, and a client that
    /// can bypass the load balancer can claim any address.
    #[arg(long, env = "CQLENS_ACCEPT_PROXY_PROTOCOL", hide_short_help = true)]
    accept_proxy_protocol: bool,
    /// Send the client's address to nodes with the PROXY protocol, version 2
    ///
    /// The node must expect it: Scylla's port for it, a load balancer in front of the node.
    #[arg(long, env = "CQLENS_SEND_PROXY_PROTOCOL", hide_short_help = true)]
    send_proxy_protocol: bool,
}

impl LimitArgs {
    /// What the settings mean for a process that may open so many `descriptors`, and has so
    /// many `listeners` for clients.
    pub(super) fn policy(&self, descriptors: Descriptors, listeners: usize) -> Policy {
        let max_connections = match self.max_connections {
            Some(asked) => asked.get(),
            None => Policy::MAX_CONNECTIONS
                .min(descriptors.connections(listeners))
                .max(1),
        };
        Policy {
            max_connections,
            max_connections_per_listener: self.max_connections_per_listener.map(NonZeroUsize::get),
            max_connections_per_client: self.max_connections_per_client.map(NonZeroUsize::get),
            max_connection_rate: self.max_connection_rate,
            max_connection_rate_per_client: self.max_connection_rate_per_client,
            client_networks: self.client_networks,
            login_timeout: self.login_timeout.0,
            keepalive: self.keepalive.0,
            unacknowledged_timeout: self.unacknowledged_timeout.0,
            idle_timeout: self.idle_timeout.0,
            half_closed_timeout: self.half_closed_timeout.0,
            accept_proxy_protocol: self.accept_proxy_protocol,
            send_proxy_protocol: self.send_proxy_protocol,
        }
    }

    /// Whether the node expects a header before everything else, on connections of cqlens' own too.
    pub(super) fn sends_proxy_protocol(&self) -> bool {
        self.send_proxy_protocol
    }
}

/// How many file descriptors the process may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Descriptors {
    limit: usize,
    /// Threads that wait for sockets.
    threads: usize,
}

impl Descriptors {
    /// As many as may be had: raises the soft limit to the hard one. Where that is not allowed, what there
    /// is. `threads` wait for sockets.
    pub(super) fn raise(threads: usize) -> Self {
        let limit = getrlimit(Resource::Nofile);
        let raised = Rlimit {
            current: limit.maximum,
            maximum: limit.maximum,
        };
        if limit.current != limit.maximum
            && let Err(error) = setrlimit(Resource::Nofile, raised)
        {
            tracing::warn!(%error, "the limit of file descriptors cannot be raised");
        }
        // None is no limit at all.
        let current = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        Self {
            limit: usize::try_from(current).unwrap_or(usize::MAX),
            threads,
        }
    }

    /// How many connections they hold beside so many listeners.
    fn connections(self, listeners: usize) -> usize {
        let kept = KEPT + self.threads.saturating_mul(OF_A_THREAD).saturating_add(listeners);
        self.limit.saturating_sub(kept) / 2
    }

    /// Says if they do not hold as many connections as `policy` allows, or as it would
    /// allow if there were more.
    pub(super) fn judge(self, policy: &Policy, listeners: usize) {
        let (descriptors, holds, asked) = (self.limit, self.connections(listeners), policy.max_connections);
        if holds < asked {
            tracing::warn!(
                descriptors,
                holds,
                max_connections = asked,
                "the limit of file descriptors (ulimit -n, LimitNOFILE) is too low for max-connections: \
                    clients may have to wait"
            );
        } else if asked == holds && asked < Policy::MAX_CONNECTIONS {
            tracing::warn!(
                descriptors,
                max_connections = asked,
                "the limit of file descriptors (ulimit -n, LimitNOFILE) allows fewer connections than the \
                    default"
            );
        }
    }
}

/// For everything that is neither a connection that is forwarded nor a listener: clients that are being
/// refused, the admin listener and its clients, the control connection, reports and snapshots, certificates.
const KEPT: usize = REFUSALS_AT_A_TIME + 48;

/// What a thread waits for its sockets with: a selector, its registry, and what wakes it.
const OF_A_THREAD: usize = 3;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use clap::Parser;
    use std::time::Duration;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        limits: LimitArgs,
    }

    fn policy(arguments: &[&str], limit: usize) -> Policy {
        beside(1, arguments, limit)
    }

    fn beside(listeners: usize, arguments: &[&str], limit: usize) -> Policy {
        let arguments = [&["cqlens"], arguments].concat();
        Command::try_parse_from(arguments)
            .unwrap()
            .limits
            .policy(Descriptors { limit, threads: 5 }, listeners)
    }

    #[test]
    fn without_arguments_the_policy_is_the_default() {
        assert_eq!(policy(&[], 1 << 20), Policy::default());
    }

    #[test]
    fn the_default_is_what_the_descriptors_hold_and_what_was_asked_for_stays() {
        assert_eq!(policy(&[], 1024).max_connections, 448);
        assert_eq!(policy(&[], 60).max_connections, 1);
        assert_eq!(policy(&["--max-connections", "1000"], 1024).max_connections, 1000);
    }

    #[test]
    fn each_listener_takes_a_descriptor() {
        assert_eq!(beside(201, &[], 1024).max_connections, 348);
        assert_eq!(beside(2_000, &[], 1024).max_connections, 1);
    }

    #[test]
    fn timeouts_can_be_off() {
        let all_off = ["--keepalive", "off", "--unacknowledged-timeout", "0"];
        let policy = policy(&[&all_off[..], &["--idle-timeout", "1h"]].concat(), 1 << 20);
        assert_eq!(
            (
                policy.keepalive,
                policy.unacknowledged_timeout,
                policy.idle_timeout
            ),
            (None, None, Some(Duration::from_secs(3600)))
        );
    }
}
