//! Transactions of Cassandra 6.0: rows read under names, references to them, conditions and writes.

use cqlens_cql::schema::{Column, Table};
use cqlens_proto::types::CqlType;

use super::{Grammar, settable};

/// A row that a transaction reads under a name.
struct Row<'s> {
    name: String,
    table: &'s Table,
}

impl<'s> Grammar<'s> {
    pub(super) fn transaction(&mut self) -> String {
        let rows: Vec<Row<'s>> = (0..self.random.below(3))
            .map(|place| Row {
                name: format!("r{place}"),
                table: self.transactional(),
            })
            .collect();
        let mut text = "BEGIN TRANSACTION".to_owned();
        for row in &rows {
            let read = self.read_of_row(row.table);
            text += &format!(" LET {} = ({read});", row.name);
        }
        match self.random.below(10) {
            0..3 if !rows.is_empty() => text += &format!(" SELECT {};", self.references(&rows)),
            3..5 => {
                let table = self.transactional();
                text += &format!(" {};", self.read_of_row(table));
            }
            _ => {}
        }
        let is_conditional = !rows.is_empty() && self.random.chance(40);
        if is_conditional {
            text += &format!(" IF {} THEN", self.conditions(&rows));
        }
        let least = usize::from(is_conditional || !text.contains(" SELECT"));
        for _ in 0..self.random.between(least, 3) {
            let write = self.write_of_row(&rows);
            text += &format!(" {write};");
        }
        if is_conditional {
            text += " END IF";
        }
        text + " COMMIT TRANSACTION"
    }

    /// Tables without `transactional_mode` come now and then.
    fn transactional(&mut self) -> &'s Table {
        if self.random.chance(3) {
            return self.table();
        }
        self.table_that(Table::is_transactional)
    }

    fn read_of_row(&mut self, table: &'s Table) -> String {
        let name = self.table_name(table);
        let selection = match self.random.below(10) {
            0..7 => "*".to_owned(),
            _ => Self::name(self.column(table)),
        };
        let (columns, limit) = match self.random.below(10) {
            0 => (table.partition_key().len(), " LIMIT 1"),
            1 => (table.partition_key().len(), ""),
            _ => (usize::MAX, self.random.pick(&["", "", "", " LIMIT 1"])),
        };
        format!(
            "SELECT {selection} FROM {name}{}{limit}",
            self.key_clause(table, columns)
        )
    }

    /// `WHERE` over so many columns of the primary key, with `IN` now and then.
    fn key_clause(&mut self, table: &'s Table, columns: usize) -> String {
        let key = table.partition_key().iter().chain(table.clustering());
        let relations: Vec<String> = key
            .take(columns)
            .map(|column| {
                let (name, cql_type) = (Self::name(column), self.type_of(column));
                match self.random.below(20) {
                    0 => format!("{name} IN {}", self.in_list(&cql_type, &column.name)),
                    _ => format!("{name} = {}", self.term(&cql_type, &column.name)),
                }
            })
            .collect();
        format!(" WHERE {}", relations.join(" AND "))
    }

    fn references(&mut self, rows: &[Row<'s>]) -> String {
        let references: Vec<String> = (0..self.random.between(1, 3))
            .map(|_| {
                let row = self.random.element(rows);
                let column = self.random.element(&row.table.columns);
                format!("{}.{}", row.name, Self::name(column))
            })
            .collect();
        references.join(", ")
    }

    fn conditions(&mut self, rows: &[Row<'s>]) -> String {
        let conditions: Vec<String> = (0..self.random.between(1, 2))
            .map(|_| {
                let row = self.random.element(rows);
                if self.random.chance(30) {
                    return format!("{} IS {}NULL", row.name, self.random.pick(&["", "NOT "]));
                }
                let column = self.random.element(&row.table.columns);
                let cql_type = self.type_of(column);
                format!(
                    "{}.{} {} {}",
                    row.name,
                    Self::name(column),
                    self.random.pick(&["=", ">", "<", ">=", "<=", "!="]),
                    self.term(&cql_type, &column.name)
                )
            })
            .collect();
        conditions.join(" AND ")
    }

    fn write_of_row(&mut self, rows: &[Row<'s>]) -> String {
        let table = self.transactional();
        let name = self.table_name(table);
        match self.random.below(10) {
            // With all that other writes have, most of which a transaction must not have.
            0 => match self.random.below(3) {
                0 => self.insert_into(table),
                1 => self.update_of(table),
                _ => self.delete_of(table),
            },
            1..4 => {
                let key = table.columns.iter().filter(|column| column.is_primary_key());
                let mut columns: Vec<&Column> = key.collect();
                columns.extend(settable(table).into_iter().filter(|_| self.random.chance(40)));
                let names: Vec<String> = columns.iter().map(|column| Self::name(column)).collect();
                let values: Vec<String> = columns
                    .iter()
                    .map(|column| match column.is_primary_key() {
                        true => {
                            let cql_type = self.type_of(column);
                            self.term(&cql_type, &column.name)
                        }
                        false => self.value(column, rows),
                    })
                    .collect();
                let (names, values) = (names.join(", "), values.join(", "));
                format!("INSERT INTO {name} ({names}) VALUES ({values})")
            }
            4..9 => {
                let column = self.random.element(&settable(table)).to_owned();
                let assignment = match self.type_of(column) {
                    CqlType::Int | CqlType::BigInt if self.random.chance(30) => format!(
                        "{} {} {}",
                        Self::name(column),
                        self.random.pick(&["+=", "-="]),
                        self.random.pick(&["1", "2"])
                    ),
                    CqlType::List(_) | CqlType::Set(_) | CqlType::Map(_) if self.random.chance(60) => {
                        self.assignment(column)
                    }
                    _ => format!("{} = {}", Self::name(column), self.value(column, rows)),
                };
                format!(
                    "UPDATE {name} SET {assignment}{}",
                    self.key_clause(table, usize::MAX)
                )
            }
            _ => {
                let column = self.random.element(&settable(table)).to_owned();
                let column = Self::name(column);
                let columns = match self.random.below(3) {
                    0 => format!("{column} "),
                    _ => String::new(),
                };
                let given = match self.random.below(4) {
                    0 => table.partition_key().len(),
                    _ => usize::MAX,
                };
                format!("DELETE {columns}FROM {name}{}", self.key_clause(table, given))
            }
        }
    }

    /// A value for a column: its own, or a reference, mostly to a column of its type.
    fn value(&mut self, column: &Column, rows: &[Row<'s>]) -> String {
        let cql_type = self.type_of(column);
        let fitting: Vec<String> = rows
            .iter()
            .flat_map(|row| row.table.columns.iter().map(move |column| (row, column)))
            .filter(|(_, referred)| self.type_of(referred) == cql_type)
            .map(|(row, referred)| format!("{}.{}", row.name, Self::name(referred)))
            .collect();
        match self.random.below(10) {
            0..4 if !fitting.is_empty() => self.random.element(&fitting).clone(),
            4 if !rows.is_empty() => self.references(&rows[..1]).split(", ").next().unwrap().to_owned(),
            _ => self.term(&cql_type, &column.name),
        }
    }
}
