//! The schema as CQL again, so that reading it gives the same schema.

use std::collections::BTreeMap;
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
    /// The types, each behind those that it is made of.
    fn types_in_order(&self) -> Vec<&UserType> {
        let mut ordered: Vec<&UserType> = Vec::new();
        let mut rest: Vec<&UserType> = self.types.values().collect();
        while !rest.is_empty() {
            let needs =
                |user: &UserType, other: &str| user.fields.iter().any(|(_, field)| field.mentions(other));
            let waiting = rest.clone();
            let (ready, blocked): (Vec<_>, Vec<_>) = rest
                .into_iter()
                .partition(|user| !waiting.iter().any(|other| needs(user, &other.name)));
            if ready.is_empty() {
                // Types that need each other do not exist in a server; in any order they are still all
                // printed.
                ordered.extend(blocked);
                break;
            }
            ordered.extend(ready);
            rest = blocked;
        }
        ordered
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
                    writeln!(
                        out,
                        "    {} {}{is_static},",
                        quote(&column.name),
                        column.data_type
                    )?;
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
