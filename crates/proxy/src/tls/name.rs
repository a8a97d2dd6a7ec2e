//! The name in a certificate.

use x509_parser::{
    extensions::GeneralName,
    prelude::{FromDer, X509Certificate},
};

use super::common::TlsStream;

/// The name in the certificate that the other side has shown: its common name (`CN=orders`), or else its
/// first subject alternative name (`DNS:orders.example.com`, `URI:spiffe://…`, `email:…`). None if it has
/// shown no certificate, or one without either.
pub fn peer_name(stream: &TlsStream) -> Option<String> {
    let (_socket, session) = stream.get_ref();
    let certificate = session.peer_certificates()?.first()?;
    name_in(certificate)
}

/// The same for a certificate in DER.
pub(super) fn name_in(certificate: &[u8]) -> Option<String> {
    let (_rest, certificate) = X509Certificate::from_der(certificate).ok()?;
    let mut common_names = certificate.subject().iter_common_name();
    if let Some(name) = common_names.find_map(|name| name.as_str().ok()) {
        return Some(format!("CN={name}"));
    }
    let names = certificate.subject_alternative_name().ok()??;
    names.value.general_names.iter().find_map(alternative)
}

/// As openssl writes it.
fn alternative(name: &GeneralName<'_>) -> Option<String> {
    match name {
        GeneralName::DNSName(name) => Some(format!("DNS:{name}")),
        GeneralName::URI(name) => Some(format!("URI:{name}")),
        GeneralName::RFC822Name(name) => Some(format!("email:{name}")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, SanType};

    fn certificate(common_name: Option<&str>, names: Vec<SanType>) -> Vec<u8> {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        if let Some(name) = common_name {
            params.distinguished_name.push(DnType::CommonName, name);
        }
        params.subject_alt_names = names;
        let key = KeyPair::generate().unwrap();
        params.self_signed(&key).unwrap().der().to_vec()
    }

    #[test]
    fn the_common_name_goes_before_the_others() {
        let dns = || SanType::DnsName("orders.example.com".try_into().unwrap());
        let uri = || SanType::URI("spiffe://example.com/orders".try_into().unwrap());
        for (common_name, names, expected) in [
            (Some("orders"), vec![dns()], Some("CN=orders")),
            (None, vec![dns(), uri()], Some("DNS:orders.example.com")),
            (None, vec![uri()], Some("URI:spiffe://example.com/orders")),
            (
                None,
                vec![SanType::IpAddress([10, 0, 0, 1].into()), dns()],
                Some("DNS:orders.example.com"),
            ),
            (None, vec![], None),
        ] {
            assert_eq!(
                name_in(&certificate(common_name, names)).as_deref(),
                expected,
                "{common_name:?}"
            );
        }
        assert_eq!(name_in(b"no certificate"), None);
    }
}
