//! TLS on either side of the proxy: what certificates, keys and authorities mean, and the handshakes.
//!
//! Both sides take TLS 1.2 and 1.3, or 1.3 only. Nothing here knows of envelopes; authentication above TLS
//! passes through like all other bytes.
//!
//! What is absent on purpose: a way not to verify certificates at all, keystores of Java (`keytool
//! -importkeystore` and `openssl pkcs12` write them as PEM), encrypted keys, and revocation over the network
//! (OCSP). Lists of revoked certificates are files like all others.

mod acceptor;
mod certificates;
mod client_certificates;
mod common;
mod connector;
mod error;
mod name;
mod pem;

pub use acceptor::{Acceptor, ClientFault};
pub use common::{MinVersion, TlsStream, is_failure};
pub use connector::{Connector, HostnameCheck};
pub use error::TlsError;
pub use name::peer_name;
pub use pem::{Authorities, TlsIdentity, expiry};
