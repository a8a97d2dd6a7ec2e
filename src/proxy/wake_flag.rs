//! Whose turn it is: of the two directions of a connection only the one is polled to which something has happened.
//!
//! They are one task, which is woken for a request and for its answer. Asking the other direction each time, too, would be a tenth of
//! what passing on costs in this process.

use std::{
    pin::Pin,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

/// One direction's turn.
pub(super) struct Turn {
    due: Arc<Due>,
    waker: Waker,
    /// Whatever it waits for wakes this direction and no other.
    is_alone: bool,
}

impl Turn {
    /// The first turn of a direction. `is_alone`: nothing that it waits for is waited for by the other one; the two directions of a
    /// connection inside TLS share its socket, and whoever asked last is woken.
    pub(super) fn new(is_alone: bool) -> Self {
        let due = Arc::new(Due {
            is_due: AtomicBool::new(true),
            task: OnceLock::new(),
        });
        Self {
            waker: Waker::from(Arc::clone(&due)),
            due,
            is_alone,
        }
    }

    /// Polls `direction` if it is its turn. The task must have one waker for all its life.
    pub(super) fn poll<T>(
        &self,
        context: &mut Context<'_>,
        direction: Pin<&mut impl Future<Output = T>>,
    ) -> Poll<T> {
        if !self.is_alone {
            return direction.poll(context);
        }
        if !self.due.is_due.load(Ordering::Relaxed) {
            return Poll::Pending;
        }
        // What happens from here on is another turn.
        self.due.is_due.swap(false, Ordering::AcqRel);
        self.due.task.get_or_init(|| context.waker().clone());
        direction.poll(&mut Context::from_waker(&self.waker))
    }
}

struct Due {
    is_due: AtomicBool,
    task: OnceLock<Waker>,
}

impl Wake for Due {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.is_due.store(true, Ordering::Release);
        if let Some(task) = self.task.get() {
            task.wake_by_ref();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{future::poll_fn, pin::pin, sync::Mutex};

    use super::*;

    /// A direction that is polled `polls` times, and the waker that it was polled with last.
    #[derive(Default)]
    struct Direction {
        polls: Mutex<u32>,
        waker: Mutex<Option<Waker>>,
    }

    impl Direction {
        fn poll(&self, turn: &Turn, context: &mut Context<'_>) -> u32 {
            let direction = poll_fn(|context| {
                *self
                    .polls
                    .lock()
                    .unwrap_or_else(std::sync::PoisonError::into_inner) += 1;
                *self
                    .waker
                    .lock()
                    .unwrap_or_else(std::sync::PoisonError::into_inner) = Some(context.waker().clone());
                Poll::<()>::Pending
            });
            assert!(turn.poll(context, pin!(direction)).is_pending());
            *self
                .polls
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner)
        }

        fn wake(&self) {
            let waker = self
                .waker
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner);
            waker.iter().for_each(Waker::wake_by_ref);
        }
    }

    #[derive(Default)]
    struct Task(AtomicBool);

    impl Wake for Task {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    #[test]
    fn only_what_was_woken_is_polled_and_the_task_with_it() {
        let task = Arc::new(Task::default());
        let waker = Waker::from(Arc::clone(&task));
        let mut context = Context::from_waker(&waker);
        let (one, other) = (Direction::default(), Direction::default());
        let (turn, others) = (Turn::new(true), Turn::new(true));
        let mut poll = || (one.poll(&turn, &mut context), other.poll(&others, &mut context));
        assert_eq!(poll(), (1, 1), "whoever is new");
        assert_eq!(poll(), (1, 1), "nothing has happened");
        one.wake();
        assert!(task.0.swap(false, Ordering::Relaxed));
        assert_eq!(poll(), (2, 1));
        other.wake();
        assert!(task.0.swap(false, Ordering::Relaxed));
        assert_eq!(poll(), (2, 2));
        assert_eq!(poll(), (2, 2));
    }

    #[test]
    fn directions_that_share_a_socket_are_polled_whenever_the_task_is() {
        let waker = Waker::from(Arc::new(Task::default()));
        let mut context = Context::from_waker(&waker);
        let (direction, turn) = (Direction::default(), Turn::new(false));
        assert_eq!(direction.poll(&turn, &mut context), 1);
        assert_eq!(direction.poll(&turn, &mut context), 2);
    }
}
