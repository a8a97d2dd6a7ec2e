//! The side of the clients, where cqlens is the server.

use std::{io, sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, rustls::ServerConfig};

use super::{
    Authorities, MinVersion, TlsError, TlsIdentity, TlsStream,
    certificates::Certificates,
    client_certificates::{ClientVerifier, with_refused},
    common::{is_plain, provider},
};
use crate::timers;

/// Does handshakes with clients. Its clones are renewed together.
#[derive(Debug, Clone)]
pub struct Acceptor {
    config: Arc<ArcSwap<ServerConfig>>,
    versions: MinVersion,
}

/// Why there is no TLS with a client.
#[derive(Debug, thiserror::Error)]
pub enum ClientFault {
    /// It went away without a word, as the health checks of load balancers do.
    #[error("the client has disconnected")]
    Gone,
    /// What it sent is not TLS: plain CQL, most likely.
    #[error("the client does not use TLS, which is required here")]
    Plain,
    /// It does not end the handshake.
    #[error("the client did not complete its handshake within {0:?}")]
    Slow(Duration),
    /// No agreement: versions, ciphers, certificates.
    #[error("no TLS with the client: {0}")]
    Handshake(io::Error),
    /// Its certificate is not believed: the name in it, and why.
    #[error("no TLS with the client, whose certificate is for {0}: {1}")]
    Certificate(String, io::Error),
}

impl Acceptor {
    /// Shows one of `identities` to clients: the one that is for the name they ask for, else the first. With
    /// `authorities`, clients must show a certificate that one of them has signed and not revoked.
    ///
    /// # Errors
    /// If these cannot be used.
    pub fn new(
        identities: Vec<TlsIdentity>,
        authorities: Option<Authorities>,
        versions: MinVersion,
    ) -> Result<Self, TlsError> {
        let config = Arc::new(ArcSwap::new(config(identities, authorities, versions)?));
        Ok(Self { config, versions })
    }

    /// The same with others, for the clients that come from now on: what they agreed with
    /// the old ones is not resumed.
    ///
    /// # Errors
    /// If these cannot be used; then it goes on with the old ones.
    pub fn renew(
        &self,
        identities: Vec<TlsIdentity>,
        authorities: Option<Authorities>,
    ) -> Result<(), TlsError> {
        self.config.store(config(identities, authorities, self.versions)?);
        Ok(())
    }

    /// Does the handshake with a client that has just connected.
    ///
    /// # Errors
    /// What the client did instead; it gets a TLS alert where there is one for it.
    pub async fn accept(&self, client: TcpStream) -> Result<TlsStream, ClientFault> {
        // Boxed, because it is big and soon over.
        let handshake = Box::pin(TlsAcceptor::from(self.config.load_full()).accept(client));
        match timers::timeout(PATIENCE, with_refused(handshake)).await {
            Err(_elapsed) => Err(ClientFault::Slow(PATIENCE)),
            Ok((Ok(stream), _)) => Ok(Box::new(stream.into())),
            Ok((Err(error), Some(name))) => Err(ClientFault::Certificate(name, error)),
            Ok((Err(error), None)) => Err(fault(error)),
        }
    }
}

fn config(
    identities: Vec<TlsIdentity>,
    authorities: Option<Authorities>,
    versions: MinVersion,
) -> Result<Arc<ServerConfig>, TlsError> {
    let builder =
        ServerConfig::builder_with_provider(provider()).with_protocol_versions(versions.versions())?;
    let builder = match authorities {
        None => builder.with_no_client_auth(),
        Some(authorities) => builder.with_client_cert_verifier(ClientVerifier::trusting(authorities)?),
    };
    let certificates = Certificates::new(identities)?;
    Ok(Arc::new(builder.with_cert_resolver(Arc::new(certificates))))
}

/// Clients that take longer are not on the way to a query; drivers give up after 5 to 10 seconds.
const PATIENCE: Duration = Duration::from_secs(10);

fn fault(error: io::Error) -> ClientFault {
    match error.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => {
            ClientFault::Gone
        }
        _ if is_plain(&error) => ClientFault::Plain,
        _ => ClientFault::Handshake(error),
    }
}
