//! What a request says beside its statement: values, keyspace, paging, times.

use cqlens_cql::syntax::ast::BindMarker;
use cqlens_proto::message::{Consistency, Value, Values};

use super::answer::ResultColumn;
use super::failure::Failure;
use super::store::{Seconds, Timestamp};
use super::transaction::NamedRows;

/// How one statement is to be run.
#[derive(Debug, Clone)]
pub(super) struct Execution<'a> {
    /// The keyspace of unqualified names.
    pub(super) keyspace: Option<&'a str>,
    /// What is bound to the markers.
    pub(super) bindings: Bindings<'a>,
    /// Taken, and only repeated in errors.
    pub(super) consistency: Consistency,
    /// Rows a page; `None`: all.
    pub(super) page_size: Option<usize>,
    /// Where the page starts.
    pub(super) paging_state: Option<&'a [u8]>,
    /// The time of writes that do not state their own.
    pub(super) timestamp: Timestamp,
    /// Decides what has expired.
    pub(super) now: Seconds,
    /// Whether it is a part of a transaction: `c += 1` reads `c`.
    pub(super) is_in_transaction: bool,
    /// What values of a transaction may refer to.
    pub(super) named_rows: NamedRows,
    /// The node's clock, in microseconds since 1970, whatever the client says it is.
    pub(super) clock_micros: i64,
}

/// Bound values by the index of their marker.
#[derive(Debug, Clone, Default)]
pub(super) struct Bindings<'a> {
    values: Vec<Value<'a>>,
}

impl<'a> Bindings<'a> {
    /// Puts the values of a request in the order of the markers.
    ///
    /// # Errors
    /// More or fewer values than markers, or a name that no value has.
    pub(super) fn of(values: &Values<'a>, markers: &[ResultColumn]) -> Result<Bindings<'a>, Failure> {
        if values.is_named() {
            let by_name = |marker: &ResultColumn| {
                values
                    .named(&marker.name)
                    .ok_or_else(|| Failure::invalid("Invalid amount of bind variables"))
            };
            return Ok(Bindings {
                values: markers.iter().map(by_name).collect::<Result<_, _>>()?,
            });
        }
        if values.len() != markers.len() {
            let (marked, bound) = (markers.len(), values.len());
            return Err(Failure::invalid(format!(
                "Invalid amount of bind variables: there were {marked} markers(?) in CQL but {bound} bound variables"
            )));
        }
        Ok(Bindings {
            values: values.iter().map(|(_, value)| value).collect(),
        })
    }

    /// The value of a marker.
    pub(super) fn value(&self, marker: &BindMarker<'_>) -> Value<'a> {
        self.values.get(marker.index).copied().unwrap_or(Value::NotSet)
    }
}
