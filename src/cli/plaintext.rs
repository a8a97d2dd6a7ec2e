//! Whether passwords may go over connections without TLS: one flag for all commands, decided once.

use std::sync::atomic::{AtomicBool, Ordering};

static ALLOWED: AtomicBool = AtomicBool::new(false);

/// Decides for the whole process.
pub(super) fn allow(allowed: bool) {
    ALLOWED.store(allowed, Ordering::Relaxed);
}

/// For the options of every client that cqlens makes.
pub(super) fn is_allowed() -> bool {
    ALLOWED.load(Ordering::Relaxed)
}
