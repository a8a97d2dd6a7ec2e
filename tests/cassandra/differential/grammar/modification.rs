//! `INSERT`, `UPDATE`, `DELETE`, and batches of them.

use cqlens_cql::schema::{Column, ColumnKind, Table};
use cqlens_proto::types::CqlType;

use super::{Grammar, settable};

impl<'s> Grammar<'s> {
    /// Any modification, of a counter table or of another.
    pub(super) fn modification(&mut self, counters: bool) -> String {
        if counters && self.random.chance(95) {
            let table = self.table_that(Table::is_counter);
            return if self.random.chance(85) {
                self.update_of(table)
            } else {
                self.delete_of(table)
            };
        }
        // Few tables, so that their keys meet.
        let table = match self.random.below(4) {
            0 => self.written(),
            _ => {
                self.table_that(|table| ["samples", "deep", "people", "every"].contains(&table.name.as_str()))
            }
        };
        match self.random.below(3) {
            0 => self.insert_into(table),
            1 => self.update_of(table),
            _ => self.delete_of(table),
        }
    }

    pub(super) fn insert(&mut self) -> String {
        let table = self.written();
        self.insert_into(table)
    }

    pub(super) fn update(&mut self) -> String {
        let table = if self.random.chance(20) {
            self.table_that(Table::is_counter)
        } else {
            self.written()
        };
        self.update_of(table)
    }

    pub(super) fn delete(&mut self) -> String {
        let table = if self.random.chance(8) {
            self.table_that(Table::is_counter)
        } else {
            self.written()
        };
        self.delete_of(table)
    }

    pub(super) fn batch(&mut self) -> String {
        let counters = self.random.chance(15);
        let kind = match self.random.below(10) {
            _ if counters => "COUNTER ",
            0..6 => "",
            _ => "UNLOGGED ",
        };
        let using = if self.random.chance(10) {
            self.using(false)
        } else {
            String::new()
        };
        let joint = self.random.pick(&["; ", "; ", " "]);
        let statements: Vec<String> = (0..self.random.below(5))
            .map(|_| self.modification(counters))
            .collect();
        let end = self.random.pick(&[joint, joint, " "]);
        format!(
            "BEGIN {kind}BATCH{using} {}{end}APPLY BATCH{}",
            statements.join(joint),
            self.random.pick(&["", ";"])
        )
    }

    /// Views and counters are not inserted into, but for a try.
    fn written(&mut self) -> &'s Table {
        if self.random.chance(2) {
            self.table()
        } else {
            self.table_that(|table| table.view.is_none() && !table.is_counter() && !table.is_transactional())
        }
    }

    pub(super) fn insert_into(&mut self, table: &'s Table) -> String {
        let name = self.table_name(table);
        let columns = self.inserted(table);
        let mut text = if self.random.chance(5) && self.markers != super::Markers::None {
            format!("INSERT INTO {name} JSON {}", self.marker_for("json"))
        } else if self.random.chance(10) && self.markers == super::Markers::None {
            format!(
                "INSERT INTO {name} JSON '{}'{}",
                self.json(&columns),
                self.random.pick(&["", "", " DEFAULT UNSET", " DEFAULT NULL"])
            )
        } else {
            let names: Vec<String> = columns.iter().map(|column| Self::name(column)).collect();
            let mut values: Vec<String> = columns
                .iter()
                .map(|column| {
                    let cql_type = self.type_of(column);
                    self.term(&cql_type, &column.name)
                })
                .collect();
            if self.random.chance(2) {
                values.pop();
            }
            format!(
                "INSERT INTO {name} ({}) VALUES ({})",
                names.join(", "),
                values.join(", ")
            )
        };
        if self.random.chance(10) {
            text += " IF NOT EXISTS";
        }
        if self.random.chance(20) {
            text += &self.using(true);
        }
        text
    }

    /// The primary key, mostly as a whole, and some other columns.
    fn inserted(&mut self, table: &'s Table) -> Vec<&'s Column> {
        let mut columns: Vec<&Column> = table
            .columns
            .iter()
            .filter(|column| column.is_primary_key())
            .collect();
        let has_static = table
            .columns
            .iter()
            .any(|column| column.kind == ColumnKind::Static);
        if has_static && self.random.chance(15) {
            columns.retain(|column| column.kind == ColumnKind::PartitionKey);
            columns.extend(
                table
                    .columns
                    .iter()
                    .filter(|column| column.kind == ColumnKind::Static),
            );
        } else {
            if self.random.chance(3) {
                columns.pop();
            }
            columns.extend(settable(table).into_iter().filter(|_| self.random.chance(40)));
        }
        if self.random.chance(20) {
            self.random.shuffle(&mut columns);
        }
        columns
    }

    /// JSON text, for a literal between single quotes.
    fn json(&mut self, columns: &[&Column]) -> String {
        let fields: Vec<String> = columns
            .iter()
            .map(|column| {
                let value = match self.type_of(column) {
                    CqlType::Int
                    | CqlType::BigInt
                    | CqlType::SmallInt
                    | CqlType::TinyInt
                    | CqlType::Varint => self.random.pick(&["1", "2", "\"2\"", "1.0", "null", "3"]),
                    CqlType::Text | CqlType::Ascii => {
                        self.random
                            .pick(&["\"a\"", "\"b\"", "\"\\u0061\"", "1", "\"it''s\""])
                    }
                    CqlType::Boolean => self.random.pick(&["true", "false", "\"true\""]),
                    CqlType::Decimal | CqlType::Double | CqlType::Float => {
                        self.random.pick(&["1.5", "1", "\"2.50\"", "0.0"])
                    }
                    CqlType::Uuid | CqlType::TimeUuid => "\"123e4567-e89b-12d3-a456-426614174000\"",
                    CqlType::Date => "\"2024-01-01\"",
                    CqlType::Timestamp => self.random.pick(&["\"2024-01-01 00:00:00Z\"", "1704067200000"]),
                    CqlType::List(_) | CqlType::Set(_) | CqlType::Vector(..) | CqlType::Tuple(_) => self
                        .random
                        .pick(&["[1]", "[\"a\"]", "[]", "[1, \"a\"]", "[1.0, 2.0]"]),
                    CqlType::Map(_) | CqlType::Udt(_) => {
                        self.random
                            .pick(&["{}", "{\"a\": 1}", "{\"1\": \"a\"}", "{\"street\": \"a\"}"])
                    }
                    CqlType::Blob => "\"0xcafe\"",
                    CqlType::Inet => "\"127.0.0.1\"",
                    _ => "null",
                };
                let name = match column.name.as_str() {
                    name if name.chars().any(|c| c.is_ascii_uppercase()) => format!("\\\"{name}\\\""),
                    name => name.replace('"', "\\\""),
                };
                format!("\"{name}\": {value}")
            })
            .collect();
        format!("{{{}}}", fields.join(", "))
    }

    pub(super) fn using(&mut self, with_ttl: bool) -> String {
        let timestamp = |grammar: &mut Self| format!("TIMESTAMP {}", grammar.using_value("1700000000000000"));
        let ttl = |grammar: &mut Self| format!("TTL {}", grammar.using_value("86400"));
        match self.random.below(4) {
            0 if with_ttl => format!(" USING {}", ttl(self)),
            1 if with_ttl => format!(" USING {} AND {}", ttl(self), timestamp(self)),
            2 if with_ttl => format!(" USING {} AND {}", timestamp(self), ttl(self)),
            _ => format!(" USING {}", timestamp(self)),
        }
    }

    fn using_value(&mut self, literal: &str) -> String {
        if self.markers == super::Markers::None || self.random.chance(50) {
            literal.to_owned()
        } else {
            self.marker_for("u")
        }
    }

    pub(super) fn update_of(&mut self, table: &'s Table) -> String {
        let mut text = format!("UPDATE {}", self.table_name(table));
        if self.random.chance(15) {
            text += &self.using(!table.is_counter());
        }
        let choices = settable(table);
        let choices = if choices.is_empty() {
            table.columns.iter().collect()
        } else {
            choices
        };
        let only_static =
            choices.iter().any(|column| column.kind == ColumnKind::Static) && self.random.chance(25);
        let fitting: Vec<&Column> = choices
            .iter()
            .copied()
            .filter(|column| !only_static || column.kind == ColumnKind::Static)
            .collect();
        let assignments: Vec<String> = (0..self.random.between(1, 3))
            .map(|_| {
                let column = self.random.pick(&fitting);
                self.assignment(column)
            })
            .collect();
        text += &format!(" SET {}", assignments.join(", "));
        let clustering = if only_static { 0 } else { table.clustering().len() };
        text += &self.write_clause(table, clustering);
        text + &self.condition(table)
    }

    pub(super) fn assignment(&mut self, column: &'s Column) -> String {
        let (name, cql_type) = (Self::name(column), self.type_of(column));
        match &cql_type {
            CqlType::Counter => format!(
                "{name} = {name} {} {}",
                self.random.pick(&["+", "+", "-"]),
                self.term(&cql_type, &column.name)
            ),
            CqlType::List(element) if self.random.chance(60) => match self.random.below(5) {
                0 => format!("{name} = {} + {name}", self.term(&cql_type, &column.name)),
                1 => format!(
                    "{name}[{}] = {}",
                    self.random.pick(&["0", "1", "?"]),
                    self.term(element, "element")
                ),
                2 => format!("{name} = {name} - {}", self.term(&cql_type, &column.name)),
                3 => format!("{name} += {}", self.term(&cql_type, &column.name)),
                _ => format!("{name} = {name} + {}", self.term(&cql_type, &column.name)),
            },
            CqlType::Set(_) if self.random.chance(60) => format!(
                "{name} = {name} {} {}",
                self.random.pick(&["+", "-"]),
                self.term(&cql_type, &column.name)
            ),
            CqlType::Map(types) if self.random.chance(60) => match self.random.below(3) {
                0 => format!("{name} = {name} + {}", self.term(&cql_type, &column.name)),
                1 => {
                    let keys = CqlType::set(types.0.clone());
                    format!("{name} = {name} - {}", self.term(&keys, &column.name))
                }
                _ => format!(
                    "{name}[{}] = {}",
                    self.term(&types.0, "key"),
                    self.term(&types.1, "value")
                ),
            },
            CqlType::Udt(udt) if self.random.chance(50) => {
                let (field, cql_type) = self.random.element(&udt.fields).clone();
                format!("{name}.{field} = {}", self.term(&cql_type, &field))
            }
            CqlType::Int if self.random.chance(5) => {
                format!("{name} += {}", self.term(&cql_type, &column.name))
            }
            _ => format!("{name} = {}", self.term(&cql_type, &column.name)),
        }
    }

    pub(super) fn delete_of(&mut self, table: &'s Table) -> String {
        let columns: Vec<String> = if self.random.chance(30) {
            (0..self.random.between(1, 2))
                .map(|_| self.deleted(table))
                .collect()
        } else {
            Vec::new()
        };
        let mut text = if columns.is_empty() {
            "DELETE".to_owned()
        } else {
            format!("DELETE {}", columns.join(", "))
        };
        text += &format!(" FROM {}", self.table_name(table));
        if self.random.chance(15) && !table.is_counter() {
            text += &self.using(false);
        }
        let clustering = if columns.is_empty() {
            self.random.below(table.clustering().len() + 1)
        } else {
            table.clustering().len()
        };
        text += &self.write_clause(table, clustering);
        text + &self.condition(table)
    }

    fn deleted(&mut self, table: &'s Table) -> String {
        let choices = settable(table);
        let column = if choices.is_empty() {
            self.column(table)
        } else {
            self.random.pick(&choices)
        };
        let name = Self::name(column);
        match self.type_of(column) {
            CqlType::Map(types) if self.random.chance(50) => {
                format!("{name}[{}]", self.term(&types.0, "key"))
            }
            CqlType::Set(element) if self.random.chance(50) => {
                format!("{name}[{}]", self.term(&element, "element"))
            }
            CqlType::List(_) if self.random.chance(30) => {
                format!("{name}[{}]", self.term(&CqlType::Int, "place"))
            }
            CqlType::Udt(udt) if self.random.chance(50) => format!("{name}.{}", udt.fields[0].0),
            _ => name,
        }
    }

    /// `IF …`, in one case of eight.
    fn condition(&mut self, table: &'s Table) -> String {
        if !self.random.chance(12) {
            return String::new();
        }
        let choices = settable(table);
        if choices.is_empty() || self.random.chance(40) {
            return " IF EXISTS".to_owned();
        }
        let conditions: Vec<String> = (0..self.random.between(1, 2))
            .map(|_| {
                let column = self.random.pick(&choices);
                let (name, cql_type) = (Self::name(column), self.type_of(column));
                match &cql_type {
                    CqlType::Map(types) if self.random.chance(50) => format!(
                        "{name}[{}] = {}",
                        self.term(&types.0, "key"),
                        self.term(&types.1, "value")
                    ),
                    CqlType::Udt(udt) if self.random.chance(50) => {
                        let (field, cql_type) = udt.fields[0].clone();
                        format!("{name}.{field} = {}", self.term(&cql_type, &field))
                    }
                    _ if self.random.chance(20) => {
                        format!("{name} IN {}", self.in_list(&cql_type, &column.name))
                    }
                    _ => format!(
                        "{name} {} {}",
                        self.random.pick(&["=", "=", "!=", ">", "<="]),
                        self.term(&cql_type, &column.name)
                    ),
                }
            })
            .collect();
        format!(" IF {}", conditions.join(" AND "))
    }
}
