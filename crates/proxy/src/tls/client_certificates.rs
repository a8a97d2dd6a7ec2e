//! Verifies clients' certificates as rustls does, and keeps the name in a refused one for the log.

use std::{cell::Cell, pin::Pin, sync::Arc, task::Poll};

use tokio_rustls::rustls::{
    self, DigitallySignedStruct, DistinguishedName, SignatureScheme,
    client::danger::HandshakeSignatureValid,
    pki_types::{CertificateDer, UnixTime},
    server::{
        WebPkiClientVerifier,
        danger::{ClientCertVerified, ClientCertVerifier},
    },
};

use super::{Authorities, TlsError, common::provider, name::name_in};

thread_local! {
    /// The name in the certificate that a handshake of this thread has refused last.
    static REFUSED: Cell<Option<String>> = const { Cell::new(None) };
}

/// Verifies clients' certificates, and remembers the name in a refused one.
#[derive(Debug)]
pub(super) struct ClientVerifier(Arc<dyn ClientCertVerifier>);

impl ClientVerifier {
    /// Accepts certificates that `authorities` have signed and not revoked.
    ///
    /// # Errors
    /// Authorities that cannot be used.
    pub(super) fn trusting(authorities: Authorities) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
        let verifier = WebPkiClientVerifier::builder_with_provider(authorities.roots, provider())
            .with_crls(authorities.revocations)
            .enforce_revocation_expiration()
            .build()?;
        Ok(Arc::new(Self(verifier)))
    }
}

/// Waits for a handshake. Returns its result, and the name in the client's certificate if that was refused.
///
/// A certificate is verified while the handshake is polled, so the name belongs to this client.
pub(super) async fn with_refused<F: Future + ?Sized>(
    mut handshake: Pin<Box<F>>,
) -> (F::Output, Option<String>) {
    let mut refused = None;
    std::future::poll_fn(move |context| {
        let polled = handshake.as_mut().poll(context);
        if let Some(name) = REFUSED.take() {
            refused = Some(name);
        }
        match polled {
            Poll::Ready(done) => Poll::Ready((done, refused.take())),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

impl ClientCertVerifier for ClientVerifier {
    fn offer_client_auth(&self) -> bool {
        self.0.offer_client_auth()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.0.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.0.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        let verified = self.0.verify_client_cert(end_entity, intermediates, now);
        if verified.is_err() {
            REFUSED.set(name_in(end_entity));
        }
        verified
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
