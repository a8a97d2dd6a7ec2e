//! Which statements wrote the tombstones that others pass.

use std::{cmp::Reverse, collections::BTreeMap};

use cqlens_cql::syntax::ast::Modification;

use super::collection_overwrite::collections_set;
use crate::{
    Context, EvidenceValue, Finding, TombstoneCause, TombstoneWriter, figures::definition,
    statement::TableWrite,
};
use cqlens_cql::schema::{Schema, TableName};
use cqlens_window::{Pattern, PatternId};

/// A statement that leaves tombstones behind, or will.
pub(super) struct Writer<'w> {
    pub(super) id: PatternId,
    pattern: &'w Pattern,
    how: TombstoneCause,
    /// Executions that leave tombstones behind.
    times: u64,
}

impl Writer<'_> {
    /// Whether whole rows go, not values of them.
    pub(super) fn removes_rows(&self) -> bool {
        matches!(self.how, TombstoneCause::Deletes | TombstoneCause::Expires)
    }
}

/// Who writes tombstones to each table, those that did so most first. What was deleted before the window is
/// nobody's here.
pub(super) fn by_table<'w>(context: &Context<'w>, schema: &Schema) -> BTreeMap<TableName, Vec<Writer<'w>>> {
    let mut tables: BTreeMap<TableName, Vec<Writer<'w>>> = BTreeMap::new();
    for (name, writes) in context.writes() {
        for &TableWrite {
            id,
            pattern,
            ref modification,
        } in writes
        {
            let Some((how, times)) = how(modification, pattern, schema) else {
                continue;
            };
            let writers = tables.entry(name.clone()).or_default();
            // The statements of a batch, which come one after the other, may do the same several times.
            let mut same = writers.iter().rev().take_while(|writer| writer.id == id);
            if !same.any(|writer| writer.how == how) {
                writers.push(Writer {
                    id,
                    pattern,
                    how,
                    times,
                });
            }
        }
    }
    for writers in tables.values_mut() {
        writers.sort_by_key(|writer| (Reverse(writer.times), writer.how, writer.id));
    }
    tables
}

fn how(modification: &Modification<'_>, pattern: &Pattern, schema: &Schema) -> Option<(TombstoneCause, u64)> {
    let using = match modification {
        Modification::Delete(_) => return Some((TombstoneCause::Deletes, pattern.count)),
        Modification::Insert(insert) => &insert.using,
        Modification::Update(update) => &update.using,
    };
    if pattern.nulls.executions > 0 {
        return Some((TombstoneCause::BindsNulls, pattern.nulls.executions));
    }
    let keyspace = pattern.head.keyspace.as_deref();
    if collections_set(modification, keyspace, schema).is_some_and(|columns| !columns.is_empty()) {
        return Some((TombstoneCause::ReplacesCollections, pattern.count));
    }
    let expires = using.ttl.is_some() || table_expires(pattern, schema);
    expires.then_some((TombstoneCause::Expires, pattern.count))
}

/// Whether what is written without a TTL of its own has the table's. (`USING TTL 0` is taken for one, as
/// templates hide its value.)
fn table_expires(pattern: &Pattern, schema: &Schema) -> bool {
    definition(pattern, schema).is_some_and(|table| table.default_time_to_live() > 0)
}

/// The finding with those that did it most.
pub(super) fn named_in(finding: Finding, writers: &[Writer<'_>]) -> Finding {
    let one = |writer: &Writer<'_>| TombstoneWriter {
        statement: writer.pattern.head.cql.clone(),
        pattern: writer.id,
        how: writer.how,
        executions: writer.times,
    };
    let named: Vec<_> = writers.iter().take(MOST).map(one).collect();
    let finding = match writers.len().saturating_sub(MOST) {
        0 => finding,
        more => finding.first("tombstone_writers_left_out", more),
    };
    finding.first("tombstone_writers", EvidenceValue::TombstoneWriters(named))
}

/// Statements that a finding names.
pub(super) const MOST: usize = 3;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::{super::tombstone_heavy_read::ABOUT, *};
    use crate::{
        Severity,
        testing::{window, write},
    };
    use cqlens_cql::plan::StatementKind;

    #[test]
    fn every_way_of_leaving_tombstones_is_found_and_plain_writes_are_not() {
        let schema = "CREATE KEYSPACE s WITH replication = {'class': 'SimpleStrategy'};
                      CREATE TABLE s.t (k int PRIMARY KEY, v text, tags set<text>);
                      CREATE TABLE s.brief (k int PRIMARY KEY) WITH default_time_to_live = 600;";
        let schema = Schema::from_cql(schema).unwrap();
        let insert = |cql, times| write(cql, StatementKind::Insert, &[], times);
        let mut nulls = insert("INSERT INTO s.t (k, v) VALUES (?, ?)", 100);
        nulls.nulls.executions = 30;
        let batch = "BEGIN BATCH DELETE FROM s.t WHERE k = ? DELETE FROM s.t WHERE k = ? APPLY BATCH";
        let window = window([
            nulls,
            insert("INSERT INTO s.t (k, tags) VALUES (?, ?)", 20),
            insert("INSERT INTO s.t (k, v) VALUES (?, ?) USING TTL ?", 10),
            insert("INSERT INTO s.t (v, k) VALUES (?, ?)", 5_000),
            insert("INSERT INTO s.brief (k) VALUES (?)", 7),
            write("DELETE FROM s.t WHERE k = ?", StatementKind::Delete, &[], 40),
            write(batch, StatementKind::Batch, &[], 5),
        ]);
        let cluster = cqlens_window::Cluster::default();
        let context = Context::new(&window, &schema, &cluster);
        let tables = by_table(&context, &schema);
        let names: Vec<_> = tables.keys().map(ToString::to_string).collect();
        assert_eq!(names, ["s.brief", "s.t"]);
        let facts = |writer: &Writer<'_>| (writer.id.0, writer.how, writer.times);
        let [brief, writers] = tables.values().collect::<Vec<_>>()[..] else {
            unreachable!()
        };
        assert_eq!(
            brief.iter().map(facts).collect::<Vec<_>>(),
            [(5, TombstoneCause::Expires, 7)]
        );
        let removing = writers.iter().filter(|writer| writer.removes_rows());
        assert_eq!(removing.map(|writer| writer.id.0).collect::<Vec<_>>(), [6, 3, 7]);
        let found: Vec<_> = writers.iter().map(facts).collect();
        let expected = [
            (6, TombstoneCause::Deletes, 40),
            (1, TombstoneCause::BindsNulls, 30),
            (2, TombstoneCause::ReplacesCollections, 20),
            (3, TombstoneCause::Expires, 10),
            (7, TombstoneCause::Deletes, 5),
        ];
        assert_eq!(found, expected);
        let finding = Finding::on_all(&ABOUT, Severity::Info, Vec::new(), &context);
        let evidence = named_in(finding, writers).evidence;
        assert_eq!(evidence[1], ("tombstone_writers_left_out", 2.into()));
        assert_eq!(
            evidence[0].1.words(),
            "`DELETE FROM s.t WHERE k = ?` deletes (40 times); `INSERT INTO s.t (k, v) VALUES (?, ?)` binds nulls (30 times); \
             `INSERT INTO s.t (k, tags) VALUES (?, ?)` replaces collections (20 times)"
        );
    }
}
