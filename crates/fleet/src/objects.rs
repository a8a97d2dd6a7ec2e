//! Windows as objects or files: `PREFIX/2026-11-21/SOURCE/20261121T060000000Z-SOURCE.cqlens.json.gz`.

use std::sync::{Arc, Once};

use bytes::{Bytes, BytesMut};
use futures_util::TryStreamExt;
use jiff::civil::Date;
use object_store::{
    ObjectStore, ObjectStoreExt, aws::AmazonS3Builder, azure::MicrosoftAzureBuilder,
    gcp::GoogleCloudStorageBuilder, local::LocalFileSystem, path::Path,
};
use url::Url;

use super::{
    MOST_BYTES, MOST_NAMES, StoreError, WindowName,
    bounded::{BoundedConnector, Budget},
    folder::Folder,
    left_out::{LeftOut, Notes},
};

/// A folder or a bucket, and what all names in it begin with.
#[derive(Debug)]
pub(super) struct Objects {
    store: Arc<dyn ObjectStore>,
    prefix: Path,
    /// If it is a folder, how it is listed and read.
    folder: Option<Folder>,
    limits: Limits,
    budget: Budget,
    notes: Notes,
}

/// What the responses of a store may have, in bytes; see [`Budget`].
#[derive(Debug, Clone, Copy)]
struct Limits {
    /// To what is written.
    put: u64,
    /// To one listing, all of its pages: twice what 100,000 objects take.
    list: u64,
    /// An object.
    object: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            put: 1 << 20,
            list: 96 << 20,
            object: MOST_BYTES,
        }
    }
}

/// What logging in and further attempts take beside an object.
const BESIDE_OBJECT: u64 = 1 << 20;

impl Objects {
    pub(super) fn open(
        url: &Url,
        environment: impl Iterator<Item = (String, String)>,
    ) -> Result<Self, StoreError> {
        static PROVIDER: Once = Once::new();
        // An error says that this process has one already.
        PROVIDER.call_once(|| drop(rustls::crypto::ring::default_provider().install_default()));
        let (budget, notes) = (Budget::default(), Notes::default());
        let connector = BoundedConnector {
            budget: budget.clone(),
            notes: notes.clone(),
        };
        let prefix = Path::from_url_path(url.path())?;
        let store = bucket(url, environment, connector)?;
        let folder = url.to_file_path().ok().filter(|_| url.scheme() == "file");
        Ok(Self {
            store,
            prefix,
            folder: folder.map(|folder| Folder::new(folder, notes.clone())),
            limits: Limits::default(),
            budget,
            notes,
        })
    }

    fn folder(&self, day: Date) -> Path {
        self.prefix.clone().join(day.to_string())
    }

    fn path(&self, name: &WindowName) -> Path {
        self.folder(name.day()).join(name.source()).join(name.to_string())
    }

    pub(super) async fn put(&self, name: &WindowName, bytes: Bytes) -> Result<(), StoreError> {
        self.budget.begin(self.limits.put);
        self.store.put(&self.path(name), bytes.into()).await?;
        Ok(())
    }

    pub(super) async fn sources(&self, day: Date) -> Result<Vec<String>, StoreError> {
        if let Some(folder) = &self.folder {
            return folder.sources(day).await;
        }
        self.budget.begin(self.limits.list);
        let listed = self.store.list_with_delimiter(Some(&self.folder(day))).await;
        let folders = match listed {
            Err(object_store::Error::NotFound { .. }) => return Ok(Vec::new()),
            listed => listed?.common_prefixes,
        };
        let mut sources: Vec<_> = folders
            .iter()
            .filter_map(|folder| folder.filename())
            .filter(|source| WindowName::is_source(source) || self.leave_out(source))
            .map(str::to_owned)
            .collect();
        sources.sort();
        Ok(sources)
    }

    fn leave_out(&self, name: &str) -> bool {
        self.notes.add(name);
        false
    }

    /// The windows that are there, by time; what else is there is left alone.
    pub(super) async fn names(&self, day: Date, source: &str) -> Result<Vec<WindowName>, StoreError> {
        if let Some(folder) = &self.folder {
            return folder.names(day, source).await;
        }
        self.budget.begin(self.limits.list);
        let folder = self.folder(day).join(source);
        let mut objects = self.store.list(Some(&folder));
        let mut names: Vec<WindowName> = Vec::new();
        while let Some(object) = objects.try_next().await? {
            // Also of a folder below, whose names are those of other objects.
            let place = object.location.prefix_match(&folder);
            let is_here = place.is_some_and(|parts| parts.count() == 1);
            let Some(name) = object.location.filename().filter(|_| is_here) else {
                continue;
            };
            names.extend(WindowName::of_folder(name, day, source, &self.notes));
            if names.len() > MOST_NAMES {
                return Err(StoreError::TooMany);
            }
        }
        names.sort();
        Ok(names)
    }

    /// None if it has gone since it was listed, or is larger than any window.
    pub(super) async fn get(&self, name: &WindowName) -> Result<Option<Bytes>, StoreError> {
        if let Some(folder) = &self.folder {
            return folder.get(name).await;
        }
        self.budget.begin(self.limits.object as u64 + BESIDE_OBJECT);
        let found = match self.store.get(&self.path(name)).await {
            Err(object_store::Error::NotFound { .. }) => return Ok(None),
            found => found?,
        };
        if found.meta.size > self.limits.object as u64 {
            self.leave_out(&name.to_string());
            return Ok(None);
        }
        let mut bytes = BytesMut::new();
        let mut stream = found.into_stream();
        while let Some(part) = stream.try_next().await? {
            bytes.extend_from_slice(&part);
            if bytes.len() > self.limits.object {
                self.leave_out(&name.to_string());
                return Ok(None);
            }
        }
        Ok(Some(bytes.freeze()))
    }

    pub(super) fn left_out(&self) -> LeftOut {
        self.notes.take()
    }
}

/// The store of a URL, with the settings that the environment has for it.
fn bucket(
    url: &Url,
    environment: impl Iterator<Item = (String, String)>,
    connector: BoundedConnector,
) -> Result<Arc<dyn ObjectStore>, StoreError> {
    macro_rules! build {
        ($builder:ty) => {{
            let builder = <$builder>::new().with_url(url.to_string());
            let set = |builder: $builder, (name, value): (String, String)| match name
                .to_ascii_lowercase()
                .parse()
            {
                Ok(key) => builder.with_config(key, value),
                Err(_) => builder,
            };
            let builder = environment.fold(builder, set);
            Arc::new(builder.with_http_connector(connector).build()?)
        }};
    }
    Ok(match url.scheme() {
        "s3" => build!(AmazonS3Builder),
        "gs" => build!(GoogleCloudStorageBuilder),
        "az" => build!(MicrosoftAzureBuilder),
        _ => Arc::new(LocalFileSystem::new()),
    })
}

#[cfg(test)]
mod tests;
