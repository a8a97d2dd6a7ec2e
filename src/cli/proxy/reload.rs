//! Reading the settings again while clients are connected.
//!
//! First all that is new is read and opened; only if nothing of it is wrong, it is put in force, with no step
//! left that can fail. Connections that are open keep what they were opened with.

use std::sync::Arc;

use anyhow::{anyhow, bail};
use tokio::{net::TcpListener, task::spawn_blocking, time::Instant};

use super::{
    args::Args,
    cluster::ListenRules,
    control::{self, Control},
    reading::{NewParts, READING, ReadSettings, ReloadAnswer},
    routes::{listener_statuses, reach, route},
    running::Running,
    shutdown::ShutdownPhase,
    side_queries::SideQueries,
    start, supervisor,
    topology::{Mode, RoutePair},
};
use crate::cli::window_clock::window_ends;
use cqlens_admin::SettingChanges;
use cqlens_proxy::Backlog;

impl Running {
    /// Begins to read settings, certificates and keys again. The changes go to the log, and to `answer`, if
    /// there is one. A request that comes while files are being read is carried out after that, since the
    /// files may have changed.
    pub(super) fn begin_reload(&mut self, answer: Option<ReloadAnswer>) {
        if self.reloading.reading.is_some() {
            self.reloading.asked_again.get_or_insert_default().extend(answer);
            return;
        }
        supervisor::reloading();
        self.reloading.answers.extend(answer);
        let stuck = self.reloading.stuck.take().filter(|task| !task.is_finished());
        let is_stuck = stuck.is_some();
        self.reloading.stuck = stuck;
        let (read_again, settings) = (Arc::clone(&self.read_again), self.settings.clone());
        let (pairs, tls) = (self.pairs.clone(), self.tls.clone());
        let access = Arc::clone(&self.health.access);
        let task = spawn_blocking(move || match is_stuck {
            true => bail!("the files of an earlier reload still cannot be read"),
            false => {
                access.look();
                ReadSettings::read(&*read_again, &settings, &pairs, &tls)
            }
        });
        self.reloading.reading = Some((Instant::now() + READING, task));
    }

    /// Puts what was read in force, and says what came of it.
    pub(super) async fn end_reload(&mut self, read: anyhow::Result<ReadSettings>) {
        let reloaded = match read {
            Ok(_) if self.shutdown != ShutdownPhase::Serving => Err(anyhow!("cqlens is about to end")),
            Ok(read) => Ok(self.put_in_force(read).await),
            Err(error) => Err(error),
        };
        match &reloaded {
            Ok(changes) => say(changes),
            Err(error) => {
                tracing::error!("the new settings cannot be used, the previous ones stay: {error:#}")
            }
        }
        supervisor::ready();
        let told = reloaded.map_err(|error| format!("{error:#}"));
        for answer in self.reloading.answers.drain(..) {
            // The operator may have gone.
            let _ = answer.send(told.clone());
        }
        if let Some(answers) = self.reloading.asked_again.take() {
            self.begin_reload(None);
            self.reloading.answers = answers;
        }
    }

    async fn put_in_force(&mut self, read: ReadSettings) -> SettingChanges {
        let ReadSettings {
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

    async fn apply(&mut self, args: Args, news: NewParts, changes: &SettingChanges) {
        // The file of a password keeps its name when the password changes.
        let logs_in_anew = self.args.observer.login.credentials() != args.observer.login.credentials();
        self.args = args;
        self.allow_end();
        if changes
            .applied
            .iter()
            .any(|key| key == "accept" || key.starts_with("rules."))
        {
            self.writer.judge_by(self.settings.judging().clone());
        }
        // Traffic may have shown more since the file was read, so only a file that has
        // changed replaces the schema.
        let schema = news.schema.filter(|schema| self.schema.as_ref() != Some(schema));
        let follow_anew =
            changes.any_of(Control::SETTINGS) || logs_in_anew || news.tls.is_some() || schema.is_some();
        if let Some(filter) = news.filter {
            self.log.filter(filter);
        }
        if let Some(tls) = news.tls {
            self.health.tls.store(Arc::new(tls.clone()));
            self.tls = tls;
        }
        if let Some(places) = news.places {
            // The key of hashes stays for as long as the process; the folder of snapshots is where
            // the next one looks for it.
            let observer = &self.args.observer;
            let key_folder = observer.snapshot_dir.clone();
            self.writer
                .move_to(places, key_folder.filter(|_| observer.hash_key_file.is_none()));
        }
        if changes.any_of(&["window"]) {
            self.windows = window_ends(self.args.observer.window);
        }
        if changes.any_of(&["name"]) {
            let given = self.args.observer.name.as_deref();
            self.audit.rename(&start::name(given, &self.health.listening));
        }
        self.fit_connections();
        if changes.any_of(&["max-connections"]) {
            self.descriptors
                .judge(&self.health.admission.policy(), self.listeners());
        }
        if follow_anew {
            self.control.end(&self.live).await;
            if let Some(schema) = schema {
                tracing::info!("the schema is that of the file until the cluster's is read");
                self.schema = Some(schema.clone());
                self.live.replace_schema(schema, self.live.begin_reading());
            }
            self.control = Control::begin(&self.args, &self.tls, &self.live, &self.health.direct);
        }
        if follow_anew || changes.any_of(SideQueries::SETTINGS) {
            self.side_queries = SideQueries::begin(&self.args, &self.tls, &self.live, &self.audit);
        }
        self.lead(news.mode, news.sockets);
    }
}

impl Running {
    /// Sends new connections where the settings have them now. What depends on settings
    /// that need a restart stays.
    fn lead(&mut self, mode: Mode, sockets: Vec<(RoutePair, TcpListener)>) {
        let contacts = control::contacts(&self.args).points.join(", ");
        self.health.upstream.store(Arc::new(contacts));
        match mode {
            Mode::Cluster(rules) => {
                if let Some(nodes) = &mut self.nodes {
                    nodes.rules = ListenRules {
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

    fn lead_routes(&mut self, routes: &[RoutePair], sockets: Vec<(RoutePair, TcpListener)>) {
        let before = std::mem::take(&mut self.pairs);
        for (pair, listen) in before {
            match routes.iter().find(|route| route.listen == pair.listen) {
                Some(pair) => {
                    let route = route(&self.args, &self.tls, &pair.upstream, None);
                    self.serving.reroute(listen, route);
                    self.pairs.push((pair.clone(), listen));
                }
                None => {
                    tracing::info!(%listen, upstream = pair.upstream, grace = ?self.args.grace, "\
                        the route was removed: requests in flight may end");
                    self.serving.close(listen, self.args.grace);
                }
            }
        }
        for (pair, socket) in sockets {
            let route = route(&self.args, &self.tls, &pair.upstream, None);
            match self.serving.open(socket, Backlog::Serve, route) {
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

fn say(changes: &SettingChanges) {
    for key in &changes.need_restart {
        tracing::warn!(
            setting = key,
            "this setting has changed and needs a restart, the previous value stays"
        );
    }
    if changes.applied.is_empty() {
        tracing::info!("settings reloaded, nothing has changed");
    } else {
        let changed = changes.applied.join(", ");
        tracing::info!(changed, "settings reloaded, in force for new connections");
    }
}
