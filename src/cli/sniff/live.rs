//! Live captures: an interface of the machine, opened before anything else runs.

use cqlens_sniff::{Captures, OpenError, Options};

/// Begins to read the packets of an interface that is open, under a name; it returns once there is one.
pub(super) type BeginCapture = Box<dyn FnOnce(String, Options) -> Result<Captures, OpenError>>;

/// Opens an interface; the right to capture is gone then, also for threads that are started later.
///
/// # Errors
/// What hinders it, with what can be done.
#[cfg(target_os = "linux")]
pub(super) fn open(name: &str, ports: &[u16]) -> anyhow::Result<BeginCapture> {
    use std::io;

    use anyhow::{Context, anyhow};
    use cqlens_sniff::LiveInterface;

    let opened = LiveInterface::open(name, ports).map_err(|error| match error.kind() {
        io::ErrorKind::PermissionDenied => anyhow!(
            "this process may not capture: give it CAP_NET_RAW (`setcap cap_net_raw+ep cqlens`), or pipe tcpdump \
             into `cqlens sniff -`"
        ),
        io::ErrorKind::NotFound => anyhow!("there is no such interface"),
        _ => error.into(),
    });
    let interface = opened.with_context(|| format!("--interface {name}"))?;
    tracing::info!("capturing at interface {name}");
    Ok(Box::new(|name, options| Captures::live(interface, name, options)))
}

/// Says that there is none.
///
/// # Errors
/// Always.
#[cfg(not(target_os = "linux"))]
pub(super) fn open(name: &str, _ports: &[u16]) -> anyhow::Result<BeginCapture> {
    anyhow::bail!("--interface {name}: only on Linux: pipe tcpdump into `cqlens sniff -`")
}
