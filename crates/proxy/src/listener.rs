//! The accept loop of a listener.

use std::{io, net::SocketAddr};

use tokio::net::{TcpListener, TcpStream};

use super::{
    Drain, Drained, Proxy, Workers,
    accept::AcceptErrors,
    accepted::Accepted,
    backlog,
    drain::{self, Alive},
    notices::Notice,
};

/// What happens to the clients in the listen backlog when a listener stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backlog {
    /// They are accepted and served: no other process will.
    Serve,
    /// They are left to the other process that has the same listening socket: the one that passed it to
    /// this process, or a successor.
    Leave,
}

impl Proxy {
    /// Accepts clients, whose connections run on `workers`, until `drain` begins. Then waits for the
    /// connections to end, as [`Drain`] describes.
    pub async fn serve(
        self,
        listener: TcpListener,
        backlog: Backlog,
        drain: Drain,
        workers: Workers,
    ) -> Drained {
        // Before the first client: none must be led back here.
        let own = self.admission.own_sockets().listening(&listener);
        let (alive, all_done) = drain::counter();
        let errors = AcceptErrors::default();
        let serve = |client, address| self.spawn(client, address, drain.clone(), alive.clone(), &workers);
        loop {
            tokio::select! {
                biased;
                () = drain.begun() => break,
                accepted = self.accept(&listener) => match accepted {
                    Ok((client, address)) => serve(client, address),
                    Err(error) => errors.after(&error).await,
                },
            }
        }
        if backlog == Backlog::Serve {
            backlog::empty(&listener, serve, &errors).await;
        }
        // Clients that connect from now on are refused, not left waiting.
        drop((listener, own, alive));
        drain.wait_for(all_done).await
    }

    /// Accepts the next client, once the rate of connections allows one. Until then it
    /// waits in the kernel's backlog.
    async fn accept(&self, listener: &TcpListener) -> io::Result<(TcpStream, SocketAddr)> {
        self.admission.wait_for_rate().await;
        listener.accept().await
    }

    fn spawn(&self, socket: TcpStream, peer: SocketAddr, drain: Drain, alive: Alive, workers: &Workers) {
        let (policy, route) = (self.admission.policy(), self.route.load_full());
        let drain = route.drain.clone().unwrap_or(drain);
        let permit = match self.admission.try_acquire(&policy) {
            Ok(permit) => permit,
            Err(limit) => return Accepted::new(socket, peer, policy, route).refuse(limit, self),
        };
        let socket = match socket.into_std() {
            Ok(socket) => socket,
            Err(error) => {
                tracing::debug!(client = %peer, %error, "client has disconnected");
                return;
            }
        };
        let proxy = self.clone();
        // Boxed, so that an open connection keeps no memory for how it was opened.
        let opening = Box::pin(async move {
            // Registered with the worker's runtime, on which this runs.
            let socket = match TcpStream::from_std(socket) {
                Ok(socket) => socket,
                Err(error) => {
                    proxy.admission.notices().say(Notice::Unserved, || {
                        tracing::warn!(client = %peer, %error, "a client could not be served");
                    });
                    return None;
                }
            };
            let accepted = Accepted::new(socket, peer, policy, route);
            accepted.open(permit, proxy, drain).await
        });
        workers.spawn(|slot| async move {
            if let Some((session, client, upstream)) = opening.await {
                session.forward(client, upstream).await;
            }
            drop((alive, slot));
        });
    }
}
