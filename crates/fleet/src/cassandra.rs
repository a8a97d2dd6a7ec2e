//! Windows as rows: one partition for what a source saw on a day, and one for the sources of a day.
//!
//! Every statement touches one partition. A window is a few rows of [`CHUNK`] bytes, so neither a mutation nor a page is large; a
//! partition holds the windows of one source and one day, a few megabytes. Nothing is ever deleted or updated: rows expire
//! together, and whole files of them are dropped.

use std::collections::{BTreeSet, VecDeque};

use bytes::{Bytes, BytesMut};
use cqlens_client::{Answer, Bind, Client, ClientError, ClientOptions, Prepared, Run, RunOptions};
use cqlens_proto::message::Consistency;
use jiff::{Timestamp, civil::Date};

use super::{
    MOST_BYTES, MOST_NAMES, StoreError, WindowName,
    left_out::{LeftOut, Notes},
};

/// The tables, in a keyspace that the operator creates: its replication is theirs to choose.
pub const SCHEMA: &str = include_str!("cassandra/schema.cql");

/// Bytes of a row: far below what a commit log takes, and what `nodetool` calls a large cell.
const CHUNK: usize = 64 << 10;

/// Rows of a page, two megabytes.
const PAGE: i32 = 32;

/// A keyspace, and the connection to it.
#[derive(Debug)]
pub(super) struct Cassandra {
    keyspace: String,
    nodes: Vec<(String, ClientOptions)>,
    session: Option<Session>,
    /// The sources and days that were written by this process: once is enough.
    noted: BTreeSet<(Date, String)>,
    notes: Notes,
}

/// A connection with its statements.
#[derive(Debug)]
struct Session {
    client: Client,
    note_source: Prepared,
    write_chunk: Prepared,
    read_sources: Prepared,
    read_windows: Prepared,
}

/// The windows of one source and day, page by page.
pub(super) struct Windows<'c> {
    cassandra: &'c mut Cassandra,
    day: Date,
    source: String,
    paging_state: Option<Vec<u8>>,
    is_last_page: bool,
    rows: VecDeque<Vec<Option<Bytes>>>,
    /// The window whose rows are being read.
    open: Option<(Timestamp, BytesMut)>,
    counts: Counts,
}

/// What a store has sent of one source and day, which need not have an end.
#[derive(Debug, Default)]
struct Counts {
    windows: usize,
    rows_of_window: usize,
    empty_pages: usize,
}

/// Rows of a window: more than as many as cqlens writes.
const MOST_ROWS: usize = 4 * MOST_BYTES / CHUNK;

/// Pages without a row, one after the other: a cluster that has much to skip may send some.
const MOST_EMPTY_PAGES: usize = 1_000;

impl Counts {
    fn page(&mut self, rows: usize) -> Result<(), StoreError> {
        self.empty_pages = match rows {
            0 => self.empty_pages + 1,
            _ => 0,
        };
        at_most(self.empty_pages, MOST_EMPTY_PAGES)
    }

    /// The first row of a window.
    fn window(&mut self) -> Result<(), StoreError> {
        self.windows += 1;
        self.rows_of_window = 1;
        at_most(self.windows, MOST_NAMES)
    }

    /// A further row of the same window.
    fn row(&mut self) -> Result<(), StoreError> {
        self.rows_of_window += 1;
        at_most(self.rows_of_window, MOST_ROWS)
    }
}

fn at_most(count: usize, most: usize) -> Result<(), StoreError> {
    match count <= most {
        true => Ok(()),
        false => Err(StoreError::TooMany),
    }
}

impl Cassandra {
    pub(super) fn new(keyspace: &str, nodes: Vec<(String, ClientOptions)>) -> Self {
        Self {
            keyspace: keyspace.to_owned(),
            nodes,
            session: None,
            noted: BTreeSet::new(),
            notes: Notes::default(),
        }
    }

    /// The chunks first and their source last: a source that is found has windows.
    pub(super) async fn put(&mut self, name: &WindowName, bytes: &Bytes) -> Result<(), StoreError> {
        let (day, source) = (name.day(), name.source().to_owned());
        let key = [date(day), Bind::text(&source)];
        let start = timestamp(name.start());
        for (place, chunk) in (0..).zip(0..bytes.len().div_ceil(CHUNK)) {
            let part = bytes.slice(chunk * CHUNK..bytes.len().min((chunk + 1) * CHUNK));
            let values = [
                key[0].clone(),
                key[1].clone(),
                start.clone(),
                Bind::int(place),
                Bind::Bytes(part),
            ];
            self.run(|session| &session.write_chunk, &values, None).await?;
        }
        if !self.noted.contains(&(day, source.clone())) {
            self.run(|session| &session.note_source, &key, None).await?;
            // Days of the past are not written any more.
            self.noted.retain(|(noted, _)| *noted >= day);
            self.noted.insert((day, source));
        }
        Ok(())
    }

    pub(super) async fn sources(&mut self, day: Date) -> Result<Vec<String>, StoreError> {
        let mut sources = Vec::new();
        let (mut paging_state, mut pages) = (None, 0);
        loop {
            let page = Some(Page {
                rows: 5_000,
                from: paging_state,
            });
            let answer = self
                .run(|session| &session.read_sources, &[date(day)], page)
                .await?;
            for row in answer.rows {
                let name = row.into_iter().next().flatten().unwrap_or_default();
                match std::str::from_utf8(&name) {
                    Ok(name) if WindowName::is_source(name) => sources.push(name.to_owned()),
                    _ => self.notes.add(&String::from_utf8_lossy(&name)),
                }
            }
            pages += 1;
            if sources.len() > MOST_NAMES || pages > MOST_NAMES {
                return Err(StoreError::TooMany);
            }
            paging_state = answer.paging_state;
            if paging_state.is_none() {
                return Ok(sources);
            }
        }
    }

    pub(super) fn left_out(&self) -> LeftOut {
        self.notes.take()
    }

    pub(super) fn windows(&mut self, day: Date, source: &str) -> Windows<'_> {
        Windows {
            cassandra: self,
            day,
            source: source.to_owned(),
            paging_state: None,
            is_last_page: false,
            rows: VecDeque::new(),
            open: None,
            counts: Counts::default(),
        }
    }

    /// Runs a statement. A connection that has failed is given up, and the next call makes another.
    async fn run(
        &mut self,
        statement: impl Fn(&Session) -> &Prepared,
        values: &[Bind],
        page: Option<Page>,
    ) -> Result<Answer, StoreError> {
        let mut session = match self.session.take() {
            Some(session) => session,
            None => self.connect().await?,
        };
        let (page_size, paging_state) = match page {
            Some(page) => (Some(page.rows), page.from),
            None => (None, None),
        };
        let options = RunOptions {
            consistency: Consistency::LocalQuorum,
            page_size,
            paging_state,
            ..RunOptions::default()
        };
        let prepared = statement(&session).clone();
        let answer = session
            .client
            .run(Run::Prepared(&prepared, values), &options)
            .await?;
        self.session = Some(session);
        Ok(answer)
    }

    async fn connect(&self) -> Result<Session, StoreError> {
        let mut failed = ClientError::Closed;
        for (address, options) in &self.nodes {
            let session = async {
                let client = Client::negotiate(address.as_str(), options).await?;
                Session::prepare(client, &self.keyspace).await
            };
            match session.await {
                Ok(session) => return Ok(session),
                Err(error) => failed = error,
            }
        }
        Err(failed.into())
    }
}

/// A page of a read.
struct Page {
    rows: i32,
    from: Option<Vec<u8>>,
}

impl Session {
    async fn prepare(mut client: Client, keyspace: &str) -> Result<Self, ClientError> {
        let note_source = format!("INSERT INTO {keyspace}.sources_by_day (day, source) VALUES (?, ?)");
        let write_chunk = format!(
            "INSERT INTO {keyspace}.windows_by_day_and_source (day, source, start, chunk, bytes) VALUES (?, ?, ?, ?, ?)"
        );
        let read_sources = format!("SELECT source FROM {keyspace}.sources_by_day WHERE day = ?");
        let read_windows = format!(
            "SELECT start, chunk, bytes FROM {keyspace}.windows_by_day_and_source WHERE day = ? AND source = ?"
        );
        Ok(Self {
            note_source: client.prepare(&note_source).await?,
            write_chunk: client.prepare(&write_chunk).await?,
            read_sources: client.prepare(&read_sources).await?,
            read_windows: client.prepare(&read_windows).await?,
            client,
        })
    }
}

impl Windows<'_> {
    /// The next window; none after the last one.
    pub(super) async fn next(&mut self) -> Result<Option<(WindowName, Bytes)>, StoreError> {
        loop {
            while let Some(row) = self.rows.pop_front() {
                let (start, bytes) = Self::chunk(row).ok_or(FOREIGN)?;
                match &mut self.open {
                    Some((open, before)) if *open == start && before.len() + bytes.len() <= MOST_BYTES => {
                        self.counts.row()?;
                        before.extend_from_slice(&bytes);
                    }
                    Some((open, _)) if *open == start => return Err(FOREIGN),
                    open => {
                        self.counts.window()?;
                        if let Some(whole) = open.replace((start, BytesMut::from(&bytes[..]))) {
                            return self.named(whole).map(Some);
                        }
                    }
                }
            }
            if self.is_last_page {
                return self.open.take().map(|whole| self.named(whole)).transpose();
            }
            self.read_page().await?;
        }
    }

    async fn read_page(&mut self) -> Result<(), StoreError> {
        let page = Page {
            rows: PAGE,
            from: self.paging_state.take(),
        };
        let values = [date(self.day), Bind::text(&self.source)];
        let answer = self
            .cassandra
            .run(|session| &session.read_windows, &values, Some(page))
            .await?;
        self.counts.page(answer.rows.len())?;
        self.rows.extend(answer.rows);
        self.is_last_page = answer.paging_state.is_none();
        self.paging_state = answer.paging_state;
        Ok(())
    }

    fn chunk(row: Vec<Option<Bytes>>) -> Option<(Timestamp, Bytes)> {
        let [start, _chunk, bytes] = <[_; 3]>::try_from(row).ok()?;
        let start = i64::from_be_bytes(start?[..].try_into().ok()?);
        Some((Timestamp::from_millisecond(start).ok()?, bytes?))
    }

    fn named(&self, (start, bytes): (Timestamp, BytesMut)) -> Result<(WindowName, Bytes), StoreError> {
        let name = WindowName::new(start, &self.source).map_err(|_invalid| FOREIGN)?;
        Ok((name, bytes.freeze()))
    }
}

const FOREIGN: StoreError = StoreError::Foreign("windows_by_day_and_source");

/// A `date`: days since 1970 with 2³¹ added (native protocol v5, §6.6).
fn date(day: Date) -> Bind {
    let epoch = Date::constant(1970, 1, 1);
    let days = i64::from(day.since(epoch).map_or(0, |span| span.get_days()));
    let unsigned = u32::try_from(days + (1 << 31)).unwrap_or(u32::MAX);
    Bind::Bytes(Bytes::copy_from_slice(&unsigned.to_be_bytes()))
}

/// A `timestamp`: milliseconds since 1970.
fn timestamp(time: Timestamp) -> Bind {
    Bind::Bytes(Bytes::copy_from_slice(&time.as_millisecond().to_be_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The attack: pages that lead to further pages, with a window in each, or with nothing.
    #[test]
    fn windows_rows_and_empty_pages_have_an_end() {
        let mut counts = Counts::default();
        assert!((0..MOST_NAMES).all(|_| counts.window().is_ok()));
        assert!(matches!(counts.window(), Err(StoreError::TooMany)));
        assert!((1..MOST_ROWS).all(|_| counts.row().is_ok()));
        assert!(matches!(counts.row(), Err(StoreError::TooMany)));
        assert!((0..MOST_EMPTY_PAGES).all(|_| counts.page(0).is_ok()));
        assert!(counts.page(1).is_ok(), "one with a row");
        assert!((0..MOST_EMPTY_PAGES).all(|_| counts.page(0).is_ok()));
        assert!(matches!(counts.page(0), Err(StoreError::TooMany)));
    }
}
