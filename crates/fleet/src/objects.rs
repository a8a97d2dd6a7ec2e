//! Windows as objects or files: `PREFIX/2026-11-21/SOURCE/20261121T060000000Z-SOURCE.cqlens.json.gz`.

use std::sync::{Arc, Once};

use bytes::Bytes;
use futures_util::TryStreamExt;
use jiff::civil::Date;
use object_store::{ObjectStore, ObjectStoreExt, path::Path};
use url::Url;

use super::{StoreError, WindowName};

/// A folder or a bucket, and what all names in it begin with.
#[derive(Debug)]
pub(super) struct Objects {
    store: Arc<dyn ObjectStore>,
    prefix: Path,
}

impl Objects {
    pub(super) fn open(
        url: &Url,
        environment: impl Iterator<Item = (String, String)>,
    ) -> Result<Self, StoreError> {
        static PROVIDER: Once = Once::new();
        // An error says that this process has one already.
        PROVIDER.call_once(|| drop(rustls::crypto::ring::default_provider().install_default()));
        let (store, prefix) = object_store::parse_url_opts(url, environment)?;
        Ok(Self {
            store: Arc::from(store),
            prefix,
        })
    }

    fn folder(&self, day: Date) -> Path {
        self.prefix.clone().join(day.to_string())
    }

    fn path(&self, name: &WindowName) -> Path {
        self.folder(name.day()).join(name.source()).join(name.to_string())
    }

    pub(super) async fn put(&self, name: &WindowName, bytes: Bytes) -> Result<(), StoreError> {
        self.store.put(&self.path(name), bytes.into()).await?;
        Ok(())
    }

    pub(super) async fn sources(&self, day: Date) -> Result<Vec<String>, StoreError> {
        let listed = self.store.list_with_delimiter(Some(&self.folder(day))).await;
        let folders = match listed {
            Err(object_store::Error::NotFound { .. }) => return Ok(Vec::new()),
            listed => listed?.common_prefixes,
        };
        let mut sources: Vec<_> = folders
            .iter()
            .filter_map(|folder| folder.filename().map(str::to_owned))
            .collect();
        sources.sort();
        Ok(sources)
    }

    /// The windows that are there, by time; what else is there is left alone.
    pub(super) async fn names(&self, day: Date, source: &str) -> Result<Vec<WindowName>, StoreError> {
        let folder = self.folder(day).join(source);
        let objects: Vec<_> = self.store.list(Some(&folder)).try_collect().await?;
        let names = objects
            .iter()
            .filter_map(|object| object.location.filename()?.parse().ok());
        let mut names: Vec<WindowName> = names.collect();
        names.retain(|name| name.day() == day && name.source() == source);
        names.sort();
        Ok(names)
    }

    /// None if it has gone since it was listed.
    pub(super) async fn get(&self, name: &WindowName) -> Result<Option<Bytes>, StoreError> {
        match self.store.get(&self.path(name)).await {
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            found => Ok(Some(found?.bytes().await?)),
        }
    }
}
