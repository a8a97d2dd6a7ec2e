//! `SELECT`.

use cqlens_cql::schema::{Column, ColumnKind, Table};
use cqlens_proto::types::CqlType;

use super::Grammar;
use super::literal::literal;

impl<'s> Grammar<'s> {
    pub(super) fn select(&mut self) -> String {
        let table = self.table();
        let mut text = format!("SELECT {} FROM {}", self.selection(table), self.table_name(table));
        text += &self.read_clause(table);
        if self.random.chance(6) {
            text += &self.group_by(table);
        }
        if self.random.chance(14) {
            text += &self.order_by(table);
        }
        if self.random.chance(8) {
            text += &format!(" PER PARTITION LIMIT {}", self.count());
        }
        if self.random.chance(25) {
            text += &format!(" LIMIT {}", self.count());
        }
        if self.random.chance(45) {
            text += " ALLOW FILTERING";
        }
        if self.on_6_0(6) {
            text += &self.hint(table);
        }
        if self.random.chance(10) {
            text += ";";
        }
        text
    }

    /// Indexes that the query must use, or must not.
    fn hint(&mut self, table: &'s Table) -> String {
        let indexes: Vec<&str> = table.indexes.keys().map(String::as_str).collect();
        let index = match indexes.is_empty() {
            true => "no_such_index",
            false => self.random.pick(&indexes),
        };
        let which = self.random.pick(&["included_indexes", "excluded_indexes"]);
        format!(" WITH {which} = {{{index}}}")
    }

    fn selection(&mut self, table: &'s Table) -> String {
        match self.random.below(100) {
            0..35 => "*".to_owned(),
            35..40 => "JSON *".to_owned(),
            40..46 => format!("DISTINCT {}", self.distinct(table)),
            46..49 => format!("JSON {}", self.items(table)),
            49..56 => "count(*)".to_owned(),
            _ => self.items(table),
        }
    }

    fn distinct(&mut self, table: &'s Table) -> String {
        let mut columns: Vec<String> = table.partition_key().iter().map(Self::name).collect();
        let others = table.columns.iter().filter(|column| !column.is_primary_key());
        columns.extend(
            others
                .filter(|column| column.kind == ColumnKind::Static)
                .map(Self::name),
        );
        if self.random.chance(15) {
            columns.push(Self::name(self.column(table)));
        }
        columns.join(", ")
    }

    fn items(&mut self, table: &'s Table) -> String {
        let items: Vec<String> = (0..self.random.between(1, 4))
            .map(|_| {
                let item = self.item(table);
                if self.random.chance(12) {
                    format!("{item} AS alias_{}", self.random.below(9))
                } else {
                    item
                }
            })
            .collect();
        items.join(", ")
    }

    fn item(&mut self, table: &'s Table) -> String {
        let column = self.column(table);
        let name = Self::name(column);
        match self.random.below(100) {
            0..4 => format!("WRITETIME({name})"),
            4..7 => format!("TTL({name})"),
            7..9 => format!("MAXWRITETIME({name})"),
            9..13 => format!(
                "{}({name})",
                self.random.pick(&["min", "max", "count", "sum", "avg", "COUNT"])
            ),
            13..17 => {
                let names: Vec<String> = table.partition_key().iter().map(Self::name).collect();
                format!("token({})", names.join(", "))
            }
            17..21 => format!(
                "CAST({name} AS {})",
                self.random
                    .pick(&["text", "int", "double", "bigint", "date", "varchar"])
            ),
            21..24 => format!("{name} {} 1", self.random.pick(&["+", "-", "*", "/", "%"])),
            24..27 => self
                .random
                .pick(&[
                    "1",
                    "'a'",
                    "(int) 3",
                    "now()",
                    "(text) 'b'",
                    "uuid()",
                    "[1, 2]",
                    "{'a'}",
                    "-1",
                ])
                .to_owned(),
            27..30 => self.term(&CqlType::Int, "item"),
            30..45 => self.part(column),
            45..48 => format!(
                "{}({name})",
                self.random.pick(&[
                    "toJson",
                    "to_json",
                    "blobAsInt",
                    "toTimestamp",
                    "typeAsBlob",
                    "abs",
                    "length",
                    "map_keys",
                    "collection_count"
                ])
            ),
            _ => name,
        }
    }

    /// A field, element or slice, where the column has one.
    fn part(&mut self, column: &Column) -> String {
        let name = Self::name(column);
        match self.type_of(column) {
            CqlType::Udt(udt) => format!("{name}.{}", self.random.element(&udt.fields).0),
            CqlType::Map(types) => {
                let key = self.term(&types.0, "key");
                match self.random.below(3) {
                    0 => format!("{name}[{key}..]"),
                    1 => format!("{name}[{key}..{}]", literal(&mut self.random, &types.0)),
                    _ => format!("{name}[{key}]"),
                }
            }
            CqlType::Set(element) => format!("{name}[{}]", self.term(&element, "element")),
            CqlType::List(_) => format!("{name}[{}]", self.term(&CqlType::Int, "place")),
            _ => name,
        }
    }

    fn group_by(&mut self, table: &'s Table) -> String {
        let key: Vec<String> = table
            .partition_key()
            .iter()
            .chain(table.clustering())
            .map(Self::name)
            .collect();
        let length = if self.random.chance(80) {
            self.random.between(table.partition_key().len(), key.len())
        } else {
            self.random.between(1, key.len())
        };
        format!(" GROUP BY {}", key[..length].join(", "))
    }

    fn order_by(&mut self, table: &'s Table) -> String {
        if let Some(vector) = table
            .columns
            .iter()
            .find(|column| matches!(self.type_of(column), CqlType::Vector(..)))
        {
            let cql_type = self.type_of(vector);
            return format!(
                " ORDER BY {} ANN OF {}",
                Self::name(vector),
                self.term(&cql_type, &vector.name)
            );
        }
        let clustering = table.clustering();
        if clustering.is_empty() {
            return format!(" ORDER BY {} ASC", Self::name(self.column(table)));
        }
        let length = self.random.between(1, clustering.len());
        // All along the clustering order, all against it, or anyhow.
        let manner = self.random.below(3);
        let orderings: Vec<String> = clustering[..length]
            .iter()
            .map(|column| {
                let descends = match manner {
                    0 => column.is_descending(),
                    1 => !column.is_descending(),
                    _ => self.random.chance(50),
                };
                format!("{} {}", Self::name(column), if descends { "DESC" } else { "ASC" })
            })
            .collect();
        format!(" ORDER BY {}", orderings.join(", "))
    }
}
