//! Polls only the direction of a connection whose own waker fired.
//!
//! The two directions are one task, which is woken for a request and for its response. Polling the other
//! direction each time, too, would be a tenth of the cost of forwarding in this process.

use std::{
    pin::Pin,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

/// Whether one direction is to be polled.
pub(super) struct WakeFlag {
    woken: Arc<Woken>,
    waker: Waker,
    /// The events of this direction wake it and no other.
    wakes_apart: bool,
}

impl WakeFlag {
    /// The flag of a direction that is to be polled. `wakes_apart`: no event wakes both directions. The two
    /// directions of a TLS connection share its socket, which wakes only the one that polled it last.
    pub(super) fn new(wakes_apart: bool) -> Self {
        let woken = Arc::new(Woken {
            is_woken: AtomicBool::new(true),
            task: OnceLock::new(),
        });
        Self {
            waker: Waker::from(Arc::clone(&woken)),
            woken,
            wakes_apart,
        }
    }

    /// Polls `direction` if it was woken. The task must keep one waker for its whole
    /// life, as tokio's tasks do.
    pub(super) fn poll<T>(
        &self,
        context: &mut Context<'_>,
        direction: Pin<&mut impl Future<Output = T>>,
    ) -> Poll<T> {
        if !self.wakes_apart {
            return direction.poll(context);
        }
        if !self.woken.is_woken.load(Ordering::Relaxed) {
            return Poll::Pending;
        }
        // An event from here on wakes it again.
        self.woken.is_woken.swap(false, Ordering::AcqRel);
        self.woken.task.get_or_init(|| context.waker().clone());
        direction.poll(&mut Context::from_waker(&self.waker))
    }
}

struct Woken {
    is_woken: AtomicBool,
    task: OnceLock<Waker>,
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.is_woken.store(true, Ordering::Release);
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
        fn poll(&self, flag: &WakeFlag, context: &mut Context<'_>) -> u32 {
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
            assert!(flag.poll(context, pin!(direction)).is_pending());
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
        let (flag, others) = (WakeFlag::new(true), WakeFlag::new(true));
        let mut poll = || (one.poll(&flag, &mut context), other.poll(&others, &mut context));
        assert_eq!(poll(), (1, 1), "both are new");
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
        let (direction, flag) = (Direction::default(), WakeFlag::new(false));
        assert_eq!(direction.poll(&flag, &mut context), 1);
        assert_eq!(direction.poll(&flag, &mut context), 2);
    }
}
