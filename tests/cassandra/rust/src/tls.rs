//! The authority that signs nodes, and the certificate of the program where a node asks for one.

use std::collections::HashMap;
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

use crate::Reason;

/// None where the nodes are asked without TLS.
pub(crate) fn settings(given: &HashMap<String, String>) -> Result<Option<Arc<ClientConfig>>, Reason> {
    let failed = |error: pem::Error| Reason::Failed(format!("{error:?}"));
    let Some(authority) = given.get("ca") else {
        return Ok(None);
    };
    let mut trusted = RootCertStore::empty();
    trusted.add(CertificateDer::from_pem_file(authority).map_err(failed)?)?;
    let provider = Arc::new(ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(trusted);
    let config = match given.get("cert").zip(given.get("key")) {
        Some((certificate, key)) => config.with_client_auth_cert(
            vec![CertificateDer::from_pem_file(certificate).map_err(failed)?],
            PrivateKeyDer::from_pem_file(key).map_err(failed)?,
        )?,
        None => config.with_no_client_auth(),
    };
    Ok(Some(Arc::new(config)))
}
