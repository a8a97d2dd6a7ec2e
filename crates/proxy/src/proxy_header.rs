//! The PROXY protocol: the header with which a proxy passes on the client's address.
//!
//! cqlens reads version 2 (and its text form, version 1) from a load balancer in front, and sends version 2
//! to the node. A client can claim any address in such a header, so cqlens reads it only where the operator
//! says that a load balancer is in front. Source: HAProxy's `doc/proxy-protocol.txt`.

use std::{
    io,
    net::{IpAddr, Ipv6Addr, SocketAddr},
    time::Duration,
};

use proxy_header::{Error, ParseConfig, ProxiedAddress, ProxyHeader};
use tokio::io::{AsyncRead, AsyncReadExt};

/// Where a connection comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Origin {
    /// The client's address.
    pub(super) client: SocketAddr,
    /// What the client connected to; none where only the listener's own address is known.
    pub(super) destination: Option<SocketAddr>,
    /// The common name (`CN=orders`) of the certificate that the client has shown to the load
    /// balancer, which has verified it.
    pub(super) certificate: Option<String>,
    /// The client speaks TLS with the load balancer.
    pub(super) is_encrypted: bool,
}

/// Why a header could not be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum HeaderFault {
    /// Most likely the health check of a load balancer.
    #[error("it disconnected without sending anything")]
    Gone,
    /// It sends nothing, or only a part.
    #[error("it sent no PROXY protocol header within {0:?}")]
    Slow(Duration),
    /// What came is something else, or a version that is not known.
    #[error("it does not begin with a PROXY protocol header")]
    Missing,
    /// What came is none that makes sense.
    #[error("its PROXY protocol header is malformed")]
    Malformed,
    #[error("it cannot be read from: {0}")]
    Io(#[from] io::Error),
}

/// The header of connections that cqlens opens for itself, without a client (command LOCAL).
pub const LOCAL: &[u8; MINIMUM] = b"\r\n\r\n\0\r\nQUIT\n\x20\x00\x00\x00";

/// How version 2 begins.
const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";
/// How version 1 begins.
const TEXT: &[u8] = b"PROXY ";
/// The part of version 2 that is always there: signature, version and command, family, length.
const MINIMUM: usize = 16;
/// The longest line of version 1, its end included.
const LONGEST_LINE: usize = 107;

/// Reads the header with which a connection from `peer` begins, and not a byte more.
///
/// # Errors
/// If there is none.
pub(super) async fn read(
    from: &mut (impl AsyncRead + Unpin),
    peer: SocketAddr,
) -> Result<Origin, HeaderFault> {
    let bytes = bytes(from).await?;
    let (header, length) = ProxyHeader::parse(&bytes, ParseConfig::default()).map_err(malformed)?;
    if length != bytes.len() {
        return Err(HeaderFault::Malformed);
    }
    // LOCAL, and families that are none of the internet's: it is the load balancer's
    // own, or it does not know.
    let Some(proxied) = header.proxied_address() else {
        return Ok(Origin::from_peer(peer));
    };
    let certificate = header
        .ssl()
        .filter(|tls| tls.client_cert_conn() || tls.client_cert_sess())
        .filter(|tls| tls.verify() == 0)
        .and_then(|tls| tls.cn().map(|name| format!("CN={name}")));
    Ok(Origin {
        client: proxied.source,
        destination: Some(proxied.destination),
        certificate,
        is_encrypted: header.ssl().is_some_and(|tls| tls.client_ssl()),
    })
}

fn malformed(_error: Error) -> HeaderFault {
    HeaderFault::Malformed
}

/// All bytes of a header.
async fn bytes(from: &mut (impl AsyncRead + Unpin)) -> Result<Vec<u8>, HeaderFault> {
    // No header of either version is shorter than a signature.
    let mut bytes = Vec::new();
    while bytes.len() < SIGNATURE.len() {
        more(from, &mut bytes, SIGNATURE.len()).await?;
        // A client that sends something else may be waiting for an answer, so cqlens must not wait for it.
        if !begins(&bytes) {
            return Err(HeaderFault::Missing);
        }
    }
    if bytes.starts_with(SIGNATURE) {
        read_up_to(from, &mut bytes, MINIMUM).await?;
        let length = bytes.last_chunk().map_or(0, |length| u16::from_be_bytes(*length));
        read_up_to(from, &mut bytes, MINIMUM + usize::from(length)).await?;
    } else {
        // One by one: what follows the line is the client's.
        while !bytes.ends_with(b"\r\n") {
            if bytes.len() == LONGEST_LINE {
                return Err(HeaderFault::Malformed);
            }
            let next = bytes.len() + 1;
            read_up_to(from, &mut bytes, next).await?;
        }
    }
    Ok(bytes)
}

/// Whether a header may begin with `bytes`.
fn begins(bytes: &[u8]) -> bool {
    SIGNATURE.starts_with(bytes) || TEXT.starts_with(bytes) || bytes.starts_with(TEXT)
}

async fn read_up_to(
    from: &mut (impl AsyncRead + Unpin),
    bytes: &mut Vec<u8>,
    length: usize,
) -> Result<(), HeaderFault> {
    while bytes.len() < length {
        more(from, bytes, length).await?;
    }
    Ok(())
}

/// One read, so that `bytes` have `length` at most. Room is made for what comes, not for what is announced.
async fn more(
    from: &mut (impl AsyncRead + Unpin),
    bytes: &mut Vec<u8>,
    length: usize,
) -> Result<(), HeaderFault> {
    let missing = u64::try_from(length - bytes.len()).unwrap_or(0);
    let gone = bytes.is_empty();
    match from.take(missing).read_buf(bytes).await? {
        0 if gone => Err(HeaderFault::Gone),
        0 => Err(HeaderFault::Malformed),
        _ => Ok(()),
    }
}

impl Origin {
    /// The origin by the socket alone.
    pub(super) fn from_peer(peer: SocketAddr) -> Self {
        Self {
            client: peer,
            destination: None,
            certificate: None,
            is_encrypted: false,
        }
    }

    /// The header for the node. `destination` is the local address of the client's socket.
    pub(super) fn header(&self, destination: Option<SocketAddr>) -> Vec<u8> {
        let mut bytes = Vec::new();
        let destination = self.destination.or(destination);
        let header = match destination.map(|destination| in_one_family(self.client, destination)) {
            Some((client, destination)) => {
                ProxyHeader::with_address(ProxiedAddress::stream(client, destination))
            }
            None => ProxyHeader::with_local(),
        };
        match header.encode_v2(&mut bytes) {
            Ok(()) => bytes,
            // Of two families or too long: it is neither.
            Err(_impossible) => LOCAL.to_vec(),
        }
    }
}

/// Addresses of version 4 as what they are, unless the other one is of version 6.
fn in_one_family(client: SocketAddr, destination: SocketAddr) -> (SocketAddr, SocketAddr) {
    let canonical = |address: SocketAddr| SocketAddr::new(address.ip().to_canonical(), address.port());
    let (client, destination) = (canonical(client), canonical(destination));
    if client.is_ipv4() == destination.is_ipv4() {
        return (client, destination);
    }
    (in_version_6(client), in_version_6(destination))
}

fn in_version_6(address: SocketAddr) -> SocketAddr {
    let ip: Ipv6Addr = match address.ip() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    };
    SocketAddr::new(ip.into(), address.port())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::{collection::vec, prelude::*};
    use proxy_header::{SslInfo, Tlv};

    const PEER: &str = "192.0.2.7:4000";

    /// What is read of `bytes`, and how many of them are left.
    fn parse(bytes: &[u8]) -> (Result<Origin, HeaderFault>, usize) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let mut rest = bytes;
        let result = runtime.block_on(read(&mut rest, PEER.parse().unwrap()));
        (result, rest.len())
    }

    fn origin(client: &str, destination: &str) -> Origin {
        Origin {
            client: client.parse().unwrap(),
            destination: Some(destination.parse().unwrap()),
            certificate: None,
            is_encrypted: false,
        }
    }

    #[test]
    fn what_is_written_is_read_and_what_follows_is_left() {
        for (client, destination) in [
            ("10.1.2.3:4444", "10.0.0.1:9042"),
            ("[2001:db8::1]:4444", "[2001:db8::2]:9042"),
        ] {
            let written = origin(client, destination);
            let bytes = [written.header(None), b"\x04the client's".to_vec()].concat();
            let (read, rest) = parse(&bytes);
            assert_eq!((read.unwrap(), rest), (written, 13));
        }
    }

    #[test]
    fn addresses_of_two_families_are_both_of_version_6() {
        let mixed = origin("10.1.2.3:4444", "[2001:db8::2]:9042");
        let read = parse(&mixed.header(None)).0.unwrap();
        assert_eq!(read, origin("[::ffff:10.1.2.3]:4444", "[2001:db8::2]:9042"));
        // As a listener on [::] sees its clients.
        let mapped = origin("[::ffff:10.1.2.3]:4444", "[::ffff:10.0.0.1]:9042");
        let read = parse(&mapped.header(None)).0.unwrap();
        assert_eq!(read, origin("10.1.2.3:4444", "10.0.0.1:9042"));
    }

    #[test]
    fn the_text_form_is_read_up_to_its_end() {
        let (read, rest) = parse(b"PROXY TCP4 10.1.2.3 10.0.0.1 4444 9042\r\n\x04rest");
        assert_eq!(
            (read.unwrap(), rest),
            (origin("10.1.2.3:4444", "10.0.0.1:9042"), 5)
        );
        let (read, rest) = parse(b"PROXY UNKNOWN\r\nrest");
        assert_eq!(
            (read.unwrap(), rest),
            (Origin::from_peer(PEER.parse().unwrap()), 4)
        );
    }

    #[test]
    fn a_local_connection_is_the_load_balancers() {
        let (read, rest) = parse(&[LOCAL.as_slice(), b"rest"].concat());
        assert_eq!(
            (read.unwrap(), rest),
            (Origin::from_peer(PEER.parse().unwrap()), 4)
        );
        assert_eq!(Origin::from_peer(PEER.parse().unwrap()).header(None), LOCAL);
    }

    #[test]
    fn the_name_that_the_load_balancer_has_verified_is_taken() {
        let with = |verify| {
            let mut tls = SslInfo::new(true, true, true, verify);
            tls.append_tlv(Tlv::SslCn("orders".into()));
            let mut header = ProxyHeader::with_address(ProxiedAddress::stream(
                "10.1.2.3:1".parse().unwrap(),
                "10.0.0.1:2".parse().unwrap(),
            ));
            header.append_tlv(Tlv::Ssl(tls));
            let mut bytes = Vec::new();
            header.encode_v2(&mut bytes).unwrap();
            let origin = parse(&bytes).0.unwrap();
            (origin.certificate, origin.is_encrypted)
        };
        assert_eq!(with(0), (Some("CN=orders".to_owned()), true));
        assert_eq!(with(1), (None, true));
        assert!(!Origin::from_peer(PEER.parse().unwrap()).is_encrypted);
    }

    #[test]
    fn what_is_no_header_is_not_waited_for() {
        // A client without a load balancer: nine bytes of OPTIONS, and then it waits. An end
        // here would be `Malformed`.
        for stranger in [&b"\x04\0\0\0\x05\0\0\0\0"[..], b"\x16\x03\x01", b"GET / HT"] {
            assert!(matches!(parse(stranger).0, Err(HeaderFault::Missing)));
        }
        assert!(matches!(parse(b"").0, Err(HeaderFault::Gone)));
        for damaged in [
            b"\r\n\r\n\0\r\nQUIT\n\x11\x11\x00\x00".as_slice(),
            b"\r\n\r\n\0\r\nQUIT\n\x21\x11\x00\x04abcd",
            b"\r\n\r\n\0\r\nQUIT\n\x21\x11\x00\x0cabcd",
            b"\r\n\r\n\0\r\nQUIT",
            b"PROXY TCP4 10.1.2.3 10.0.0.1\r\n",
            b"PROXY TCP4 300.1.2.3 10.0.0.1 1 2\r\n",
            &[b"PROXY UNKNOWN ".as_slice(), &[b'x'; 200]].concat(),
        ] {
            assert!(
                matches!(parse(damaged).0, Err(HeaderFault::Malformed)),
                "{damaged:?}"
            );
        }
    }

    proptest! {
        #[test]
        fn no_bytes_are_too_strange(start in 0usize..3, bytes in vec(any::<u8>(), 0..300)) {
            let start = [&b""[..], SIGNATURE, TEXT][start];
            let _ = parse(&[start, &bytes].concat());
        }

        #[test]
        fn a_header_with_a_damaged_byte_is_read_or_refused(at in 0usize..28, to in any::<u8>()) {
            let mut bytes = origin("10.1.2.3:4444", "10.0.0.1:9042").header(None);
            bytes[at] = to;
            let _ = parse(&bytes);
        }
    }
}
