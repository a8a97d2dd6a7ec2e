#![doc = include_str!("../README.md")]
//!
//! ```text
//! connection ── bytes, envelopes ──> session ── statements ──> statement: definition, write, select ──> database, store
//! ```

mod answer;
mod bind;
mod connection;
mod database;
mod definition;
mod execution;
mod failure;
mod function;
mod layout;
mod literal;
mod marker;
mod operand;
mod options;
mod paging;
mod peers;
mod prepared;
mod restriction;
pub mod scenario;
mod select;
mod session;
mod statement;
mod store;
mod system;
mod transaction;
mod view;
mod write;

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use cqlens_proto::types::Uuid;
use database::Database;
pub use options::Options;
pub use peers::{Announcement, Peer};

/// A running node; it stops when it is dropped.
#[derive(Debug)]
pub struct Node {
    address: SocketAddr,
    database: Arc<Mutex<Database>>,
    stop: watch::Sender<bool>,
    accepting: JoinHandle<()>,
}

impl Node {
    /// Starts a node on the current tokio runtime.
    ///
    /// # Errors
    /// If the address cannot be listened on.
    pub async fn start(options: Options) -> io::Result<Node> {
        let listener = TcpListener::bind(options.listen).await?;
        let address = listener.local_addr()?;
        let (stop, stopped) = watch::channel(false);
        let database = Arc::new(Mutex::new(Database::new(address, options)));
        let accepting = tokio::spawn(accept(listener, Arc::clone(&database), stopped));
        Ok(Node {
            address,
            database,
            stop,
            accepting,
        })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Forgets all prepared statements, as a restart would: clients that execute one are told to prepare it
    /// again.
    pub fn forget_prepared(&self) {
        lock(&self.database).prepared.clear();
    }

    /// Its `host_id`.
    #[must_use]
    pub fn host_id(&self) -> Uuid {
        system::host_id(self.address)
    }

    /// This node as the others tell of it.
    #[must_use]
    pub fn as_peer(&self) -> Peer {
        Peer {
            address: self.address.ip(),
            host_id: Some(self.host_id()),
            native: Some(self.address),
            data_center: system::DATA_CENTER.to_owned(),
            tokens: vec!["0".to_owned()],
            schema_version: None,
        }
    }

    /// Tells of these nodes from now on, and of no others.
    pub fn set_peers(&self, peers: Vec<Peer>) {
        lock(&self.database).peers = peers;
    }

    /// Tells those who registered for it what became of a node.
    pub fn announce(&self, announcement: Announcement) {
        lock(&self.database).announce(announcement);
    }

    /// Closes the listener and all connections, and waits until they are closed.
    pub async fn shutdown(mut self) {
        let _ = self.stop.send(true);
        // The task ends by itself; if it panicked there is nothing left to wait for.
        let _ = (&mut self.accepting).await;
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.stop.send(true);
    }
}

async fn accept(listener: TcpListener, database: Arc<Mutex<Database>>, mut stopped: watch::Receiver<bool>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let Ok((socket, _)) = accepted else { continue };
                connections.spawn(connection::serve(socket, Arc::clone(&database), stopped.clone()));
            }
            Some(_) = connections.join_next() => {}
            _ = stopped.changed() => break,
        }
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

/// Takes the lock. A request that panicked while it held it has answered nobody; the next one goes on.
fn lock(database: &Mutex<Database>) -> std::sync::MutexGuard<'_, Database> {
    database.lock().unwrap_or_else(PoisonError::into_inner)
}
