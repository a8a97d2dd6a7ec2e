//! `CREATE` and `ALTER TABLE` (`CreateTableStatement`, `AlterTableStatement`).

use super::type_name::{check, check_key};
use super::{Validated, is_plain, properties, refused, repeated};
use crate::ServerVersion;
use crate::schema::data_type::DataType;
use crate::schema::model::{Column, ColumnKind, Keyspace, Schema, Table};
use crate::schema::system::is_system;
use crate::syntax::ast::{
    AlterTable, ColumnDefinition, CreateTable, Direction, Name, Property, QualifiedName, TableChange,
};

/// `SchemaConstants.TABLE_NAME_LENGTH`: what is left of a file's name.
const LONGEST_NAME: usize = 222;

impl Schema {
    pub(super) fn validate_new_table(
        &self,
        create: &CreateTable<'_>,
        current: Option<&str>,
        version: ServerVersion,
    ) -> Validated {
        check_owner(&create.table, current)?;
        check_name(&create.table.name)?;
        properties::of_table(&create.options, version)?;
        let Some(keyspace) = self.known_keyspace(&create.table, current) else {
            return Ok(());
        };
        let name = create.table.name.as_str();
        if create.if_not_exists && keyspace.tables.contains_key(name) {
            return Ok(());
        }
        for column in &create.columns {
            check(&column.type_name, column.name.span, keyspace)?;
        }
        check_primary_key(create, keyspace)?;
        check_columns(create)?;
        check_order(&create.clustering, &create.clustering_order)?;
        if create.compact_storage {
            check_compact(create)?;
        }
        let has_counters = create.columns.iter().any(is_counter);
        if has_counters {
            check_counter_options(&create.options)?;
        }
        Ok(())
    }

    pub(super) fn validate_altered_table(
        &self,
        alter: &AlterTable<'_>,
        current: Option<&str>,
        version: ServerVersion,
    ) -> Validated {
        check_owner(&alter.table, current)?;
        let Some((keyspace, table)) = self.known_table(&alter.table, current) else {
            return Ok(());
        };
        if table.view.is_some() {
            return Err(refused(
                alter.table.name.span,
                "Cannot use ALTER TABLE on a materialized view; use ALTER MATERIALIZED VIEW instead",
            ));
        }
        let altered = Altered { table, keyspace };
        match &alter.change {
            TableChange::AlterType { column, .. } => Err(refused(
                column.span,
                "Altering column types is no longer supported",
            )),
            TableChange::AlterMask { .. }
            | TableChange::AlterChecks { .. }
            | TableChange::DropCompactStorage => Ok(()),
            TableChange::Add {
                if_not_exists,
                columns,
            } => altered.add(columns, *if_not_exists),
            TableChange::Drop { columns, .. } => columns.iter().try_for_each(|column| altered.drop(column)),
            TableChange::Rename { renames, .. } => {
                renames.iter().try_for_each(|(from, to)| altered.rename(from, to))
            }
            TableChange::With(options) => {
                properties::of_table(options, version)?;
                altered.set(options)
            }
        }
    }
}

/// Refuses to change what the server keeps for itself.
fn check_owner(table: &QualifiedName<'_>, current: Option<&str>) -> Validated {
    match table.keyspace_or(current) {
        Some(keyspace) if is_system(keyspace) => Err(refused(
            table.span(),
            format!("{keyspace} keyspace is not user-modifiable."),
        )),
        _ => Ok(()),
    }
}

pub(super) fn check_name(name: &Name<'_>) -> Validated {
    let text = name.as_str();
    if !is_plain(text) {
        return Err(refused(
            name.span,
            format!(
                "Table name must not be empty or not contain non-alphanumeric-underscore characters (got \"{text}\")"
            ),
        ));
    }
    if text.len() > LONGEST_NAME {
        return Err(refused(
            name.span,
            format!(
                "Table names shouldn't be more than {LONGEST_NAME} characters long (got {} characters for \"{text}\")",
                text.len()
            ),
        ));
    }
    Ok(())
}

fn is_counter(column: &ColumnDefinition<'_>) -> bool {
    DataType::of(&column.type_name).is_counter()
}

fn check_primary_key(create: &CreateTable<'_>, keyspace: &Keyspace) -> Validated {
    let table = create.table.name.as_str();
    let key = || create.partition_key.iter().chain(&create.clustering);
    if let Some(name) = repeated(key()) {
        return Err(refused(
            name.span,
            format!("Duplicate column '{name}' in PRIMARY KEY clause for table '{table}'"),
        ));
    }
    for name in key() {
        let Some(column) = create.columns.iter().find(|column| column.name.text == name.text) else {
            return Err(refused(
                name.span,
                format!("Unknown column '{name}' referenced in PRIMARY KEY for table '{table}'"),
            ));
        };
        if column.is_static {
            return Err(refused(
                name.span,
                format!("Static column '{name}' cannot be part of the PRIMARY KEY"),
            ));
        }
        check_key(
            name.as_str(),
            &DataType::of(&column.type_name),
            name.span,
            keyspace,
        )?;
    }
    Ok(())
}

/// Columns beside the key: all counters or none, and static ones only where partitions have rows.
fn check_columns(create: &CreateTable<'_>) -> Validated {
    let in_key = |column: &ColumnDefinition<'_>| {
        let mut key = create.partition_key.iter().chain(&create.clustering);
        key.any(|name| name.text == column.name.text)
    };
    let mut others = create.columns.iter().filter(|column| !in_key(column));
    let has_counters = others.clone().any(is_counter);
    if let Some(column) = others.clone().find(|column| has_counters && !is_counter(column)) {
        return Err(refused(
            column.name.span,
            "Cannot mix counter and non counter columns in the same table",
        ));
    }
    match others.find(|column| column.is_static) {
        Some(column) if create.clustering.is_empty() => Err(refused(column.name.span, STATIC_WITHOUT_ROWS)),
        _ => Ok(()),
    }
}

const STATIC_WITHOUT_ROWS: &str =
    "Static columns are only useful (and thus allowed) if the table has at least one clustering column";

/// `CLUSTERING ORDER BY` names the first clustering columns, in their order.
fn check_order(clustering: &[Name<'_>], order: &[(Name<'_>, Direction)]) -> Validated {
    for (index, (name, _)) in order.iter().enumerate() {
        let message = match clustering.iter().position(|column| column.text == name.text) {
            Some(position) if position == index => continue,
            None => format!(
                "Only clustering key columns can be defined in CLUSTERING ORDER directive: [{name}] are not clustering columns"
            ),
            Some(_) => match &clustering[index] {
                missing if order.iter().all(|(other, _)| other.text != missing.text) => {
                    format!("Missing CLUSTERING ORDER for column {missing}")
                }
                first => format!(
                    "The order of columns in the CLUSTERING ORDER directive must match that of the clustering columns ({first} \
                     must appear before {name})"
                ),
            },
        };
        return Err(refused(name.span, message));
    }
    Ok(())
}

fn check_compact(create: &CreateTable<'_>) -> Validated {
    if let Some(column) = create.columns.iter().find(|column| column.is_static) {
        return Err(refused(
            column.name.span,
            "Static columns are not supported in COMPACT STORAGE tables",
        ));
    }
    let is_multi_cell = |column: &&ColumnDefinition<'_>| DataType::of(&column.type_name).is_multi_cell();
    if let Some(column) = create.columns.iter().find(is_multi_cell) {
        return Err(refused(
            column.name.span,
            "Non-frozen collections and UDTs are not supported with COMPACT STORAGE",
        ));
    }
    let beside = create.columns.len() - create.partition_key.len() - create.clustering.len();
    if !create.clustering.is_empty() && beside > 1 {
        return Err(refused(
            create.table.name.span,
            "COMPACT STORAGE with composite PRIMARY KEY allows no more than one column not part of the PRIMARY KEY",
        ));
    }
    Ok(())
}

/// Counters never expire.
fn check_counter_options(options: &[Property<'_>]) -> Validated {
    match properties::number_of(options, "default_time_to_live") {
        Some((place, seconds)) if seconds > 0.0 => Err(refused(
            place,
            "Cannot set default_time_to_live on a table with counters",
        )),
        _ => Ok(()),
    }
}

/// A table that is altered, and the keyspace that it is in.
struct Altered<'s> {
    table: &'s Table,
    keyspace: &'s Keyspace,
}

impl Altered<'_> {
    fn add(&self, columns: &[ColumnDefinition<'_>], if_not_exists: bool) -> Validated {
        if self.table.compact_storage {
            return Err(refused(
                columns
                    .first()
                    .map_or_else(Default::default, |column| column.name.span),
                "Cannot add new column to a COMPACT STORAGE table",
            ));
        }
        if let Some(name) = repeated(columns.iter().map(|column| &column.name)) {
            return Err(refused(
                name.span,
                format!("Column with name '{name}' already exists"),
            ));
        }
        for column in columns {
            check(&column.type_name, column.name.span, self.keyspace)?;
        }
        let is_new = |column: &&ColumnDefinition<'_>| {
            !if_not_exists || self.table.column(column.name.as_str()).is_none()
        };
        columns
            .iter()
            .filter(is_new)
            .try_for_each(|column| self.add_one(column))
    }

    fn add_one(&self, column: &ColumnDefinition<'_>) -> Validated {
        let (name, place) = (column.name.as_str(), column.name.span);
        let data_type = DataType::of(&column.type_name);
        if column.is_static && self.table.clustering().is_empty() {
            return Err(refused(place, STATIC_WITHOUT_ROWS));
        }
        match (self.table.is_counter(), data_type.is_counter()) {
            (false, true) => {
                return Err(refused(
                    place,
                    format!("Cannot have a counter column (\"{name}\") in a non counter table"),
                ));
            }
            (true, false) => {
                return Err(refused(
                    place,
                    format!("Cannot have a non counter column (\"{name}\") in a counter table"),
                ));
            }
            _ => {}
        }
        match self.table.dropped.iter().find(|dropped| dropped.name == name) {
            Some(dropped) => self.add_again(column, &data_type, dropped),
            None => Ok(()),
        }
    }

    /// A column that was dropped comes back only as what it was: its old values may still be there.
    fn add_again(&self, column: &ColumnDefinition<'_>, data_type: &DataType, dropped: &Column) -> Validated {
        let (name, place) = (&column.name, column.name.span);
        let kind = |is_static| if is_static { "STATIC" } else { "REGULAR" };
        let was_static = dropped.kind == ColumnKind::Static;
        if *data_type != dropped.data_type {
            return Err(refused(
                place,
                format!(
                    "Cannot add a column '{name}' of type {data_type}, incompatible with previously dropped column '{name}' of type \
                     {}",
                    dropped.data_type
                ),
            ));
        }
        if column.is_static != was_static {
            return Err(refused(
                place,
                format!(
                    "Cannot re-add previously dropped column '{name}' of kind {}, incompatible with previous kind {}",
                    kind(column.is_static),
                    kind(was_static)
                ),
            ));
        }
        Ok(())
    }

    fn drop(&self, name: &Name<'_>) -> Validated {
        let Some(column) = self.table.column(name.as_str()) else {
            return Ok(());
        };
        if column.is_primary_key() {
            return Err(refused(
                name.span,
                format!("Cannot drop PRIMARY KEY column {name}"),
            ));
        }
        let indexes = self.indexes_of(name);
        if !indexes.is_empty() {
            return Err(refused(
                name.span,
                format!("Cannot drop column {name} because it has dependent secondary indexes ({indexes})"),
            ));
        }
        if self.has_views() {
            return Err(refused(
                name.span,
                format!(
                    "Cannot drop column {name} on base table {} with materialized views",
                    self.table.name
                ),
            ));
        }
        Ok(())
    }

    fn rename(&self, from: &Name<'_>, to: &Name<'_>) -> Validated {
        let Some(column) = self.table.column(from.as_str()) else {
            return Ok(());
        };
        if !column.is_primary_key() {
            return Err(refused(
                from.span,
                format!("Cannot rename non PRIMARY KEY column {from}"),
            ));
        }
        if self.table.column(to.as_str()).is_some() {
            return Err(refused(
                to.span,
                format!(
                    "Cannot rename column {from} to {to} in table '{}.{}'; another column with that name already exists",
                    self.table.keyspace, self.table.name
                ),
            ));
        }
        let indexes = self.indexes_of(from);
        if !indexes.is_empty() {
            return Err(refused(
                from.span,
                format!("Can't rename column {from} because it has dependent secondary indexes ({indexes})"),
            ));
        }
        Ok(())
    }

    fn set(&self, options: &[Property<'_>]) -> Validated {
        if let Some(id) = options.iter().find(|option| option.name.as_str() == "id") {
            return Err(refused(id.name.span, "Cannot alter table id."));
        }
        if self.table.is_counter() {
            check_counter_options(options)?;
        }
        match properties::number_of(options, "gc_grace_seconds") {
            Some((place, 0.0)) if self.has_views() => Err(refused(
                place,
                "Cannot alter gc_grace_seconds of the base table of a materialized view to 0, since this value is used to TTL \
                 undelivered updates. Setting gc_grace_seconds too low might cause undelivered updates to expire before being \
                 replayed.",
            )),
            _ => Ok(()),
        }
    }

    fn has_views(&self) -> bool {
        let mut tables = self.keyspace.tables.values();
        tables.any(|other| other.base() == Some(&self.table.name))
    }

    fn indexes_of(&self, column: &Name<'_>) -> String {
        let indexes = self.table.indexes.values().filter(|index| {
            let mut targets = index.targets.iter();
            targets.any(|target| target.column == column.as_str())
        });
        let names: Vec<&str> = indexes.map(|index| index.name.as_str()).collect();
        names.join(",")
    }
}
