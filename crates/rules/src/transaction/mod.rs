//! Rules on the transactions of Cassandra 6.0 (`BEGIN TRANSACTION`), and on the tables that they may touch.

mod contended_transaction;
mod multi_partition_transaction;
mod single_partition_transaction;
mod transactional_mode;
mod unused_transaction_read;

use std::{collections::BTreeMap, rc::Rc};

use super::{
    About, Context, Finding, Findings, Severity, Threshold, by_table::PatternList, figures::user_patterns,
};
use cqlens_cql::{
    plan::StatementKind,
    schema::TableName,
    syntax::ast::{Body, Returning, Statement, Transaction},
};
use cqlens_window::{Pattern, PatternId};

pub(super) use contended_transaction::ContendedTransaction;
pub(super) use multi_partition_transaction::MultiPartitionTransaction;
pub(super) use single_partition_transaction::SinglePartitionTransaction;
pub(super) use transactional_mode::TransactionalMode;
pub(super) use unused_transaction_read::UnusedTransactionRead;

const GROUP: &str = "transactions";

/// A pattern that is a transaction, and its text.
struct Transacted<'a> {
    id: PatternId,
    pattern: &'a Pattern,
    statement: Rc<Statement<'a>>,
}

impl<'a> Transacted<'a> {
    fn transaction(&self) -> Option<&Transaction<'a>> {
        match &self.statement.body {
            Body::Transaction(transaction) => Some(transaction),
            _ => None,
        }
    }

    fn on(&self) -> (PatternId, &'a Pattern) {
        (self.id, self.pattern)
    }

    /// The tables that it reads or writes, each once.
    fn tables(&self) -> Vec<TableName> {
        let Some(transaction) = self.transaction() else {
            return Vec::new();
        };
        let read = transaction.lets.iter().map(|read| &read.select.table);
        let returned = match &transaction.returning {
            Some(Returning::Select(select)) => Some(&select.table),
            _ => None,
        };
        let written = transaction.updates.iter().map(|update| update.table());
        let keyspace = self.pattern.head.keyspace.as_deref();
        let names = read.chain(returned).chain(written).filter_map(|name| {
            Some(TableName {
                keyspace: name.keyspace_or(keyspace)?.to_owned(),
                table: name.name.as_str().to_owned(),
            })
        });
        let mut names: Vec<_> = names.collect();
        names.sort();
        names.dedup();
        names
    }
}

/// The application's own transactions, but for those that the server always refused.
fn user_transactions<'a>(context: &Context<'a>) -> impl Iterator<Item = Transacted<'a>> {
    let patterns = user_patterns(context).filter(|(_, pattern)| {
        pattern.head.kind == StatementKind::Transaction && !pattern.classes.is_empty()
    });
    patterns.filter_map(|(id, pattern)| {
        Some(Transacted {
            id,
            pattern,
            statement: context.statement(id)?,
        })
    })
}

/// The application's own transactions, by each of the tables that they read or write.
pub(super) fn by_table<'a>(context: &Context<'a>) -> BTreeMap<TableName, PatternList<'a>> {
    let mut tables: BTreeMap<_, PatternList<'a>> = BTreeMap::new();
    for transacted in user_transactions(context) {
        for table in transacted.tables() {
            tables.entry(table).or_default().push(transacted.on());
        }
    }
    tables
}

impl Finding {
    /// The same with what a transaction does instead, where the servers have them and all of these tables may be in one.
    pub(super) fn or_in_a_transaction<'t>(
        mut self,
        mut tables: impl Iterator<Item = &'t TableName>,
        sentence: &str,
        context: &Context<'_>,
    ) -> Self {
        if tables.all(|table| context.has_transactions_on(table)) {
            self.advice = format!("{} {sentence}", self.advice);
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{RULES, Settings, check, testing};
    use cqlens_cql::{plan::Flag, schema::Schema};
    use cqlens_window::Cluster;

    /// The advice on a batch of two tables, on a server of this version.
    fn advice(version: &str, mode: &str, with_transaction: bool) -> String {
        let schema = format!(
            "CREATE KEYSPACE shop WITH replication = {{'class': 'SimpleStrategy'}};
             CREATE TABLE shop.a (id int PRIMARY KEY, v int) WITH transactional_mode = '{mode}';
             CREATE TABLE shop.b (id int PRIMARY KEY, v int) WITH transactional_mode = '{mode}';"
        );
        let batch = "BEGIN BATCH INSERT INTO shop.a (id, v) VALUES (?, ?); \
            INSERT INTO shop.b (id, v) VALUES (?, ?); APPLY BATCH";
        let flags = [Flag::LoggedBatch, Flag::SeveralTables];
        let mut patterns = vec![testing::with_partitions(
            testing::write(batch, StatementKind::Batch, &flags, 600),
            2,
        )];
        if with_transaction {
            let both = "BEGIN TRANSACTION UPDATE shop.a SET v = ? WHERE id = ?; \
                UPDATE shop.b SET v = ? WHERE id = ?; COMMIT TRANSACTION";
            patterns.push(testing::transaction(both, &flags[1..], 2, 600));
        }
        let cluster = Cluster {
            release_version: Some(version.to_owned()),
            ..Cluster::default()
        };
        let (window, schema) = (
            testing::window(patterns),
            Schema::from_cql(&schema).expect("a schema"),
        );
        let judgement = check(&Context::new(&window, &schema, &cluster), &Settings::default());
        let mut findings = judgement.findings.into_iter();
        let batch = findings.find(|finding| finding.rule == "logged-batch-multi-partition");
        batch.expect("a finding on the batch").advice
    }

    #[test]
    fn transactions_are_advised_where_server_and_tables_have_them() {
        let of_transactions = |version, mode, seen| advice(version, mode, seen).contains("A transaction");
        assert!(of_transactions("6.0-alpha2", "full", false));
        assert!(of_transactions("6.0-alpha2", "off", true), "one was seen");
        assert!(!of_transactions("6.0-alpha2", "off", false));
        assert!(!of_transactions("5.0.9", "full", false));
    }

    #[test]
    fn all_rules_of_the_group_are_in_the_catalogue() {
        let rules = RULES.iter().map(|rule| rule.about());
        assert_eq!(rules.filter(|about| about.group == GROUP).count(), 5);
    }
}
