//! Reads capture files and standard input, and merges their packets in time order.
//!
//! Of many files, only those whose first packet is due are open.

mod compression;
#[cfg(target_os = "linux")]
mod live;
mod pcap;
mod pcapng;
mod record;
mod records;
mod slabs;
mod source;

use std::{
    fmt, io,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

#[cfg(target_os = "linux")]
pub use live::{ANY_INTERFACE, LiveInterface};
pub(super) use record::range;
pub use records::{FileError, Packet, Records};
use source::Source;

use super::tls::KeyLog;

use cqlens_capture::Moment;

/// How captures are read.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Wait for more at the end of a file.
    pub follow: bool,
    /// Set to end files that are followed.
    pub stop: Arc<AtomicBool>,
    /// Takes the secrets of TLS that captures contain.
    pub keys: KeyLog,
}

/// Why a capture cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// It cannot be read.
    #[error("cannot read {name}")]
    Read {
        /// Which one.
        name: String,
        /// Why.
        source: io::Error,
    },
    /// It is not a capture.
    #[error("{name}: {reason}")]
    File {
        /// Which one.
        name: String,
        /// Why.
        reason: FileError,
    },
}

impl OpenError {
    /// Whether there is nothing in it.
    fn is_empty(&self) -> bool {
        matches!(
            self,
            Self::File {
                reason: FileError::Empty,
                ..
            }
        )
    }
}

/// What comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// A packet: see [`Captures::packet`].
    Packet,
    /// Nothing yet.
    Nothing,
    /// The end of all captures.
    End,
}

/// How far reading has come, in bytes of the files as they are stored.
#[derive(Debug, Clone, Default)]
pub struct Progress {
    read: Arc<AtomicU64>,
    /// Bytes in all; `None` for streams and growing files.
    pub total: Option<u64>,
}

impl Progress {
    /// Bytes that have been read.
    pub fn read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }
}

/// Captures, read as one.
pub struct Captures {
    sources: Vec<Source>,
    /// The index of the source of the latest packet.
    latest: usize,
    /// Files that are not due yet, latest first.
    pending: Vec<PendingFile>,
    options: Options,
    progress: Progress,
    faults: Vec<String>,
    /// See [`Captures::begins_anew`].
    begins_anew: bool,
    /// Whether the latest packet was a later one of the only capture that there is.
    is_alone: bool,
    /// Packets that the kernel had no room for.
    dropped: Arc<AtomicU64>,
}

impl fmt::Debug for Captures {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Captures").finish_non_exhaustive()
    }
}

struct PendingFile {
    path: PathBuf,
    /// Time of its first packet, if it has one.
    first: Option<Moment>,
}

/// Up to so many files are all opened at once.
const MAX_OPEN: usize = 8;

impl Captures {
    /// Opens the captures at `paths`, `-` being standard input, and waits for the first packet of each.
    ///
    /// An empty one beside others is passed over, with a fault: it may be the newest one of a ring, whose first packets
    /// were not written yet.
    ///
    /// # Errors
    /// One that cannot be read, or is no capture; all are empty.
    pub fn open(paths: &[PathBuf], options: Options) -> Result<Self, OpenError> {
        let mut captures = Self {
            sources: Vec::new(),
            latest: 0,
            pending: Vec::new(),
            progress: Progress {
                read: Arc::default(),
                total: total(paths, &options),
            },
            options,
            faults: Vec::new(),
            begins_anew: false,
            is_alone: false,
            dropped: Arc::default(),
        };
        let mut first_empty = None;
        for path in paths {
            let read = match paths.len() > MAX_OPEN {
                // Progress does not count what is read to learn the time of the first packet.
                true => Arc::default(),
                false => Arc::clone(&captures.progress.read),
            };
            let mut source = Source::open(path, &captures.options, read)?;
            match source.wait_for_first(&captures.options) {
                Err(error) if error.is_empty() && paths.len() > 1 => {
                    captures
                        .faults
                        .push(format!("{error}: no packet of it is in this report."));
                    first_empty.get_or_insert(error);
                    continue;
                }
                waited => waited?,
            }
            match source.head() {
                Some(first) if paths.len() > MAX_OPEN && path.is_file() => {
                    captures.pending.push(PendingFile {
                        path: path.clone(),
                        first: time(&first),
                    })
                }
                _ => captures.sources.push(source),
            }
        }
        if let Some(error) =
            first_empty.filter(|_| captures.sources.is_empty() && captures.pending.is_empty())
        {
            return Err(error);
        }
        captures
            .pending
            .sort_by_key(|pending| std::cmp::Reverse(pending.first));
        Ok(captures)
    }

    /// Captures at the interface `name` until it is stopped; waits for the first packet.
    ///
    /// # Errors
    /// There can be no thread for it, or it cannot be read.
    #[cfg(target_os = "linux")]
    pub fn live(interface: LiveInterface, name: String, options: Options) -> Result<Self, OpenError> {
        let (progress, dropped) = (Progress::default(), interface.dropped());
        let records = interface.records(Arc::clone(&options.stop));
        let mut source = Source::of_stream(Box::new(records), name, &options, Arc::clone(&progress.read))?;
        source.wait_for_first(&options)?;
        Ok(Self {
            sources: vec![source],
            latest: 0,
            pending: Vec::new(),
            options,
            progress,
            faults: Vec::new(),
            begins_anew: false,
            is_alone: false,
            dropped,
        })
    }

    /// Packets that the kernel had no room for, of a live capture.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Time of the first packet; `None` if no packet has a time.
    pub fn first_time(&self) -> Option<Moment> {
        let heads = self.sources.iter().filter_map(Source::head);
        let pending = self.pending.iter().filter_map(|pending| pending.first);
        heads.filter_map(|head| time(&head)).chain(pending).min()
    }

    /// The latest packet, until the next call of [`Captures::next_packet`].
    #[inline]
    pub fn packet(&self) -> Option<Packet<'_>> {
        self.sources.get(self.latest)?.records.packet()
    }

    /// Moves on to the next packet in time order; waits for it for `patience` at most.
    #[inline]
    pub fn next_packet(&mut self, patience: Duration) -> Next {
        // Short cut where one capture is left and none is pending: no times to compare. Comparing costs a
        // request 3 % to 6 % more. Nearly all packets are whole ones of pcap: they come first. Whatever is
        // wrong with the capture is found again below.
        if self.is_alone
            && let [only] = &mut self.sources[..]
        {
            if only.records.advance_in_pcap() {
                return Next::Packet;
            }
            if only.records.advance() == Ok(true) {
                self.begins_anew = only.records.begins_file();
                self.is_alone = !self.begins_anew;
                return Next::Packet;
            }
        }
        self.is_alone = false;
        loop {
            self.open_due();
            let mut is_waiting = false;
            let mut has_ended = false;
            for source in &mut self.sources {
                is_waiting |= !source.fill(patience);
                has_ended |= source.has_ended;
            }
            if is_waiting {
                return Next::Nothing;
            }
            if has_ended {
                self.close_ended();
            }
            let heads = (0..).zip(&self.sources);
            let earliest = heads.min_by_key(|(_, source)| source.records.time());
            if let Some((index, _)) = earliest {
                self.give(index);
                return Next::Packet;
            }
            if self.pending.is_empty() {
                return Next::End;
            }
        }
    }

    /// Makes the packet at the head of a source the latest one.
    #[inline]
    fn give(&mut self, index: usize) {
        let Some(source) = self.sources.get_mut(index) else {
            return;
        };
        source.has_head = false;
        let is_first = source.records.begins_file() || !source.has_given;
        source.has_given = true;
        self.latest = index;
        self.begins_anew = is_first && !self.sources.iter().any(Source::is_under_way);
        self.is_alone = !is_first && self.sources.len() == 1 && self.pending.is_empty();
    }

    /// Whether the latest packet is the first of its capture, and no other capture covers its time: nothing
    /// may have been captured just before it.
    pub fn begins_anew(&self) -> bool {
        self.begins_anew
    }

    /// How far reading has come.
    pub fn progress(&self) -> Progress {
        self.progress.clone()
    }

    /// Captures that ended early since the last call, as sentences.
    pub fn take_faults(&mut self) -> Vec<String> {
        std::mem::take(&mut self.faults)
    }

    /// Opens the files whose first packet is due.
    #[inline]
    fn open_due(&mut self) {
        while let Some(pending) = self.pending.last() {
            let heads = self.sources.iter().filter_map(Source::head);
            let earliest = heads.map(|packet| packet.at).min();
            let is_due = match earliest {
                Some(earliest) => pending.first.is_none_or(|first| first <= earliest),
                None => self.sources.iter().all(|source| source.has_ended),
            };
            if !is_due {
                return;
            }
            let Some(PendingFile { path, .. }) = self.pending.pop() else {
                return;
            };
            match Source::open(&path, &self.options, Arc::clone(&self.progress.read)) {
                Ok(mut source) => {
                    source.fill(Duration::MAX);
                    self.sources.push(source);
                }
                Err(error) => self.faults.push(format!("{error}.")),
            }
        }
    }

    fn close_ended(&mut self) {
        let faults = &mut self.faults;
        self.sources.retain_mut(|source| {
            let is_over = source.has_ended && !source.has_head;
            if is_over {
                faults.extend(source.take_faults());
            }
            !is_over
        });
    }
}

/// The time of a packet, if the capture has one.
fn time(packet: &Packet<'_>) -> Option<Moment> {
    packet.is_timed.then_some(packet.at)
}

/// The size of all files; `None` if one of them grows or is a stream.
fn total(paths: &[PathBuf], options: &Options) -> Option<u64> {
    if options.follow {
        return None;
    }
    let lengths = paths.iter().map(|path| {
        let metadata = path.metadata().ok().filter(std::fs::Metadata::is_file);
        metadata.map(|metadata| metadata.len())
    });
    lengths.sum()
}
