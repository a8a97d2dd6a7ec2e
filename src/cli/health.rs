//! `cqlens health`: whether a proxy accepts clients, as an exit code.

use std::{
    io::{self, Write},
    process::ExitCode,
    time::Duration,
};

use anyhow::Context;
use cqlens_admin::{Readiness, readiness};
use tokio::{
    net::{TcpStream, UnixStream},
    time::timeout,
};

use super::{config::positive_duration, proxy::AdminAddress};

/// Ask a running proxy whether it accepts clients
///
/// For containers that have no other program to ask with, as the HEALTHCHECK of their image. It asks for `/readyz` without TLS and token.
#[derive(Debug, clap::Args)]
#[command(after_long_help = ENDING)]
pub(super) struct Args {
    /// The admin listener: an address and a port, or unix:PATH
    #[arg(
        value_name = "ADDRESS",
        env = "CQLENS_ADMIN",
        default_value = "127.0.0.1:9143"
    )]
    admin: AdminAddress,
    /// How long to wait for the answer
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = positive_duration)]
    timeout: Duration,
}

const ENDING: &str = "Examples:
  A proxy that was started with --admin 127.0.0.1:9143:
      cqlens health
  As soon as it accepts clients:
      until cqlens health; do sleep 1; done

Exit codes:
  0  it accepts clients
  1  it does not yet, or no longer, or does not answer
  2  a mistake in the arguments";

/// Prints the state of the proxy; one that does not accept clients is exit code 1, as Docker expects it.
///
/// # Errors
/// A system without room for a runtime.
pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("cannot start the runtime")?;
    let asked = async { timeout(args.timeout, ask(&args.admin)).await };
    let (is_ready, text) = match runtime.block_on(asked) {
        Ok(Ok(readiness)) => (readiness.is_ready, in_words(readiness)),
        Ok(Err(error)) => (false, format!("{}: {error:#}\n", args.admin)),
        Err(_elapsed) => (
            false,
            format!("{}: no answer within {:?}\n", args.admin, args.timeout),
        ),
    };
    // The exit code is the answer.
    let _unread = io::stdout().write_all(text.as_bytes());
    Ok(match is_ready {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(1),
    })
}

async fn ask(admin: &AdminAddress) -> anyhow::Result<Readiness> {
    let connected = |error: io::Error| anyhow::Error::new(error).context("no connection");
    let answered = match admin {
        AdminAddress::Tcp(address) => readiness(TcpStream::connect(address).await.map_err(connected)?).await,
        AdminAddress::Unix(path) => readiness(UnixStream::connect(path).await.map_err(connected)?).await,
    };
    Ok(answered?)
}

/// The state, and what is wrong on a line each.
fn in_words(readiness: Readiness) -> String {
    let lines = [vec![readiness.state], readiness.problems].concat();
    lines.iter().map(|line| format!("{line}\n")).collect()
}
