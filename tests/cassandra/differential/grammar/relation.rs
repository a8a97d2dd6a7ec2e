//! `WHERE` clauses: keys named, half named, sliced, by token, by index, and impossible ones.

use cqlens_cql::schema::{Column, ColumnKind, Table};
use cqlens_proto::types::CqlType;

use super::Grammar;

impl<'s> Grammar<'s> {
    /// A clause for a read, its `WHERE` included; nothing for a read of the whole table.
    pub(super) fn read_clause(&mut self, table: &'s Table) -> String {
        let mut relations = match self.random.below(100) {
            0..8 => return String::new(),
            8..18 => self.token_relations(table),
            18..24 => {
                let mut both = self.token_relations(table);
                both.extend(self.key_relations(table, 30));
                both
            }
            24..34 => Vec::new(),
            34..42 => {
                let mut some = self.key_relations(table, 25);
                some.remove(self.random.below(some.len()));
                some
            }
            _ => self.key_relations(table, 25),
        };
        if self.random.chance(60) {
            relations.extend(self.clustering_relations(table));
        }
        if self.random.chance(22) || relations.is_empty() {
            relations.extend(self.other_relation(table));
        }
        if self.random.chance(4) {
            relations.extend(relations.first().cloned());
        }
        self.clause(relations)
    }

    /// A clause for an `UPDATE` or `DELETE`.
    pub(super) fn write_clause(&mut self, table: &'s Table, columns: usize) -> String {
        let mut relations = self.key_relations(table, 20);
        let clustering = table.clustering();
        let given = if self.random.chance(85) {
            columns.min(clustering.len())
        } else {
            self.random.below(clustering.len() + 1)
        };
        for (place, column) in clustering.iter().take(given).enumerate() {
            let is_last = place + 1 == given;
            relations.extend(self.on_clustering(column, is_last));
        }
        if self.random.chance(3) {
            relations.extend(self.other_relation(table));
        }
        if self.random.chance(2) {
            relations.pop();
        }
        self.clause(relations)
    }

    fn clause(&mut self, mut relations: Vec<String>) -> String {
        if relations.is_empty() {
            return String::new();
        }
        if self.random.chance(20) {
            self.random.shuffle(&mut relations);
        }
        format!(" WHERE {}", relations.join(" AND "))
    }

    /// One relation for each column of the partition key.
    fn key_relations(&mut self, table: &'s Table, percent_in: usize) -> Vec<String> {
        table
            .partition_key()
            .iter()
            .map(|column| self.on_key(column, percent_in))
            .collect()
    }

    fn on_key(&mut self, column: &'s Column, percent_in: usize) -> String {
        let (name, cql_type) = (Self::name(column), self.type_of(column));
        if self.on_6_0(6) {
            return self.between_or_not(&name, &cql_type, &column.name);
        }
        if self.random.chance(percent_in) {
            return format!("{name} IN {}", self.in_list(&cql_type, &column.name));
        }
        let operator = match self.random.below(100) {
            0..2 => self.random.pick(&["<", ">=", "!=", ">", "CONTAINS"]),
            _ => "=",
        };
        format!("{name} {operator} {}", self.term(&cql_type, &column.name))
    }

    fn token_relations(&mut self, table: &'s Table) -> Vec<String> {
        let names: Vec<String> = table.partition_key().iter().map(Self::name).collect();
        let token = format!("token({})", names.join(", "));
        let mut one = |operator: &str| {
            let value = if self.random.chance(25) {
                let key = table.partition_key().iter();
                let terms: Vec<String> = key
                    .map(|column| {
                        let cql_type = self.type_of(column);
                        self.term(&cql_type, &column.name)
                    })
                    .collect();
                format!("token({})", terms.join(", "))
            } else {
                self.token_value()
            };
            format!("{token} {operator} {value}")
        };
        let (lower, upper, equal) = (one(">"), one("<="), one("="));
        if self.on_6_0(15) {
            let (first, last) = (self.token_value(), self.token_value());
            return vec![format!("{token} BETWEEN {first} AND {last}")];
        }
        match self.random.below(10) {
            0..3 => vec![lower],
            3..5 => vec![upper],
            5 => vec![equal],
            6 => vec![lower.replacen(" > ", " >= ", 1), upper.replacen(" <= ", " < ", 1)],
            _ => vec![lower, upper],
        }
    }

    fn token_value(&mut self) -> String {
        match self.random.below(3) {
            0 => self
                .random
                .pick(&[
                    "0",
                    "-9223372036854775808",
                    "9223372036854775807",
                    "-1",
                    "4611686018427387904",
                ])
                .to_owned(),
            _ => self.term(&CqlType::BigInt, "token"),
        }
    }

    fn clustering_relations(&mut self, table: &'s Table) -> Vec<String> {
        let clustering = table.clustering();
        if clustering.is_empty() {
            return Vec::new();
        }
        if clustering.len() > 1 && self.random.chance(25) {
            return vec![self.multi_column(clustering)];
        }
        let given = self.random.between(1, clustering.len());
        let mut relations = Vec::new();
        for (place, column) in clustering.iter().take(given).enumerate() {
            // A gap now and then.
            if given > 1 && self.random.chance(4) {
                continue;
            }
            relations.extend(self.on_clustering(column, place + 1 == given));
        }
        relations
    }

    fn on_clustering(&mut self, column: &'s Column, is_last: bool) -> Vec<String> {
        let (name, cql_type) = (Self::name(column), self.type_of(column));
        let one = |grammar: &mut Self, operator: &str| {
            format!("{name} {operator} {}", grammar.term(&cql_type, &column.name))
        };
        if self.on_6_0(20) {
            return vec![self.between_or_not(&name, &cql_type, &column.name)];
        }
        match self.random.below(100) {
            0..20 if is_last => vec![one(self, ">"), one(self, "<")],
            20..30 if is_last => vec![one(self, ">=")],
            30..38 if is_last => vec![one(self, "<="), one(self, ">")],
            38..42 if is_last => vec![one(self, "<")],
            42..58 => vec![format!("{name} IN {}", self.in_list(&cql_type, &column.name))],
            58..60 => vec![one(self, ">")],
            60 => vec![one(self, "!=")],
            61 => vec![format!("{name} IS NOT NULL")],
            _ => vec![one(self, "=")],
        }
    }

    /// `BETWEEN`, `NOT IN` and `!=`, as Cassandra 6.0 has them.
    fn between_or_not(&mut self, name: &str, cql_type: &CqlType, column: &str) -> String {
        match self.random.below(3) {
            0 => format!(
                "{name} BETWEEN {} AND {}",
                self.term(cql_type, column),
                self.term(cql_type, column)
            ),
            1 => format!("{name} NOT IN {}", self.in_list(cql_type, column)),
            _ => format!("{name} != {}", self.term(cql_type, column)),
        }
    }

    /// `(c1, c2) > (1, 2)` and its kin, on a prefix of the clustering columns.
    fn multi_column(&mut self, clustering: &'s [Column]) -> String {
        if self.random.chance(25) {
            return self.uneven_slice(clustering);
        }
        let columns = &clustering[..self.random.between(1, clustering.len())];
        let names: Vec<String> = columns.iter().map(Self::name).collect();
        let names = format!("({})", names.join(", "));
        let tuple = |grammar: &mut Self| {
            if grammar.random.chance(20) && grammar.markers != super::Markers::None {
                return grammar.marker_for("c");
            }
            let terms: Vec<String> = columns
                .iter()
                .map(|column| {
                    let cql_type = grammar.type_of(column);
                    grammar.term(&cql_type, &column.name)
                })
                .collect();
            format!("({})", terms.join(", "))
        };
        match self.random.below(10) {
            0..3 => format!("{names} = {}", tuple(self)),
            3..6 => {
                let tuples: Vec<String> = (0..self.random.below(4)).map(|_| tuple(self)).collect();
                format!("{names} IN ({})", tuples.join(", "))
            }
            6 if self.markers != super::Markers::None => format!("{names} IN {}", self.marker_for("c")),
            7 => format!("{names} > {} AND {names} <= {}", tuple(self), tuple(self)),
            8 => format!("{names} < {}", tuple(self)),
            _ => format!("{names} >= {}", tuple(self)),
        }
    }

    /// `(c1, c2) > (1, 2) AND c1 < 3`: two ends that do not name the same columns.
    fn uneven_slice(&mut self, clustering: &'s [Column]) -> String {
        let mut end = |operator: &str| {
            let columns = &clustering[..self.random.between(1, clustering.len())];
            let names: Vec<String> = columns.iter().map(Self::name).collect();
            let terms: Vec<String> = columns
                .iter()
                .map(|column| {
                    let cql_type = self.type_of(column);
                    self.term(&cql_type, &column.name)
                })
                .collect();
            match (names.as_slice(), terms.as_slice()) {
                ([name], [term]) if self.random.chance(50) => format!("{name} {operator} {term}"),
                _ => format!("({}) {operator} ({})", names.join(", "), terms.join(", ")),
            }
        };
        match clustering.len() % 2 {
            0 => format!("{} AND {}", end(">="), end("<")),
            _ => format!("{} AND {}", end(">"), end("<=")),
        }
    }

    /// A relation on a column outside of the key: for indexes and filters.
    fn other_relation(&mut self, table: &'s Table) -> Option<String> {
        let others: Vec<&Column> = table
            .columns
            .iter()
            .filter(|column| !matches!(column.kind, ColumnKind::PartitionKey))
            .collect();
        let indexed: Vec<&Column> = others
            .iter()
            .copied()
            .filter(|column| {
                table
                    .indexes
                    .values()
                    .any(|index| index.targets.iter().any(|target| target.column == column.name))
            })
            .collect();
        let choices = if !indexed.is_empty() && self.random.chance(75) {
            &indexed
        } else {
            &others
        };
        if choices.is_empty() {
            return None;
        }
        let column = self.random.pick(choices);
        Some(self.on_other(column))
    }

    fn on_other(&mut self, column: &'s Column) -> String {
        let (name, cql_type) = (Self::name(column), self.type_of(column));
        if self.on_6_0(15) {
            return match &cql_type {
                CqlType::Map(types) if self.random.chance(50) => {
                    format!("{name} NOT CONTAINS KEY {}", self.term(&types.0, &column.name))
                }
                CqlType::Map(types) => format!("{name} NOT CONTAINS {}", self.term(&types.1, &column.name)),
                CqlType::List(element) | CqlType::Set(element) => {
                    format!("{name} NOT CONTAINS {}", self.term(element, &column.name))
                }
                _ => self.between_or_not(&name, &cql_type, &column.name),
            };
        }
        match &cql_type {
            CqlType::Vector(..) if self.random.chance(60) => {
                return format!("{name} = {}", self.term(&cql_type, &column.name));
            }
            CqlType::Map(types) if self.random.chance(85) => match self.random.below(3) {
                0 => return format!("{name} CONTAINS KEY {}", self.term(&types.0, &column.name)),
                1 => return format!("{name} CONTAINS {}", self.term(&types.1, &column.name)),
                _ => {
                    return format!(
                        "{name}[{}] = {}",
                        self.term(&types.0, "key"),
                        self.term(&types.1, "value")
                    );
                }
            },
            CqlType::List(element) | CqlType::Set(element) if self.random.chance(75) => {
                return format!("{name} CONTAINS {}", self.term(element, &column.name));
            }
            CqlType::Text if self.random.chance(20) => {
                return format!(
                    "{name} LIKE {}",
                    self.random.pick(&["'a%'", "'%a%'", "'%'", "'a'", "''"])
                );
            }
            _ => {}
        }
        let operator = self
            .random
            .pick(&["=", "=", "=", "=", ">", "<", ">=", "<=", "!=", "IN"]);
        if operator == "IN" {
            return format!("{name} IN {}", self.in_list(&cql_type, &column.name));
        }
        format!("{name} {operator} {}", self.term(&cql_type, &column.name))
    }

    pub(super) fn marker_for(&mut self, name: &str) -> String {
        if self.markers == super::Markers::Named {
            self.named += 1;
            return format!(":{name}{}", self.named);
        }
        "?".to_owned()
    }
}
