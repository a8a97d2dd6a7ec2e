//! Captures being read, from their first packet to the last window.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use anyhow::Context;
use jiff::{SignedDuration, Timestamp};
use tokio::{runtime::Runtime, task::JoinHandle};

use super::{
    Args, control,
    notices::{self, Content},
    progress::CaptureProgress,
};
use crate::cli::output::Outputs;
use cqlens_audit::{
    audit::{self, Audit},
    catalog::Live,
};
use cqlens_capture::{Moment, ReplayQueue};
use cqlens_report::Report;
use cqlens_sniff::{Captures, KeyLog, Next, PacketReader, TcpConnections};
use cqlens_window::Window;

/// How long a stream may be silent before other work is done.
const SILENCE: Duration = Duration::from_millis(100);

/// Bytes that may wait for the audit, which reading waits for: some milliseconds of its work, so that it has
/// enough to do while a thread that waits for room sleeps, and few enough to stay in a cache.
const AHEAD_OF_THE_AUDIT: usize = 4 << 20;

/// All that is at work.
pub(super) struct SniffRun<'a> {
    args: &'a Args,
    captures: Captures,
    packets: PacketReader,
    connections: TcpConnections,
    keys: KeyLog,
    queue: Arc<ReplayQueue>,
    audit: Audit,
    live: Arc<Live>,
    outputs: Outputs,
    control: Option<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
    bar: CaptureProgress,
    /// The window that is being filled.
    window: Bounds,
    /// The latest time of a packet; before there is one, when reading began.
    now: Moment,
    packets_read: u64,
    /// For how long no packet has come.
    silent: Duration,
    /// Notices that were logged.
    said: BTreeSet<String>,
    /// What was found so far.
    content: Content,
    /// Packets that the kernel had no room for until the last window.
    dropped: u64,
    /// The notices of the captures, in every window from then on: a report over all has the notices of its
    /// last window.
    lasting: BTreeSet<String>,
}

/// When a window begins and ends, in the time of the capture.
struct Bounds {
    start: Moment,
    end: Moment,
}

impl<'a> SniffRun<'a> {
    /// Begins where the captures do.
    pub(super) fn start(
        args: &'a Args,
        (captures, keys): (Captures, KeyLog),
        live: Arc<Live>,
        mut outputs: Outputs,
        runtime: &Runtime,
        stop: Arc<AtomicBool>,
        options: &audit::Options,
    ) -> anyhow::Result<Self> {
        let first = captures.first_time();
        let start = first.map_or_else(Timestamp::now, Moment::timestamp);
        let source = args.source();
        let queue = Arc::new(ReplayQueue::new(AHEAD_OF_THE_AUDIT));
        let control = control::begin(args, &live, runtime)?;
        let audit = Audit::start_with(
            Arc::clone(&queue),
            &live,
            outputs.hash_key(),
            &source,
            start,
            options,
        )
        .context("no auditor")?;
        outputs.begin(&live, &source, start)?;
        let now = first.unwrap_or_else(|| moment(start));
        Ok(Self {
            bar: CaptureProgress::begin(captures.progress()),
            connections: TcpConnections::new(Arc::clone(&queue), args.port.clone())
                .within(live.memory())
                .decrypting(keys.clone()),
            keys,
            window: Bounds {
                start: now,
                end: now.after(args.observer.window),
            },
            args,
            captures,
            packets: PacketReader::default(),
            queue,
            audit,
            live,
            outputs,
            control,
            stop,
            now,
            packets_read: 0,
            silent: Duration::ZERO,
            said: BTreeSet::new(),
            content: Content::default(),
            dropped: 0,
            lasting: BTreeSet::new(),
        })
    }

    /// Reads until the captures end or the operator stops it, and returns the report over all of them.
    pub(super) fn until_end(mut self) -> anyhow::Result<Report> {
        while !self.stop.load(Ordering::Relaxed) {
            match self.captures.next_packet(SILENCE) {
                Next::Packet => self.take(),
                Next::Nothing => self.wait(),
                Next::End => break,
            }
        }
        self.end()
    }

    #[inline]
    fn take(&mut self) {
        self.silent = Duration::ZERO;
        let Some(mut packet) = self.captures.packet() else {
            return;
        };
        let time = packet.is_timed.then_some(packet.at);
        if time.is_none_or(|at| at >= self.window.end) || self.captures.begins_anew() {
            let at = self.pass_window(time);
            let Some(again) = self.captures.packet() else {
                return;
            };
            packet = again;
            packet.at = at;
        }
        self.now = self.now.max(packet.at);
        self.packets_read += 1;
        self.connections.take_packet(&packet, &mut self.packets);
    }

    /// Ends the windows that end before a packet of this time, if it has one; the time at which it counts.
    #[cold]
    fn pass_window(&mut self, time: Option<Moment>) -> Moment {
        let at = time.unwrap_or_else(|| self.time_of_untimed());
        if self.captures.begins_anew() && at.since(self.now) > self.args.observer.window {
            self.pass_gap(at);
        } else if at >= self.window.end {
            self.end_windows_before(at);
        }
        at
    }

    /// The time at which a packet counts that has none: that of the latest packet that has one.
    fn time_of_untimed(&mut self) -> Moment {
        self.connections.lack_times();
        self.lasting.insert(notices::OF_UNTIMED.to_owned());
        self.now
    }

    /// Nothing has come for a while: a window ends all the same, or its report would
    /// wait for the next packet.
    fn wait(&mut self) {
        let before = self.silent;
        self.silent += SILENCE;
        let window = self.args.observer.window;
        if before < window && self.silent >= window {
            let end = self.window.end;
            self.end_window(end);
        }
    }

    /// Ends the window that is being filled. Where nothing was captured for longer, the next one lasts until
    /// there is something again.
    fn end_windows_before(&mut self, at: Moment) {
        let end = self.window.end;
        self.end_window(end);
        let beyond = at.since(self.window.start).as_nanos();
        let windows = beyond / self.args.observer.window.as_nanos().max(1);
        if windows > 0 {
            let nanoseconds = windows * self.args.observer.window.as_nanos();
            let silence = Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX));
            self.end_window(self.window.start.after(silence));
        }
    }

    /// No capture covers a time of more than a window: the observed time ends with the last packet of one
    /// capture and goes on with the first packet of the next.
    fn pass_gap(&mut self, at: Moment) {
        self.lasting.insert(notices::gap(self.now, at));
        self.end_window(self.now);
        self.window = Bounds {
            start: at,
            end: at.after(self.args.observer.window),
        };
    }

    fn end_window(&mut self, end: Moment) {
        self.queue.wait_until_empty();
        let window = self.audit.take_window(end.timestamp());
        let window = self.with_losses(window, end);
        self.outputs.window(window, &self.live, None);
        self.window = Bounds {
            start: end,
            end: end.after(self.args.observer.window),
        };
    }

    /// Adds what the capture itself lacks to a window.
    fn with_losses(&mut self, mut window: Window, end: Moment) -> Window {
        window.start = self.window.start.timestamp();
        let watched = end.since(self.window.start);
        window.observe(SignedDuration::try_from(watched).unwrap_or_default());
        let losses = self.connections.take_losses();
        self.content.note(&losses);
        notices::count(&mut window.coverage, &losses);
        let dropped = self.captures.dropped();
        let of_window = dropped.saturating_sub(std::mem::replace(&mut self.dropped, dropped));
        window.coverage.notices.extend(notices::dropped(of_window));
        if !self.keys.is_given() {
            self.lasting.extend(notices::tls(&losses));
        }
        self.lasting.extend(self.captures.take_faults());
        window.coverage.notices.extend(self.lasting.iter().cloned());
        let trouble = self.args.contact.as_ref().and_then(|_| self.live.trouble());
        window
            .coverage
            .notices
            .extend(trouble.map(|trouble| notices::contact(&trouble)));
        self.say(&window.coverage.notices);
        window
    }

    /// Logs it as well, once.
    fn say(&mut self, notices: &BTreeSet<String>) {
        for notice in notices {
            if self.said.insert(notice.clone()) {
                tracing::warn!("{notice}");
            }
        }
    }

    fn end(mut self) -> anyhow::Result<Report> {
        if self.stop.load(Ordering::Relaxed) {
            tracing::info!("stopping: the report covers what was read so far");
        }
        self.packets.end();
        self.connections.end();
        self.bar.end();
        let end = self.now.max(self.window.start);
        let last = self.audit.stop(end.timestamp());
        let mut last = self.with_losses(last, end);
        let of_all = notices::all(
            self.args,
            self.packets_read,
            &self.packets,
            &self.connections,
            &self.content,
        );
        last.coverage.notices.extend(of_all);
        if self.keys.is_given() {
            last.coverage.notices.extend(self.content.not_decrypted());
        }
        self.say(&last.coverage.notices);
        self.outputs.window(last, &self.live, None);
        #[cfg(feature = "fleet")]
        self.outputs.flush_sink(SINK);
        if let Some(control) = self.control.take() {
            control.abort();
        }
        self.outputs.report(&self.live).context("no report")
    }
}

/// For the sink to take what it does not have yet: nobody waits for the end of a capture but who started it.
#[cfg(feature = "fleet")]
const SINK: Duration = Duration::from_secs(60);

fn moment(time: Timestamp) -> Moment {
    let nanoseconds = time.as_nanosecond();
    Moment::from_unix_nanoseconds(i64::try_from(nanoseconds).unwrap_or(0))
}
