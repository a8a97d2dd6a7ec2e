//! The way from a table to one that is suggested, in the order in which no row is lost and no query fails.

use std::borrow::Cow;

use cqlens_cql::schema::{Column, ColumnKind, Schema, Table, quote};

use super::definition::{create, insert, name, names};
use crate::Context;

/// A table that takes over queries of another one.
pub(super) struct Migration<'a> {
    pub(super) from: &'a Table,
    pub(super) to: &'a Table,
    /// How columns are computed that the old table does not have: lines of comment.
    pub(super) computed: &'a str,
    /// Whether nothing reads the old table afterwards.
    pub(super) replaces: bool,
    /// How the new table is read: completes "read the new table".
    pub(super) reads: &'a str,
}

/// How the application writes a table.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Writing {
    /// Rows have a TTL, by the table or by statements.
    pub(super) expires: bool,
    /// Some writes have a condition.
    pub(super) is_conditional: bool,
}

impl Migration<'_> {
    /// The statements: creating the table, writing both, copying and then reading with these queries, and what goes
    /// in the end.
    pub(super) fn steps(&self, queries: Vec<String>, context: &Context<'_>) -> Vec<String> {
        let from = self.written(context.schema);
        let mut writing = context.asked(from).writing;
        writing.expires |= from.default_time_to_live() > 0;
        let mut steps = vec![
            format!("-- 1. create the table\n{}{}", self.computed, create(self.to)),
            self.write_both(from, writing),
            self.copy(from, writing),
        ];
        steps.extend(numbered(
            format!("-- 4. read the new table{}", self.reads),
            queries,
        ));
        // A view does not hold the rows of its base.
        if self.replaces && self.from.view.is_none() {
            steps.push(format!(
                "-- 5. once nothing uses the old table:\n-- DROP TABLE {};",
                name(from)
            ));
        }
        steps
    }

    /// The same for a queue, whose rows are done with before long: written to both tables, or copied, what is done
    /// with in one of them would be done again.
    pub(super) fn drain(&self, queries: Vec<String>) -> Vec<String> {
        let from = name(self.from);
        let mut steps = vec![
            format!("-- 1. create the table\n{}{}", self.computed, create(self.to)),
            format!(
                "-- 2. write new rows to it, and to {from} no more\n{}",
                insert(self.to, "")
            ),
        ];
        steps.extend(numbered(
            format!(
                "-- 3. finish the rows of {from}; read the new table{}",
                self.reads
            ),
            queries,
        ));
        steps.push(format!(
            "-- 4. once the old table is empty, or what stays of it was moved:\n-- DROP TABLE {from};"
        ));
        steps
    }

    /// Views are written through their base table.
    fn written<'s>(&'s self, schema: &'s Schema) -> &'s Table {
        let base = self.from.view.as_ref().map(|view| view.base.as_str());
        base.and_then(|base| schema.table(&self.from.keyspace, base))
            .unwrap_or(self.from)
    }

    fn write_both(&self, from: &Table, writing: Writing) -> String {
        let ttl = if writing.expires && from.default_time_to_live() == 0 {
            " USING TTL ?"
        } else {
            ""
        };
        let write = |table: &Table| insert(table, ttl);
        let both = match writing.is_conditional {
            // A batch with a condition is of one partition.
            true => format!(
                "-- 2. write both: the new table once a conditional write was applied\n{}",
                write(self.to)
            ),
            false => format!(
                "-- 2. write both, in one logged batch\nBEGIN BATCH\n  {}\n  {}\nAPPLY BATCH;",
                write(from),
                write(self.to)
            ),
        };
        format!("{both}\n{}{}", self.of_statics(from), self.delete(from))
    }

    /// A row whose key holds what changes moves when it does.
    fn delete(&self, from: &Table) -> String {
        let moving: Vec<_> = self.keys_that_change(from).collect();
        let when = match moving.as_slice() {
            [] => "-- delete from both".to_owned(),
            columns => format!(
                "-- delete from both; delete the old row here when {} changes",
                columns.join(" or ")
            ),
        };
        let key = self.to.columns.iter().filter(|column| column.is_primary_key());
        let key: Vec<_> = key.map(|column| format!("{} = ?", quote(&column.name))).collect();
        format!(
            "{when}\nDELETE FROM {} WHERE {};",
            name(self.to),
            key.join(" AND ")
        )
    }

    /// What was once for a partition, and now stands in each row.
    fn of_statics(&self, from: &Table) -> String {
        let were_static = self.to.columns.iter().filter(|column| {
            let old = from.column(&column.name);
            column.kind != ColumnKind::Static && old.is_some_and(|old| old.kind == ColumnKind::Static)
        });
        let were_static: Vec<_> = were_static.map(|column| quote(&column.name)).collect();
        match were_static.is_empty() {
            true => String::new(),
            false => format!(
                "-- each row has {}, static until now: change all\n",
                were_static.join(", ")
            ),
        }
    }

    /// Columns of the new key that are plain columns of the table.
    fn keys_that_change<'s>(&'s self, from: &'s Table) -> impl Iterator<Item = Cow<'s, str>> {
        let new = self.to.columns.iter().filter(|column| column.is_primary_key());
        new.filter(|column| {
            let old = from.column(&column.name);
            old.is_some_and(|old| !old.is_primary_key())
        })
        .map(|column| quote(&column.name))
    }

    /// One timestamp for all rows, from when both were written: what was written later wins, and is in the new table
    /// anyway.
    fn copy(&self, from: &Table, writing: Writing) -> String {
        let has = |column: &&Column| self.to.column(&column.name).is_some();
        let mut read: Vec<_> = from
            .columns
            .iter()
            .filter(has)
            .map(|column| quote(&column.name).into_owned())
            .collect();
        let has_ttl =
            |column: &&Column| column.kind == ColumnKind::Regular && !column.data_type.is_multi_cell();
        let with_ttl = from.columns.iter().find(has_ttl).filter(|_| writing.expires);
        let mut using = " USING TIMESTAMP ?";
        if let Some(column) = with_ttl {
            read.push(format!("TTL({})", quote(&column.name)));
            using = " USING TTL ? AND TIMESTAMP ?";
        }
        let token = format!("token({})", names(from.partition_key()));
        let moving: Vec<_> = self.keys_that_change(from).collect();
        let nulls = match moving.as_slice() {
            [] => String::new(),
            columns => format!("-- rows without {} stay out\n", columns.join(" or ")),
        };
        format!(
            "-- 3. copy the rows, range after range of the ring\n{nulls}\
             SELECT {} FROM {} WHERE {token} > ? AND {token} <= ?;\n{}\n\
             -- TIMESTAMP: when all writers wrote both; what they write later wins",
            read.join(", "),
            name(from),
            insert(self.to, using)
        )
    }
}

/// Statements of one step, which is said with the first.
fn numbered(step: String, queries: Vec<String>) -> impl Iterator<Item = String> {
    let mut step = Some(step);
    queries.into_iter().map(move |query| match step.take() {
        Some(step) => format!("{step}\n{query}"),
        None => query,
    })
}
