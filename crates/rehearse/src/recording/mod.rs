//! Recordings: a folder of compressed files of JSON lines, each readable by itself.
//!
//! A file begins with a [`Header`]. A statement's text stands in a line of its own before the first exchange that
//! has it, and so do the columns of rows; then one line for each exchange. The last line counts what the file
//! has, and what was left out since the file before: a file without it was cut off, or is still being written,
//! and is read up to its last whole line.
//!
//! `format` is what lines look like, `folder` which files there are and for how long, `bare` takes values out.

mod bare;
mod folder;
mod format;
mod hidden;
mod kept;
mod reader;
mod recorder;
mod value_line;
mod writer;

pub use folder::{ENDING, Limits, SNAPSHOTS, is_recording, make as make_folder};
pub use format::{End, FORMAT, Header, RecordedValues};
pub use kept::ReadingLimits;
pub use reader::{Fault, RecordingError, RecordingReader, Statement};
pub use recorder::{Recorder, RecorderCounts};
pub use writer::{RecordingWriter, Settings};
