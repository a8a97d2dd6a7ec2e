//! Whether a node answers clients yet: a few envelopes of protocol version 4, written by hand.

use std::io::{Error, Read, Result, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);

mod opcode {
    pub(super) const STARTUP: u8 = 0x01;
    pub(super) const READY: u8 = 0x02;
    pub(super) const AUTHENTICATE: u8 = 0x03;
    pub(super) const OPTIONS: u8 = 0x05;
    pub(super) const SUPPORTED: u8 = 0x06;
    pub(super) const QUERY: u8 = 0x07;
    pub(super) const RESULT: u8 = 0x08;
    pub(super) const AUTH_RESPONSE: u8 = 0x0F;
    pub(super) const AUTH_SUCCESS: u8 = 0x10;
}

/// Asks for SUPPORTED, logs in (as `cassandra`, where the node wants a password) and checks that the node
/// sees `peers` others.
///
/// # Errors
/// What the node did instead; it may be ready a moment later.
pub(super) fn ready(node: SocketAddr, peers: usize) -> Result<()> {
    let mut connection = Connection(TcpStream::connect_timeout(&node, PATIENCE)?);
    connection.0.set_read_timeout(Some(PATIENCE))?;
    connection.request(opcode::OPTIONS, &[], &[opcode::SUPPORTED])?;
    connection.log_in()?;
    let seen = connection.count_rows("SELECT peer FROM system.peers_v2")?;
    if seen == peers {
        Ok(())
    } else {
        Err(Error::other(format!("sees {seen} of {peers} other nodes")))
    }
}

struct Connection(TcpStream);

impl Connection {
    /// STARTUP takes a string map, here of one pair; AUTH_RESPONSE a SASL PLAIN token.
    fn log_in(&mut self) -> Result<()> {
        let mut options = 1u16.to_be_bytes().to_vec();
        for text in ["CQL_VERSION", "3.0.0"] {
            options.extend(u16::try_from(text.len()).unwrap().to_be_bytes());
            options.extend(text.as_bytes());
        }
        let (answer, _) = self.request(opcode::STARTUP, &options, &[opcode::READY, opcode::AUTHENTICATE])?;
        if answer == opcode::AUTHENTICATE {
            let token = b"\0cassandra\0cassandra";
            let mut body = u32::try_from(token.len()).unwrap().to_be_bytes().to_vec();
            body.extend(token);
            self.request(opcode::AUTH_RESPONSE, &body, &[opcode::AUTH_SUCCESS])?;
        }
        Ok(())
    }

    /// The result is asked for without its metadata: kind, flags, column count, then the row count, four
    /// bytes each.
    fn count_rows(&mut self, cql: &str) -> Result<usize> {
        const CONSISTENCY_ONE: [u8; 2] = [0, 1];
        const SKIP_METADATA: u8 = 0x02;
        let mut body = u32::try_from(cql.len()).unwrap().to_be_bytes().to_vec();
        body.extend(cql.as_bytes());
        body.extend(CONSISTENCY_ONE);
        body.push(SKIP_METADATA);
        let (_, result) = self.request(opcode::QUERY, &body, &[opcode::RESULT])?;
        let count = result
            .get(12..16)
            .ok_or_else(|| Error::other("a result without rows"))?;
        Ok(u32::from_be_bytes(count.try_into().expect("the slice has four bytes")) as usize)
    }

    /// Sends one request and takes its answer, which must have one of the `expected` opcodes.
    fn request(&mut self, opcode: u8, body: &[u8], expected: &[u8]) -> Result<(u8, Vec<u8>)> {
        let mut envelope = vec![4, 0, 0, 0, opcode];
        envelope.extend(u32::try_from(body.len()).unwrap().to_be_bytes());
        envelope.extend(body);
        self.0.write_all(&envelope)?;
        let mut header = [0; 9];
        self.0.read_exact(&mut header)?;
        let length = u32::from_be_bytes([header[5], header[6], header[7], header[8]]);
        let mut answer = Vec::new();
        (&self.0).take(u64::from(length)).read_to_end(&mut answer)?;
        match header[4] {
            opcode if expected.contains(&opcode) => Ok((opcode, answer)),
            opcode => Err(Error::other(format!(
                "answered with opcode {opcode}: {}",
                String::from_utf8_lossy(&answer)
            ))),
        }
    }
}
