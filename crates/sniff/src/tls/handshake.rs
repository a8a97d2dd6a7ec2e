//! What is read of a handshake: the randoms, the suite, the version and the server's name, out of the two hellos.

use tls_parser::{
    SNIType, TlsExtension, TlsMessage, TlsMessageHandshake, TlsVersion, parse_tls_client_hello_extensions,
    parse_tls_message_handshake, parse_tls_server_hello_extensions,
};

use super::{ciphers::Suite, key_log::ClientRandom};

/// What both hellos say.
#[derive(Debug, Default)]
pub(super) struct Hello {
    pub(super) client_random: Option<ClientRandom>,
    pub(super) server_random: Option<ClientRandom>,
    /// The suite, if its records can be opened.
    pub(super) suite: Option<Suite>,
    version: Option<TlsVersion>,
    pub(super) server_name: Option<String>,
}

impl Hello {
    /// Whether the server has chosen TLS 1.3.
    pub(super) fn is_tls13(&self) -> bool {
        self.version == Some(TlsVersion::Tls13)
    }

    /// Whether the server's hello was seen.
    pub(super) fn is_answered(&self) -> bool {
        self.version.is_some()
    }
}

/// Messages of one direction that are not encrypted; a record may have a part of one, or several.
#[derive(Debug, Default)]
pub(super) struct Handshake {
    bytes: Vec<u8>,
    /// The hello was read; what follows is not kept.
    is_over: bool,
}

/// A message that is none, or too long.
#[derive(Debug)]
pub(super) struct NoHello;

/// Hellos are some hundred bytes; the client's may have keys of new kinds.
const MAX_HELLO: usize = 64 << 10;

/// The type and the length of a message.
const MESSAGE_HEADER: usize = 4;

const CLIENT_HELLO: u8 = 1;
const SERVER_HELLO: u8 = 2;

/// The random of a server's hello that asks for another one of the client's (RFC 8446 §4.1.3).
const RETRY: ClientRandom = [
    0xcf, 0x21, 0xad, 0x74, 0xe5, 0x9a, 0x61, 0x11, 0xbe, 0x1d, 0x8c, 0x02, 0x1e, 0x65, 0xb8, 0x91, 0xc2,
    0xa2, 0x11, 0x16, 0x7a, 0xbb, 0x8c, 0x5e, 0x07, 0x9e, 0x09, 0xe2, 0xc8, 0xa8, 0x33, 0x9c,
];

impl Handshake {
    pub(super) fn add(&mut self, bytes: &[u8]) {
        if !self.is_over {
            self.bytes.extend_from_slice(bytes);
        }
    }

    /// Memory of what is kept.
    pub(super) fn held_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    /// Reads the messages that are there as a whole into `hello`. What follows the hellos is not read.
    pub(super) fn read(&mut self, hello: &mut Hello) -> Result<(), NoHello> {
        while let Some([kind, high, middle, low]) = self.bytes.first_chunk::<MESSAGE_HEADER>().copied() {
            let length = usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low);
            if !matches!(kind, CLIENT_HELLO | SERVER_HELLO) {
                if hello.client_random.is_none() {
                    return Err(NoHello);
                }
                self.end();
            } else if length > MAX_HELLO {
                return Err(NoHello);
            } else if let Some(message) = self.bytes.get(..MESSAGE_HEADER + length) {
                let is_last = read_hello(message, hello).ok_or(NoHello)?;
                self.bytes.drain(..MESSAGE_HEADER + length);
                if is_last {
                    self.end();
                }
            } else {
                return Ok(());
            }
        }
        Ok(())
    }

    fn end(&mut self) {
        self.is_over = true;
        self.bytes = Vec::new();
    }
}

/// Reads a hello; whether it is the last one of its direction.
fn read_hello(message: &[u8], hello: &mut Hello) -> Option<bool> {
    let (_, TlsMessage::Handshake(message)) = parse_tls_message_handshake(message).ok()? else {
        return None;
    };
    match message {
        TlsMessageHandshake::ClientHello(client) => {
            hello.client_random = Some(client.random.try_into().ok()?);
            let extensions = client.ext.map(parse_tls_client_hello_extensions);
            let extensions = extensions
                .and_then(Result::ok)
                .map(|(_, list)| list)
                .unwrap_or_default();
            hello.server_name = extensions.iter().find_map(server_name);
            // Another one follows if the server asks for it.
            Some(false)
        }
        TlsMessageHandshake::ServerHello(server) => {
            let random: ClientRandom = server.random.try_into().ok()?;
            if random == RETRY {
                return Some(false);
            }
            let extensions = server.ext.map(parse_tls_server_hello_extensions);
            let extensions = extensions
                .and_then(Result::ok)
                .map(|(_, list)| list)
                .unwrap_or_default();
            let chosen = extensions.iter().find_map(|extension| match extension {
                TlsExtension::SupportedVersions(versions) => versions.first().copied(),
                _ => None,
            });
            let version = chosen.unwrap_or(server.version);
            let is_known = matches!(version, TlsVersion::Tls12 | TlsVersion::Tls13);
            hello.server_random = Some(random);
            hello.suite = server.get_cipher().filter(|_| is_known).and_then(Suite::of);
            hello.version = Some(version);
            Some(true)
        }
        _ => None,
    }
}

/// A name that a client states may have any characters and any length.
fn server_name(extension: &TlsExtension<'_>) -> Option<String> {
    const LONGEST: usize = 255;
    let TlsExtension::SNI(names) = extension else {
        return None;
    };
    let (_, name) = names.iter().find(|(kind, _)| *kind == SNIType::HostName)?;
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    let name = name.get(..name.len().min(LONGEST))?;
    name.iter()
        .all(is_name)
        .then(|| String::from_utf8_lossy(name).into_owned())
}
