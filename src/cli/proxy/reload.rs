//! Reading the settings again while clients are connected.
//!
//! First all that is new is read and opened; only if nothing of it is wrong, it is put in force, with no step left that
//! can fail. Connections that are open keep what they were opened with.

use std::{net::SocketAddr, sync::Arc};

use anyhow::bail;
use tokio::net::TcpListener;
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
    catalog::Schema,
    cli::{hash_key::leave_key, log, output::Places, read_proxy, schema_file, tls::Tls},
    proxy::Waiting,
    sink::admin::Changes,
};

/// Settled when the process starts: sockets that are open, hashes that must stay comparable, what auditors show.
const FIXED: &[&str] = &[
    "listen",
    "reuse-port",
    "admin",
    "hash-key-file",
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

impl Running {
    /// Reads settings, certificates and keys again, and says in the log what changes.
    ///
    /// # Errors
    /// Settings that cannot be used; nothing has changed then.
    pub(super) async fn reload(&mut self) -> anyhow::Result<Changes> {
        supervisor::reloading();
        let reloaded = self.try_reload().await;
        match &reloaded {
            Ok(changes) => say(changes),
            Err(error) => tracing::error!("settings cannot be used, those from before stay: {error:#}"),
        }
        supervisor::ready();
        reloaded
    }

    async fn try_reload(&mut self) -> anyhow::Result<Changes> {
        if self.stop != Stop::No {
            bail!("cqlens is about to end");
        }
        let (args, filter, mut settings) = read_proxy(&self.sources)?;
        let changes = self.settings.compare(&mut settings, FIXED);
        let news = News::prepare(&args, &filter, &changes, &self.pairs)?;
        self.settings = settings;
        self.health.settings.store(Arc::new(self.settings.clone()));
        self.put_in_force(args, news, &changes).await;
        Ok(changes)
    }

    async fn put_in_force(&mut self, args: Args, news: News, changes: &Changes) {
        self.args = args;
        if changes
            .applied
            .iter()
            .any(|key| key == "accept" || key.starts_with("rules."))
        {
            self.outputs.judge_by(self.settings.judging().clone(), &self.live);
        }
        // The wire may have told more since the file was read: only what is new in the file is taken.
        let schema = news.schema.filter(|schema| self.schema.as_ref() != Some(schema));
        let follow_anew = changes.any_of(Control::SETTINGS) || news.tls.is_some() || schema.is_some();
        if let Some(filter) = news.filter {
            self.log.filter(filter);
        }
        match news.tls {
            Some(tls) => self.tls = tls,
            // Their names are the same, what is in them may be new.
            None => self.tls.renew(),
        }
        if let Some(places) = news.places {
            self.outputs.move_to(places, &self.live);
            self.leave_key();
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

    /// The key of hashes stays for as long as the process; it is left where the next one looks for it.
    fn leave_key(&self) {
        if let (None, Some(folder)) = (
            &self.args.observer.hash_key_file,
            &self.args.observer.snapshot_dir,
        ) && let Err(error) = leave_key(self.outputs.hash_key(), folder)
        {
            tracing::warn!(
                "snapshots of this process and the next cannot be compared by partition: {error:#}"
            );
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
