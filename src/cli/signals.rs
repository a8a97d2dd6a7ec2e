//! The signals that mean something to a running audit, and the end of a process that was told to end.
//!
//! They are taken by a thread that does nothing else and waits for nobody, so that whatever the others are stuck in, a process that was
//! told to end does so: by itself as a rule, and at a deadline if not.

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

/// What a signal asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    /// End; by the signal of this name.
    Stop(&'static str),
    /// Read settings, certificates and keys again.
    Reload,
    /// Nothing; the signal of this name would end a process that does not listen for it.
    Nothing(&'static str),
}

/// Exit code of a process that was told to end, and could not do in time all that was left to do.
pub(super) const UNFINISHED: u8 = 3;

/// Exit code of one that was told twice, and did not end at once by itself: what shells say of a process that SIGINT has ended.
const TOLD_TWICE: u8 = 130;

/// How long the end may take.
#[derive(Debug, Clone, Copy)]
pub(super) struct Patience {
    /// After it was asked for.
    pub(super) first: Duration,
    /// After it was asked for again.
    pub(super) again: Duration,
}

/// The end of this process, from when it is asked for. Clones are the same one.
#[derive(Debug, Clone)]
pub(super) struct End(Arc<watch::Sender<Ending>>);

#[derive(Debug, Clone, Copy)]
struct Ending {
    patience: Patience,
    /// When the process ends, whatever it is doing, and its exit code then.
    due: Option<(Instant, u8)>,
    /// Everything is written.
    is_done: bool,
}

impl End {
    /// How long an end that is asked for from now on may take.
    pub(super) fn allow(&self, patience: Patience) {
        self.0.send_modify(|ending| ending.patience = patience);
    }

    /// It is asked for.
    pub(super) fn ask(&self) {
        let now = Instant::now();
        self.0.send_modify(|ending| {
            let Patience { first, again } = ending.patience;
            ending.due = Some(match ending.due {
                _ if ending.is_done => (now, UNFINISHED),
                None => (now + first, UNFINISHED),
                Some((due, _)) => (due.min(now + again), TOLD_TWICE),
            });
        });
    }

    /// Nothing can be lost any more: whoever asked is not in a hurry, and who asks from now on waits for nothing.
    #[cfg(feature = "pcap")]
    pub(super) fn done(&self) {
        self.0.send_modify(|ending| {
            ending.is_done = true;
            ending.due = None;
        });
    }
}

/// Takes signals from now on: `tell` is called with what each asks for, and must not wait for anybody.
///
/// # Errors
/// Signals that cannot be listened for, a thread that cannot be had.
pub(super) fn listen(patience: Patience, tell: impl Fn(Asked) + Send + 'static) -> anyhow::Result<End> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("no runtime for signals")?;
    let signals = {
        let _entered = runtime.enter();
        Signals::listen()?
    };
    let (sender, ending) = watch::channel(Ending {
        patience,
        due: None,
        is_done: false,
    });
    let end = End(Arc::new(sender));
    let own = end.clone();
    thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || runtime.block_on(answer(signals, ending, own, tell)))
        .context("no thread for signals")?;
    Ok(end)
}

async fn answer(mut signals: Signals, mut ending: watch::Receiver<Ending>, end: End, tell: impl Fn(Asked)) {
    loop {
        let next = ending.borrow_and_update().due;
        tokio::select! {
            asked = signals.next() => {
                if let Asked::Stop(_) = asked {
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
            TOLD_TWICE => "told to end twice",
            _ => "the time for the end is over",
        };
        tracing::error!(code, "ending as it is: {why}; what was not written yet is lost");
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
        })
    }

    /// The next one. Nothing is lost if the future is dropped.
    async fn next(&mut self) -> Asked {
        tokio::select! {
            _ = self.terminate.recv() => Asked::Stop("SIGTERM"),
            _ = self.interrupt.recv() => Asked::Stop("SIGINT"),
            _ = self.hangup.recv() => Asked::Reload,
            _ = self.user_1.recv() => Asked::Nothing("SIGUSR1"),
            _ = self.user_2.recv() => Asked::Nothing("SIGUSR2"),
        }
    }
}
