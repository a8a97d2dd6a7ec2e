//! Time, for the threads that connections live on: their runtimes have no timers, which would be looked at before and after every wait
//! for a socket. What has to be waited for, seldom and seldom precisely, is waited for by the runtime that started them.

use std::{cell::RefCell, io, time::Duration};

use tokio::{
    runtime::Handle,
    time::{self, Instant, Sleep, Timeout},
};

thread_local! {
    /// The runtime with timers, on a thread whose own has none.
    static TIMERS: RefCell<Option<Handle>> = const { RefCell::new(None) };
}

/// Has `timers` wait for what is waited for on this thread.
pub(crate) fn kept_by(timers: Handle) {
    TIMERS.set(Some(timers));
}

/// As [`time::sleep`].
pub(crate) fn sleep(duration: Duration) -> Sleep {
    made(|| time::sleep(duration))
}

/// As [`time::timeout`].
pub(crate) fn timeout<F: IntoFuture>(duration: Duration, future: F) -> Timeout<F::IntoFuture> {
    made(|| time::timeout(duration, future))
}

/// As [`time::timeout_at`], for what sockets do: the time that is over is an error like theirs.
pub(crate) async fn timeout_at<T>(
    deadline: Instant,
    future: impl Future<Output = io::Result<T>>,
) -> io::Result<T> {
    made(|| time::timeout_at(deadline, future))
        .await
        .unwrap_or_else(|_elapsed| Err(io::ErrorKind::TimedOut.into()))
}

/// A timer belongs to the runtime that is entered while it is made.
fn made<T>(timer: impl FnOnce() -> T) -> T {
    TIMERS.with_borrow(|timers| {
        let _entered = timers.as_ref().map(Handle::enter);
        timer()
    })
}
