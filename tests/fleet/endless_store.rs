//! A store that is hostile: a bucket on this machine, which refuses everything at endless length.

use std::{
    io::{self, Read, Write},
    net::{SocketAddr, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use super::wire::Node;

/// A bucket that refuses whatever is put into it, in a response that does not end.
pub(crate) struct EndlessStore {
    pub(crate) address: SocketAddr,
    /// Requests that it has refused.
    pub(crate) refused: Arc<AtomicU64>,
    /// Bytes of responses that were taken, or that systems keep for who would take them.
    pub(crate) sent: Arc<AtomicU64>,
}

impl EndlessStore {
    pub(crate) fn start() -> Self {
        let (refused, sent) = (Arc::<AtomicU64>::default(), Arc::<AtomicU64>::default());
        let counts = (Arc::clone(&refused), Arc::clone(&sent));
        let listener = Node::start(move |connection| {
            // It ends when the other side has had enough.
            let _ = refuse(connection, &counts.0, &counts.1);
        });
        Self {
            address: listener.address,
            refused,
            sent,
        }
    }

    pub(crate) fn environment(&self) -> Vec<(String, String)> {
        let endpoint = format!("http://{}", self.address);
        let variables = [
            ("AWS_ENDPOINT_URL", endpoint.as_str()),
            ("AWS_ALLOW_HTTP", "true"),
            ("AWS_ACCESS_KEY_ID", "key"),
            ("AWS_SECRET_ACCESS_KEY", "secret"),
            ("AWS_REGION", "eu-west-1"),
        ];
        variables
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .to_vec()
    }
}

fn refuse(mut connection: TcpStream, refused: &AtomicU64, sent: &AtomicU64) -> io::Result<()> {
    let (mut head, mut bytes) = (Vec::new(), [0; 4096]);
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        let read = connection.read(&mut bytes)?;
        if read == 0 {
            return Ok(());
        }
        head.extend_from_slice(&bytes[..read]);
    }
    assert!(head.starts_with(b"PUT /reviews/"), "{}", head.escape_ascii());
    refused.fetch_add(1, Ordering::Relaxed);
    connection.write_all(b"HTTP/1.1 403 Forbidden\r\nContent-Type: application/xml\r\n\r\n<Error>")?;
    loop {
        connection.write_all(&[b'n'; 64 << 10])?;
        sent.fetch_add(64 << 10, Ordering::Relaxed);
    }
}
