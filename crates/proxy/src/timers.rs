//! Timers for the threads that connections run on. Their runtimes have none, since a runtime checks its
//! timers before and after each wait for a socket. The few timers of connections, which need not be precise,
//! belong to the runtime that started these threads.

use std::{cell::RefCell, io, time::Duration};

use tokio::{
    runtime::Handle,
    time::{self, Instant, Sleep, Timeout},
};

thread_local! {
    /// The runtime with timers, on a thread whose own has none.
    static TIMERS: RefCell<Option<Handle>> = const { RefCell::new(None) };
}

/// Makes the timers of this thread those of the runtime `timers`.
pub(crate) fn use_runtime(timers: Handle) {
    TIMERS.set(Some(timers));
}

/// As [`time::sleep`].
pub(crate) fn sleep(duration: Duration) -> Sleep {
    in_runtime(|| time::sleep(duration))
}

/// As [`time::timeout`].
pub(crate) fn timeout<F: IntoFuture>(duration: Duration, future: F) -> Timeout<F::IntoFuture> {
    in_runtime(|| time::timeout(duration, future))
}

/// As [`time::timeout_at`], for operations on sockets: a missed deadline is an I/O error like theirs.
pub(crate) async fn timeout_at<T>(
    deadline: Instant,
    future: impl Future<Output = io::Result<T>>,
) -> io::Result<T> {
    in_runtime(|| time::timeout_at(deadline, future))
        .await
        .unwrap_or_else(|_elapsed| Err(io::ErrorKind::TimedOut.into()))
}

/// A timer belongs to the runtime that is entered while it is made.
fn in_runtime<T>(timer: impl FnOnce() -> T) -> T {
    TIMERS.with_borrow(|timers| {
        let _entered = timers.as_ref().map(Handle::enter);
        timer()
    })
}
