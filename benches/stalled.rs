//! Does the data path notice when the audit stands still? Requests a second through a proxy whose auditors
//! run, and through one whose auditors have stopped dead and whose lines are full.
//!
//! Real sockets, in one process: a client, a proxy, and a node that answers everything at once. The two
//! proxies take turns for half a second each; medians, and their ratio. Nothing is asserted: machines are
//! noisy.
#![allow(clippy::print_stdout, reason = "the table is what this prints")]

use std::{
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use cqlens_audit::{
    audit::{Audit, HashKey},
    catalog::Live,
};
use cqlens_capture::{Clock, Queue, QueueLimits};
use cqlens_proxy::{Backlog, Drain, Proxy, Route, Workers};
use jiff::Timestamp;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    runtime::Runtime,
    task::JoinSet,
};

const CONNECTIONS: usize = 16;
/// Requests of each connection that are in flight.
const DEPTH: usize = 32;
const TURN: Duration = Duration::from_millis(500);
const TURNS: usize = 15;

/// An EXECUTE of version 4 with one bound value, on stream 1.
const REQUEST: &[u8] = b"\x04\x00\x00\x01\x0a\x00\x00\x00\x23\
    \x00\x10\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\
    \x00\x06\x01\x00\x01\x00\x00\x00\x08\x00\x00\x00\x00\x00\x00\x00\x2a";
/// A RESULT of kind Void.
const ANSWER: &[u8] = b"\x84\x00\x00\x01\x08\x00\x00\x00\x04\x00\x00\x00\x01";

fn main() -> std::io::Result<()> {
    let runtime = Runtime::new()?;
    let rates = runtime.block_on(measure())?;
    println!("| auditors | requests a second, median of {TURNS} | lowest | highest |");
    println!("| --- | --- | --- | --- |");
    let mut medians = Vec::new();
    for (name, mut rates) in ["run", "stand still, lines full"].into_iter().zip(rates) {
        rates.sort_by(f64::total_cmp);
        let at = |index: usize| rates.get(index).copied().unwrap_or_default();
        println!(
            "| {name} | {:.0} | {:.0} | {:.0} |",
            at(TURNS / 2),
            at(0),
            at(TURNS - 1)
        );
        medians.push(at(TURNS / 2));
    }
    if let [running, stalled] = medians[..] {
        println!("\nstanding still / running: {:.3}", stalled / running);
    }
    Ok(())
}

async fn measure() -> std::io::Result<[Vec<f64>; 2]> {
    let node = node().await?;
    let running = Arc::new(Queue::new(QueueLimits::default()));
    let live = Arc::new(Live::default());
    let now = Timestamp::now();
    // Its auditor runs until the process ends.
    let _audit = Audit::start(Arc::clone(&running), &live, HashKey::random(), "bench", now)?;
    // Nobody takes anything out of this one.
    let stalled = Arc::new(Queue::new(QueueLimits::default()));
    let proxies = [
        proxy(node, running).await?,
        proxy(node, Arc::clone(&stalled)).await?,
    ];
    fill(&stalled, proxies[1]).await?;
    let mut rates = [Vec::new(), Vec::new()];
    for _ in 0..TURNS {
        for (rates, &proxy) in rates.iter_mut().zip(&proxies) {
            rates.push(rate(proxy).await?);
        }
    }
    Ok(rates)
}

/// Sends until nothing more finds room.
async fn fill(queue: &Queue, proxy: SocketAddr) -> std::io::Result<()> {
    while queue.take_dropped().chunks == 0 {
        rate(proxy).await?;
    }
    Ok(())
}

async fn node() -> std::io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            tokio::spawn(answer(client));
        }
    });
    Ok(address)
}

async fn answer(mut client: TcpStream) -> std::io::Result<()> {
    client.set_nodelay(true)?;
    let mut buffer = vec![0; REQUEST.len() * DEPTH];
    let answers = ANSWER.repeat(DEPTH);
    let mut left = 0;
    loop {
        let length = client.read(&mut buffer).await?;
        if length == 0 {
            return Ok(());
        }
        let whole = (left + length) / REQUEST.len();
        left = (left + length) % REQUEST.len();
        client
            .write_all(answers.get(..whole * ANSWER.len()).unwrap_or(&answers))
            .await?;
    }
}

async fn proxy(upstream: SocketAddr, queue: Arc<Queue>) -> std::io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let route = Route {
        upstream: upstream.to_string(),
        connect_timeout: Duration::from_secs(5),
        client_tls: None,
        upstream_tls: None,
        topology: None,
        drain: None,
    };
    let workers = Workers::start(1)?;
    let (begin_drain, drain) = Drain::new();
    tokio::spawn(async move {
        // Without it the drain would begin.
        let _begin_drain = begin_drain;
        Proxy::new(route, queue, Clock::start())
            .serve(listener, Backlog::Leave, drain, workers)
            .await
    });
    Ok(address)
}

/// Requests a second over one turn.
async fn rate(proxy: SocketAddr) -> std::io::Result<f64> {
    let begun = Instant::now();
    let mut clients = JoinSet::new();
    for _ in 0..CONNECTIONS {
        clients.spawn(load(proxy, begun + TURN));
    }
    let mut answered = 0;
    while let Some(client) = clients.join_next().await {
        answered += client.map_err(std::io::Error::other)??;
    }
    Ok(f64::from(answered) / begun.elapsed().as_secs_f64())
}

/// Sends as many requests as there are answers, until then.
async fn load(proxy: SocketAddr, until: Instant) -> std::io::Result<u32> {
    let mut client = TcpStream::connect(proxy).await?;
    client.set_nodelay(true)?;
    let requests = REQUEST.repeat(DEPTH);
    let mut answers = vec![0; ANSWER.len() * DEPTH];
    let mut answered = 0;
    while Instant::now() < until {
        client.write_all(&requests).await?;
        client.read_exact(&mut answers).await?;
        answered += u32::try_from(DEPTH).unwrap_or(u32::MAX);
    }
    Ok(answered)
}
