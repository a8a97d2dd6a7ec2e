//! Reads system tables of one node, page by page, within a part of the memory.

use cqlens_audit::catalog::Record;
use cqlens_capture::{Clock, memory::Part};
use cqlens_client::{Answer, Client, ClientError, ClientOptions, Run, RunOptions};

/// Rows a page.
const PAGE_SIZE: i32 = 200;

/// Pages that are read of one table at the most: a bound on how long a damaged or hostile server can keep us
/// busy.
const MAX_PAGES: usize = 5_000;

/// What was made of the rows that were read, and the memory that it counts in for as long as it is kept.
#[derive(Debug)]
pub(super) struct Records<T> {
    pub(super) rows: Vec<T>,
    /// Whether there was room for all of them.
    pub(super) is_whole: bool,
    pub(super) kept: ReservedMemory,
}

/// Memory that is given back when it is dropped.
#[derive(Debug)]
pub(super) struct ReservedMemory {
    part: Part,
    bytes: usize,
}

impl ReservedMemory {
    fn take(&mut self, bytes: usize) -> bool {
        let has_room = self.part.has_room_for(bytes);
        if has_room {
            self.part.take(bytes);
            self.bytes += bytes;
        } else {
            self.part.count_evicted(1);
        }
        has_room
    }
}

impl Drop for ReservedMemory {
    fn drop(&mut self) {
        self.part.give_back(self.bytes);
    }
}

/// Reads system tables of one node, within a part of the memory.
#[derive(Debug)]
pub struct SystemReader {
    pub(super) client: Client,
    pub(super) clock: Clock,
    memory: Part,
}

impl Drop for SystemReader {
    fn drop(&mut self) {
        self.count_dropped_events();
    }
}

impl SystemReader {
    /// Answers, and what is made of them, take up as much as `memory` has room for.
    pub fn new(client: Client, memory: Part) -> Self {
        Self {
            client,
            clock: Clock::start(),
            memory,
        }
    }

    /// Over a connection of its own, which the newest version opens that the node takes.
    ///
    /// # Errors
    /// The connection's and the server's.
    pub async fn connect(address: &str, options: &ClientOptions) -> Result<Self, ClientError> {
        let client = Client::negotiate(address, options).await?;
        Ok(Self::new(
            client,
            Part::new("client", 4 * options.max_answer_bytes),
        ))
    }

    /// Sets the keyspace of what is read afterwards.
    ///
    /// # Errors
    /// The connection's and the server's.
    pub async fn use_keyspace(&mut self, keyspace: &str) -> Result<(), ClientError> {
        let quoted = keyspace.replace('"', "\"\"");
        self.client.query(&format!("USE \"{quoted}\"")).await?;
        Ok(())
    }

    async fn page(&mut self, cql: &str, options: &RunOptions) -> Result<Answer, ClientError> {
        let page = self.client.run(Run::Text(cql, &[]), options).await;
        self.count_dropped_events();
        match page {
            Err(ClientError::TooLarge { .. }) => Err(self.too_large()),
            page => page,
        }
    }

    /// Counts what the client had no room for.
    fn count_dropped_events(&mut self) {
        self.memory.count_evicted(self.client.take_events_dropped());
    }

    fn too_large(&self) -> ClientError {
        self.memory.count_evicted(1);
        ClientError::TooLarge {
            limit: self.memory.limit(),
        }
    }

    /// All rows of a statement without values, over all pages.
    ///
    /// # Errors
    /// The connection's and the server's, cells that are no values of their columns, and rows that there is
    /// no room for.
    pub(super) async fn records(&mut self, cql: &str) -> Result<Vec<Record>, ClientError> {
        let records = self
            .records_that_fit(cql, Record::weight, |record| record)
            .await?;
        match records.is_whole {
            true => Ok(records.rows),
            false => Err(self.too_large()),
        }
    }

    /// What `make` makes of each row, which takes up `weight`, or of as many rows as there is room for.
    ///
    /// # Errors
    /// The connection's and the server's, and cells that are no values of their columns.
    pub(super) async fn records_that_fit<T>(
        &mut self,
        cql: &str,
        weight: impl Fn(&Record) -> usize,
        make: impl Fn(Record) -> T,
    ) -> Result<Records<T>, ClientError> {
        let mut records = Records {
            rows: Vec::new(),
            is_whole: true,
            kept: ReservedMemory {
                part: self.memory.clone(),
                bytes: 0,
            },
        };
        self.each_record(cql, |record| {
            records.is_whole = records.kept.take(weight(&record));
            if records.is_whole {
                records.rows.push(make(record));
            }
            records.is_whole
        })
        .await?;
        Ok(records)
    }

    /// Hands over each row of a statement without values, over all pages, until `each` wants no more.
    ///
    /// # Errors
    /// The connection's and the server's, cells that are no values of their columns, and pages without an
    /// end.
    pub(super) async fn each_record(
        &mut self,
        cql: &str,
        mut each: impl FnMut(Record) -> bool,
    ) -> Result<(), ClientError> {
        let mut options = RunOptions {
            page_size: Some(PAGE_SIZE),
            ..RunOptions::default()
        };
        for _ in 0..MAX_PAGES {
            let page = self.page(cql, &options).await?;
            for row in &page.rows {
                let columns = page.columns.iter();
                let columns = columns.map(|column| (column.name.as_str(), &column.column_type));
                if !each(Record::new(columns, row)?) {
                    return Ok(());
                }
            }
            if page.paging_state.is_none() {
                return Ok(());
            }
            if page.paging_state == options.paging_state {
                return Err(ClientError::Endless("a page leads to itself"));
            }
            options.paging_state = page.paging_state;
        }
        Err(ClientError::Endless("there are thousands of them"))
    }
}
