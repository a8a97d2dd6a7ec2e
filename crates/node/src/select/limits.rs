//! `LIMIT`, `PER PARTITION LIMIT` and pages: how many rows a SELECT reads.

use cqlens_cql::syntax::ast::{Select, Term};
use cqlens_proto::types::CqlType;

use crate::bind::{self, Bound};
use crate::execution::Execution;
use crate::failure::Failure;
use crate::paging::Mark;

/// How many rows are read.
#[derive(Debug)]
pub(super) struct RowLimits {
    /// LIMIT, less what earlier pages took.
    pub(super) limit: u64,
    /// PER PARTITION LIMIT.
    pub(super) per_partition: u64,
    /// Rows of this page.
    pub(super) page: u64,
    /// Whether all rows are read before LIMIT is looked at.
    pub(super) reads_all: bool,
    /// Where the page before this one ended.
    pub(super) resume: Option<Mark>,
}

impl RowLimits {
    /// Reads `LIMIT`, `PER PARTITION LIMIT` and the paging of the request.
    ///
    /// # Errors
    /// Limits that are not positive numbers, and paging states that this node did not make.
    pub(super) fn of(
        select: &Select<'_>,
        reads_all: bool,
        execution: &Execution<'_>,
    ) -> Result<RowLimits, Failure> {
        let limit = row_count(select.limit.as_ref(), "LIMIT", execution)?;
        let per_partition = row_count(
            select.per_partition_limit.as_ref(),
            "PER PARTITION LIMIT",
            execution,
        )?;
        let page = execution
            .page_size
            .filter(|_| !reads_all)
            .map_or(u64::MAX, |rows| rows as u64);
        let resume = execution.paging_state.map(Mark::decode).transpose()?;
        let limit = resume.as_ref().map_or(limit, |mark| mark.rows_left);
        Ok(RowLimits {
            limit,
            per_partition,
            page,
            reads_all,
            resume,
        })
    }
}

/// The number behind LIMIT; without one, or not set, there is no limit.
fn row_count(term: Option<&Term<'_>>, what: &str, execution: &Execution<'_>) -> Result<u64, Failure> {
    let Some(term) = term else { return Ok(u64::MAX) };
    let bytes = match bind::term(term, &CqlType::Int, execution)? {
        Bound::NotSet => return Ok(u64::MAX),
        bound => bound.required(what)?,
    };
    let rows = bytes[..].try_into().map(i32::from_be_bytes).unwrap_or(0);
    match u64::try_from(rows) {
        Ok(rows @ 1..) => Ok(rows),
        _ => Err(Failure::invalid(format!("{what} must be strictly positive"))),
    }
}
