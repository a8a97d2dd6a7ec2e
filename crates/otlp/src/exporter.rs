//! Sends to a collector, and says what became of it.

use std::{
    io::Write,
    net::IpAddr,
    time::{Duration, SystemTime},
};

use flate2::{Compression, write::GzEncoder};
use opentelemetry_proto::tonic::collector::{
    logs::v1::{ExportLogsServiceRequest, ExportLogsServiceResponse},
    metrics::v1::{ExportMetricsServiceRequest, ExportMetricsServiceResponse},
};
use prost::Message;
use reqwest::{
    Certificate, Client, Url,
    header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue},
    redirect::Policy,
};

use crate::message::{self, Event, Metric, Resource, Span};

/// As OpenTelemetry's SDKs have it by default.
const TIMEOUT: Duration = Duration::from_secs(10);
/// So much of what a collector answers is read.
const LONGEST_ANSWER: usize = 1 << 16;

/// Where to, and with what.
#[derive(Debug, Clone, Default)]
pub struct ExporterSettings {
    /// The collector: `http://collector:4318`. `/v1/metrics` and `/v1/logs` are below it.
    pub endpoint: String,
    /// Lines of `name: value` that go with each request: a token.
    pub headers: String,
    /// Certificates of authorities, in PEM, instead of the system's.
    pub authorities: Option<Vec<u8>>,
    /// Whether headers may leave the machine without TLS.
    pub plaintext_headers: bool,
}

/// A way to a collector.
#[derive(Debug, Clone)]
pub struct Exporter {
    client: Client,
    metrics: Url,
    logs: Url,
    headers: HeaderMap,
    resource: Resource,
}

impl Exporter {
    /// For what `resource` measures. It connects when something is sent.
    ///
    /// # Errors
    /// Settings that cannot be used.
    pub fn new(settings: &ExporterSettings, resource: Resource) -> Result<Self, NotUsable> {
        let below = |path: &str| {
            let url = format!("{}/{path}", settings.endpoint.trim_end_matches('/'));
            let url = Url::parse(&url).map_err(|_| NotUsable::Endpoint)?;
            let is_web = matches!(url.scheme(), "http" | "https") && url.has_host();
            is_web.then_some(url).ok_or(NotUsable::Endpoint)
        };
        // Which provider a process has is decided once; it is the only one that is linked in.
        let _again = rustls::crypto::ring::default_provider().install_default();
        let mut client = Client::builder().timeout(TIMEOUT).redirect(Policy::none());
        if let Some(pem) = &settings.authorities {
            let authorities = Certificate::from_pem_bundle(pem).map_err(NotUsable::Client)?;
            if authorities.is_empty() {
                return Err(NotUsable::NoAuthorities);
            }
            client = client.tls_certs_only(authorities);
        }
        let (metrics, logs, headers) = (
            below("v1/metrics")?,
            below("v1/logs")?,
            headers(&settings.headers)?,
        );
        if !may_send(&headers, &metrics) && !settings.plaintext_headers {
            return Err(NotUsable::PlaintextHeader);
        }
        Ok(Self {
            metrics,
            logs,
            client: client.build().map_err(NotUsable::Client)?,
            headers,
            resource,
        })
    }

    /// Sends numbers that have grown from `since` to `now`.
    ///
    /// # Errors
    /// A collector that does not take all of them.
    pub async fn metrics(
        &self,
        since: SystemTime,
        now: SystemTime,
        metrics: Vec<Metric>,
    ) -> Result<(), NotExported> {
        let span = Span {
            since_ns: nanoseconds(since),
            now_ns: nanoseconds(now),
        };
        let request = ExportMetricsServiceRequest {
            resource_metrics: vec![message::metrics(&self.resource, span, metrics)],
        };
        let answer = self.post(&self.metrics, request.encode_to_vec()).await?;
        let answer = ExportMetricsServiceResponse::decode(&*answer).map_err(|_| NotExported::NotOtlp)?;
        partly(
            answer
                .partial_success
                .map(|partly| (partly.rejected_data_points, partly.error_message)),
        )
    }

    /// Sends events, which were seen until `now`.
    ///
    /// # Errors
    /// A collector that does not take all of them.
    pub async fn events(&self, now: SystemTime, events: &[Event]) -> Result<(), NotExported> {
        let logs = message::logs(&self.resource, nanoseconds(now), events);
        let request = ExportLogsServiceRequest {
            resource_logs: vec![logs],
        };
        let answer = self.post(&self.logs, request.encode_to_vec()).await?;
        let answer = ExportLogsServiceResponse::decode(&*answer).map_err(|_| NotExported::NotOtlp)?;
        partly(
            answer
                .partial_success
                .map(|partly| (partly.rejected_log_records, partly.error_message)),
        )
    }

    async fn post(&self, url: &Url, message: Vec<u8>) -> Result<Vec<u8>, NotExported> {
        let request = self
            .client
            .post(url.clone())
            .headers(self.headers.clone())
            .header(CONTENT_TYPE, "application/x-protobuf")
            .header(CONTENT_ENCODING, "gzip")
            .body(compressed(&message));
        let mut response = request.send().await?;
        let status = response.status();
        let mut answer = Vec::new();
        while let Some(chunk) = response.chunk().await? {
            answer.extend_from_slice(&chunk);
            if answer.len() > LONGEST_ANSWER {
                return Err(NotExported::NotOtlp);
            }
        }
        match status.is_success() {
            true => Ok(answer),
            false => Err(NotExported::Refused(status.as_u16())),
        }
    }
}

/// Whether what is sent to a URL, which most likely has a token or a password with it, is encrypted or stays on the machine.
fn may_send(headers: &HeaderMap, url: &Url) -> bool {
    let is_open = headers.is_empty() && url.username().is_empty() && url.password().is_none();
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    let is_local = |address: IpAddr| address.to_canonical().is_loopback();
    is_open || url.scheme() == "https" || host == "localhost" || host.parse().is_ok_and(is_local)
}

fn nanoseconds(time: SystemTime) -> u64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

fn compressed(message: &[u8]) -> Vec<u8> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    let written = packed.write_all(message);
    debug_assert!(written.is_ok(), "memory takes everything");
    packed.finish().unwrap_or_default()
}

/// An answer with success that names what it has left out.
fn partly(rejected: Option<(i64, String)>) -> Result<(), NotExported> {
    match rejected {
        Some((rejected, why)) if rejected > 0 => Err(NotExported::Partly { rejected, why }),
        _ => Ok(()),
    }
}

fn headers(lines: &str) -> Result<HeaderMap, NotUsable> {
    let lines = lines.lines().map(str::trim).enumerate();
    let header = |(number, line): (usize, &str)| {
        let wrong = || NotUsable::Header(number + 1);
        let (name, value) = line.split_once(':').ok_or_else(wrong)?;
        let name: HeaderName = name.trim().parse().map_err(|_| wrong())?;
        let mut value: HeaderValue = value.trim().parse().map_err(|_| wrong())?;
        value.set_sensitive(true);
        Ok((name, value))
    };
    lines.filter(|(_, line)| !line.is_empty()).map(header).collect()
}

/// Settings that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum NotUsable {
    /// No URL of the web.
    #[error("expected the URL of a collector, such as http://collector:4318")]
    Endpoint,
    /// A line that is not a header. It may contain a secret, so the message has only its number.
    #[error("line {0} is not `name: value`")]
    Header(usize),
    /// Headers for a collector on another machine, without TLS.
    #[error(
        "headers and passwords are not sent to another machine without TLS: use https:// (or --allow-plaintext-passwords)"
    )]
    PlaintextHeader,
    /// A file without certificates.
    #[error("the file of CA certificates has none")]
    NoAuthorities,
    /// Certificates that are damaged, a system without any.
    #[error("certificates that cannot be used: {}", causes(.0))]
    Client(#[source] reqwest::Error),
}

/// Why a collector has not taken everything.
#[derive(Debug, thiserror::Error)]
pub enum NotExported {
    /// It cannot be reached, or the connection failed.
    #[error("the collector does not answer: {}", causes(.0))]
    Unreachable(#[from] reqwest::Error),
    /// It answers with this code of HTTP.
    #[error("the collector answers with HTTP {0}")]
    Refused(u16),
    /// It has taken only a part.
    #[error("the collector has rejected {rejected} of what was sent: {why}")]
    Partly {
        /// How much.
        rejected: i64,
        /// In its own words.
        why: String,
    },
    /// Something else answers there.
    #[error("what answers does not speak OTLP")]
    NotOtlp,
}

/// An error of the client says what it did; the cause says what is wrong.
fn causes(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_does_not_leave_the_machine_without_tls_or_a_word() {
        let is_sent = |endpoint: &str, headers: &str, plaintext_headers| {
            let settings = ExporterSettings {
                endpoint: endpoint.to_owned(),
                headers: headers.to_owned(),
                plaintext_headers,
                ..ExporterSettings::default()
            };
            match Exporter::new(&settings, Resource(Vec::new())) {
                Err(NotUsable::PlaintextHeader) => false,
                made => made.is_ok(),
            }
        };
        let token = "Authorization: Bearer token";
        for near in [
            "https://collector:4318",
            "http://127.0.0.1:4318",
            "http://[::1]:4318",
            "http://[::ffff:127.0.0.1]:4318",
            "http://localhost:4318/otlp",
        ] {
            assert!(is_sent(near, token, false), "{near}");
        }
        for remote in [
            "http://collector:4318",
            "http://10.0.0.1:4318",
            "http://127.0.0.1.example.com",
            "http://localhost@collector:4318",
            "HTTP://collector:4318",
        ] {
            assert!(!is_sent(remote, token, false), "{remote}");
            assert!(is_sent(remote, token, true), "{remote}");
        }
        assert!(is_sent("http://collector:4318", "", false));
        assert!(!is_sent("http://user:password@collector:4318", "", false));
    }
}
