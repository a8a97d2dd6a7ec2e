//! What waits in a listening socket when nobody is going to accept any more.
//!
//! The kernel makes connections before they are accepted, and resets those when the socket is closed: clients that did
//! nothing wrong would see an error. So the socket is first told to take no more of them, then emptied, then closed. A
//! client whose first packet is not taken sends it again after a second, and then reaches another socket of the same
//! address, or is refused.

use std::{io, net::SocketAddr, time::Duration};

use tokio::{
    net::{TcpListener, TcpStream},
    time::{Instant, timeout_at},
};

use super::accept::AcceptErrors;

/// Gives what waits in `listener` to `take`; when it returns, the listener can be closed.
///
/// Where the kernel cannot be told to take no more (not on Linux, or forbidden), connections that are made in the moment
/// between the last look and the closing are still reset.
pub(super) async fn empty(
    listener: &TcpListener,
    take: impl Fn(TcpStream, SocketAddr),
    errors: &AcceptErrors,
) {
    let patience = match take_no_more(listener) {
        Ok(()) => HANDSHAKE,
        Err(error) => {
            tracing::debug!(%error, "new connections cannot be held off while the last ones are accepted");
            ONE_LOOK
        }
    };
    let longest = Instant::now() + LONGEST;
    let mut until = Instant::now() + patience;
    // Where there are no descriptors, those of connections that end now may do.
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

/// Handshakes that have begun end within a round trip to the client. Longer would be safer for clients that are far away, and keep
/// more of those that are near waiting for a second.
const HANDSHAKE: Duration = Duration::from_millis(100);
const ONE_LOOK: Duration = Duration::from_millis(10);

/// Less than the second after which a client whose packet was not taken sends it again.
const LONGEST: Duration = Duration::from_millis(750);

/// Drops what begins a connection (SYN without ACK), and lets through all that ends a handshake.
///
/// A filter at a listening socket sees packets from the TCP header on. Connections inherit it, and never get such packets.
#[cfg(target_os = "linux")]
fn take_no_more(listener: &TcpListener) -> io::Result<()> {
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
fn take_no_more(_listener: &TcpListener) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
