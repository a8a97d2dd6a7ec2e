//! Where the listening sockets come from: from systemd or a predecessor, or bound here.

use std::io;

use anyhow::{Context, bail};
use tokio::net::TcpListener;

use super::{
    access::Access,
    args::{AdminAddress, Args},
    bind::{bind, bind_admin, bind_transparent},
    inherited::{ForNodes, Inherited},
    topology::{Mode, RoutePair},
};
use cqlens_admin::{AdminListener, SocketFile};
use cqlens_proxy::Backlog;

/// The sockets, listening.
#[derive(Debug)]
pub(super) struct Listeners {
    pub(super) clients: Vec<(RoutePair, TcpListener)>,
    /// Those that nodes of a cluster may get.
    pub(super) for_nodes: ForNodes,
    /// What becomes of the clients' backlog when this process stops.
    pub(super) backlog: Backlog,
    pub(super) admin: Option<AdminListener>,
    /// The file of the admin listener's socket, if it has one.
    pub(super) admin_file: Option<SocketFile>,
}

impl Listeners {
    /// Binds what was not inherited.
    ///
    /// # Errors
    /// An address that cannot be bound; an inherited socket that no listener has, or, where there are several
    /// listeners, one of them that none of the sockets is for.
    pub(super) fn open(args: &Args, mode: &Mode, mut inherited: Inherited) -> anyhow::Result<Self> {
        let backlog = match inherited.is_empty() {
            true => Backlog::Serve,
            false => Backlog::Leave,
        };
        let mut opened = Self {
            clients: Vec::new(),
            for_nodes: ForNodes::default(),
            backlog,
            admin: None,
            admin_file: None,
        };
        match mode {
            Mode::One(pair) | Mode::Transparent(pair) => {
                let given = inherited.next()?;
                opened.admin = inherited.next()?.map(AdminListener::Tcp);
                opened.open_admin(args)?;
                let listener = match (given, mode) {
                    (Some(listener), _) => listener,
                    (None, Mode::Transparent(_)) => bind_transparent(pair.listen, args.reuse_port)
                        .with_context(|| format!("cannot listen on {}", pair.listen))?,
                    (None, _) => bind_pair(pair, args)?,
                };
                opened.clients.push((pair.clone(), listener));
            }
            Mode::Routes(pairs) => {
                opened.admin = admin_of(args, &mut inherited)?;
                opened.open_admin(args)?;
                opened.clients = match inherited.is_empty() {
                    true => bind_pairs(pairs, args)?,
                    false => given_pairs(pairs, &mut inherited)?,
                };
                inherited.check_used()?;
            }
            Mode::Cluster(rules) => {
                opened.admin = admin_of(args, &mut inherited)?;
                opened.open_admin(args)?;
                opened.for_nodes = inherited.for_nodes(|address| rules.has(address))?;
            }
        }
        Ok(opened)
    }

    /// Lets operators in as the settings have it.
    ///
    /// # Errors
    /// A socket by which other machines would send a token in clear text.
    pub(super) fn guard_admin(&mut self, access: &Access) -> anyhow::Result<()> {
        self.admin = match self.admin.take() {
            Some(AdminListener::Tcp(listener)) => Some(access.guard(listener)?),
            other => other,
        };
        Ok(())
    }

    /// Listens for operators where no socket for them was inherited: before clients can connect, so that who sees the proxy
    /// listen can ask it how it is.
    fn open_admin(&mut self, args: &Args) -> anyhow::Result<()> {
        if let (None, Some(address)) = (&self.admin, &args.admin) {
            self.admin_at(address, args.reuse_port)
                .with_context(|| format!("the admin listener cannot listen on {address}"))?;
        }
        Ok(())
    }

    fn admin_at(&mut self, address: &AdminAddress, reuse: bool) -> io::Result<()> {
        self.admin = Some(match address {
            AdminAddress::Tcp(address) => AdminListener::Tcp(bind_admin(*address, reuse)?),
            AdminAddress::Unix(path) => {
                let (listener, file) = cqlens_admin::listen(path, reuse)?;
                self.admin_file = Some(file);
                AdminListener::Unix(listener)
            }
        });
        Ok(())
    }
}

/// The inherited socket of the admin listener, if there is one.
fn admin_of(args: &Args, inherited: &mut Inherited) -> anyhow::Result<Option<AdminListener>> {
    match args.admin.as_ref().and_then(AdminAddress::tcp) {
        Some(address) => Ok(inherited.at(address)?.map(AdminListener::Tcp)),
        None => Ok(None),
    }
}

/// Inherited sockets for pairs.
///
/// # Errors
/// A pair that none of them is for.
fn given_pairs(
    pairs: &[RoutePair],
    inherited: &mut Inherited,
) -> anyhow::Result<Vec<(RoutePair, TcpListener)>> {
    let given = inherited.addresses();
    let of_pair = |pair: &RoutePair| match inherited.at(pair.listen)? {
        Some(listener) => Ok((pair.clone(), listener)),
        None => bail!(
            "LISTEN_FDS: no socket was passed for {} (to {}), only for {given}",
            pair.listen,
            pair.upstream
        ),
    };
    pairs.iter().map(of_pair).collect()
}

/// Sockets for pairs, listening.
///
/// # Errors
/// An address that cannot be bound, with where it was to lead.
pub(super) fn bind_pairs(pairs: &[RoutePair], args: &Args) -> anyhow::Result<Vec<(RoutePair, TcpListener)>> {
    let bound = pairs
        .iter()
        .map(|pair| Ok((pair.clone(), bind_pair(pair, args)?)));
    bound.collect()
}

fn bind_pair(pair: &RoutePair, args: &Args) -> anyhow::Result<TcpListener> {
    bind(pair.listen, args.reuse_port)
        .with_context(|| format!("cannot listen on {} (to {})", pair.listen, pair.upstream))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::net::SocketAddr;

    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        args: Args,
    }

    /// Sockets as a service manager has them, without blocking.
    fn sockets() -> [std::net::TcpListener; 3] {
        [(); 3].map(|()| {
            let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            socket.set_nonblocking(true).unwrap();
            socket
        })
    }

    fn address(socket: &std::net::TcpListener) -> SocketAddr {
        socket.local_addr().unwrap()
    }

    /// What is opened, by upstream, and the admin listener.
    fn opened(arguments: &[String], given: Vec<std::net::TcpListener>) -> Result<Listeners, String> {
        let arguments = ["cqlens".to_owned()].into_iter().chain(arguments.iter().cloned());
        let args = Command::try_parse_from(arguments).unwrap().args;
        let mode = args.mode().unwrap();
        Listeners::open(&args, &mode, Inherited::from_listeners(given)).map_err(|error| format!("{error:#}"))
    }

    fn route(socket: &std::net::TcpListener, upstream: &str) -> [String; 2] {
        ["--route".to_owned(), format!("{}={upstream}", address(socket))]
    }

    #[tokio::test]
    async fn each_of_several_listeners_takes_the_socket_with_its_address() {
        let [one, other, admin] = sockets();
        let of_admin = ["--admin".to_owned(), address(&admin).to_string()];
        let arguments = [route(&one, "a:1"), route(&other, "b:1"), of_admin].concat();
        let expected = [address(&one), address(&other), address(&admin)];
        let listeners = opened(&arguments, vec![admin, other, one]).unwrap();
        assert_eq!(listeners.backlog, Backlog::Leave);
        let Some(AdminListener::Tcp(admin)) = listeners.admin else {
            unreachable!("an inherited socket is one of TCP");
        };
        let found: Vec<_> = listeners
            .clients
            .iter()
            .map(|(_, socket)| socket)
            .chain([&admin])
            .collect();
        let found: Vec<_> = found.iter().map(|socket| socket.local_addr().unwrap()).collect();
        assert_eq!(found, expected);
        let upstreams: Vec<_> = listeners.clients.iter().map(|(pair, _)| &pair.upstream).collect();
        assert_eq!(upstreams, ["a:1", "b:1"]);
    }

    #[tokio::test]
    async fn sockets_that_do_not_fit_the_listeners_are_named() {
        let [one, other, third] = sockets();
        let two = [route(&one, "a:1"), route(&other, "b:1")].concat();
        let addresses = [address(&one), address(&other), address(&third)];
        let error = opened(&two, vec![one]).unwrap_err();
        let [first, second, third_address] = addresses;
        assert_eq!(
            error,
            format!("LISTEN_FDS: no socket was passed for {second} (to b:1), only for {first}")
        );
        let [one, ..] = sockets();
        let error = opened(&route(&one, "a:1"), vec![one, third]).unwrap_err();
        assert_eq!(
            error,
            format!(
                "LISTEN_FDS: a socket for {third_address} was passed, but cqlens is not set to listen there"
            )
        );
        let cluster = [
            "--topology",
            "cluster",
            "--upstream",
            "a:1",
            "--listen",
            "127.0.1.{n}:9042",
        ];
        let error = opened(&cluster.map(str::to_owned), vec![other]).unwrap_err();
        assert!(error.contains(&second.to_string()), "{error}");
    }

    #[tokio::test]
    async fn nodes_of_a_cluster_get_the_sockets_with_their_addresses_again_and_again() {
        let [one, other, _] = sockets();
        let address = address(&one);
        let port = address.port();
        let cluster = ["--topology", "cluster", "--upstream", "a:1", "--listen"].map(str::to_owned);
        let rule = format!("127.0.0.1:{port}-{port}");
        let listeners = opened(&[&cluster[..], &[rule]].concat(), vec![one]).unwrap();
        let given = listeners.for_nodes;
        assert_eq!(given.idle(|_| false).collect::<Vec<_>>(), [address]);
        assert_eq!(given.idle(|served| served == address).count(), 0);
        for _ in 0..2 {
            let (socket, backlog) = given.open(address, false).unwrap();
            assert_eq!((socket.local_addr().unwrap(), backlog), (address, Backlog::Leave));
        }
        let free = other.local_addr().unwrap();
        drop(other);
        assert_eq!(given.open(free, false).unwrap().1, Backlog::Serve);
    }
}
