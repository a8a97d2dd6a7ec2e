//! The side of the clients, where cqlens is the server.

use std::{io, sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use tokio::net::TcpStream;
use tokio_rustls::{
    TlsAcceptor,
    rustls::{ServerConfig, server::WebPkiClientVerifier},
};

use super::{Authorities, Identity, TlsError, TlsStream, VERSIONS, is_plain, provider};
use crate::timers;

/// Does handshakes with clients. Its clones are renewed together.
#[derive(Debug, Clone)]
pub struct Acceptor {
    config: Arc<ArcSwap<ServerConfig>>,
}

/// Why there is no TLS with a client.
#[derive(Debug, thiserror::Error)]
pub enum ClientFault {
    /// It went away without a word, as the health checks of load balancers do.
    #[error("the client has gone")]
    Gone,
    /// What it sent is not TLS: plain CQL, most likely.
    #[error("the client does not speak TLS, which is all that is spoken here")]
    Plain,
    /// It does not end the handshake.
    #[error("the client has not ended its handshake within {0:?}")]
    Slow(Duration),
    /// No agreement: versions, ciphers, certificates.
    #[error("no TLS with the client: {0}")]
    Handshake(io::Error),
}

impl Acceptor {
    /// Shows `identity` to clients. With `authorities`, clients must show a certificate that one of them has signed.
    ///
    /// # Errors
    /// If these cannot be used.
    pub fn new(identity: Identity, authorities: Option<Authorities>) -> Result<Self, TlsError> {
        let config = Arc::new(ArcSwap::new(config(identity, authorities)?));
        Ok(Self { config })
    }

    /// The same with others, for the clients that come from now on: what they agreed with the old ones is not resumed.
    ///
    /// # Errors
    /// If these cannot be used; then it goes on with the old ones.
    pub fn renew(&self, identity: Identity, authorities: Option<Authorities>) -> Result<(), TlsError> {
        self.config.store(config(identity, authorities)?);
        Ok(())
    }

    /// Does the handshake with a client that has just connected.
    ///
    /// # Errors
    /// Whatever the client did instead; it has been told, where TLS has words for it.
    pub async fn accept(&self, client: TcpStream) -> Result<TlsStream, ClientFault> {
        // Boxed, because it is big and soon over.
        let handshake = Box::pin(TlsAcceptor::from(self.config.load_full()).accept(client));
        match timers::timeout(PATIENCE, handshake).await {
            Err(_elapsed) => Err(ClientFault::Slow(PATIENCE)),
            Ok(Ok(stream)) => Ok(Box::new(stream.into())),
            Ok(Err(error)) => Err(fault(error)),
        }
    }
}

fn config(identity: Identity, authorities: Option<Authorities>) -> Result<Arc<ServerConfig>, TlsError> {
    let builder = ServerConfig::builder_with_provider(provider()).with_protocol_versions(VERSIONS)?;
    let builder = match authorities {
        None => builder.with_no_client_auth(),
        Some(Authorities(roots)) => {
            let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider()).build()?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let (certificate_file, key_file) = identity.files();
    let config = builder
        .with_single_cert(identity.certificates, identity.key)
        .map_err(Identity::refused(certificate_file, key_file))?;
    Ok(Arc::new(config))
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
