#![doc = include_str!("../README.md")]

mod address;
mod bounded;
mod cassandra;
mod folder;
mod left_out;
mod listing;
mod name;
mod objects;

use std::{future::Future, time::Duration};

use bytes::Bytes;
use cqlens_client::{ClientError, ClientOptions};
use cqlens_proto::message::ErrorCode;
use jiff::civil::Date;

pub use address::{Address, CassandraAddress};
pub use cassandra::SCHEMA;
pub use left_out::LeftOut;
pub use name::WindowName;

use cassandra::Cassandra;
use objects::Objects;

/// Where windows are kept.
#[derive(Debug)]
pub struct Store {
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Objects(Objects),
    Cassandra(Box<Cassandra>),
}

/// How long one call may take, however large its window is and however often it is tried again.
const PATIENCE: Duration = Duration::from_secs(60);

/// The largest window that is kept, in bytes as it is written. A window of 200 statements takes up a third of a megabyte.
pub const MOST_BYTES: usize = 64 << 20;

/// The most sources of a day, and windows of a source and day: one each second.
const MOST_NAMES: usize = 100_000;

impl Store {
    /// A folder or an object store. Keys come from the environment, as the tools of the clouds have them: `AWS_ACCESS_KEY_ID`,
    /// `GOOGLE_SERVICE_ACCOUNT`, `AZURE_STORAGE_ACCOUNT_KEY`. Nothing is read or written yet.
    ///
    /// # Errors
    /// A URL or an environment that makes no store.
    pub fn objects(
        url: &url::Url,
        environment: impl Iterator<Item = (String, String)>,
    ) -> Result<Self, StoreError> {
        let kind = Kind::Objects(Objects::open(url, environment)?);
        Ok(Self { kind })
    }

    /// A keyspace with the tables of [`SCHEMA`]. Each node has options of its own, since its certificate has its name; the first
    /// that responds is used. Nothing is connected to yet.
    pub fn cassandra(keyspace: &str, nodes: Vec<(String, ClientOptions)>) -> Self {
        let kind = Kind::Cassandra(Box::new(Cassandra::new(keyspace, nodes)));
        Self { kind }
    }

    /// What was listed since the last call and is not given: names that no window has, or that belong into another folder, and what
    /// is larger than any window.
    pub fn left_out(&mut self) -> LeftOut {
        match &self.kind {
            Kind::Objects(objects) => objects.left_out(),
            Kind::Cassandra(cassandra) => cassandra.left_out(),
        }
    }

    /// Keeps a window under its name, and replaces one of that name.
    ///
    /// # Errors
    /// A window of more than [`MOST_BYTES`], a store that does not take it within a minute.
    pub async fn put(&mut self, name: &WindowName, bytes: Bytes) -> Result<(), StoreError> {
        if bytes.len() > MOST_BYTES {
            return Err(StoreError::TooLarge);
        }
        match &mut self.kind {
            Kind::Objects(objects) => in_time(objects.put(name, bytes)).await,
            Kind::Cassandra(cassandra) => in_time(cassandra.put(name, &bytes)).await,
        }
    }

    /// The sources of which there are windows that began on a day (UTC), in order.
    ///
    /// # Errors
    /// A store that does not give them within a minute.
    pub async fn sources(&mut self, day: Date) -> Result<Vec<String>, StoreError> {
        match &mut self.kind {
            Kind::Objects(objects) => in_time(objects.sources(day)).await,
            Kind::Cassandra(cassandra) => in_time(cassandra.sources(day)).await,
        }
    }

    /// Gives the windows of a source that began on a day to `take`, one after the other, by time. A window of which parts are
    /// missing is given as what is there.
    ///
    /// # Errors
    /// A store that does not give the next one within a minute, and those of `take`.
    pub async fn windows<E: From<StoreError>>(
        &mut self,
        day: Date,
        source: &str,
        mut take: impl FnMut(WindowName, Bytes) -> Result<(), E>,
    ) -> Result<(), E> {
        match &mut self.kind {
            Kind::Objects(objects) => {
                for name in in_time(objects.names(day, source)).await? {
                    if let Some(bytes) = in_time(objects.get(&name)).await? {
                        take(name, bytes)?;
                    }
                }
                Ok(())
            }
            Kind::Cassandra(cassandra) => {
                let mut reading = cassandra.windows(day, source);
                while let Some((name, bytes)) = in_time(reading.next()).await? {
                    take(name, bytes)?;
                }
                Ok(())
            }
        }
    }
}

async fn in_time<T>(call: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
    let result = tokio::time::timeout(PATIENCE, call).await;
    result.unwrap_or(Err(StoreError::Timeout))
}

impl From<object_store::path::Error> for StoreError {
    fn from(error: object_store::path::Error) -> Self {
        Self::Objects(error.into())
    }
}

impl From<ClientError> for StoreError {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::Server { code, message, .. } => Self::Cluster { code, message },
            error => Self::Connection(error),
        }
    }
}

/// Why windows could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// What an object store or a folder says.
    #[error(transparent)]
    Objects(#[from] object_store::Error),
    /// What became of the connection to the cluster.
    #[error(transparent)]
    Connection(ClientError),
    /// What the cluster says: all values in these statements are cqlens' own.
    #[error("the cluster answers {code}: {message}")]
    Cluster {
        /// The code of the error.
        code: ErrorCode,
        /// Its text.
        message: String,
    },
    /// No response in time.
    #[error("no response within {} seconds", PATIENCE.as_secs())]
    Timeout,
    /// A window that no store takes.
    #[error("the window is larger than {} MiB", MOST_BYTES >> 20)]
    TooLarge,
    /// What a file system says.
    #[error(transparent)]
    File(#[from] std::io::Error),
    /// A listing without an end.
    #[error(
        "more than {MOST_NAMES} sources of a day or windows of a source and day, or responses without an end"
    )]
    TooMany,
    /// What others have written into the tables.
    #[error("{0} has a value that cqlens has not written")]
    Foreign(&'static str),
}
