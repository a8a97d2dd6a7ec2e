//! The limits of what a reader keeps, and how much it keeps.

use std::{
    mem,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

/// What is kept of a recording while it is read, whatever its files expand to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadingLimits {
    /// Bytes of a line. One that is longer is none of ours: the audit keeps no request as long.
    pub line: u64,
    /// Bytes of the texts and columns that exchanges refer to, of the next exchange of each run, and of the first and
    /// last lines of files; also of the distinct texts of [`RecordingReader::statements`](super::RecordingReader::statements).
    pub texts: usize,
}

impl Default for ReadingLimits {
    fn default() -> Self {
        Self {
            line: 32 << 20,
            texts: 96 << 20,
        }
    }
}

/// As many as a writer numbers, and more.
pub(super) const MOST_NUMBERED: usize = 1 << 17;

/// Bytes of a file's first line, and of its last: names and counts.
pub(super) const MOST_SHORT: usize = 64 << 10;

/// How much the files that are being read keep together.
pub(super) struct Kept {
    pub(super) bytes: AtomicUsize,
    pub(super) limits: ReadingLimits,
}

impl Kept {
    pub(super) fn new(limits: ReadingLimits) -> Self {
        Self {
            bytes: AtomicUsize::new(0),
            limits,
        }
    }

    /// Counts so many bytes more, if there is room for them.
    pub(super) fn take(&self, bytes: usize) -> bool {
        let before = self.bytes.fetch_add(bytes, Ordering::Relaxed);
        let has_room = before + bytes <= self.limits.texts;
        if !has_room {
            self.give_back(bytes);
        }
        has_room
    }

    pub(super) fn give_back(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// What exchanges refer to by number.
pub(super) struct Numbered<T> {
    pub(super) all: Vec<T>,
    /// Of all of them.
    bytes: usize,
    kept: Arc<Kept>,
}

impl<T> Numbered<T> {
    pub(super) fn new(kept: &Arc<Kept>) -> Self {
        Self {
            all: Vec::new(),
            bytes: 0,
            kept: Arc::clone(kept),
        }
    }

    /// Numbers count up, or begin anew.
    pub(super) fn put(&mut self, id: u32, one: T, bytes: usize) -> Result<(), String> {
        let id = id as usize;
        if id == 0 {
            self.clear();
        }
        if id != self.all.len() || id >= MOST_NUMBERED {
            return Err(format!("number {id} is out of order"));
        }
        if !self.kept.take(bytes) {
            return Err("the texts of its statements, or their columns, are too long together".to_owned());
        }
        self.bytes += bytes;
        self.all.push(one);
        Ok(())
    }

    fn clear(&mut self) {
        self.all.clear();
        self.kept.give_back(mem::take(&mut self.bytes));
    }
}

impl<T> Drop for Numbered<T> {
    fn drop(&mut self) {
        self.clear();
    }
}
