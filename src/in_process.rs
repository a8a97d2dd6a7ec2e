//! A proxy with its audit inside another program: for an application's own integration tests, and for the
//! demo.
//!
//! It runs as long as the traffic that it is given, on a free port of the loopback interface. It knows no
//! TLS, no snapshots and no settings; `cqlens proxy` does.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::{Duration, Instant},
};

use cqlens_audit::{
    audit::{self, Audit, HashKey, SourceLimit},
    catalog::Live,
};
use cqlens_capture::{Clock, Queue, QueueLimits};
use cqlens_client::ClientOptions;
use cqlens_cql::schema::Schema;
use cqlens_report::Report;
use cqlens_rules::{Context, Judgement, Settings};
use cqlens_window::Window;
use jiff::Timestamp;
use tokio::{net::TcpListener, time::sleep};

use crate::control;
use cqlens_proxy::{Backlog, Drain, Proxy, Route, Workers};

/// What the audit saw of some traffic.
#[derive(Debug)]
pub struct Audited {
    /// Everything that was counted.
    pub window: Window,
    /// The cluster that answered.
    pub cluster: cqlens_window::Cluster,
    /// Its schema at the end.
    pub schema: Schema,
}

impl Audited {
    /// What the rules find.
    pub fn judgement(&self, settings: &Settings) -> Judgement {
        let context = Context::new(&self.window, &self.schema, &self.cluster);
        cqlens_rules::check(&context, settings)
    }

    /// The report of it, with the default thresholds of all rules.
    pub fn report(&self) -> Report {
        let judgement = self.judgement(&Settings::default());
        Report::new(
            &self.window,
            &self.cluster,
            &self.schema,
            judgement,
            Timestamp::now(),
        )
    }
}

/// Runs `traffic` with the address of a proxy in front of the node at `upstream`, and returns what it gave
/// and what the audit saw of it. `source` names the proxy in the window.
///
/// # Errors
/// Ports or threads that cannot be had; a node whose schema is not read within five seconds.
pub async fn audit<T>(
    upstream: SocketAddr,
    source: &str,
    traffic: impl AsyncFnOnce(SocketAddr) -> T,
) -> io::Result<(T, Audited)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    let live = Arc::new(Live::default());
    let queue = Arc::new(Queue::new(QueueLimits::default()));
    let options = audit::Options {
        sources: SourceLimit::ALL,
        ..audit::Options::default()
    };
    let (key, now) = (HashKey::random(), Timestamp::now());
    let audit = Audit::start_with(Arc::clone(&queue), &live, key, source, now, &options)?;
    let following = control::follow(Arc::clone(&live), upstream.to_string(), ClientOptions::default());
    let following = tokio::spawn(following);
    let (begin_drain, drain) = Drain::new();
    let proxy = Proxy::new(route(upstream), queue, Clock::start());
    let serving = tokio::spawn(proxy.serve(listener, Backlog::Serve, drain, Workers::start(1)?));
    wait_for_schema(&live).await?;

    let given = traffic(address).await;

    begin_drain.begin(GRACE);
    serving.await.map_err(io::Error::other)?;
    let window = audit.stop(Timestamp::now());
    following.abort();
    let found = live.cluster();
    let cluster = cqlens_window::Cluster {
        name: found.name.clone(),
        release_version: found.release_version.clone(),
        product: found.product,
        product_version: found.product_version.clone(),
        partitioner: found.partitioner.clone(),
        nodes: Some(found.nodes.len()),
        data_centers: found.data_centers(),
        ..cqlens_window::Cluster::default()
    };
    let schema = live.schema().as_ref().clone();
    Ok((
        given,
        Audited {
            window,
            cluster,
            schema,
        },
    ))
}

/// For connections to end, and for the node to tell its schema.
const GRACE: Duration = Duration::from_secs(5);

fn route(upstream: SocketAddr) -> Route {
    Route {
        upstream: upstream.to_string(),
        connect_timeout: GRACE,
        client_tls: None,
        upstream_tls: None,
        topology: None,
        drain: None,
    }
}

async fn wait_for_schema(live: &Live) -> io::Result<()> {
    let began = Instant::now();
    while !live.is_known() {
        if began.elapsed() > GRACE {
            return Err(io::Error::new(
                io::ErrorKind::TimedOut,
                "the node's schema was not read within five seconds",
            ));
        }
        sleep(Duration::from_millis(5)).await;
    }
    Ok(())
}
