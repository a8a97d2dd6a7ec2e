//! The signals that a running audit handles, and the deadlines of a process end.
//!
//! A thread of its own takes the signals and waits for no other. So a process ends after SIGTERM even if all
//! other threads are stuck: by itself as a rule, else at a deadline.

use std::{
    process::exit,
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};

use anyhow::Context;
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::watch,
    time::{Instant, sleep_until},
};

use super::log;

/// The request behind a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SignalRequest {
    /// End the process; with the name of the signal.
    Stop(&'static str),
    /// Read settings, certificates and keys again.
    Reload,
    /// Nothing; the signal of this name would end a process that does not listen for it.
    Nothing(&'static str),
}

/// Exit code of a process that could not write everything before the deadline of its end.
pub(super) const UNFINISHED: u8 = 3;

/// Exit code of a process that got a second signal and did not end at once by itself,
/// as shells report SIGINT.
const TOLD_TWICE: u8 = 130;

/// How long the end may take.
#[derive(Debug, Clone, Copy)]
pub(super) struct EndPatience {
    /// After the first request.
    pub(super) first: Duration,
    /// After a second request.
    pub(super) again: Duration,
}

/// The end of this process, once it was requested. Clones are the same one.
#[derive(Debug, Clone)]
pub(super) struct ProcessEnd(Arc<watch::Sender<Ending>>);

#[derive(Debug, Clone, Copy)]
struct Ending {
    patience: EndPatience,
    /// The deadline at which the process ends in any case, and its exit code then.
    due: Option<(Instant, u8)>,
    /// Everything is written.
    is_done: bool,
}

impl ProcessEnd {
    /// Sets how long an end that begins from now on may take.
    pub(super) fn allow(&self, patience: EndPatience) {
        self.0.send_modify(|ending| ending.patience = patience);
    }

    /// Requests the end.
    pub(super) fn ask(&self) {
        let now = Instant::now();
        self.0.send_modify(|ending| {
            let EndPatience { first, again } = ending.patience;
            ending.due = Some(match ending.due {
                _ if ending.is_done => (now, UNFINISHED),
                None => (now + first, UNFINISHED),
                Some((due, _)) => (due.min(now + again), TOLD_TWICE),
            });
        });
    }

    /// Everything is written: no deadline is needed any more, and a further request ends the process at once.
    pub(super) fn done(&self) {
        self.0.send_modify(|ending| {
            ending.is_done = true;
            ending.due = None;
        });
    }
}

/// Handles signals from now on. `tell` is called with the request behind each, and must not block.
///
/// # Errors
/// Signals that cannot be listened for, a thread that cannot be had.
pub(super) fn listen(
    patience: EndPatience,
    tell: impl Fn(SignalRequest) + Send + 'static,
) -> anyhow::Result<ProcessEnd> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime for signals")?;
    let signals = {
        let _entered = runtime.enter();
        Signals::listen()?
    };
    let (sender, ending) = watch::channel(Ending {
        patience,
        due: None,
        is_done: false,
    });
    let end = ProcessEnd(Arc::new(sender));
    let own = end.clone();
    thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || runtime.block_on(answer(signals, ending, own, tell)))
        .context("cannot start the thread for signals")?;
    Ok(end)
}

async fn answer(
    mut signals: Signals,
    mut ending: watch::Receiver<Ending>,
    end: ProcessEnd,
    tell: impl Fn(SignalRequest),
) {
    loop {
        let next = ending.borrow_and_update().due;
        tokio::select! {
            asked = signals.next() => {
                if let SignalRequest::Stop(_) = asked {
                    end.ask();
                }
                tell(asked);
            }
            // This thread has a sender itself.
            _ = ending.changed() => {}
            code = due(next) => end_now(code),
        }
    }
}

async fn due(next: Option<(Instant, u8)>) -> u8 {
    match next {
        Some((at, code)) => {
            sleep_until(at).await;
            code
        }
        None => std::future::pending().await,
    }
}

/// Says so, if that is possible at once, and ends the process.
fn end_now(code: u8) {
    let (said, was_said) = mpsc::channel();
    // A standard error that is not read must not keep the process.
    let _ = thread::Builder::new().spawn(move || {
        let why = match code {
            TOLD_TWICE => "a second signal to end",
            _ => "the time for shutting down is over",
        };
        tracing::error!(code, "ending as it is: {why}; unwritten data is lost");
        log::flush();
        let _ = said.send(());
    });
    let _ = was_said.recv_timeout(LAST_WORDS);
    exit(code.into());
}

const LAST_WORDS: Duration = Duration::from_millis(200);

/// Signals that have come, from when this was made.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
    user_1: Signal,
    user_2: Signal,
    quit: Signal,
    alarm: Signal,
}

impl Signals {
    fn listen() -> anyhow::Result<Self> {
        let listen = |kind, name| signal(kind).with_context(|| format!("cannot listen for {name}"));
        Ok(Self {
            terminate: listen(SignalKind::terminate(), "SIGTERM")?,
            interrupt: listen(SignalKind::interrupt(), "SIGINT")?,
            hangup: listen(SignalKind::hangup(), "SIGHUP")?,
            user_1: listen(SignalKind::user_defined1(), "SIGUSR1")?,
            user_2: listen(SignalKind::user_defined2(), "SIGUSR2")?,
            quit: listen(SignalKind::quit(), "SIGQUIT")?,
            alarm: listen(SignalKind::alarm(), "SIGALRM")?,
        })
    }

    /// The next one. Nothing is lost if the future is dropped.
    async fn next(&mut self) -> SignalRequest {
        tokio::select! {
            _ = self.terminate.recv() => SignalRequest::Stop("SIGTERM"),
            _ = self.interrupt.recv() => SignalRequest::Stop("SIGINT"),
            _ = self.hangup.recv() => SignalRequest::Reload,
            _ = self.user_1.recv() => SignalRequest::Nothing("SIGUSR1"),
            _ = self.user_2.recv() => SignalRequest::Nothing("SIGUSR2"),
            _ = self.quit.recv() => SignalRequest::Stop("SIGQUIT"),
            _ = self.alarm.recv() => SignalRequest::Nothing("SIGALRM"),
        }
    }
}
