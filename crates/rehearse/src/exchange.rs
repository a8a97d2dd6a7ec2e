//! A request that a client has sent, and what came back, apart from the connection that they passed on.
//!
//! Nothing of the cluster that answered is left in it: statements stand as text, not as ids, and a later page
//! names the exchange that it goes on from, not a paging state. So another cluster can be sent the same.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use cqlens_proto::message::{BatchKind, Consistency, SerialConsistency};
use serde::{Deserialize, Serialize};

use crate::digest::ResponseDigest;

/// A request with its response.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordedExchange {
    /// Counts up within a recording or a run of the proxy, in the order of the responses.
    pub number: u64,
    /// The connection: requests of one keep their order.
    pub connection: u64,
    /// The application and session that the request is from: a hash.
    pub actor: u64,
    /// When the request's last byte came, in microseconds since 1970.
    pub at_us: i64,
    /// What was asked.
    pub request: RecordedRequest,
    /// From the request's last byte to the response's first; none where it is not known.
    pub latency: Option<Duration>,
    /// What came back.
    pub response: ResponseDigest,
}

/// What a client has asked.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordedRequest {
    /// One statement, or those of a batch.
    pub statements: Vec<RecordedStatement>,
    /// The kind of batch; none for a single statement.
    pub batch: Option<BatchKind>,
    /// The keyspace of unqualified names.
    pub keyspace: Option<Arc<str>>,
    /// How many replicas have to answer.
    pub consistency: Consistency,
    /// For the serial phase of a conditional statement.
    pub serial_consistency: Option<SerialConsistency>,
    /// The client's write timestamp, in microseconds since 1970.
    pub timestamp: Option<i64>,
    /// The client's "now" for expiring cells, in seconds since 1970; version 5.
    pub now_in_seconds: Option<i32>,
    /// Rows a page.
    pub page_size: Option<i32>,
    /// Which page of the result.
    pub page: Page,
    /// What it does, judged by the statements.
    pub effect: Effect,
    /// Whether CQL promises the order of the rows: they are of one partition.
    pub is_ordered: bool,
    /// The pattern that the audit counts it under, as reports name it; none where it has none.
    pub pattern: Option<Arc<str>>,
}

/// A statement with its values.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordedStatement {
    /// CQL as the client has sent or prepared it.
    pub cql: Arc<str>,
    /// Whether it was prepared.
    pub is_prepared: bool,
    /// What is bound to its markers, in order.
    pub values: Vec<RecordedValue>,
}

/// A value that is bound to a marker.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordedValue {
    /// The marker's name, where values are bound by name.
    pub name: Option<Box<str>>,
    /// The value.
    pub content: ValueContent,
}

/// What a marker is bound to.
#[derive(Debug, Clone, PartialEq)]
pub enum ValueContent {
    /// Serialized.
    Bytes(Bytes),
    /// A keyed hash in place of the value, and the value's length in bytes: enough to count, not to replay.
    Hashed {
        /// The hash.
        hash: u64,
        /// Bytes of the value.
        len: u32,
    },
    /// Null.
    Null,
    /// Not set; version 4 and later.
    NotSet,
}

/// Which page of a result is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Page {
    /// The first, or all rows.
    First,
    /// The one after the page that the exchange of that number gave.
    After(u64),
    /// A later one; the page before was not recorded.
    Unknown,
}

/// What a request does to the cluster: the more, the less it may be sent elsewhere without being told to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// Reads.
    Read,
    /// Writes cells.
    Write,
    /// Adds to counters: sent twice, it counts twice.
    Counter,
    /// A conditional write: what it does depends on what is there.
    Conditional,
    /// Changes the schema, roles or permissions, or truncates.
    Definition,
}

impl RecordedExchange {
    /// Its approximate size in bytes, as if no text were shared: every holder counts the same.
    pub fn weight(&self) -> usize {
        let request = &self.request;
        let text = |text: &Option<Arc<str>>| text.as_ref().map_or(0, |text| text.len());
        let statements = request.statements.iter().map(RecordedStatement::weight);
        size_of::<Self>()
            + text(&request.keyspace)
            + text(&request.pattern)
            + self.response.weight()
            + statements.sum::<usize>()
    }
}

impl RecordedStatement {
    fn weight(&self) -> usize {
        const EACH: usize = 64;
        let of_value = |value: &RecordedValue| {
            let content = match &value.content {
                ValueContent::Bytes(bytes) => bytes.len(),
                ValueContent::Hashed { .. } | ValueContent::Null | ValueContent::NotSet => 0,
            };
            EACH + content + value.name.as_ref().map_or(0, |name| name.len())
        };
        EACH + self.cql.len() + self.values.iter().map(of_value).sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{digest::RowsDigest, testing};

    #[test]
    fn every_text_of_an_exchange_counts() {
        const LONG: usize = 1 << 20;
        let long = || "a".repeat(LONG);
        let small = || testing::exchange(1, "SELECT", ResponseDigest::Missing);
        let value = |name: Option<Box<str>>, content| RecordedValue { name, content };
        let mut all = Vec::new();
        let mut add = |change: &dyn Fn(&mut RecordedExchange)| {
            let mut exchange = small();
            change(&mut exchange);
            all.push(exchange.weight());
        };
        add(&|exchange| exchange.request.statements[0].cql = long().into());
        add(&|exchange| exchange.request.keyspace = Some(long().into()));
        add(&|exchange| exchange.request.pattern = Some(long().into()));
        add(&|exchange| {
            let content = ValueContent::Bytes(long().into());
            exchange.request.statements[0].values = vec![value(None, content)];
        });
        add(&|exchange| {
            let named = value(Some(long().into()), ValueContent::Null);
            exchange.request.statements[0].values = vec![named];
        });
        add(&|exchange| {
            exchange.response = ResponseDigest::Rows(RowsDigest {
                column_types: Some([(long(), "int".to_owned())].into()),
                ..RowsDigest::default()
            });
        });
        let small = small().weight();
        for weight in all {
            assert!((LONG..LONG + 2 * small).contains(&weight), "{weight}");
        }
    }
}
