//! The thread that makes reports out of what was counted. A disk may hang for good, and so may a mistake in a rule: what takes
//! too long is abandoned, and the next report has another thread.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::Duration,
};

use anyhow::{Context, bail};

/// Does one thing after the other, each for as long as the limit.
pub(super) struct ReportThread {
    limit: Duration,
    /// Takes what is to be done next; none before the first, and after one that was abandoned.
    current: Option<Current>,
    /// Threads that were abandoned, and may still be at work.
    stuck: Vec<Weak<AtomicBool>>,
    abandoned: Arc<AtomicU64>,
}

/// A thread that gets on.
struct Current {
    work: mpsc::Sender<Work>,
    is_abandoned: Arc<AtomicBool>,
}

pub(super) type Work = Box<dyn FnOnce(&AtomicBool) + Send>;

/// Whether a result is still waited for.
pub(super) struct Awaited<'a>(&'a AtomicBool);

impl Awaited<'_> {
    /// Whether it is: what was abandoned must change nothing any more.
    pub(super) fn is_awaited(&self) -> bool {
        !self.0.load(Ordering::Acquire)
    }
}

impl Default for ReportThread {
    fn default() -> Self {
        Self::with_limit(LIMIT)
    }
}

impl ReportThread {
    /// Abandons what takes longer than `limit`.
    pub(super) fn with_limit(limit: Duration) -> Self {
        Self {
            limit,
            current: None,
            stuck: Vec::new(),
            abandoned: Arc::default(),
        }
    }

    /// What waits for the thread at hand, for tests to put something before it.
    #[cfg(test)]
    pub(super) fn queue(&mut self) -> mpsc::Sender<Work> {
        let current = self
            .current
            .get_or_insert_with(|| Current::start().expect("a thread"));
        current.work.clone()
    }

    /// How much was abandoned since the start.
    pub(super) fn abandoned(&self) -> &Arc<AtomicU64> {
        &self.abandoned
    }

    /// Threads that were abandoned and are still at work, with all that they were given.
    pub(super) fn stuck(&self) -> usize {
        self.stuck
            .iter()
            .filter(|thread| thread.strong_count() > 0)
            .count()
    }

    /// Does `work`, and waits for it up to the limit. Nothing is begun while too many threads are stuck: each has a processor
    /// for itself, perhaps, and keeps what it was given.
    ///
    /// # Errors
    /// Work that was abandoned, that panicked, or for which there is no thread.
    pub(super) fn run<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(Awaited<'_>) -> T + Send + 'static,
    ) -> anyhow::Result<T> {
        self.stuck.retain(|thread| thread.strong_count() > 0);
        if self.stuck.len() >= MOST_STUCK {
            bail!("no report is begun, since {MOST_STUCK} threads are stuck in others");
        }
        let current = match self.current.take() {
            Some(current) => current,
            None => Current::start()?,
        };
        let (give, result) = mpsc::sync_channel(1);
        let work = move |is_abandoned: &AtomicBool| {
            // Without a result the other side hears that there is none.
            if let Ok(done) = catch_unwind(AssertUnwindSafe(|| work(Awaited(is_abandoned)))) {
                let _ = give.send(done);
            }
        };
        if current.work.send(Box::new(work)).is_err() {
            bail!("the thread for reports is gone");
        }
        match result.recv_timeout(self.limit) {
            Ok(done) => {
                self.current = Some(current);
                Ok(done)
            }
            Err(RecvTimeoutError::Disconnected) => {
                self.current = Some(current);
                bail!("a report could not be made: this is a mistake in cqlens")
            }
            Err(RecvTimeoutError::Timeout) => Err(self.abandon(&current)),
        }
    }

    fn abandon(&mut self, current: &Current) -> anyhow::Error {
        current.is_abandoned.store(true, Ordering::Release);
        self.stuck.push(Arc::downgrade(&current.is_abandoned));
        self.abandoned.fetch_add(1, Ordering::Relaxed);
        let (seconds, stuck) = (self.limit.as_secs(), self.stuck.len());
        tracing::error!(
            stuck,
            limit = MOST_STUCK,
            "a report was abandoned, it was not done after {seconds} s: snapshots are written, and as long as fewer threads \
             than the limit are stuck, the next report is made by another"
        );
        anyhow::anyhow!("the report was not done after {seconds} s")
    }
}

impl Current {
    fn start() -> anyhow::Result<Self> {
        let (work, given) = mpsc::channel::<Work>();
        let is_abandoned = Arc::new(AtomicBool::new(false));
        let own = Arc::clone(&is_abandoned);
        let thread = move || given.into_iter().for_each(|work| work(&own));
        thread::Builder::new()
            .name("report".to_owned())
            .spawn(thread)
            .context("no thread for reports")?;
        Ok(Self { work, is_abandoned })
    }
}

/// Reports over the most that a window can have take seconds.
const LIMIT: Duration = Duration::from_secs(300);

/// So many threads may be stuck.
const MOST_STUCK: usize = 2;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    /// Work that is stuck until `release` is dropped, and whether it was awaited at its end.
    fn stuck(thread: &mut ReportThread) -> (mpsc::Sender<()>, mpsc::Receiver<bool>) {
        let ((release, released), (tell, told)) = (mpsc::channel::<()>(), mpsc::channel());
        let done = thread.run(move |result| {
            let _ = released.recv();
            let _ = tell.send(result.is_awaited());
        });
        assert!(done.unwrap_err().to_string().contains("not done after"));
        (release, told)
    }

    fn until_stuck_are(number: usize, thread: &ReportThread) {
        while thread.stuck() != number {
            thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn work_that_is_stuck_is_abandoned_and_the_next_has_another_thread() {
        let mut thread = ReportThread::with_limit(Duration::from_millis(20));
        let (release, was_awaited) = stuck(&mut thread);
        thread.limit = Duration::from_secs(60);
        assert!(thread.run(|result| result.is_awaited()).unwrap());
        assert_eq!(
            (thread.stuck(), thread.abandoned().load(Ordering::Relaxed)),
            (1, 1)
        );
        drop(release);
        assert!(!was_awaited.recv().unwrap(), "it must change nothing any more");
        until_stuck_are(0, &thread);
    }

    #[test]
    fn nothing_is_begun_while_too_many_threads_are_stuck() {
        let mut thread = ReportThread::with_limit(Duration::from_millis(20));
        let (first, second) = (stuck(&mut thread), stuck(&mut thread));
        let refused = thread.run(|_| unreachable!("it is not begun")).unwrap_err();
        assert!(refused.to_string().contains("stuck in others"), "{refused}");
        assert_eq!(thread.stuck(), MOST_STUCK);
        // One that gets on makes room for another.
        drop(first);
        until_stuck_are(1, &thread);
        thread.limit = Duration::from_secs(60);
        assert_eq!(thread.run(|_| 7).unwrap(), 7);
        drop(second);
    }

    #[test]
    fn a_panic_costs_one_report() {
        let mut thread = ReportThread::default();
        let failed = thread.run(|_| -> u8 { panic!("a rule") }).unwrap_err();
        assert!(failed.to_string().contains("a mistake in cqlens"), "{failed}");
        assert_eq!(thread.run(|_| 7).unwrap(), 7);
    }
}
