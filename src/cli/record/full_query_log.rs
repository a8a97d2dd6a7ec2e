//! Recordings out of Cassandra's full query log.

use std::{
    fs::File,
    io::{self, BufRead, BufReader},
    path::{Path, PathBuf},
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use anyhow::{Context, ensure};
use cqlens_rehearse::{
    budget::separate,
    digest::DigestKey,
    full_query_log::{Content, FromLog, FullQueryLog, unpacked},
    left_out::{LeftOut, LeftOutCounts},
};

use super::Args;
use crate::cli::{
    log,
    recording::{self, Recording},
    signals::{self, EndPatience, SignalRequest},
};

/// The name of standard input.
const STANDARD_INPUT: &str = "-";

/// Whether these are dumps of a full query log, not captures. That of a node without requests is empty.
///
/// # Errors
/// Some of them are, and others are not.
pub(super) fn are_dumps(paths: &[PathBuf]) -> anyhow::Result<bool> {
    let contents: Vec<_> = paths.iter().map(|path| (path, content(path))).collect();
    let first = |sought| contents.iter().find(|(_, content)| *content == sought);
    let Some((dump, _)) = first(Content::Dump) else {
        return Ok(false);
    };
    ensure!(
        first(Content::Other).is_none(),
        "{} is the dump of a full query log: record it apart from captures",
        dump.display()
    );
    for (path, _) in contents.iter().filter(|(_, content)| *content == Content::Empty) {
        tracing::warn!("{} is empty: it adds no request", path.display());
    }
    Ok(true)
}

/// What a file is. Of standard input so much is looked at as comes first, and is read again later. What cannot be read is named
/// where it is opened; another pipe has only one beginning.
fn content(path: &Path) -> Content {
    if path.as_os_str() == STANDARD_INPUT {
        let mut input = io::stdin().lock();
        return input.fill_buf().map_or(Content::Other, Content::of_beginning);
    }
    match path.is_file() {
        true => Content::of_file(path).unwrap_or(Content::Other),
        false => Content::Other,
    }
}

/// The first signal ends reading; what was read until then is in the recording.
const PATIENCE: EndPatience = EndPatience {
    first: Duration::from_secs(15),
    again: Duration::ZERO,
};

/// Records the dumps, one after the other.
///
/// # Errors
/// A dump that cannot be read, a recording that cannot be written.
pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    recording::make_folder(&args.output)?;
    let (key, left_out) = (DigestKey::random(), Arc::<LeftOutCounts>::default());
    let source = args.captures.source();
    let recording = Recording::begin(
        &args.output,
        &args.record,
        &source,
        key,
        &left_out,
        &separate(),
        true,
    )?;
    let is_to_end = Arc::new(AtomicBool::new(false));
    let ended_by_signal = Arc::clone(&is_to_end);
    let end = signals::listen(PATIENCE, move |asked| {
        if let SignalRequest::Stop(_) = asked {
            ended_by_signal.store(true, Ordering::Relaxed);
        }
    })?;
    let mut from_log = FromLog::new(args.keyspace.as_deref());
    let mut dumps = args.captures.captures.iter();
    let read = dumps.try_for_each(|path| read(path, &mut from_log, &recording, &left_out, &is_to_end));
    let recorded = recording.end(PATIENCE.first);
    end.done();
    read?;
    log::said(&recorded);
    Ok(ExitCode::SUCCESS)
}

fn read(
    path: &Path,
    from_log: &mut FromLog,
    recording: &Recording,
    left_out: &LeftOutCounts,
    is_to_end: &AtomicBool,
) -> anyhow::Result<()> {
    let context = || format!("cannot read the full query log {}", path.display());
    let packed: Box<dyn BufRead> = match path.as_os_str() == STANDARD_INPUT {
        true => Box::new(io::stdin().lock()),
        false => {
            let file = File::open(path).with_context(context)?;
            Box::new(BufReader::with_capacity(READ_LEN, file))
        }
    };
    let mut log = FullQueryLog::new(unpacked(packed).with_context(context)?);
    let taker = recording.taker();
    while !is_to_end.load(Ordering::Relaxed)
        && let Some(entry) = log.next_entry().with_context(context)?
    {
        match from_log.convert(&entry) {
            Ok(exchange) => taker.take(&Arc::new(exchange)),
            Err(why) => left_out.add(why, 1),
        }
    }
    left_out.add(LeftOut::Unread, log.damaged());
    Ok(())
}

const READ_LEN: usize = 1 << 20;
