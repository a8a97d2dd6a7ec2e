//! What lets operators in from other machines: a token, and TLS, which keeps it secret. Both are read again when their files change.

use std::{net::SocketAddr, path::PathBuf, sync::Arc};

use anyhow::{Context, bail};
use arc_swap::ArcSwapOption;
use parking_lot::Mutex;
use tokio::net::TcpListener;

use super::super::{
    login::secret,
    tls::{Stamp, certificate, identity, stamp},
};
use crate::metrics::Certificate;
use cqlens_admin::{AdminListener, Token};
use cqlens_proxy::tls::{Acceptor, MinVersion};

/// Who may use the admin listener.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Operation")]
pub(super) struct AccessArgs {
    /// File with the operators' token
    ///
    /// As `Authorization: Bearer TOKEN`, from any machine. Only with --admin-tls-cert may other machines reach the
    /// listener then. Without a token, operators must be on this machine.
    #[arg(
        long,
        env = "CQLENS_ADMIN_TOKEN_FILE",
        value_name = "FILE",
        hide_short_help = true
    )]
    admin_token_file: Option<PathBuf>,
    /// Use TLS on the admin listener: its certificate, in PEM
    ///
    /// Followed by its chain. Probes then need https.
    #[arg(
        long,
        env = "CQLENS_ADMIN_TLS_CERT",
        value_name = "FILE",
        requires = "admin_tls_key",
        hide_short_help = true
    )]
    admin_tls_cert: Option<PathBuf>,
    /// Private key of that certificate, in PEM, not encrypted
    #[arg(
        long,
        env = "CQLENS_ADMIN_TLS_KEY",
        value_name = "FILE",
        requires = "admin_tls_cert",
        hide_short_help = true
    )]
    admin_tls_key: Option<PathBuf>,
}

impl AccessArgs {
    /// Sees that no token crosses a network in clear text. `address` is that of the listener.
    ///
    /// # Errors
    /// Settings by which it would, with what to do.
    pub(super) fn check(&self, address: Option<SocketAddr>) -> anyhow::Result<()> {
        match address.filter(|address| !address.ip().to_canonical().is_loopback()) {
            Some(address) if self.admin_token_file.is_some() && self.admin_tls_cert.is_none() => bail!(
                "admin-token-file: other machines can reach {address} and would send the token in clear text; set admin-tls-cert and \
                 admin-tls-key, or listen on 127.0.0.1"
            ),
            _ => Ok(()),
        }
    }

    /// Reads the files.
    ///
    /// # Errors
    /// Files that cannot be used.
    pub(super) fn open(&self) -> anyhow::Result<Access> {
        let seen = Mutex::new(self.stamps());
        let tls = self.acceptor()?;
        Ok(Access {
            token: ArcSwapOption::new(self.token()?.map(Arc::new)),
            certificates: Mutex::new(self.certificates()?),
            tls,
            seen,
            args: self.clone(),
        })
    }

    fn token(&self) -> anyhow::Result<Option<Token>> {
        let token = self.admin_token_file.as_deref().map(|path| {
            let text = secret(path, "token")?;
            Token::new(&text).with_context(|| format!("the token file {}", path.display()))
        });
        token.transpose()
    }

    fn acceptor(&self) -> anyhow::Result<Option<Acceptor>> {
        let identity = identity(self.admin_tls_cert.as_deref(), self.admin_tls_key.as_deref());
        let acceptor = identity
            .context("no TLS to operators")?
            .map(|identity| Acceptor::new(vec![identity], None, MinVersion::Tls12));
        acceptor.transpose().context("no TLS to operators")
    }

    fn certificates(&self) -> anyhow::Result<Vec<Certificate>> {
        let file = self.admin_tls_cert.as_deref();
        let certificate = file.map(|file| certificate("operators", file)).transpose()?;
        Ok(certificate.flatten().into_iter().collect())
    }

    fn stamps(&self) -> [Stamp; 3] {
        let files = [&self.admin_token_file, &self.admin_tls_cert, &self.admin_tls_key];
        files.map(|file| file.as_deref().and_then(stamp))
    }
}

/// What is in force, and the files that it came from.
#[derive(Debug)]
pub(super) struct Access {
    args: AccessArgs,
    token: ArcSwapOption<Token>,
    tls: Option<Acceptor>,
    certificates: Mutex<Vec<Certificate>>,
    seen: Mutex<[Stamp; 3]>,
}

impl Access {
    /// What operators send; none where they are on this machine.
    pub(super) fn token(&self) -> Option<Arc<Token>> {
        self.token.load_full()
    }

    /// What operators are presented, and when it expires.
    pub(super) fn certificates(&self) -> Vec<Certificate> {
        self.certificates.lock().clone()
    }

    /// The listener as operators reach it.
    ///
    /// # Errors
    /// As [`AccessArgs::check`], of a socket that was inherited.
    pub(super) fn guard(&self, listener: TcpListener) -> anyhow::Result<AdminListener> {
        let address = listener
            .local_addr()
            .context("cannot determine the address of the admin listener")?;
        self.args.check(Some(address))?;
        Ok(match &self.tls {
            Some(acceptor) => AdminListener::Tls(listener, acceptor.clone()),
            None => AdminListener::Tcp(listener),
        })
    }

    /// Reads the files again if one of them has changed. Files that cannot be used are logged, and change nothing.
    pub(super) fn look(&self) {
        let stamps = self.args.stamps();
        if stamps == std::mem::replace(&mut *self.seen.lock(), stamps) {
            return;
        }
        match self.renew() {
            Ok(()) => tracing::info!("token and certificate of the admin listener read again"),
            Err(error) => tracing::warn!(
                "the token and certificate of the admin listener cannot be used, the previous ones stay: {error:#}"
            ),
        }
    }

    fn renew(&self) -> anyhow::Result<()> {
        let (token, certificates) = (self.args.token()?, self.args.certificates()?);
        let identity = identity(
            self.args.admin_tls_cert.as_deref(),
            self.args.admin_tls_key.as_deref(),
        )?;
        if let (Some(acceptor), Some(identity)) = (&self.tls, identity) {
            acceptor.renew(vec![identity], None)?;
        }
        self.token.store(token.map(Arc::new));
        *self.certificates.lock() = certificates;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_token_crosses_no_network_in_clear_text() {
        let args = |token: bool, tls: bool| AccessArgs {
            admin_token_file: token.then(|| "token".into()),
            admin_tls_cert: tls.then(|| "cert.pem".into()),
            admin_tls_key: tls.then(|| "key.pem".into()),
        };
        for address in ["0.0.0.0:9143", "[::]:9143", "10.0.0.1:9143"] {
            let address = Some(address.parse().unwrap());
            let refused = args(true, false).check(address).unwrap_err().to_string();
            assert!(
                refused.contains("admin-tls-cert") && refused.contains("127.0.0.1"),
                "{refused}"
            );
            args(true, true).check(address).unwrap();
            args(false, true).check(address).unwrap();
            // Probes only.
            args(false, false).check(address).unwrap();
        }
        for address in ["127.0.0.1:9143", "[::1]:9143"] {
            args(true, false).check(Some(address.parse().unwrap())).unwrap();
        }
        args(true, false).check(None).unwrap();
    }
}
