//! `cqlens replay`: sends a recording to another cluster.

mod args;
mod progress;

use std::{collections::BTreeMap, process::ExitCode, sync::Arc, thread, time::Duration};

use anyhow::{Context, bail, ensure};
use jiff::Timestamp;
use tokio::{
    sync::{mpsc, oneshot},
    time::timeout,
};

pub(super) use args::{Args, OutputFormat};
use cqlens_capture::memory::Part;
use cqlens_client::Client;
use cqlens_rehearse::{
    compare::{Comparison, ComparisonAbout, report},
    digest::{DigestKey, ResponseDigest},
    exchange::RecordedExchange,
    recording::RecordingReader,
    rehearsal::{First, Rehearsal},
    rename::Renames,
    replay::{ReplayProgress, ReplaySettings, replay},
    target::{Target, TargetSettings},
};
use cqlens_report::{ReplayEnd, ReplayPace};
use progress::ProgressLine;

use super::{
    format,
    report::write_to,
    signals::{self, EndPatience, SignalRequest},
};

/// Replays the recording to its end, or until SIGINT or SIGTERM.
///
/// # Errors
/// A recording that cannot be read or has no values, clusters that cannot be reached, an output that cannot be
/// written.
pub(super) fn run(mut args: Args) -> anyhow::Result<ExitCode> {
    args.login.read_password()?;
    args.check()?;
    let format = format::chosen(args.format, args.output.as_deref(), OutputFormat::Text)?;
    let recording = RecordingReader::open(&args.recording)
        .with_context(|| format!("cannot read the recording {}", args.recording.display()))?;
    ensure!(
        recording.has_values(),
        "the recording {} has hashes in place of values: it can be reported, but not replayed",
        args.recording.display()
    );
    for fault in recording.faults() {
        tracing::warn!(%fault, "part of the recording is left out");
    }
    let comparison = replayed(&args, recording)?;
    write_to(args.output.as_deref(), |to| {
        comparison.render(format.rendered(), to)
    })?;
    let too_many_errors = comparison
        .about
        .pace
        .as_ref()
        .is_some_and(|pace| pace.end == ReplayEnd::TooManyErrors);
    if too_many_errors {
        tracing::error!("stopped: more of the last requests failed than --stop-at-error-rate allows");
    }
    let fails = too_many_errors || (args.fail_on_difference && comparison.differs());
    Ok(if fails {
        ExitCode::from(1)
    } else {
        ExitCode::SUCCESS
    })
}

/// The first signal ends the replay, and the comparison is of what was sent until then.
const PATIENCE: EndPatience = EndPatience {
    first: Duration::from_secs(60),
    again: Duration::ZERO,
};

fn replayed(args: &Args, recording: RecordingReader) -> anyhow::Result<Comparison> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("no runtime")?;
    let progress = Arc::new(ReplayProgress::default());
    let told = Arc::clone(&progress);
    let end = signals::listen(PATIENCE, move |asked| {
        if let SignalRequest::Stop(_) = asked {
            told.end();
        }
    })?;
    let started = Timestamp::now();
    let line = ProgressLine::begin(&progress, recording.bytes(), recording.bytes_read());
    let sent = runtime.block_on(send(args, recording, &progress));
    line.end();
    end.done();
    let (rehearsal, pace, losses) = sent?;
    let about = ComparisonAbout {
        first: match &*args.against {
            [] => args.recording.display().to_string(),
            nodes => nodes.join(", "),
        },
        other: args.to.join(", "),
        started,
        ended: Timestamp::now(),
        connections: rehearsal.other().counts(),
        pace: Some(pace),
        not_offered: losses,
    };
    Ok(report(rehearsal.tally(), about))
}

async fn send(
    args: &Args,
    recording: RecordingReader,
    progress: &ReplayProgress,
) -> anyhow::Result<(Rehearsal, ReplayPace, BTreeMap<String, u64>)> {
    // Without a key in the recording nothing of it can be compared, and any will do.
    let key = recording.headers().iter().find_map(|header| header.digest_key());
    let key = key.unwrap_or(DigestKey(0));
    let rehearsal = args.rehearsal();
    let other = target(args, &args.to, key, &rehearsal.memory).await?;
    let first = match &*args.against {
        [] => First::Recorded,
        nodes => First::Beside(target(args, nodes, key, &rehearsal.memory).await?),
    };
    let mut rehearsal = Rehearsal::new(rehearsal, first, other);
    let settings = ReplaySettings {
        speed: args.speed,
        most_in_flight: args.max_in_flight.max(1).into(),
        stop_at_error_rate: args.stop_at_error_rate.map(|percent| percent / 100.0),
        patience: args.patience(),
    };
    let (sender, exchanges) = mpsc::channel(PIECES_AHEAD);
    let renames = args.renames();
    let (sender_of_losses, losses) = oneshot::channel();
    thread::Builder::new()
        .name("recording".to_owned())
        .spawn(move || {
            // Not received if the replay has ended before.
            let _ = sender_of_losses.send(read(recording, key, renames, &sender));
        })
        .context("no thread")?;
    let pace = replay(exchanges, &mut rehearsal, settings, progress).await;
    // Where it was ended before the recording, its reader still is.
    let losses = timeout(READER, losses).await;
    let losses = losses.ok().and_then(Result::ok).unwrap_or_default();
    Ok((rehearsal, pace, losses))
}

/// Connects once before anything is sent: a wrong address is a mistake, not a difference.
async fn target(args: &Args, addresses: &[String], key: DigestKey, memory: &Part) -> anyhow::Result<Target> {
    let nodes = args.nodes(addresses)?;
    let mut why = None;
    for (address, options) in &nodes {
        match Client::negotiate_up_to(args.highest_version(), &**address, options).await {
            Ok(_client) => {
                return Ok(Target::open(TargetSettings {
                    highest_version: args.highest_version(),
                    connect_to: args.connect_to(),
                    connections_per_node: args.connections.into(),
                    most_waiting: usize::from(args.max_in_flight) + SPARE,
                    memory: memory.clone(),
                    ..TargetSettings::new(nodes, key)
                }));
            }
            Err(error) => why = Some(error),
        }
    }
    match why {
        Some(error) => Err(error).with_context(|| format!("cannot reach {}", addresses.join(", "))),
        None => bail!("no nodes are given"),
    }
}

/// Requests that are sent again or ask for more pages wait beside those of the replay.
const SPARE: usize = 4_096;
/// Exchanges that are handed over at a time.
const PIECE: usize = 256;
/// One may have as much more as a line of a recording may be long.
const PIECE_BYTES: usize = 256 << 10;
const PIECES_AHEAD: usize = 8;

/// How long the reader of a recording may take to notice that the replay has ended.
const READER: Duration = Duration::from_secs(1);

/// Reads the recording until its receiver is gone; what the recording lacks.
fn read(
    mut recording: RecordingReader,
    key: DigestKey,
    mut renames: Renames,
    to: &mpsc::Sender<Vec<RecordedExchange>>,
) -> BTreeMap<String, u64> {
    let known = recording.faults().len();
    let (mut piece, mut bytes) = (Vec::with_capacity(PIECE), 0);
    while let Some((mut exchange, its_key)) = recording.next_keyed() {
        renames.apply(&mut exchange.request);
        if its_key != Some(key) {
            // Digests of two keys cannot be compared.
            exchange.response = ResponseDigest::Missing;
        }
        bytes += exchange.weight();
        piece.push(exchange);
        let is_full = piece.len() == PIECE || bytes > PIECE_BYTES;
        if is_full {
            bytes = 0;
        }
        if is_full && to.blocking_send(std::mem::take(&mut piece)).is_err() {
            return recording.losses();
        }
    }
    let _ = to.blocking_send(piece);
    for fault in recording.faults().iter().skip(known) {
        tracing::warn!(%fault, "part of the recording is left out");
    }
    recording.losses()
}
