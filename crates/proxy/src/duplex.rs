//! Polls the two directions of a connection, and what may end it from outside, as one future.

use std::{
    future::poll_fn,
    pin::{Pin, pin},
    sync::atomic::{AtomicBool, Ordering},
    task::Poll,
};

use super::{drain::DrainStep, login::LoginDeadline, pump::Ended, wake_flag::WakeFlag};

/// What happens to a connection next.
pub(super) enum Next {
    /// It has ended, or is to end.
    End(Ended),
    /// It takes no more requests and passes on the responses to those that it has taken.
    LastResponses,
}

impl From<DrainStep> for Next {
    fn from(step: DrainStep) -> Self {
        match step {
            DrainStep::Close => Self::End(Ended::Drained),
            DrainStep::LastResponses => Self::LastResponses,
        }
    }
}

/// Waits for `forwarded` to end, for the client to miss its `login` deadline, or for `interrupted`, which is
/// polled where `may_be_interrupted` says so.
///
/// This is polled for every chunk. `interrupted` is polled once, so that it can wake the task, and again only
/// when it may be ready: a task keeps one waker for its whole life.
pub(super) async fn until_interrupted(
    forwarded: impl Future<Output = Ended>,
    interrupted: impl Future<Output = Next>,
    may_be_interrupted: impl Fn() -> bool,
    mut login: LoginDeadline<'_>,
) -> Next {
    let (mut forwarded, mut interrupted) = (pin!(forwarded), pin!(interrupted));
    let mut was_polled = false;
    poll_fn(|context| {
        if let Poll::Ready(ended) = forwarded.as_mut().poll(context) {
            return Poll::Ready(Next::End(ended));
        }
        if login.is_over(context) {
            return Poll::Ready(Next::End(Ended::NoLogin));
        }
        if was_polled && !may_be_interrupted() {
            return Poll::Pending;
        }
        was_polled = true;
        interrupted.as_mut().poll(context)
    })
    .await
}

/// Waits for both directions to end; a direction that fails ends the connection at once.
///
/// Sets `responses_over` when `responses` has ended and must not be polled again. Once one direction has
/// ended, the other may go on until `abandoned` is ready.
pub(super) async fn both<A: Future<Output = ()>>(
    requests: impl Future<Output = Ended>,
    responses: impl Future<Output = Ended>,
    [requests_flag, responses_flag]: &[WakeFlag; 2],
    responses_over: &AtomicBool,
    abandoned: impl Fn() -> A,
) -> Ended {
    let (mut requests, mut responses) = (pin!(requests), pin!(responses));
    let (mut requests_go_on, mut responses_go_on) = (true, true);
    // Boxed, because few connections need one.
    let mut half_closed: Option<Pin<Box<A>>> = None;
    poll_fn(|context| {
        if requests_go_on && let Poll::Ready(ended) = requests_flag.poll(context, requests.as_mut()) {
            requests_go_on = false;
            let ended = ended.of_requests();
            if ended.ends_connection() || !responses_go_on {
                return Poll::Ready(ended);
            }
        }
        if responses_go_on && let Poll::Ready(ended) = responses_flag.poll(context, responses.as_mut()) {
            responses_go_on = false;
            responses_over.store(true, Ordering::Relaxed);
            if ended.ends_connection() || !requests_go_on {
                return Poll::Ready(ended);
            }
        }
        if requests_go_on != responses_go_on {
            let abandoned = half_closed.get_or_insert_with(|| Box::pin(abandoned()));
            return abandoned.as_mut().poll(context).map(|()| Ended::HalfClosed);
        }
        Poll::Pending
    })
    .await
}
