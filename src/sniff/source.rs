//! Where captures come from: files, some of them compressed, or standard input; packets of all of them in the order of their times.
//!
//! What has to be unpacked or waited for is read by a thread of its own, which reads ahead a little; other files are read where their
//! packets are looked at, while their bytes are at hand. Of many files only those are open whose time has come.

use std::{
    fmt,
    fs::File,
    io::{self, Read, Seek},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel},
    },
    thread,
    time::Duration,
};

use bytes::Bytes;
use flate2::read::MultiGzDecoder;
use ruzstd::decoding::StreamingDecoder;

use super::{
    file::{FileError, Packet, Records},
    slabs::Slabs,
};
use cqlens_audit::capture::Moment;

/// How captures are read.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Wait for more at the end of a file.
    pub follow: bool,
    /// Set by somebody who wants no more: files that are followed end then.
    pub stop: Arc<AtomicBool>,
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
    /// It is none.
    #[error("{name}: {reason}")]
    File {
        /// Which one.
        name: String,
        /// Why.
        reason: FileError,
    },
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
    /// All that there is; none where that is not known.
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
    /// Which of them the latest packet is from.
    latest: usize,
    /// Files whose time has not come, the last one first.
    later: Vec<Later>,
    options: Options,
    progress: Progress,
    faults: Vec<String>,
    /// Whether the latest packet is the first one of its capture, and no other one goes on across that time.
    begins_anew: bool,
    /// Whether it is a later one of the only capture that there is: the next one can be no other than that capture's.
    goes_on: bool,
}

impl fmt::Debug for Captures {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Captures").finish_non_exhaustive()
    }
}

struct Later {
    path: PathBuf,
    /// Of its first packet; none where that has none.
    first: Option<Moment>,
}

/// Files that are open at once without need.
const MOST_OPEN: usize = 8;

/// The name of standard input.
const STANDARD_INPUT: &str = "-";

impl Captures {
    /// Opens the captures at `paths`, `-` being standard input, and waits for the first packet of each.
    ///
    /// # Errors
    /// One that cannot be read, or is no capture.
    pub fn open(paths: &[PathBuf], options: Options) -> Result<Self, OpenError> {
        let mut captures = Self {
            sources: Vec::new(),
            latest: 0,
            later: Vec::new(),
            progress: Progress {
                read: Arc::default(),
                total: total(paths, &options),
            },
            options,
            faults: Vec::new(),
            begins_anew: false,
            goes_on: false,
        };
        for path in paths {
            let read = match paths.len() > MOST_OPEN {
                // What is read to learn the first time is read again.
                true => Arc::default(),
                false => Arc::clone(&captures.progress.read),
            };
            let mut source = Source::open(path, &captures.options, read)?;
            source.wait_for_first(&captures.options)?;
            match source.head() {
                Some(first) if paths.len() > MOST_OPEN && path.is_file() => captures.later.push(Later {
                    path: path.clone(),
                    first: time(&first),
                }),
                _ => captures.sources.push(source),
            }
        }
        captures.later.sort_by_key(|later| std::cmp::Reverse(later.first));
        Ok(captures)
    }

    /// When the first packet was captured; none where there is none, or none of them says so.
    pub fn first_time(&self) -> Option<Moment> {
        let heads = self.sources.iter().filter_map(Source::head);
        let later = self.later.iter().filter_map(|later| later.first);
        heads.filter_map(|head| time(&head)).chain(later).min()
    }

    /// The packet that came last, until the next one is asked for.
    #[inline]
    pub fn packet(&self) -> Option<Packet<'_>> {
        self.sources.get(self.latest)?.records.packet()
    }

    /// Moves on to the next packet in time, waiting for one for so long.
    #[inline]
    pub fn next_packet(&mut self, patience: Duration) -> Next {
        // Nearly always there is one capture, and no other time to compare with its packets'. What is wrong with it is found again below.
        if self.goes_on
            && let [only] = &mut self.sources[..]
            && only.records.advance() == Ok(true)
        {
            return Next::Packet;
        }
        self.next_of_all(patience)
    }

    /// The same, whatever is open and whatever has ended.
    fn next_of_all(&mut self, patience: Duration) -> Next {
        self.goes_on = false;
        loop {
            self.open_due();
            let mut is_waiting = false;
            for source in &mut self.sources {
                if !source.fill(patience) {
                    is_waiting = true;
                }
            }
            if is_waiting {
                return Next::Nothing;
            }
            self.close_ended();
            let heads = (0..).zip(self.sources.iter_mut());
            let earliest = heads.min_by_key(|(_, source)| source.head().map(|packet| packet.at));
            match earliest {
                Some((index, source)) if source.has_head => {
                    source.has_head = false;
                    let is_first = !std::mem::replace(&mut source.has_given, true);
                    self.latest = index;
                    self.begins_anew = is_first && !self.sources.iter().any(Source::is_under_way);
                    self.goes_on = !is_first && self.sources.len() == 1 && self.later.is_empty();
                    return Next::Packet;
                }
                _ if self.later.is_empty() => return Next::End,
                _ => {}
            }
        }
    }

    /// Whether the latest packet is the first one of its capture, and no other capture goes on across its time: before it, perhaps nobody
    /// has looked.
    pub fn begins_anew(&self) -> bool {
        self.begins_anew
    }

    /// How far reading has come.
    pub fn progress(&self) -> Progress {
        self.progress.clone()
    }

    /// What was wrong with captures since the last call, in sentences.
    pub fn take_faults(&mut self) -> Vec<String> {
        std::mem::take(&mut self.faults)
    }

    /// Opens the files whose time has come.
    fn open_due(&mut self) {
        while let Some(later) = self.later.last() {
            let heads = self.sources.iter().filter_map(Source::head);
            let earliest = heads.map(|packet| packet.at).min();
            let is_due = match earliest {
                Some(earliest) => later.first.is_none_or(|first| first <= earliest),
                None => self.sources.iter().all(|source| source.has_ended),
            };
            if !is_due {
                return;
            }
            let Some(Later { path, .. }) = self.later.pop() else {
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
                faults.extend(source.fault.take());
            }
            !is_over
        });
    }
}

/// When a packet was captured, if the capture says so.
fn time(packet: &Packet<'_>) -> Option<Moment> {
    packet.is_timed.then_some(packet.at)
}

/// All bytes of the files; none where one of them grows or is a stream.
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

/// One capture.
struct Source {
    name: String,
    input: Input,
    records: Records,
    /// Whether the latest packet of the records has not been taken yet.
    has_head: bool,
    /// Whether a packet of it was taken.
    has_given: bool,
    has_ended: bool,
    /// Why it ended before it should have.
    fault: Option<String>,
}

impl Source {
    fn open(path: &Path, options: &Options, read: Arc<AtomicU64>) -> Result<Self, OpenError> {
        let name = match path.to_str() {
            Some(STANDARD_INPUT) => "standard input".to_owned(),
            _ => path.display().to_string(),
        };
        let failed = |source| OpenError::Read {
            name: name.clone(),
            source,
        };
        let mut is_plain = false;
        let from: Box<dyn Read + Send> = if path.as_os_str() == STANDARD_INPUT {
            Box::new(io::stdin())
        } else {
            let mut file = File::open(path).map_err(failed)?;
            let kind = file.metadata().map_err(failed)?.file_type();
            if kind.is_dir() {
                return Err(failed(io::ErrorKind::IsADirectory.into()));
            }
            is_plain =
                kind.is_file() && !options.follow && packing(&mut file).map_err(failed)? == Packing::None;
            match options.follow {
                true => Box::new(Growing {
                    file,
                    stop: Arc::clone(&options.stop),
                }),
                false => Box::new(file),
            }
        };
        let from = Counted { from, read };
        let input = match is_plain {
            true => Input::Here(from, Slabs::default()),
            false => Input::ahead(from).map_err(failed)?,
        };
        Ok(Self {
            name,
            input,
            records: Records::default(),
            has_head: false,
            has_given: false,
            has_ended: false,
            fault: None,
        })
    }

    /// Whether it has given packets and has more.
    fn is_under_way(&self) -> bool {
        self.has_given && self.has_head
    }

    /// The next packet, if it is there.
    fn head(&self) -> Option<Packet<'_>> {
        self.records.packet().filter(|_| self.has_head)
    }

    fn wait_for_first(&mut self, options: &Options) -> Result<(), OpenError> {
        while !self.fill_checked(Duration::from_millis(100))? {
            if options.stop.load(Ordering::Relaxed) {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Sees to it that there is a next packet; false if none has come yet.
    fn fill(&mut self, patience: Duration) -> bool {
        match self.fill_checked(patience) {
            Ok(is_filled) => is_filled,
            Err(error) => {
                self.has_ended = true;
                self.fault = Some(format!("{error}."));
                true
            }
        }
    }

    fn fill_checked(&mut self, patience: Duration) -> Result<bool, OpenError> {
        while !self.has_head && !self.has_ended {
            match self.records.advance() {
                Ok(true) => {
                    self.has_head = true;
                    break;
                }
                Ok(false) => {}
                Err(error @ FileError::Damaged(_)) if self.records.has_begun() => {
                    self.has_ended = true;
                    self.fault = Some(format!(
                        "{}: {error}; what comes after that is not in this report.",
                        self.name
                    ));
                    break;
                }
                Err(reason) => return Err(self.bad(reason)),
            }
            match self.input.next(patience) {
                Ok(Ok(bytes)) => self.records.feed(bytes),
                Ok(Err(source)) => self.end_by(source)?,
                Err(RecvTimeoutError::Timeout) => return Ok(false),
                Err(RecvTimeoutError::Disconnected) => self.end()?,
            }
        }
        Ok(true)
    }

    fn end_by(&mut self, source: io::Error) -> Result<(), OpenError> {
        if !self.records.has_begun() {
            let name = self.name.clone();
            return Err(OpenError::Read { name, source });
        }
        self.has_ended = true;
        self.fault = Some(format!(
            "{} cannot be read to its end ({source}): what comes after that is not in this report.",
            self.name
        ));
        Ok(())
    }

    fn end(&mut self) -> Result<(), OpenError> {
        self.has_ended = true;
        self.records.check_end().map_err(|reason| self.bad(reason))?;
        let left = self.records.left_over();
        if left > 0 {
            self.fault = Some(format!(
                "{} ends in the middle of a packet: its last {left} bytes are not in this report.",
                self.name
            ));
        }
        Ok(())
    }

    fn bad(&self, reason: FileError) -> OpenError {
        let name = self.name.clone();
        OpenError::File { name, reason }
    }
}

/// Where the bytes of a capture come from.
enum Input {
    /// A file.
    Here(Counted, Slabs),
    /// A thread that reads what has to be waited for, or unpacked.
    Ahead(Receiver<io::Result<Bytes>>),
}

impl Input {
    /// Bytes that a thread reads ahead.
    fn ahead(from: Counted) -> io::Result<Self> {
        let (give, bytes) = sync_channel(AHEAD);
        thread::Builder::new()
            .name("capture".to_owned())
            .spawn(move || read_all(from, &give))?;
        Ok(Self::Ahead(bytes))
    }

    /// The next bytes, waiting for them for so long: they are disconnected at the end.
    fn next(&mut self, patience: Duration) -> Result<io::Result<Bytes>, RecvTimeoutError> {
        match self {
            Self::Here(from, slabs) => match slabs.read(from) {
                Ok(end) if end.is_empty() => Err(RecvTimeoutError::Disconnected),
                read => Ok(read),
            },
            Self::Ahead(bytes) => bytes.recv_timeout(patience),
        }
    }
}

/// Chunks that a thread reads ahead.
const AHEAD: usize = 3;

/// Reads until the end, or until nobody wants more.
fn read_all(from: Counted, give: &SyncSender<io::Result<Bytes>>) {
    let mut from = match decompressed(from) {
        Ok(from) => from,
        Err(error) => {
            // Whoever is gone needs no answer.
            let _ = give.send(Err(error));
            return;
        }
    };
    let mut slabs = Slabs::default();
    loop {
        let read = slabs.read(&mut from);
        let is_last = read.is_err();
        if read.as_ref().is_ok_and(Bytes::is_empty) || give.send(read).is_err() || is_last {
            return;
        }
    }
}

/// How a file is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Packing {
    None,
    Gzip,
    Zstd,
}

impl Packing {
    /// By the first bytes.
    fn of(magic: [u8; 4]) -> Self {
        match magic {
            [0x1f, 0x8b, ..] => Self::Gzip,
            ZSTD => Self::Zstd,
            _ => Self::None,
        }
    }
}

/// That of a file, which is read from its beginning afterwards.
fn packing(file: &mut File) -> io::Result<Packing> {
    let (magic, _) = first_bytes(file)?;
    file.rewind()?;
    Ok(Packing::of(magic))
}

/// The first bytes, and how many there are.
fn first_bytes(from: &mut impl Read) -> io::Result<([u8; 4], usize)> {
    let mut magic = [0; 4];
    let mut length = 0;
    while let Some(rest) = magic.get_mut(length..).filter(|rest| !rest.is_empty()) {
        match from.read(rest) {
            Ok(0) => break,
            Ok(more) => length += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok((magic, length))
}

/// What a file holds.
fn decompressed(mut from: Counted) -> io::Result<Box<dyn Read>> {
    let (magic, length) = first_bytes(&mut from)?;
    let first = io::Cursor::new(magic).take(length as u64);
    let whole = first.chain(from);
    Ok(match Packing::of(magic) {
        Packing::Gzip => Box::new(MultiGzDecoder::new(whole)),
        Packing::Zstd => Box::new(ZstdFrames(Some(Box::new(whole)), None)),
        Packing::None => Box::new(whole),
    })
}

const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// A file of zstd: one frame after another.
struct ZstdFrames(Option<Box<dyn Read>>, Option<Box<Frame>>);

type Frame = StreamingDecoder<Box<dyn Read>, ruzstd::decoding::FrameDecoder>;

impl Read for ZstdFrames {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            if let Some(frame) = &mut self.1 {
                let length = frame.read(into)?;
                if length > 0 {
                    return Ok(length);
                }
                self.0 = self.1.take().map(|frame| frame.into_inner());
            }
            let Some(mut rest) = self.0.take() else {
                return Ok(0);
            };
            let mut first = [0];
            if rest.read(&mut first)? == 0 {
                return Ok(0);
            }
            let rest: Box<dyn Read> = Box::new(io::Cursor::new(first).chain(rest));
            let frame = StreamingDecoder::new(rest).map_err(io::Error::other)?;
            self.1 = Some(Box::new(frame));
        }
    }
}

/// Counts bytes as they are stored.
struct Counted {
    from: Box<dyn Read + Send>,
    read: Arc<AtomicU64>,
}

impl Read for Counted {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let length = self.from.read(into)?;
        self.read.fetch_add(length as u64, Ordering::Relaxed);
        Ok(length)
    }
}

/// A file that somebody else writes: its end comes when somebody says so.
struct Growing {
    file: File,
    stop: Arc<AtomicBool>,
}

impl Read for Growing {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            let length = self.file.read(into)?;
            if length > 0 || self.stop.load(Ordering::Relaxed) {
                return Ok(length);
            }
            thread::sleep(LOOK_AGAIN);
        }
    }
}

const LOOK_AGAIN: Duration = Duration::from_millis(100);
