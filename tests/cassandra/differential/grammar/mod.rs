//! Statements of all shapes over the tables of a schema, most of them right, drawn from a seed.
//!
//! The generator knows nothing of what a statement should do: that is the server's to say.

pub(crate) mod broken;
mod definition;
mod literal;
mod modification;
mod relation;
mod select;
mod style;
mod term;
mod transaction;

use cqlens_cql::ServerVersion;
use cqlens_cql::schema::{Column, ColumnKind, Keyspace, Table, quote};
use cqlens_proto::types::CqlType;

use super::case::{Case, Group, Text};
use super::random::Random;
use definition::Definitions;

/// Draws statements.
pub(crate) struct Grammar<'s> {
    random: Random,
    keyspace: &'s Keyspace,
    server: ServerVersion,
    /// How the statement at hand writes its values.
    markers: Markers,
    /// Markers of the statement at hand that have names of their own.
    named: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Markers {
    None,
    Positional,
    Named,
    Some,
}

impl<'s> Grammar<'s> {
    pub(crate) fn new(seed: u64, keyspace: &'s Keyspace, server: ServerVersion) -> Self {
        Self {
            random: Random::new(seed),
            keyspace,
            server,
            markers: Markers::None,
            named: 0,
        }
    }

    /// So many statements of a group.
    pub(crate) fn cases(&mut self, group: Group, count: usize) -> Vec<Case> {
        (0..count)
            .map(|_| Case {
                group,
                text: self.text(group),
            })
            .collect()
    }

    fn text(&mut self, group: Group) -> Text {
        let statement = match group {
            Group::Message => return self.message(),
            Group::Broken => {
                let mut groups = vec![
                    Group::Select,
                    Group::Insert,
                    Group::Update,
                    Group::Delete,
                    Group::Batch,
                    Group::Definition,
                ];
                groups.extend(self.is_6_0().then_some(Group::Transaction));
                let group = *self.random.element(&groups);
                let sound = match group {
                    Group::Definition => self.definition(),
                    group => self.statement(group),
                };
                broken::damage(&mut self.random, &sound)
            }
            Group::Definition => self.definition(),
            group => self.statement(group),
        };
        Text::Statement(style::dress(&mut self.random, &statement))
    }

    /// A statement in plain style: keywords in upper case, one blank between words.
    fn statement(&mut self, group: Group) -> String {
        self.begin();
        match group {
            Group::Select => self.select(),
            Group::Insert => self.insert(),
            Group::Update => self.update(),
            Group::Delete => self.delete(),
            Group::Batch => self.batch(),
            Group::Transaction => self.transaction(),
            other => unreachable!("{other:?} has no grammar of its own"),
        }
    }

    fn definition(&mut self) -> String {
        Definitions::new(&mut self.random, self.server).any()
    }

    /// Whether the server knows what is new in 6.0.
    fn is_6_0(&self) -> bool {
        self.server >= ServerVersion::V6_0
    }

    /// True in so many of a hundred cases, on Cassandra 6.0; on older versions it draws nothing.
    fn on_6_0(&mut self, percent: usize) -> bool {
        self.is_6_0() && self.random.chance(percent)
    }

    fn begin(&mut self) {
        self.named = 0;
        self.markers = match self.random.below(100) {
            0..35 => Markers::None,
            35..70 => Markers::Positional,
            70..85 => Markers::Named,
            _ => Markers::Some,
        };
    }

    /// A BATCH message of up to five modifications, some of them prepared.
    fn message(&mut self) -> Text {
        let counters = self.random.chance(15);
        let kind = match self.random.below(10) {
            _ if counters => 2,
            0..5 => 0,
            _ => 1,
        };
        let statements = (0..self.random.between(1, 5)).map(|_| {
            self.begin();
            (self.modification(counters), self.random.chance(60))
        });
        Text::Message {
            kind,
            statements: statements.collect(),
        }
    }

    /// Any table without a transactional mode: statements on the others go through Accord, whose traces differ.
    fn table(&mut self) -> &'s Table {
        self.table_that(|table| !table.is_transactional())
    }

    /// Tables with something to say come more often than those that are only a key.
    fn table_that(&mut self, fits: impl Fn(&Table) -> bool) -> &'s Table {
        let fitting: Vec<&Table> = self
            .keyspace
            .tables
            .values()
            .filter(|table| fits(table))
            .collect();
        let rich: Vec<&Table> = fitting
            .iter()
            .copied()
            .filter(|table| !table.name.starts_with("by_"))
            .collect();
        if rich.is_empty() || (rich.len() < fitting.len() && self.random.chance(25)) {
            return self.random.pick(&fitting);
        }
        self.random.pick(&rich)
    }

    /// The table's name, with its keyspace now and then.
    fn table_name(&mut self, table: &Table) -> String {
        match self.random.below(10) {
            0..3 => format!("{}.{}", table.keyspace, quote(&table.name)),
            3 => format!("\"{}\".\"{}\"", table.keyspace, table.name),
            _ => quote(&table.name).into(),
        }
    }

    fn type_of(&self, column: &Column) -> CqlType {
        self.keyspace.resolve(&column.data_type)
    }

    fn column(&mut self, table: &'s Table) -> &'s Column {
        self.random.element(&table.columns)
    }

    fn name(column: &Column) -> String {
        quote(&column.name).into()
    }
}

/// The columns that an `UPDATE` may set.
fn settable(table: &Table) -> Vec<&Column> {
    let columns = table.columns.iter();
    columns
        .filter(|column| matches!(column.kind, ColumnKind::Regular | ColumnKind::Static))
        .collect()
}
