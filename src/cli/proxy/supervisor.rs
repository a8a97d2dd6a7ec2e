//! Notifies the service manager (`NOTIFY_SOCKET` of systemd), if there is one.

use std::time::Duration;

use sd_notify::NotifyState;

/// Clients are accepted from now on, or again with new settings.
pub(super) fn ready() {
    tell(&[NotifyState::Ready]);
}

/// Settings are read again; [`ready`] says when that is done.
pub(super) fn reloading() {
    // Since systemd 253 it takes the time for proof that this answers its own signal.
    match NotifyState::monotonic_usec_now() {
        Ok(now) => tell(&[NotifyState::Reloading, now]),
        Err(_no_clock) => tell(&[NotifyState::Reloading]),
    }
}

/// This process is about to end.
pub(super) fn stopping() {
    tell(&[NotifyState::Stopping]);
}

/// The service manager's watchdog (`WatchdogSec=`), which ends a process that does not pat it in time.
pub(super) struct ServiceManager {
    /// How often it is patted: twice in the time that it grants.
    pub(super) every: Duration,
}

impl ServiceManager {
    /// The one that waits for this process, if there is one.
    pub(super) fn from_environment() -> Option<Self> {
        let patience = sd_notify::watchdog_enabled()?;
        Some(Self { every: patience / 2 })
    }

    /// This process is well.
    pub(super) fn pat(&self) {
        tell(&[NotifyState::Watchdog]);
    }
}

fn tell(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        tracing::debug!(%error, "cannot notify the service manager");
    }
}
