//! Authorities, certificates, and both ends of TLS that are not those of `cqlens`.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    pin::Pin,
    sync::Arc,
};

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DnType, IsCa, Issuer, KeyIdMethod,
    KeyPair, RevokedCertParams, SerialNumber, date_time_ymd,
};
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
};
use tokio_rustls::{
    TlsAcceptor, TlsConnector, client,
    rustls::{
        ClientConfig, RootCertStore, ServerConfig, SupportedProtocolVersion,
        crypto::ring,
        pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
        server::WebPkiClientVerifier,
        version::{TLS12, TLS13},
    },
    server,
};

use x509_parser::prelude::{FromDer, X509Certificate};

/// Both versions that there are.
pub(crate) const BOTH: &[&SupportedProtocolVersion] = &[&TLS13, &TLS12];

/// Signs certificates.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    folder: PathBuf,
    /// Its own certificate, in PEM.
    pub(crate) file: PathBuf,
}

/// A certificate that an authority has signed, and its key, in PEM.
pub(crate) struct Issued {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

impl Authority {
    /// An authority whose files are in `folder`.
    pub(crate) fn new(folder: &Path, name: &str) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = named(name, &[]);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let file = folder.join(format!("{name}.pem"));
        std::fs::write(&file, params.self_signed(&key).unwrap().pem()).unwrap();
        Self {
            issuer: Issuer::new(params, key),
            folder: folder.to_owned(),
            file,
        }
    }

    /// A certificate for `hosts`: names and addresses.
    pub(crate) fn issue(&self, name: &str, hosts: &[&str]) -> Issued {
        let key = KeyPair::generate().unwrap();
        let signed = named(name, hosts).signed_by(&key, &self.issuer).unwrap();
        let file = |ending: &str| self.folder.join(format!("{name}.{ending}"));
        let (certificate, key_file) = (file("crt"), file("key"));
        std::fs::write(&certificate, signed.pem()).unwrap();
        std::fs::write(&key_file, key.serialize_pem()).unwrap();
        Issued {
            certificate,
            key: key_file,
        }
    }

    /// A list, in PEM, that revokes `issued` and is good until the year `until` begins.
    pub(crate) fn revoke(&self, name: &str, issued: &[&Issued], until: i32) -> PathBuf {
        let begun = date_time_ymd(2020, 1, 1);
        let revoked = issued.iter().map(|issued| RevokedCertParams {
            serial_number: issued.serial(),
            revocation_time: begun,
            reason_code: None,
            invalidity_date: None,
        });
        let list = CertificateRevocationListParams {
            this_update: begun,
            next_update: date_time_ymd(until, 1, 1),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: revoked.collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let file = self.folder.join(format!("{name}.crl"));
        std::fs::write(&file, list.signed_by(&self.issuer).unwrap().pem().unwrap()).unwrap();
        file
    }

    fn roots(&self) -> Arc<RootCertStore> {
        let mut roots = RootCertStore::empty();
        roots
            .add(CertificateDer::from_pem_file(&self.file).unwrap())
            .unwrap();
        Arc::new(roots)
    }
}

fn named(name: &str, hosts: &[&str]) -> CertificateParams {
    let hosts: Vec<String> = hosts.iter().map(|&host| host.to_owned()).collect();
    let mut params = CertificateParams::new(hosts).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

impl Issued {
    fn serial(&self) -> SerialNumber {
        let bytes = CertificateDer::from_pem_file(&self.certificate).unwrap();
        let (_rest, certificate) = X509Certificate::from_der(&bytes).unwrap();
        SerialNumber::from_slice(certificate.raw_serial())
    }

    fn read(&self) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
        (
            vec![CertificateDer::from_pem_file(&self.certificate).unwrap()],
            PrivateKeyDer::from_pem_file(&self.key).unwrap(),
        )
    }
}

/// A node's end: shows `identity`, and asks for certificates of `clients` if there is such an authority.
pub(crate) fn acceptor(
    identity: &Issued,
    clients: Option<&Authority>,
    versions: &[&'static SupportedProtocolVersion],
) -> TlsAcceptor {
    let provider = Arc::new(ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(versions)
        .unwrap();
    let builder = match clients {
        None => builder.with_no_client_auth(),
        Some(authority) => builder.with_client_cert_verifier(
            WebPkiClientVerifier::builder_with_provider(authority.roots(), provider)
                .build()
                .unwrap(),
        ),
    };
    let (certificates, key) = identity.read();
    TlsAcceptor::from(Arc::new(builder.with_single_cert(certificates, key).unwrap()))
}

/// Listens with TLS in front of `node`, which has none.
pub(crate) async fn in_front_of(node: SocketAddr, acceptor: TlsAcceptor) -> SocketAddr {
    listen(acceptor, forward(node)).await
}

/// What a connection is that leads on to `node`.
pub(crate) fn forward(
    node: SocketAddr,
) -> impl Fn(server::TlsStream<TcpStream>) -> Pin<Box<dyn Future<Output = ()> + Send>> + Clone + Send {
    move |mut outside| {
        Box::pin(async move {
            // A node that has gone is none of the client's business.
            if let Ok(mut inside) = TcpStream::connect(node).await {
                // Ends as either side likes.
                let _ = copy_bidirectional(&mut outside, &mut inside).await;
            }
        })
    }
}

/// Listens with TLS; `script` gets each connection whose handshake succeeds.
pub(crate) async fn listen<F>(
    acceptor: TlsAcceptor,
    script: impl Fn(server::TlsStream<TcpStream>) -> F + Clone + Send + 'static,
) -> SocketAddr
where
    F: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(accept(listener, acceptor, script));
    address
}

/// Accepts with TLS for ever; `script` gets each connection whose handshake succeeds.
pub(crate) async fn accept<F>(
    listener: TcpListener,
    acceptor: TlsAcceptor,
    script: impl Fn(server::TlsStream<TcpStream>) -> F + Clone + Send + 'static,
) where
    F: Future<Output = ()> + Send + 'static,
{
    loop {
        let (socket, _) = listener.accept().await.unwrap();
        let (acceptor, script) = (acceptor.clone(), script.clone());
        tokio::spawn(async move {
            if let Ok(stream) = acceptor.accept(socket).await {
                script(stream).await;
            }
        });
    }
}

/// Connects to the proxy at `address` with TLS, as a client without a certificate.
pub(crate) async fn connect(
    address: SocketAddr,
    authority: &Authority,
    versions: &[&'static SupportedProtocolVersion],
) -> client::TlsStream<TcpStream> {
    let socket = TcpStream::connect(address).await.unwrap();
    handshake(socket, authority, None, versions).await
}

/// Begins TLS on a connection to the proxy, as a client that has a certificate or none.
pub(crate) async fn handshake(
    socket: TcpStream,
    authority: &Authority,
    identity: Option<&Issued>,
    versions: &[&'static SupportedProtocolVersion],
) -> client::TlsStream<TcpStream> {
    try_handshake(socket, authority, identity, versions)
        .await
        .unwrap()
}

/// The same where it may be refused.
pub(crate) async fn try_handshake(
    socket: TcpStream,
    authority: &Authority,
    identity: Option<&Issued>,
    versions: &[&'static SupportedProtocolVersion],
) -> std::io::Result<client::TlsStream<TcpStream>> {
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(versions)
        .unwrap()
        .with_root_certificates(authority.roots());
    let config = match identity.map(Issued::read) {
        None => builder.with_no_client_auth(),
        Some((certificates, key)) => builder.with_client_auth_cert(certificates, key).unwrap(),
    };
    let name = ServerName::from(socket.peer_addr().unwrap().ip());
    TlsConnector::from(Arc::new(config)).connect(name, socket).await
}
