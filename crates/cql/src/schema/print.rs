//! The schema as CQL again, so that reading it gives the same schema.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write};

use crate::syntax::ast::IndexTargetKind;

use super::model::{
    Column, ColumnKind, Index, IndexClass, Keyspace, OptionValue, Order, Schema, Table, UserType,
};
use super::quote::quote;

impl Schema {
    /// The definitions of everything in the schema, in an order in which they can be executed.
    ///
    /// User-defined functions and aggregates are left out: only their names are known.
    pub fn to_cql(&self) -> String {
        let mut text = String::new();
        for keyspace in self.keyspaces.values() {
            // Writing to a string cannot fail.
            let _ = write!(text, "{keyspace}");
        }
        text
    }
}

impl fmt::Display for Keyspace {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = quote(&self.name);
        write!(
            out,
            "CREATE KEYSPACE {name} WITH replication = {}",
            Map(&self.replication)
        )?;
        write!(out, " AND durable_writes = {}", self.durable_writes)?;
        if self.tablets {
            out.write_str(" AND tablets = {'enabled': true}")?;
        }
        out.write_str(";\n")?;
        for user_type in self.types_in_order() {
            write_type(out, &name, user_type)?;
        }
        let (views, tables): (Vec<_>, Vec<_>) = self.tables.values().partition(|table| table.view.is_some());
        for table in tables.into_iter().chain(views) {
            write!(out, "{table}")?;
        }
        Ok(())
    }
}

impl Keyspace {
    /// The types, each behind those that it is made of: those that need no other first, then those that need only
    /// these, and so on; each is visited once for each type that it is made of.
    fn types_in_order(&self) -> Vec<&UserType> {
        let all: Vec<&UserType> = self.types.values().collect();
        let (users, mut missing) = self.users_of_types();
        let mut ready: Vec<usize> = (0..all.len()).filter(|&at| missing.get(at) == Some(&0)).collect();
        let mut ordered = Vec::with_capacity(all.len());
        while !ready.is_empty() {
            let mut next = Vec::new();
            for at in ready {
                ordered.extend(all.get(at));
                for &user in users.get(at).into_iter().flatten() {
                    if let Some(missing) = missing.get_mut(user) {
                        *missing -= 1;
                        next.extend((*missing == 0).then_some(user));
                    }
                }
            }
            next.sort_unstable();
            ready = next;
        }
        // Types that need each other do not exist in a server; in any order they are still all printed.
        let blocked = all.iter().zip(&missing).filter(|(_, missing)| **missing > 0);
        ordered.extend(blocked.map(|(user, _)| *user));
        ordered
    }

    /// The places of the types that are made of each type, and of how many types each is made, by their names.
    fn users_of_types(&self) -> (Vec<Vec<usize>>, Vec<usize>) {
        let places: BTreeMap<&str, usize> = self.types.keys().map(String::as_str).zip(0..).collect();
        let mut users = vec![Vec::new(); self.types.len()];
        let mut missing = vec![0; self.types.len()];
        for (at, user) in self.types.values().enumerate() {
            let mut needed = BTreeSet::new();
            let mut need = |name: &str| needed.extend(places.get(name).copied());
            user.fields
                .iter()
                .for_each(|(_, field)| field.for_each_name(&mut need));
            for &place in &needed {
                users
                    .get_mut(place)
                    .into_iter()
                    .for_each(|users: &mut Vec<_>| users.push(at));
            }
            missing
                .get_mut(at)
                .into_iter()
                .for_each(|missing| *missing = needed.len());
        }
        (users, missing)
    }
}

impl fmt::Display for Table {
    /// The table's or view's definition and those of its indexes, each with a semicolon and a line end.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = format!("{}.{}", quote(&self.keyspace), quote(&self.name));
        match &self.view {
            Some(view) => {
                writeln!(out, "CREATE MATERIALIZED VIEW {name} AS")?;
                if view.include_all_columns {
                    write!(out, "    SELECT *")?;
                } else {
                    let columns = self.columns.iter().map(|column| quote(&column.name));
                    write!(out, "    SELECT {}", columns.collect::<Vec<_>>().join(", "))?;
                }
                writeln!(out, " FROM {}.{}", quote(&self.keyspace), quote(&view.base))?;
                writeln!(out, "    WHERE {}", view.where_clause)?;
                write!(out, "    PRIMARY KEY {}", PrintedPrimaryKey(self))?;
            }
            None => {
                writeln!(out, "CREATE TABLE {name} (")?;
                for column in &self.columns {
                    let is_static = if column.kind == ColumnKind::Static {
                        " static"
                    } else {
                        ""
                    };
                    write!(out, "    {} {}{is_static}", quote(&column.name), column.data_type)?;
                    for (index, constraint) in column.constraints.iter().enumerate() {
                        let joint = if index == 0 { " CHECK " } else { " AND " };
                        write!(out, "{joint}{}", constraint.on(&column.name))?;
                    }
                    writeln!(out, ",")?;
                }
                write!(out, "    PRIMARY KEY {}\n)", PrintedPrimaryKey(self))?;
            }
        }
        self.write_properties(out)?;
        writeln!(out, ";")?;
        self.indexes
            .values()
            .try_for_each(|index| write_index(out, &name, index))
    }
}

impl Table {
    fn write_properties(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut joint = " WITH";
        if self.compact_storage {
            write!(out, "{joint} COMPACT STORAGE")?;
            joint = "\n    AND";
        }
        if self.clustering().iter().any(Column::is_descending) {
            let order = |column: &Column| match column.kind {
                ColumnKind::Clustering(Order::Descending) => format!("{} DESC", quote(&column.name)),
                _ => format!("{} ASC", quote(&column.name)),
            };
            let columns: Vec<String> = self.clustering().iter().map(order).collect();
            write!(out, "{joint} CLUSTERING ORDER BY ({})", columns.join(", "))?;
            joint = "\n    AND";
        }
        for (name, value) in &self.options {
            write!(out, "{joint} {} = {value}", quote(name))?;
            joint = "\n    AND";
        }
        Ok(())
    }
}

struct PrintedPrimaryKey<'t>(&'t Table);

impl fmt::Display for PrintedPrimaryKey<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = |columns: &[Column]| {
            let names: Vec<_> = columns.iter().map(|column| quote(&column.name)).collect();
            names.join(", ")
        };
        write!(out, "(({})", names(self.0.partition_key()))?;
        if !self.0.clustering().is_empty() {
            write!(out, ", {}", names(self.0.clustering()))?;
        }
        out.write_char(')')
    }
}

fn write_type(out: &mut fmt::Formatter<'_>, keyspace: &str, user_type: &UserType) -> fmt::Result {
    let fields = user_type.fields.iter();
    let fields: Vec<String> = fields
        .map(|(name, data_type)| format!("    {} {data_type}", quote(name)))
        .collect();
    writeln!(
        out,
        "CREATE TYPE {keyspace}.{} (\n{}\n);",
        quote(&user_type.name),
        fields.join(",\n")
    )
}

fn write_index(out: &mut fmt::Formatter<'_>, table: &str, index: &Index) -> fmt::Result {
    let targets = index.targets.iter().map(|target| {
        let column = quote(&target.column);
        match target.kind {
            IndexTargetKind::Simple => column.into_owned(),
            IndexTargetKind::Values => format!("values({column})"),
            IndexTargetKind::Keys => format!("keys({column})"),
            IndexTargetKind::Entries => format!("entries({column})"),
            IndexTargetKind::Full => format!("full({column})"),
        }
    });
    let targets = targets.collect::<Vec<_>>().join(", ");
    let name = quote(&index.name);
    let class = match &index.class {
        IndexClass::Legacy => None,
        IndexClass::Sai => Some("sai"),
        IndexClass::Sasi => Some("org.apache.cassandra.index.sasi.SASIIndex"),
        IndexClass::Custom(class) => Some(class.as_str()),
    };
    match class {
        None => write!(out, "CREATE INDEX {name} ON {table} ({targets})")?,
        Some(class) => write!(
            out,
            "CREATE CUSTOM INDEX {name} ON {table} ({targets}) USING {}",
            Text(class)
        )?,
    }
    if !index.options.is_empty() {
        write!(out, " WITH OPTIONS = {}", Map(&index.options))?;
    }
    writeln!(out, ";")
}

impl fmt::Display for OptionValue {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => write!(out, "{}", Text(text)),
            Self::Plain(word) => out.write_str(word),
            Self::Map(map) => write!(out, "{}", Map(map)),
        }
    }
}

struct Text<'a>(&'a str);

impl fmt::Display for Text<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "'{}'", self.0.replace('\'', "''"))
    }
}

struct Map<'a>(&'a BTreeMap<String, String>);

impl fmt::Display for Map<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let entries: Vec<String> = self
            .0
            .iter()
            .map(|(key, value)| format!("{}: {}", Text(key), Text(value)))
            .collect();
        write!(out, "{{{}}}", entries.join(", "))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// A keyspace with a chain of so many types, each of which has the one before as a field; what is needed first
    /// comes last by name.
    fn chain(length: usize) -> Schema {
        let mut cql = "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy'};".to_owned();
        let name = |at: usize| format!("t{:06}", length - at);
        for at in 0..length {
            let field = match at {
                0 => "int".to_owned(),
                _ => format!("frozen<list<frozen<{}>>>", name(at - 1)),
            };
            write!(cql, "CREATE TYPE k.{} (a {field});", name(at)).unwrap();
        }
        Schema::from_cql(&cql).unwrap()
    }

    #[test]
    fn a_chain_of_types_is_printed_in_order_at_a_cost_of_its_length() {
        let allocations = |length| {
            let schema = chain(length);
            let mut ordered = Vec::new();
            let taken = allocation_counter::measure(|| ordered = schema.keyspaces["k"].types_in_order());
            let names: Vec<_> = ordered.iter().map(|of| of.name.as_str()).collect();
            assert!(names.is_sorted_by(|one, other| one > other));
            assert_eq!(names.len(), length);
            (taken.count_total, taken.bytes_total)
        };
        let (count, bytes) = allocations(2_000);
        let (of_twice, bytes_of_twice) = allocations(4_000);
        assert!(of_twice <= 2 * count + 100, "{count}, then {of_twice}");
        assert!(
            bytes_of_twice <= 2 * bytes + 100_000,
            "{bytes}, then {bytes_of_twice}"
        );
    }

    #[test]
    fn types_that_need_each_other_or_themselves_come_last() {
        let mut schema = chain(3);
        let keyspace = schema.keyspaces.get_mut("k").unwrap();
        let of = |name: &str, field: &str| UserType {
            name: name.to_owned(),
            fields: vec![(
                "f".to_owned(),
                super::super::DataType::UserDefined(field.to_owned()),
            )],
        };
        for (name, field) in [("a", "b"), ("b", "a"), ("c", "c"), ("d", "elsewhere")] {
            keyspace.types.insert(name.to_owned(), of(name, field));
        }
        let names: Vec<_> = keyspace
            .types_in_order()
            .iter()
            .map(|of| of.name.as_str())
            .collect();
        assert_eq!(names, ["d", "t000003", "t000002", "t000001", "a", "b", "c"]);
    }
}
