//! Who may do what: probes are for every client, everything else for operators.
//!
//! Without a token an operator is a client on this machine that is no web page. With one, it is a client that sends it, from anywhere.

use std::{
    fmt,
    net::{IpAddr, SocketAddr},
};

use axum::http::{HeaderMap, HeaderValue, StatusCode, header, uri::Authority};

/// The client of a request.
#[derive(Debug, Clone, Copy)]
pub(super) enum Peer {
    Tcp {
        from: SocketAddr,
        /// The address of this machine that was connected to.
        to: SocketAddr,
    },
    Unix,
}

/// Why a request is refused, for its client.
pub(super) type Refusal = (StatusCode, &'static str);

impl Peer {
    /// Whether a request with these headers comes from an operator, where operators have this token.
    ///
    /// # Errors
    /// Why not. Browsers send the origin of a page with anything but a GET, and with a request to another
    /// site; a page whose name was made to resolve to this machine (DNS rebinding) sends that name as Host, and
    /// has no token.
    pub(super) fn check(self, headers: &HeaderMap, token: Option<&Token>) -> Result<(), Refusal> {
        let Self::Tcp { from, to } = self else {
            return Ok(());
        };
        if headers.contains_key(header::ORIGIN) {
            return Err((StatusCode::FORBIDDEN, "not from a web page\n"));
        }
        match token {
            Some(token) if token.is_sent_in(headers) => Ok(()),
            Some(_) => Err((StatusCode::UNAUTHORIZED, "only with the operators' token\n")),
            None if from.ip().to_canonical().is_loopback() => check_host(headers, to.ip()),
            None => {
                let why = "only from the machine that cqlens runs on, or with a token (--admin-token-file)\n";
                Err((StatusCode::FORBIDDEN, why))
            }
        }
    }
}

fn check_host(headers: &HeaderMap, address: IpAddr) -> Result<(), Refusal> {
    let mut hosts = headers.get_all(header::HOST).iter();
    if hosts.all(|host| names(host, address)) {
        return Ok(());
    }
    let why = "Host: only localhost, or the address of the connection\n";
    Err((StatusCode::MISDIRECTED_REQUEST, why))
}

/// Whether `host` can name nothing but this machine: `address` is its own.
fn names(host: &HeaderValue, address: IpAddr) -> bool {
    let authority = host.to_str().ok().and_then(|host| host.parse::<Authority>().ok());
    authority.is_some_and(|authority| {
        let host = authority.host();
        let literal = host.trim_start_matches('[').trim_end_matches(']');
        match literal.parse::<IpAddr>().map(|ip| ip.to_canonical()) {
            Ok(ip) => ip.is_loopback() || ip == address.to_canonical(),
            Err(_) => host.eq_ignore_ascii_case("localhost"),
        }
    })
}

/// What operators send as `Authorization: Bearer …`.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

/// Text that is no token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoToken {
    /// It could be guessed.
    #[error("a token has at least {MIN_TOKEN} characters, `openssl rand -hex 32` makes a good one")]
    Short,
    /// It could not be sent in a header.
    #[error("a token is one line of letters, digits and punctuation, without blanks")]
    Unprintable,
}

/// Nobody guesses as many hexadecimal digits: 64 bits.
const MIN_TOKEN: usize = 16;

impl Token {
    /// The token that a file holds.
    ///
    /// # Errors
    /// Text that is none.
    pub fn new(text: &str) -> Result<Self, NoToken> {
        let is_short = text.len() < MIN_TOKEN;
        match text.bytes().all(|byte| byte.is_ascii_graphic()) {
            false => Err(NoToken::Unprintable),
            true if is_short => Err(NoToken::Short),
            true => Ok(Self(text.to_owned())),
        }
    }

    fn is_sent_in(&self, headers: &HeaderMap) -> bool {
        let mut sent = headers.get_all(header::AUTHORIZATION).iter();
        let (Some(credentials), None) = (sent.next(), sent.next()) else {
            return false;
        };
        let (scheme, token) = credentials.as_bytes().split_at_checked(7).unwrap_or_default();
        scheme.eq_ignore_ascii_case(b"Bearer ") && self.is(token)
    }

    /// In a time that does not depend on how much of `given` is right.
    fn is(&self, given: &[u8]) -> bool {
        let pairs = self.0.bytes().zip(given);
        let difference = pairs.fold(0, |difference, (own, other)| difference | (own ^ other));
        given.len() == self.0.len() && difference == 0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Token")
    }
}
