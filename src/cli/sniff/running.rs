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
use jiff::Timestamp;
use tokio::{runtime::Runtime, task::JoinHandle};

use super::{Args, control, notices, progress::Bar};
use crate::{
    audit::Audit,
    capture::{Limits, Moment, Queue},
    catalog::Live,
    cli::output::Outputs,
    report::Report,
    sniff::{Captures, Flows, Next, Packet, Packets},
    window::Window,
};

/// How long a stream may say nothing before it is looked at what else there is to do.
const SILENCE: Duration = Duration::from_millis(100);

/// All that is at work.
pub(super) struct Running<'a> {
    args: &'a Args,
    captures: Captures,
    packets: Packets,
    flows: Flows,
    queue: Arc<Queue>,
    audit: Audit,
    live: Arc<Live>,
    outputs: Outputs,
    control: Option<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
    bar: Bar,
    /// The window that is being filled.
    window: Bounds,
    /// The latest time of a packet.
    now: Moment,
    packets_read: u64,
    /// How long nothing has come.
    silent: Duration,
    /// Notices that were logged.
    said: BTreeSet<String>,
}

/// When a window begins and ends, in the time of the capture.
struct Bounds {
    start: Moment,
    end: Moment,
}

impl<'a> Running<'a> {
    /// Begins where the captures do.
    pub(super) fn start(
        args: &'a Args,
        captures: Captures,
        live: Arc<Live>,
        mut outputs: Outputs,
        runtime: &Runtime,
        stop: Arc<AtomicBool>,
    ) -> anyhow::Result<Self> {
        let first = captures.first_time();
        let start = first.map_or_else(Timestamp::now, Moment::timestamp);
        let source = args.source();
        let queue = Arc::new(Queue::new(1, Limits::default()));
        let control = control::begin(args, &live, runtime);
        let audit = Audit::start_with(
            Arc::clone(&queue),
            &live,
            outputs.hash_key(),
            &source,
            start,
            &args.audit_options(),
        )
        .context("no auditor")?;
        outputs.begin(&live, &source, start)?;
        let now = first.unwrap_or_else(|| moment(start));
        Ok(Self {
            bar: Bar::begin(captures.progress()),
            flows: Flows::new(Arc::clone(&queue), args.port.clone()),
            window: Bounds {
                start: now,
                end: now.after(args.window),
            },
            args,
            captures,
            packets: Packets::default(),
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
        })
    }

    /// Reads until the captures end or somebody wants no more; the report over all of it.
    pub(super) fn until_end(mut self) -> anyhow::Result<Report> {
        while !self.stop.load(Ordering::Relaxed) {
            match self.captures.next_packet(SILENCE) {
                Next::Packet(packet) => self.take(&packet),
                Next::Nothing => self.wait(),
                Next::End => break,
            }
        }
        self.end()
    }

    fn take(&mut self, packet: &Packet) {
        self.silent = Duration::ZERO;
        if packet.at >= self.window.end {
            self.end_windows_before(packet.at);
        }
        self.now = self.now.max(packet.at);
        self.packets_read += 1;
        if let Some(segment) = self.packets.read(packet) {
            self.flows.take(segment);
        }
    }

    /// Nothing has come for a while: a window ends all the same, or its report would wait for the next packet.
    fn wait(&mut self) {
        let before = self.silent;
        self.silent += SILENCE;
        let window = self.args.window;
        if before < window && self.silent >= window {
            let end = self.window.end;
            self.end_window(end);
        }
    }

    /// Ends the window that is being filled. Where nothing was captured for longer, the next one lasts until there is something again.
    fn end_windows_before(&mut self, at: Moment) {
        let end = self.window.end;
        self.end_window(end);
        let beyond = at.since(self.window.start).as_nanos();
        let windows = beyond / self.args.window.as_nanos().max(1);
        if windows > 0 {
            let nanoseconds = windows * self.args.window.as_nanos();
            let silence = Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX));
            self.end_window(self.window.start.after(silence));
        }
    }

    fn end_window(&mut self, end: Moment) {
        self.queue.wait_until_empty();
        let window = self.audit.take_window(end.timestamp());
        let window = self.told(window, end);
        self.outputs.window(window, &self.live, None);
        self.window = Bounds {
            start: end,
            end: end.after(self.args.window),
        };
    }

    /// What the capture itself lacks belongs to the window, too.
    fn told(&mut self, mut window: Window, end: Moment) -> Window {
        window.observed_seconds = end.since(self.window.start).as_secs_f64();
        let losses = self.flows.take_losses();
        notices::count(&mut window.coverage, &losses);
        window.coverage.notices.extend(self.captures.take_faults());
        self.say(&window.coverage.notices);
        window
    }

    /// Also to whoever looks on, once.
    fn say(&mut self, notices: &BTreeSet<String>) {
        for notice in notices {
            if self.said.insert(notice.clone()) {
                tracing::warn!("{notice}");
            }
        }
    }

    fn end(mut self) -> anyhow::Result<Report> {
        self.flows.end();
        self.bar.end();
        let end = self.now.max(self.window.start);
        let last = self.audit_end(end);
        let mut last = self.told(last, end);
        let of_all = notices::of_all(self.args, self.packets_read, &self.packets, &self.flows);
        last.coverage.notices.extend(of_all);
        self.say(&last.coverage.notices);
        self.outputs.window(last, &self.live, None);
        if let Some(control) = self.control.take() {
            control.abort();
        }
        self.outputs.report(&self.live).context("no report")
    }

    fn audit_end(&mut self, end: Moment) -> Window {
        self.audit.end(end.timestamp())
    }
}

fn moment(time: Timestamp) -> Moment {
    let nanoseconds = time.as_nanosecond();
    Moment::from_unix_nanoseconds(i64::try_from(nanoseconds).unwrap_or(0))
}
