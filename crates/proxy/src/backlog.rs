//! Empties the listen backlog of a socket before it is closed.
//!
//! The kernel completes handshakes before connections are accepted, and resets the connections when the
//! socket is closed: clients that did nothing wrong would see an error. So the socket first drops new SYNs,
//! is then emptied, and then closed. A client whose SYN is dropped sends it again after a second, and then
//! reaches another socket of the same address, or is refused.

use std::{io, net::SocketAddr, time::Duration};

use tokio::{
    net::{TcpListener, TcpStream},
    time::{Instant, timeout_at},
};

use super::accept::AcceptErrors;

/// Gives the clients in the backlog of `listener` to `take`. When it returns, the listener can be closed.
///
/// Where SYNs cannot be dropped (not on Linux, or forbidden), connections that arrive between the last accept
/// and the closing are still reset.
pub(super) async fn empty(
    listener: &TcpListener,
    take: impl Fn(TcpStream, SocketAddr),
    errors: &AcceptErrors,
) {
    let patience = match drop_new_syns(listener) {
        Ok(()) => HANDSHAKE,
        Err(error) => {
            tracing::debug!(%error, "new connections cannot be deferred while the last ones are accepted");
            ONE_LOOK
        }
    };
    let longest = Instant::now() + LONGEST;
    let mut until = Instant::now() + patience;
    // Out of file descriptors, those of connections that end now become free.
    while let Ok(accepted) = timeout_at(until.min(longest), listener.accept()).await {
        match accepted {
            Ok((client, address)) => {
                take(client, address);
                until = Instant::now() + patience;
            }
            Err(error) => errors.after(&error).await,
        }
    }
}

/// Handshakes that have begun end within a round trip to the client. A longer time would be safer for distant
/// clients, and delay more near ones by a second.
const HANDSHAKE: Duration = Duration::from_millis(100);
const ONE_LOOK: Duration = Duration::from_millis(10);

/// Less than the second after which a client sends a dropped SYN again.
const LONGEST: Duration = Duration::from_millis(750);

/// Drops packets that begin a connection (SYN without ACK), and passes those that end a handshake.
///
/// A filter at a listening socket sees packets from the TCP header on. Connections inherit it,
/// and never get such packets.
#[cfg(target_os = "linux")]
fn drop_new_syns(listener: &TcpListener) -> io::Result<()> {
    use socket2::{SockFilter, SockRef};
    const LOAD_BYTE: u16 = 0x30; // BPF_LD | BPF_B | BPF_ABS
    const AND: u16 = 0x54; // BPF_ALU | BPF_AND | BPF_K
    const JUMP_IF_EQUAL: u16 = 0x15; // BPF_JMP | BPF_JEQ | BPF_K
    const RETURN: u16 = 0x06; // BPF_RET | BPF_K
    const FLAGS: u32 = 13;
    const SYN: u32 = 0x02;
    const ACK: u32 = 0x10;
    SockRef::from(listener).attach_filter(&[
        SockFilter::new(LOAD_BYTE, 0, 0, FLAGS),
        SockFilter::new(AND, 0, 0, SYN | ACK),
        SockFilter::new(JUMP_IF_EQUAL, 0, 1, SYN),
        SockFilter::new(RETURN, 0, 0, 0),
        SockFilter::new(RETURN, 0, 0, u32::MAX),
    ])
}

#[cfg(not(target_os = "linux"))]
fn drop_new_syns(_listener: &TcpListener) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
