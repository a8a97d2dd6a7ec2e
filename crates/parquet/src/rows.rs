//! The tables: which rows a window has in each, and what the columns say.

use std::collections::BTreeMap;

use arrow_array::RecordBatch;
use arrow_schema::ArrowError;
use cqlens_rules::application_name;
use cqlens_window::{Cluster, Pattern, PatternId, Snapshot, TableTraffic, Window};
use jiff::Timestamp;
use serde::Serialize;

use crate::columns::{Column, Columns};

/// The version of the tables, in the metadata of each file as `cqlens.format`. Within a version, columns are added; none is renamed or
/// removed.
pub const FORMAT: &str = "cqlens.parquet.v1";

/// The statements of a window.
type Patterns = BTreeMap<PatternId, Pattern>;

/// The rows that a snapshot has in a table.
type Rows = fn(&Snapshot) -> Columns;

/// The tables.
pub const TABLES: [&str; 4] = ["windows", "patterns", "tables", "clients"];

const ROWS: [Rows; 4] = [windows, patterns, tables, clients];

/// The rows of a snapshot in each table.
///
/// # Errors
/// A bug in here: columns of different lengths.
pub(crate) fn rows(snapshot: &Snapshot) -> Result<[RecordBatch; 4], ArrowError> {
    let [windows, patterns, tables, clients] = ROWS.map(|rows| rows(snapshot).rows());
    Ok([windows?, patterns?, tables?, clients?])
}

/// What the columns of a table are, by the table's place in [`TABLES`].
pub fn columns(table: usize) -> Vec<Column> {
    let window = Window::new(Timestamp::UNIX_EPOCH, "");
    let empty = Snapshot::new(window, Cluster::default(), String::new(), String::new());
    ROWS.get(table)
        .map(|rows| rows(&empty).describe())
        .unwrap_or_default()
}

/// As reports write it.
fn name<T: Serialize>(of: &T) -> String {
    let value = serde_json::to_value(of).unwrap_or_default();
    value.as_str().unwrap_or_default().to_owned()
}

/// Which window the rows are of: the first columns of every table.
fn of_window(columns: &mut Columns, window: &Window, rows: usize) {
    let every = || std::iter::repeat_n(window, rows);
    let sources = every().map(|window| window.sources.iter());
    columns.texts(
        "sources",
        "The proxies or captures that saw the traffic: one, unless windows of several were merged",
        sources,
    );
    columns.time(
        "start",
        "When observation began",
        every().map(|window| window.start),
    );
    columns.time("end", "When it ended", every().map(|window| window.end));
}

fn windows(snapshot: &Snapshot) -> Columns {
    let mut columns = Columns::default();
    of_window(&mut columns, &snapshot.window, 1);
    let one = || std::iter::once(&snapshot.window);
    let mut count = |name, about, figure: fn(&Window) -> u64| columns.whole(name, about, one().map(figure));
    count("requests", "Requests that passed", |window| {
        window.coverage.requests
    });
    count("audited", "Requests that were decoded and counted", |window| {
        window.coverage.audited
    });
    count(
        "dropped",
        "Requests that were left out because the audit was behind",
        |window| window.coverage.dropped,
    );
    count("undecoded", "Requests that could not be decoded", |window| {
        window.coverage.undecoded
    });
    count(
        "unparsed",
        "Statements that the CQL parser did not understand and the server did not refuse",
        |window| window.coverage.unparsed,
    );
    count(
        "system_requests",
        "Requests on system keyspaces, which drivers send on their own",
        |window| window.coverage.system_requests,
    );
    count(
        "partitions_exact",
        "Executions whose number of partitions is exact",
        |window| window.coverage.partitions_exact,
    );
    count(
        "partitions_bounded",
        "Executions with an upper bound of it",
        |window| window.coverage.partitions_bounded,
    );
    count("partitions_scan", "Executions that scan", |window| {
        window.coverage.partitions_scan
    });
    count(
        "partitions_unknown",
        "Executions whose number of partitions is unknown",
        |window| window.coverage.partitions_unknown,
    );
    columns.number(
        "observed_seconds",
        "Seconds in which at least one source watched",
        one().map(|window| window.observed_seconds),
    );
    columns.text(
        "key_id",
        "The key of the hashes: distinct counts of two keys do not merge",
        std::iter::once(&snapshot.key_id),
    );
    columns.text(
        "version",
        "The version of cqlens that wrote the window",
        std::iter::once(&snapshot.version),
    );
    columns
}

fn patterns(snapshot: &Snapshot) -> Columns {
    let patterns = &snapshot.window.patterns;
    let mut columns = Columns::default();
    of_window(&mut columns, &snapshot.window, patterns.len());
    let ids = patterns.keys().map(ToString::to_string);
    columns.text(
        "pattern",
        "The id of the statement in reports, 16 hex digits; zeros for all for which there was no room",
        ids,
    );
    let all = || patterns.values();
    columns.text(
        "kind",
        "What it does: select, insert, update, delete, batch, …",
        all().map(|pattern| name(&pattern.head.kind)),
    );
    columns.optional_text(
        "keyspace",
        "Its keyspace",
        all().map(|pattern| pattern.head.keyspace.as_ref()),
    );
    columns.optional_text(
        "table",
        "Its table; the first one of a batch",
        all().map(|pattern| pattern.head.table.as_ref()),
    );
    columns.text(
        "cql",
        "The statement, with ? for every value",
        all().map(|pattern| &pattern.head.cql),
    );
    columns.boolean(
        "system",
        "Whether it is on a system keyspace: a statement of drivers and tools, which reports leave out",
        all().map(|pattern| pattern.head.system),
    );
    let flags = all().map(|pattern| pattern.flags.iter().map(name));
    columns.texts(
        "flags",
        "What the statement is under the schema in force: allow-filtering, in-partition-key, …",
        flags,
    );
    figures(&mut columns, patterns);
    by_name(&mut columns, patterns);
    columns
}

/// Counts and distributions of statements.
fn figures(columns: &mut Columns, patterns: &Patterns) {
    let all = || patterns.values();
    let mut count = |name, about, figure: fn(&Pattern) -> u64| columns.whole(name, about, all().map(figure));
    count("count", "Executions, errors included", |pattern| pattern.count);
    count("errors", "Executions that returned an error", |pattern| {
        pattern.errors
    });
    count("warnings", "Warnings of the server", |pattern| pattern.warnings);
    count("reads", "Reads, the pages of one counted once", |pattern| {
        pattern.logical_reads
    });
    count(
        "pages",
        "Responses that were a page of a longer read",
        |pattern| pattern.pages,
    );
    count("unpaged", "Reads that asked for no page size", |pattern| {
        pattern.unpaged
    });
    count("prepared", "Executions of a prepared statement", |pattern| {
        pattern.prepared
    });
    count("unprepared", "Executions that sent the text", |pattern| {
        pattern.unprepared
    });
    count(
        "not_applied",
        "Conditional writes whose condition did not hold",
        |pattern| pattern.not_applied,
    );
    count(
        "tombstone_warnings",
        "Reads with a warning of tombstones",
        |pattern| pattern.tombstones.warned,
    );
    count(
        "tombstone_failures",
        "Reads that the server gave up because of tombstones",
        |pattern| pattern.tombstones.aborted,
    );
    columns.distribution(
        "latency_us",
        "From the request to the response, in microseconds",
        all().map(|pattern| &pattern.latency_us),
    );
    columns.distribution(
        "partitions",
        "Partitions of each execution, where their number is known",
        all().map(|pattern| &pattern.partitions),
    );
    columns.distribution(
        "rows",
        "Rows of each response",
        all().map(|pattern| &pattern.rows),
    );
    columns.distribution(
        "request_bytes",
        "Size of each request",
        all().map(|pattern| &pattern.request_bytes),
    );
    columns.distribution(
        "response_bytes",
        "Size of each response",
        all().map(|pattern| &pattern.response_bytes),
    );
    columns.distribution(
        "tombstones",
        "Tombstones of each read for which the server gave a number",
        all().map(|pattern| &pattern.tombstones.scanned),
    );
}

/// What is counted of statements by name.
fn by_name(columns: &mut Columns, patterns: &Patterns) {
    let all = || patterns.values();
    let classes = all().map(|pattern| pattern.classes.iter().map(|(class, &count)| (name(class), count)));
    columns.counts("classes", "Executions by what they touch", classes);
    let levels = all().map(|pattern| pattern.consistency.iter().map(|(level, &count)| (level, count)));
    columns.counts("consistency", "Executions by consistency level", levels);
    let codes = all().map(|pattern| {
        pattern
            .error_codes
            .iter()
            .map(|(code, &count)| (format!("0x{code:04X}"), count))
    });
    columns.counts("error_codes", "Errors by the protocol's code", codes);
    let clients = all().map(|pattern| pattern.clients.iter().map(|(client, &count)| (client, count)));
    columns.counts(
        "clients",
        "Executions by client: application, driver and address as far as known",
        clients,
    );
}

fn tables(snapshot: &Snapshot) -> Columns {
    let tables = &snapshot.window.tables;
    let mut columns = Columns::default();
    of_window(&mut columns, &snapshot.window, tables.len());
    columns.text(
        "keyspace",
        "The keyspace",
        tables.keys().map(|name| &name.keyspace),
    );
    columns.text(
        "table",
        "The table or view",
        tables.keys().map(|name| &name.table),
    );
    let all = || tables.values();
    let mut count =
        |name, about, figure: fn(&TableTraffic) -> u64| columns.whole(name, about, all().map(figure));
    count("reads", "Reads; each page counts", |table| table.reads);
    count("writes", "Writes, those inside batches included", |table| {
        table.writes
    });
    columns.distribution(
        "partitions_per_read",
        "Partitions of each read, where their number is known",
        all().map(|table| &table.partitions_per_read),
    );
    columns.distribution(
        "tombstones",
        "Tombstones of each read for which the server gave a number",
        all().map(|table| &table.tombstones.scanned),
    );
    columns.bytes(
        "distinct_partitions",
        "Distinct partitions that were named: a HyperLogLog sketch of Apache DataSketches (HLL_4, lgK 11)",
        all().map(|table| table.distinct_partitions.to_datasketches()),
    );
    columns
}

fn clients(snapshot: &Snapshot) -> Columns {
    let clients = &snapshot.window.clients;
    let mut columns = Columns::default();
    of_window(&mut columns, &snapshot.window, clients.len());
    columns.text(
        "client",
        "Application, driver and address as far as known",
        clients.keys(),
    );
    columns.text(
        "application",
        "The application alone",
        clients.keys().map(|client| application_name(client)),
    );
    columns.whole("requests", "Requests", clients.values().copied());
    columns
}
