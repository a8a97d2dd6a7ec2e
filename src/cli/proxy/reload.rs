//! Reading the settings again while clients are connected.
//!
//! First all that is new is read and opened; only if nothing of it is wrong, it is put in force, with no step left that
//! can fail. Connections that are open keep what they were opened with.

use std::sync::Arc;

use anyhow::bail;
use tracing_subscriber::EnvFilter;

use super::{
    args::Args,
    control::Control,
    running::{Running, Stop, every, route},
    supervisor,
};
use crate::{
    catalog::Schema,
    cli::{
        log,
        output::{Places, leave_key},
        read_proxy, schema_file,
        tls::Tls,
    },
    sink::admin::Changes,
};

/// Settled when the process starts: sockets that are open, hashes that must stay comparable, what auditors show.
const FIXED: &[&str] = &["listen", "reuse-port", "admin", "hash-key-file", "show-values"];

/// What depends on the settings and has been made anew.
struct News {
    filter: Option<EnvFilter>,
    tls: Option<Tls>,
    places: Option<Places>,
    /// As the file has it, which may be what it had before.
    schema: Option<Schema>,
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
        let news = News::prepare(&args, &filter, &changes)?;
        self.settings = settings;
        self.health.settings.store(Arc::new(self.settings.clone()));
        self.put_in_force(args, news, &changes).await;
        Ok(changes)
    }

    async fn put_in_force(&mut self, args: Args, news: News, changes: &Changes) {
        self.args = args;
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
            self.windows = every(self.args.window);
        }
        if changes.any_of(&["name"]) {
            let listening = self.health.listening.to_string();
            self.audit.rename(self.args.name.as_deref().unwrap_or(&listening));
        }
        self.health
            .gate
            .replace_policy(self.args.limits.policy(self.descriptors));
        if changes.any_of(&["max-connections"]) {
            self.descriptors.judge(&self.health.gate.policy());
        }
        self.health.route.store(Arc::new(route(&self.args, &self.tls)));
        if follow_anew {
            self.control.end(&self.live).await;
            if let Some(schema) = schema {
                tracing::info!("the schema is that of the file until the cluster tells more");
                self.schema = Some(schema.clone());
                self.live.replace_schema(schema, self.live.begin_reading());
            }
            self.control = Control::begin(&self.args, self.tls.upstream.clone(), &self.live);
        }
    }
}

impl Running {
    /// The key of hashes stays for as long as the process; the folder of snapshots is where the next one looks for it.
    fn leave_key(&self) {
        if let (None, Some(folder)) = (&self.args.hash_key_file, &self.args.snapshot_dir)
            && let Err(error) = leave_key(self.outputs.hash_key(), folder)
        {
            tracing::warn!(
                "snapshots of this process and the next cannot be compared by partition: {error:#}"
            );
        }
    }
}

impl News {
    fn prepare(args: &Args, filter: &str, changes: &Changes) -> anyhow::Result<Self> {
        let of_tls = changes
            .applied
            .iter()
            .any(|key| key.contains("-tls-") || key == "upstream");
        let to_places = changes
            .any_of(&["report", "snapshot-dir"])
            .then(|| Places::open(args.report.as_deref(), args.snapshot_dir.as_deref()));
        Ok(Self {
            filter: changes.any_of(&["log"]).then(|| log::parse(filter)).transpose()?,
            tls: of_tls
                .then(|| Tls::open(args.tls.clone(), &args.upstream))
                .transpose()?,
            places: to_places.transpose()?,
            schema: args.schema.as_deref().map(schema_file::read).transpose()?,
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
