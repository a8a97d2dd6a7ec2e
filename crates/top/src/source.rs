//! Where reports come from.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use ureq::{
    Agent,
    tls::{Certificate, RootCerts, TlsConfig},
};

/// Something that has a report as JSON, now.
pub trait Source: Send {
    /// What it is called on the screen.
    fn name(&self) -> String;

    /// The report as it is now.
    ///
    /// # Errors
    /// One sentence without an end: why there is none. It is shown, and the next attempt is made later.
    fn report(&mut self) -> Result<Vec<u8>, String>;
}

/// The admin listener of a proxy.
#[derive(Debug, Clone)]
pub struct HttpSettings {
    /// `http://HOST:PORT` or `https://HOST:PORT`.
    pub url: String,
    /// A file with the token, read again for each request: it may be replaced.
    pub token_file: Option<PathBuf>,
    /// CA certificates in PEM, for `https://`.
    pub tls_ca: Option<PathBuf>,
}

/// Settings that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// Neither `http://` nor `https://`.
    #[error("{0} is neither http://HOST:PORT nor https://HOST:PORT")]
    Url(String),
    /// `https://` without certificates to verify it by.
    #[error("{0} needs CA certificates to verify it: --tls-ca FILE")]
    NoCa(String),
    /// No file, or no certificates in it.
    #[error("cannot read the CA certificates {}: {why}", path.display())]
    Ca {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
}

/// How long a proxy may take: it makes a report for each request.
const PATIENCE: Duration = Duration::from_secs(30);
/// A report of 2,000 patterns has a few megabytes.
const MOST_BYTES: u64 = 256 << 20;

/// Reads `/report.json` of an admin listener.
#[derive(Debug)]
pub struct Http {
    settings: HttpSettings,
    agent: Agent,
}

impl Http {
    /// A source that has not connected yet.
    ///
    /// # Errors
    /// [`SourceError`].
    pub fn new(settings: HttpSettings) -> Result<Self, SourceError> {
        let is_http = ["http://", "https://"]
            .iter()
            .any(|scheme| settings.url.starts_with(scheme));
        if !is_http {
            return Err(SourceError::Url(settings.url));
        }
        if settings.url.starts_with("https://") && settings.tls_ca.is_none() {
            return Err(SourceError::NoCa(settings.url));
        }
        let mut tls = TlsConfig::builder()
            .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()));
        if let Some(path) = &settings.tls_ca {
            let roots = authorities(path).map_err(|why| SourceError::Ca {
                path: path.clone(),
                why,
            })?;
            tls = tls.root_certs(roots);
        }
        let agent = Agent::config_builder()
            .timeout_global(Some(PATIENCE))
            .max_redirects(0)
            .proxy(None)
            .tls_config(tls.build())
            .build()
            .new_agent();
        Ok(Self { settings, agent })
    }
}

impl Source for Http {
    fn name(&self) -> String {
        self.settings.url.trim_end_matches('/').to_owned()
    }

    fn report(&mut self) -> Result<Vec<u8>, String> {
        let mut request = self.agent.get(format!("{}/report.json", self.name()));
        if let Some(path) = &self.settings.token_file {
            let token = std::fs::read_to_string(path)
                .map_err(|error| format!("cannot read the token {}: {error}", path.display()))?;
            request = request.header("Authorization", format!("Bearer {}", token.trim()));
        }
        let mut response = request.call().map_err(|error| match error {
            ureq::Error::StatusCode(401 | 403) => {
                "the proxy refuses: it needs another token, or a request from its own machine".to_owned()
            }
            ureq::Error::StatusCode(503) => "the proxy is busy with another report".to_owned(),
            error => error.to_string(),
        })?;
        let body = response.body_mut().with_config().limit(MOST_BYTES);
        body.read_to_vec().map_err(|error| error.to_string())
    }
}

fn authorities(path: &Path) -> Result<RootCerts, String> {
    let pem = std::fs::read(path).map_err(|error| error.to_string())?;
    let found: Result<Vec<_>, _> = ureq::tls::parse_pem(&pem).collect();
    let certificates: Vec<Certificate<'static>> = found
        .map_err(|error| error.to_string())?
        .into_iter()
        .filter_map(|item| match item {
            ureq::tls::PemItem::Certificate(certificate) => Some(certificate),
            _ => None,
        })
        .collect();
    match certificates.is_empty() {
        true => Err("there is no certificate in it".to_owned()),
        false => Ok(RootCerts::new_with_certs(&certificates)),
    }
}
