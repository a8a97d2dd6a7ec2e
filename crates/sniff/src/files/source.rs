//! One capture: a file, a growing file, or standard input.
//!
//! A thread reads ahead what must be decompressed or waited for. Other files are read on the thread that
//! parses their packets, while the bytes are in the processor's cache.

use std::{
    fs::File,
    io::{self, Read},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel},
    },
    thread,
    time::Duration,
};

use bytes::Bytes;

use super::{
    FileError, OpenError, Options, Packet, Records,
    compression::{Compression, compression_of, decompressed},
    slabs::Slabs,
};

/// The name of standard input.
const STANDARD_INPUT: &str = "-";

/// One capture.
pub(super) struct Source {
    name: String,
    input: Input,
    pub(super) records: Records,
    /// Whether the current packet has not been taken yet.
    pub(super) has_head: bool,
    /// Whether any packet has been taken.
    pub(super) has_given: bool,
    pub(super) has_ended: bool,
    /// Why it ended early.
    fault: Option<String>,
    /// Why it is not a capture.
    error: Option<OpenError>,
}

impl Source {
    pub(super) fn open(path: &Path, options: &Options, read: Arc<AtomicU64>) -> Result<Self, OpenError> {
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
            is_plain = kind.is_file()
                && !options.follow
                && compression_of(&mut file).map_err(failed)? == Compression::None;
            match options.follow {
                true => Box::new(FollowedFile {
                    file,
                    stop: Arc::clone(&options.stop),
                }),
                false => Box::new(file),
            }
        };
        let from = CountingReader { from, read };
        let input = match is_plain {
            true => Input::Direct(from, Slabs::default()),
            false => Input::ahead(from).map_err(failed)?,
        };
        Ok(Self::new(name, input, options))
    }

    /// A stream that a thread reads ahead.
    #[cfg(target_os = "linux")]
    pub(super) fn of_stream(
        from: Box<dyn Read + Send>,
        name: String,
        options: &Options,
        read: Arc<AtomicU64>,
    ) -> Result<Self, OpenError> {
        match Input::ahead(CountingReader { from, read }) {
            Ok(input) => Ok(Self::new(name, input, options)),
            Err(source) => Err(OpenError::Read { name, source }),
        }
    }

    fn new(name: String, input: Input, options: &Options) -> Self {
        Self {
            name,
            input,
            records: Records::with_keys(options.keys.clone()),
            has_head: false,
            has_given: false,
            has_ended: false,
            fault: None,
            error: None,
        }
    }

    /// Whether packets have been taken and there is another one.
    pub(super) fn is_under_way(&self) -> bool {
        self.has_given && self.has_head
    }

    /// The next packet, if it is there.
    pub(super) fn head(&self) -> Option<Packet<'_>> {
        self.records.packet().filter(|_| self.has_head)
    }

    pub(super) fn wait_for_first(&mut self, options: &Options) -> Result<(), OpenError> {
        while !self.fill(Duration::from_millis(100)) && !options.stop.load(Ordering::Relaxed) {}
        self.error.take().map_or(Ok(()), Err)
    }

    /// Reads until there is a packet or the end. False if none has come within `patience`.
    #[inline]
    pub(super) fn fill(&mut self, patience: Duration) -> bool {
        while !self.has_head && !self.has_ended {
            match self.records.advance() {
                Ok(true) => self.has_head = true,
                Ok(false) => {
                    if !self.read(patience) {
                        return false;
                    }
                }
                Err(reason) => self.fail(reason),
            }
        }
        true
    }

    /// Reads more bytes. False if none have come within `patience`.
    fn read(&mut self, patience: Duration) -> bool {
        match self.input.next(patience) {
            Ok(Ok(bytes)) => self.records.feed(bytes),
            Ok(Err(source)) => self.end_by(source),
            Err(RecvTimeoutError::Timeout) => return false,
            Err(RecvTimeoutError::Disconnected) => self.end(),
        }
        true
    }

    /// Ends the capture where it is damaged.
    #[cold]
    fn fail(&mut self, reason: FileError) {
        self.has_ended = true;
        if self.records.has_begun() && matches!(reason, FileError::Damaged(_)) {
            self.fault = Some(format!(
                "{}: {reason}; the rest of the file is not in this report.",
                self.name
            ));
        } else {
            self.error = Some(self.bad(reason));
        }
    }

    fn end_by(&mut self, source: io::Error) {
        self.has_ended = true;
        if self.records.has_begun() {
            self.fault = Some(format!(
                "{} cannot be read to its end ({source}): the rest is not in this report.",
                self.name
            ));
        } else {
            let name = self.name.clone();
            self.error = Some(OpenError::Read { name, source });
        }
    }

    fn end(&mut self) {
        self.has_ended = true;
        let left = self.records.left_over();
        if let Err(reason) = self.records.check_end() {
            self.error = Some(self.bad(reason));
        } else if left > 0 {
            self.fault = Some(format!(
                "{} ends in the middle of a packet: its last {left} bytes are not in this report.",
                self.name
            ));
        }
    }

    /// Why it ended early, and what of it is not in order, as sentences.
    pub(super) fn take_faults(&mut self) -> impl Iterator<Item = String> {
        let error = self.error.take().map(|error| format!("{error}."));
        let is_out_of_order = self.records.is_out_of_order();
        let disorder = is_out_of_order.then(|| {
            format!(
                "{} has captures behind each other that are not in the order of time, so that connections in more than one of \
                 them lack requests: name the files instead, which are put in order.",
                self.name
            )
        });
        self.fault.take().or(error).into_iter().chain(disorder)
    }

    fn bad(&self, reason: FileError) -> OpenError {
        let name = self.name.clone();
        OpenError::File { name, reason }
    }
}

/// Where the bytes of a capture come from.
enum Input {
    /// A file.
    Direct(CountingReader, Slabs),
    /// A thread that reads ahead: for streams, growing and compressed files.
    ReadAhead(Receiver<io::Result<Bytes>>),
}

impl Input {
    /// Starts a thread that reads ahead.
    fn ahead(from: CountingReader) -> io::Result<Self> {
        let (give, bytes) = sync_channel(AHEAD);
        thread::Builder::new()
            .name("capture".to_owned())
            .spawn(move || read_all(from, &give))?;
        Ok(Self::ReadAhead(bytes))
    }

    /// The next bytes; `Disconnected` at the end.
    fn next(&mut self, patience: Duration) -> Result<io::Result<Bytes>, RecvTimeoutError> {
        match self {
            Self::Direct(from, slabs) => match slabs.read(from) {
                Ok(end) if end.is_empty() => Err(RecvTimeoutError::Disconnected),
                read => Ok(read),
            },
            Self::ReadAhead(bytes) => bytes.recv_timeout(patience),
        }
    }
}

/// Chunks that a thread reads ahead.
const AHEAD: usize = 3;

/// Reads until the end, or until the receiver is dropped.
fn read_all(from: CountingReader, give: &SyncSender<io::Result<Bytes>>) {
    let mut from = match decompressed(from) {
        Ok(from) => from,
        Err(error) => {
            // The receiver may be gone.
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

/// Counts the bytes that are read, before decompression.
struct CountingReader {
    from: Box<dyn Read + Send>,
    read: Arc<AtomicU64>,
}

impl Read for CountingReader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let length = self.from.read(into)?;
        self.read.fetch_add(length as u64, Ordering::Relaxed);
        Ok(length)
    }
}

/// A file that another process writes: it ends when `stop` is set.
struct FollowedFile {
    file: File,
    stop: Arc<AtomicBool>,
}

impl Read for FollowedFile {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            let length = self.file.read(into)?;
            if length > 0 || self.stop.load(Ordering::Relaxed) {
                return Ok(length);
            }
            thread::sleep(POLL_INTERVAL);
        }
    }
}

const POLL_INTERVAL: Duration = Duration::from_millis(100);
