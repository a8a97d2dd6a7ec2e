//! Name and password that nodes may want, and the file that the password is in.

use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};

use cqlens_proxy::files::{self, Limit};

/// How cqlens logs in.
#[derive(Debug, Clone, clap::Args)]
#[command(group = clap::ArgGroup::new("password_source").args(["password", "password_file"]))]
pub(super) struct LoginArgs {
    /// User name, if nodes require one
    #[arg(
        long,
        env = "CQLENS_USERNAME",
        value_name = "NAME",
        requires = "password_source"
    )]
    username: Option<String>,
    /// Password; prefer --password-file
    ///
    /// Other users can see the arguments of a process. CQLENS_PASSWORD and --password-file hide it from them.
    #[arg(
        long,
        env = "CQLENS_PASSWORD",
        value_name = "PASSWORD",
        hide_env_values = true,
        hide_short_help = true
    )]
    password: Option<String>,
    /// Read the password from a file
    ///
    /// A trailing line break is not part of the password. Only cqlens should be able to read the file: chmod 0600.
    #[arg(
        long,
        env = "CQLENS_PASSWORD_FILE",
        value_name = "FILE",
        conflicts_with = "password"
    )]
    password_file: Option<PathBuf>,
}

impl LoginArgs {
    /// Reads the password from its file, if one is named: once at the start, and again at each reload.
    ///
    /// # Errors
    /// A file that cannot be read, or that holds no password.
    pub(super) fn read_password(&mut self) -> anyhow::Result<()> {
        if let Some(path) = &self.password_file {
            self.password = Some(secret(path, "password")?);
        }
        Ok(())
    }

    /// Name and password, once [`Self::read_password`] was called.
    pub(super) fn credentials(&self) -> Option<(String, String)> {
        self.username.clone().zip(self.password.clone())
    }
}

/// A secret and its line break.
const SECRET_LIMIT: Limit = Limit::new("passwords and tokens", 4 << 10);

/// The password or token (`kind`) in the file at `path`; warns of one that other users can read.
pub(super) fn secret(path: &Path, kind: &'static str) -> anyhow::Result<String> {
    let text = files::read_text(path, SECRET_LIMIT)
        .with_context(|| format!("cannot read the {kind} file {}", path.display()))?;
    let line = text.strip_suffix('\n').unwrap_or(&text);
    let secret = line.strip_suffix('\r').unwrap_or(line);
    ensure!(!secret.is_empty(), "the {kind} file {} is empty", path.display());
    ensure!(
        !secret.contains('\n'),
        "the {kind} file {} has more than one line",
        path.display()
    );
    files::warn_if_exposed(path, kind);
    Ok(secret.to_owned())
}
