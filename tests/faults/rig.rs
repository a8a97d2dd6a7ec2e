//! A proxy and its audit inside this process, for what can only be caused from inside: an auditor that stops
//! or fails.

use std::{
    io,
    net::SocketAddr,
    sync::{Arc, Mutex, Once},
    time::Duration,
};

use cqlens_audit::{
    audit::{Audit, HashKey, Options, Watch},
    catalog::Live,
};
use cqlens_capture::{Clock, Queue, QueueLimits};
use cqlens_proxy::{Backlog, Drain, DrainSwitch, Drained, Proxy, Route, Workers};
use cqlens_window::Window;
use jiff::Timestamp;
use tokio::{net::TcpListener, task::JoinHandle};

/// A running proxy with one auditor and no control connection.
pub(crate) struct Rig {
    pub(crate) address: SocketAddr,
    audit: Audit,
    begin_drain: DrainSwitch,
    serving: JoinHandle<Drained>,
}

impl Rig {
    pub(crate) async fn start(upstream: SocketAddr, limits: QueueLimits, watch: Watch) -> Self {
        keep_log();
        let queue = Arc::new(Queue::new(limits));
        let (live, key) = (Arc::new(Live::default()), HashKey::random());
        let now = Timestamp::now();
        let options = Options {
            watch,
            ..Options::default()
        };
        let audit = Audit::start_with(Arc::clone(&queue), &live, key, "test", now, &options).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (begin_drain, drain) = Drain::new();
        let route = Route {
            upstream: upstream.to_string(),
            connect_timeout: Duration::from_secs(5),
            client_tls: None,
            upstream_tls: None,
            topology: None,
            drain: None,
        };
        let serving = tokio::spawn(Proxy::new(route, queue, Clock::start()).serve(
            listener,
            Backlog::Serve,
            drain,
            Workers::start(1).unwrap(),
        ));
        Self {
            address,
            audit,
            begin_drain,
            serving,
        }
    }

    /// Stops when every connection has ended; all that was counted.
    pub(crate) async fn stop(self) -> Window {
        self.begin_drain.begin(Duration::from_secs(5));
        assert_eq!(self.serving.await.unwrap(), Drained::AllEnded);
        self.audit.stop(Timestamp::now())
    }
}

static LOG: Mutex<Vec<u8>> = Mutex::new(Vec::new());

/// What all rigs of this process have logged.
pub(crate) fn log() -> String {
    String::from_utf8(LOG.lock().unwrap().clone()).unwrap()
}

fn keep_log() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        tracing_subscriber::fmt()
            .with_max_level(tracing::Level::DEBUG)
            .with_ansi(false)
            .with_writer(|| Log)
            .init();
    });
}

struct Log;

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        LOG.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
