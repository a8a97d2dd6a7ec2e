//! Reading the settings again while clients are connected.
//!
//! First all that is new is read and opened; only if nothing of it is wrong, it is put in force, with no step left that
//! can fail. Connections that are open keep what they were opened with.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use anyhow::{Context, anyhow, bail};
use tokio::{
    net::TcpListener,
    sync::oneshot,
    task::{JoinHandle, spawn_blocking},
    time::{Instant, timeout_at},
};
use tracing_subscriber::EnvFilter;

use super::{
    args::Args,
    asking::Asking,
    cluster::Rules,
    control::{self, Control},
    listener::bind_pairs,
    running::{Running, Stop, every, listener_statuses, reach, route},
    supervisor,
    topology::{Mode, Pair},
};
use crate::{
    cli::{
        log,
        output::Places,
        read_proxy, schema_file,
        settings::{Settings, Sources},
        tls::Tls,
    },
    proxy::Waiting,
    sink::admin::{Changes, Reloaded},
};
use cqlens_cql::schema::Schema;

/// Settled when the process starts: sockets that are open, hashes that must stay comparable, what auditors show.
const FIXED: &[&str] = &[
    "listen",
    "reuse-port",
    "admin",
    "hash-key-file",
    "memory",
    "client-addresses",
    "show-values",
    "topology",
    "transparent",
    "state-file",
];

/// What depends on the settings and has been made anew.
struct News {
    filter: Option<EnvFilter>,
    tls: Option<Tls>,
    places: Option<Places>,
    /// As the file has it, which may be what it had before.
    schema: Option<Schema>,
    mode: Mode,
    /// Sockets for routes that are new.
    sockets: Vec<(Pair, TcpListener)>,
}

/// All that is new, not yet in force.
pub(super) struct Read {
    args: Args,
    settings: Settings,
    changes: Changes,
    news: News,
}

type Answer = oneshot::Sender<Reloaded>;

/// A reload under way: files are read by a thread that may have to wait for them, which the loop does not.
#[derive(Default)]
pub(super) struct Reloading {
    /// By when, and who reads.
    reading: Option<(Instant, JoinHandle<anyhow::Result<Read>>)>,
    /// Who waits for what comes of it.
    answers: Vec<Answer>,
    /// Who asked meanwhile, if anybody did.
    asked_again: Option<Vec<Answer>>,
    /// Still waits for the files of a reload that was given up.
    stuck: Option<JoinHandle<anyhow::Result<Read>>>,
}

/// Files of a reload are read by then: sooner than whoever ordered it loses patience.
const READING: Duration = Duration::from_secs(10);

impl Running {
    /// Begins to read settings, certificates and keys again, and says in the log what changes; to `answer` too, if there is one. What is
    /// asked for while files are being read is done after that: they may have changed since.
    pub(super) fn begin_reload(&mut self, answer: Option<Answer>) {
        if self.reloading.reading.is_some() {
            self.reloading.asked_again.get_or_insert_default().extend(answer);
            return;
        }
        supervisor::reloading();
        self.reloading.answers.extend(answer);
        let stuck = self.reloading.stuck.take().filter(|task| !task.is_finished());
        let is_stuck = stuck.is_some();
        self.reloading.stuck = stuck;
        let (sources, settings) = (self.sources.clone(), self.settings.clone());
        let (pairs, tls) = (self.pairs.clone(), self.tls.clone());
        let task = spawn_blocking(move || match is_stuck {
            true => bail!("the files of an earlier reload still cannot be read"),
            false => Read::of(&sources, &settings, &pairs, &tls),
        });
        self.reloading.reading = Some((Instant::now() + READING, task));
    }

    /// Puts what was read in force, and says what came of it.
    pub(super) async fn end_reload(&mut self, read: anyhow::Result<Read>) {
        let reloaded = match read {
            Ok(_) if self.stop != Stop::No => Err(anyhow!("cqlens is about to end")),
            Ok(read) => Ok(self.put_in_force(read).await),
            Err(error) => Err(error),
        };
        match &reloaded {
            Ok(changes) => say(changes),
            Err(error) => tracing::error!("settings cannot be used, those from before stay: {error:#}"),
        }
        supervisor::ready();
        let told = reloaded.map_err(|error| format!("{error:#}"));
        for answer in self.reloading.answers.drain(..) {
            // Whoever asked may have gone.
            let _ = answer.send(told.clone());
        }
        if let Some(answers) = self.reloading.asked_again.take() {
            self.begin_reload(None);
            self.reloading.answers = answers;
        }
    }

    async fn put_in_force(&mut self, read: Read) -> Changes {
        let Read {
            args,
            settings,
            changes,
            news,
        } = read;
        self.settings = settings;
        self.health.settings.store(Arc::new(self.settings.clone()));
        self.apply(args, news, &changes).await;
        changes
    }

    async fn apply(&mut self, args: Args, news: News, changes: &Changes) {
        self.args = args;
        self.allow_end();
        if changes
            .applied
            .iter()
            .any(|key| key == "accept" || key.starts_with("rules."))
        {
            self.writer.judge_by(self.settings.judging().clone());
        }
        // The wire may have told more since the file was read: only what is new in the file is taken.
        let schema = news.schema.filter(|schema| self.schema.as_ref() != Some(schema));
        let follow_anew = changes.any_of(Control::SETTINGS) || news.tls.is_some() || schema.is_some();
        if let Some(filter) = news.filter {
            self.log.filter(filter);
        }
        if let Some(tls) = news.tls {
            self.tls = tls;
        }
        if let Some(places) = news.places {
            // The key of hashes stays for as long as the process; the folder of snapshots is where the next one looks for it.
            let observer = &self.args.observer;
            let key_folder = observer.snapshot_dir.clone();
            self.writer
                .move_to(places, key_folder.filter(|_| observer.hash_key_file.is_none()));
        }
        if changes.any_of(&["window"]) {
            self.windows = every(self.args.observer.window);
        }
        if changes.any_of(&["name"]) {
            let name = self.args.observer.name.as_deref();
            self.audit.rename(name.unwrap_or(&self.health.listening));
        }
        self.fit_connections();
        if changes.any_of(&["max-connections"]) {
            self.descriptors
                .judge(&self.health.gate.policy(), self.listeners());
        }
        if follow_anew {
            self.control.end(&self.live).await;
            if let Some(schema) = schema {
                tracing::info!("the schema is that of the file until the cluster tells more");
                self.schema = Some(schema.clone());
                self.live.replace_schema(schema, self.live.begin_reading());
            }
            self.control = Control::begin(&self.args, &self.tls, &self.live);
        }
        if follow_anew || changes.any_of(Asking::SETTINGS) {
            self.asking = Asking::begin(&self.args, &self.tls, &self.live, &self.audit);
        }
        self.lead(news.mode, news.sockets);
    }
}

impl Running {
    /// Sends new connections where the settings have them now. What depends on settings that need a restart stays.
    fn lead(&mut self, mode: Mode, sockets: Vec<(Pair, TcpListener)>) {
        let contacts = control::contacts(&self.args).points.join(", ");
        self.health.upstream.store(Arc::new(contacts));
        match mode {
            Mode::Cluster(rules) => {
                if let Some(nodes) = &mut self.nodes {
                    nodes.rules = Rules {
                        rule: nodes.rules.rule.take(),
                        ..rules
                    };
                }
                // Only a process that begins ends because of them.
                if let Err(error) = self.follow_nodes() {
                    tracing::error!("{error:#}");
                }
                self.tell_reach();
            }
            Mode::Routes(routes) if self.transparent.is_none() && self.nodes.is_none() => {
                self.lead_routes(&routes, sockets);
            }
            Mode::One(pair) | Mode::Transparent(pair) => {
                if let [(own, listen)] = &mut self.pairs[..] {
                    own.upstream = pair.upstream;
                    let route = route(&self.args, &self.tls, &own.upstream, None);
                    self.serving.reroute(*listen, route);
                }
            }
            Mode::Routes(_) => {}
        }
    }

    fn lead_routes(&mut self, routes: &[Pair], sockets: Vec<(Pair, TcpListener)>) {
        let before = std::mem::take(&mut self.pairs);
        for (pair, listen) in before {
            match routes.iter().find(|route| route.listen == pair.listen) {
                Some(pair) => {
                    let route = route(&self.args, &self.tls, &pair.upstream, None);
                    self.serving.reroute(listen, route);
                    self.pairs.push((pair.clone(), listen));
                }
                None => {
                    tracing::info!(%listen, upstream = pair.upstream, grace = ?self.args.grace, "no route any more: requests in flight may end");
                    self.serving.close(listen, self.args.grace);
                }
            }
        }
        for (pair, socket) in sockets {
            let route = route(&self.args, &self.tls, &pair.upstream, None);
            match self.serving.open(socket, Waiting::Served, route) {
                Ok(listen) => {
                    tracing::info!(%listen, upstream = pair.upstream, "forwarding");
                    self.pairs.push((pair, listen));
                }
                Err(error) => tracing::error!(listen = %pair.listen, "{error:#}"),
            }
        }
        self.fit_connections();
        let statuses = listener_statuses(&self.pairs);
        self.health.listeners.store(Arc::new(statuses));
        self.health.reach.store(Arc::new(reach(&self.pairs, None)));
        self.tell_reach();
    }
}

impl Read {
    /// Reads and opens everything, which may take as long as the disk likes.
    fn of(
        sources: &Sources,
        before: &Settings,
        pairs: &[(Pair, SocketAddr)],
        tls: &Tls,
    ) -> anyhow::Result<Self> {
        let (args, filter, mut settings) = read_proxy(sources)?;
        let changes = before.compare(&mut settings, FIXED);
        let news = News::prepare(&args, &filter, &changes, pairs)?;
        if news.tls.is_none() {
            // Their names are the same, what is in them may be new.
            tls.renew();
        }
        Ok(Self {
            args,
            settings,
            changes,
            news,
        })
    }
}

impl Reloading {
    /// What was read, once something is; nothing is lost if the future is dropped.
    pub(super) async fn read(&mut self) -> anyhow::Result<Read> {
        let Some((until, task)) = &mut self.reading else {
            return std::future::pending().await;
        };
        let read = timeout_at(*until, task).await;
        let Some((_, task)) = self.reading.take() else {
            return std::future::pending().await;
        };
        match read {
            Ok(read) => read.context("reading has failed")?,
            Err(_elapsed) => {
                self.stuck = Some(task);
                bail!("the files that the settings name were not read within {READING:?}")
            }
        }
    }
}

impl News {
    fn prepare(
        args: &Args,
        filter: &str,
        changes: &Changes,
        pairs: &[(Pair, SocketAddr)],
    ) -> anyhow::Result<Self> {
        let mode = args.mode()?;
        let sockets = match &mode {
            Mode::Routes(routes) if changes.any_of(&["route"]) => {
                let is_new = |route: &&Pair| !pairs.iter().any(|(pair, _)| pair.listen == route.listen);
                let new: Vec<_> = routes.iter().filter(is_new).cloned().collect();
                bind_pairs(&new, args)?
            }
            _ => Vec::new(),
        };
        let of_tls = changes
            .applied
            .iter()
            .any(|key| key.contains("-tls-") || key == "upstream" || key == "route");
        let to_places = changes
            .any_of(&["report", "snapshot-dir", "keep", "keep-bytes"])
            .then(|| Places::open(args.observer.report.as_deref(), args.observer.snapshot_folder()));
        Ok(Self {
            filter: changes.any_of(&["log"]).then(|| log::parse(filter)).transpose()?,
            tls: of_tls
                .then(|| Tls::open(args.tls.clone(), &args.first_upstream()))
                .transpose()?,
            places: to_places.transpose()?,
            schema: args
                .observer
                .schema
                .as_deref()
                .map(schema_file::read)
                .transpose()?,
            mode,
            sockets,
        })
    }
}

fn say(changes: &Changes) {
    for key in &changes.need_restart {
        tracing::warn!(
            setting = key,
            "this setting has changed and needs a restart, the value from before stays"
        );
    }
    if changes.applied.is_empty() {
        tracing::info!("settings read again, nothing has changed");
    } else {
        let changed = changes.applied.join(", ");
        tracing::info!(changed, "settings read again, in force for new connections");
    }
}
