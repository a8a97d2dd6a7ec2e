//! The side of the nodes, where cqlens is the client.

use std::{io, net::IpAddr, sync::Arc};

use arc_swap::ArcSwap;
use tokio::net::TcpStream;
use tokio_rustls::{
    TlsConnector,
    rustls::{
        self, CertificateError, ClientConfig, DigitallySignedStruct, SignatureScheme,
        client::{
            WebPkiServerVerifier,
            danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        },
        pki_types::{CertificateDer, ServerName, UnixTime},
    },
};

use cqlens_client::{Handshake, Handshaking, Socket};

use super::{
    Authorities, MinVersion, TlsError, TlsIdentity, TlsStream,
    common::{is_plain, provider},
};

/// Whether the node's certificate must be for the name that it was reached by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostnameCheck {
    /// It must: among its subject alternative names, as DNS name or address. A common
    /// name alone does not count.
    On,
    /// Any certificate of a trusted authority will do, whomever it is for.
    Off,
}

/// Does handshakes with nodes. Its clones are renewed together.
#[derive(Debug, Clone)]
pub struct Connector {
    config: Arc<ArcSwap<ClientConfig>>,
    name: ServerName<'static>,
    check: HostnameCheck,
    versions: MinVersion,
}

impl Connector {
    /// Trusts `authorities`, shows `identity` to nodes that request a client certificate, and expects
    /// certificates for `name`, a host name or an address.
    ///
    /// # Errors
    /// If these cannot be used.
    pub fn new(
        authorities: Authorities,
        identity: Option<TlsIdentity>,
        name: &str,
        check: HostnameCheck,
    ) -> Result<Self, TlsError> {
        Self::with_versions(authorities, identity, name, check, MinVersion::default())
    }

    /// The same with nodes that speak no lower version than `versions`.
    ///
    /// # Errors
    /// If these cannot be used.
    pub fn with_versions(
        authorities: Authorities,
        identity: Option<TlsIdentity>,
        name: &str,
        check: HostnameCheck,
        versions: MinVersion,
    ) -> Result<Self, TlsError> {
        let name =
            ServerName::try_from(name.to_owned()).map_err(|_invalid| TlsError::Name(name.to_owned()))?;
        let config = Arc::new(ArcSwap::new(config(authorities, identity, check, versions)?));
        Ok(Self {
            config,
            name,
            check,
            versions,
        })
    }

    /// The same for a node with another name, or another address. Both are renewed together.
    ///
    /// # Errors
    /// What is neither a host name nor an address.
    pub fn named(&self, name: &str) -> Result<Self, TlsError> {
        let name =
            ServerName::try_from(name.to_owned()).map_err(|_invalid| TlsError::Name(name.to_owned()))?;
        Ok(Self { name, ..self.clone() })
    }

    /// The same for a node that has no name but its address.
    #[must_use]
    pub fn at(&self, address: IpAddr) -> Self {
        Self {
            name: ServerName::IpAddress(address.into()),
            ..self.clone()
        }
    }

    /// The same with other authorities and another identity, for the connections that are made from now on.
    ///
    /// # Errors
    /// If these cannot be used; then it goes on with the old ones.
    pub fn renew(&self, authorities: Authorities, identity: Option<TlsIdentity>) -> Result<(), TlsError> {
        let config = config(authorities, identity, self.check, self.versions)?;
        self.config.store(config);
        Ok(())
    }

    /// Does the handshake with a node that has just been connected to.
    ///
    /// # Errors
    /// The connection's, or why node and cqlens do not agree. With TLS 1.3 a node that does not like the
    /// certificate it was shown says so later, when it is read from.
    pub async fn connect(&self, node: TcpStream) -> io::Result<TlsStream> {
        let connector = TlsConnector::from(self.config.load_full());
        // Boxed, because it is big and soon over.
        match Box::pin(connector.connect(self.name.clone(), node)).await {
            Ok(stream) => Ok(Box::new(stream.into())),
            Err(error) if is_plain(&error) => Err(io::Error::new(error.kind(), PlainNode)),
            Err(error) => Err(error),
        }
    }
}

impl Handshake for Connector {
    fn handshake(&self, node: TcpStream) -> Handshaking<'_> {
        Box::pin(async { Ok(self.connect(node).await? as Box<dyn Socket>) })
    }
}

fn config(
    authorities: Authorities,
    identity: Option<TlsIdentity>,
    check: HostnameCheck,
    versions: MinVersion,
) -> Result<Arc<ClientConfig>, TlsError> {
    let builder =
        ClientConfig::builder_with_provider(provider()).with_protocol_versions(versions.versions())?;
    let verifier = authorities.verifier()?;
    // Called dangerous for what a verifier might leave out; this is rustls' own.
    let builder = builder.dangerous().with_custom_certificate_verifier(match check {
        HostnameCheck::On => verifier,
        HostnameCheck::Off => Arc::new(AnyName(verifier)),
    });
    let config = match identity {
        None => builder.with_no_client_auth(),
        Some(identity) => {
            let (certificate_file, key_file) = identity.files();
            builder
                .with_client_auth_cert(identity.certificates, identity.key)
                .map_err(TlsIdentity::refused(certificate_file, key_file))?
        }
    };
    Ok(Arc::new(config))
}

/// What a node answers that takes a handshake for an envelope: one with an ERROR in it.
#[derive(Debug, thiserror::Error)]
#[error("the node does not use TLS")]
struct PlainNode;

/// Verifies all but the name.
#[derive(Debug)]
struct AnyName(Arc<WebPkiServerVerifier>);

impl ServerCertVerifier for AnyName {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        use CertificateError::{NotValidForName, NotValidForNameContext};
        let verified = self
            .0
            .verify_server_cert(end_entity, intermediates, name, ocsp_response, now);
        match verified {
            // The name is verified last, so all else is valid.
            Err(rustls::Error::InvalidCertificate(NotValidForName | NotValidForNameContext { .. })) => {
                Ok(ServerCertVerified::assertion())
            }
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}
