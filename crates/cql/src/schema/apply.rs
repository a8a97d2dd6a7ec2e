//! Definitions to schema: what `CREATE`, `ALTER` and `DROP` change.

use std::collections::BTreeMap;

use crate::syntax::ast::{
    AlterKeyspace, AlterTable, AlterType, AlterView, Body, ColumnDefinition, CreateIndex, CreateKeyspace,
    CreateTable, CreateType, CreateView, Direction, Drop, Dropped, IndexTargetKind, Kind, Literal,
    LiteralKind, Name, Other, Property, PropertyValue, QualifiedName, Selection, Statement, TableChange,
    Term, TypeChange, Where,
};
use crate::syntax::{self, Span};

use super::{
    Column, ColumnKind, DataType, Index, IndexClass, IndexTarget, Keyspace, OptionValue, Order, Schema,
    SchemaError, SchemaErrorKind, Table, UserType, View,
};

type Result<T> = std::result::Result<T, SchemaError>;

impl Schema {
    /// Reads a script of definitions, such as `DESCRIBE SCHEMA` prints; `USE` is obeyed, other statements are skipped.
    ///
    /// # Errors
    ///
    /// Every statement that is not CQL or does not fit what the statements before it have defined.
    pub fn from_cql(text: &str) -> std::result::Result<Self, Vec<SchemaError>> {
        let (schema, errors) = Self::read_cql(text);
        if errors.is_empty() {
            Ok(schema)
        } else {
            Err(errors)
        }
    }

    /// As [`Schema::from_cql`], but keeps what could be read.
    pub fn read_cql(text: &str) -> (Self, Vec<SchemaError>) {
        let mut schema = Self::default();
        let mut errors = Vec::new();
        let mut keyspace = None;
        for (_, statement) in syntax::statements(text) {
            let outcome = match statement {
                Err(error) => Err(at(error.span, SchemaErrorKind::Syntax(error.clone()))),
                Ok(Statement {
                    body: Body::Use(using),
                    ..
                }) => {
                    keyspace = Some(using.keyspace.as_str().to_owned());
                    Ok(())
                }
                Ok(statement) => schema.apply(&statement, keyspace.as_deref()),
            };
            match outcome {
                Err(SchemaError {
                    kind: SchemaErrorKind::NotADefinition(_),
                    ..
                })
                | Ok(()) => {}
                Err(error) => errors.push(error),
            }
        }
        (schema, errors)
    }

    /// Takes over one definition; names without a keyspace are `keyspace`'s.
    ///
    /// # Errors
    ///
    /// If the statement defines nothing, or does not fit the schema, which then stays as it was.
    pub fn apply(&mut self, statement: &Statement<'_>, keyspace: Option<&str>) -> Result<()> {
        match &statement.body {
            Body::CreateKeyspace(create) => self.create_keyspace(create),
            Body::AlterKeyspace(alter) => self.alter_keyspace(alter),
            Body::CreateTable(create) => self.create_table(create, keyspace),
            Body::AlterTable(alter) => self.alter_table(alter, keyspace),
            Body::CreateType(create) => self.create_type(create, keyspace),
            Body::AlterType(alter) => self.alter_type(alter, keyspace),
            Body::CreateIndex(create) => self.create_index(create, keyspace),
            Body::CreateView(create) => self.create_view(create, statement.text, keyspace),
            Body::AlterView(alter) => self.alter_view(alter, keyspace),
            Body::Drop(drop) => self.drop(drop, keyspace),
            Body::Other(other) => self.other(other, statement.span, keyspace),
            _ => Err(not_a_definition(statement.kind(), statement.span)),
        }
    }

    fn create_keyspace(&mut self, create: &CreateKeyspace<'_>) -> Result<()> {
        let name = create.name.as_str();
        if self.keyspaces.contains_key(name) {
            return exists(create.if_not_exists, &create.name);
        }
        let mut keyspace = Keyspace {
            name: name.to_owned(),
            durable_writes: true,
            ..Keyspace::default()
        };
        set_keyspace_options(&mut keyspace, &create.options);
        self.keyspaces.insert(name.to_owned(), keyspace);
        Ok(())
    }

    fn alter_keyspace(&mut self, alter: &AlterKeyspace<'_>) -> Result<()> {
        match self.keyspaces.get_mut(alter.name.as_str()) {
            Some(keyspace) => set_keyspace_options(keyspace, &alter.options),
            None if alter.if_exists => {}
            None => return Err(missing(&alter.name, SchemaErrorKind::KeyspaceUnknown)),
        }
        Ok(())
    }

    fn create_table(&mut self, create: &CreateTable<'_>, current: Option<&str>) -> Result<()> {
        let keyspace = self.keyspace_of(&create.table, current)?;
        let name = create.table.name.as_str();
        if keyspace.tables.contains_key(name) {
            return exists(create.if_not_exists, &create.table.name);
        }
        if create.partition_key.is_empty() {
            return Err(at(create.table.span(), SchemaErrorKind::NoPrimaryKey));
        }
        let types = create
            .columns
            .iter()
            .map(|column| (column.name.as_str(), DataType::of(&column.type_name)));
        let types: BTreeMap<&str, DataType> = types.collect();
        let key = KeyColumns {
            partition_key: &create.partition_key,
            clustering: &create.clustering,
            order: &create.clustering_order,
        };
        let mut columns = key.columns(&types)?;
        for column in &create.columns {
            if !key.contains(&column.name) {
                columns.push(other_column(column));
            }
        }
        let mut table = Table {
            keyspace: keyspace.name.clone(),
            name: name.to_owned(),
            columns,
            indexes: BTreeMap::new(),
            view: None,
            compact_storage: create.compact_storage,
            options: BTreeMap::new(),
        };
        table.sort_columns();
        set_table_options(&mut table, &create.options);
        keyspace.tables.insert(name.to_owned(), table);
        Ok(())
    }

    fn alter_table(&mut self, alter: &AlterTable<'_>, current: Option<&str>) -> Result<()> {
        let keyspace = match self.keyspace_of(&alter.table, current) {
            Err(_) if alter.if_exists => return Ok(()),
            other => other?,
        };
        let name = alter.table.name.as_str();
        let Some(table) = keyspace.tables.get_mut(name) else {
            return absent(alter.if_exists, &alter.table.name, SchemaErrorKind::TableUnknown);
        };
        match &alter.change {
            TableChange::AlterType { column, type_name } => {
                column_of(table, column)?.data_type = DataType::of(type_name);
            }
            TableChange::AlterMask { .. } => {}
            TableChange::Add {
                if_not_exists,
                columns,
            } => {
                return add_columns(keyspace, name, columns, *if_not_exists);
            }
            TableChange::Drop {
                if_exists, columns, ..
            } => return drop_columns(table, columns, *if_exists),
            TableChange::Rename { if_exists, renames } => {
                return rename_columns(keyspace, name, renames, *if_exists);
            }
            TableChange::DropCompactStorage => table.compact_storage = false,
            TableChange::With(options) => set_table_options(table, options),
        }
        Ok(())
    }

    fn create_type(&mut self, create: &CreateType<'_>, current: Option<&str>) -> Result<()> {
        let keyspace = self.keyspace_of(&create.name, current)?;
        let name = create.name.name.as_str();
        if keyspace.types.contains_key(name) {
            return exists(create.if_not_exists, &create.name.name);
        }
        let fields = create.fields.iter();
        let fields = fields.map(|(field, type_name)| (field.as_str().to_owned(), DataType::of(type_name)));
        let user_type = UserType {
            name: name.to_owned(),
            fields: fields.collect(),
        };
        keyspace.types.insert(name.to_owned(), user_type);
        Ok(())
    }

    fn alter_type(&mut self, alter: &AlterType<'_>, current: Option<&str>) -> Result<()> {
        let keyspace = match self.keyspace_of(&alter.name, current) {
            Err(_) if alter.if_exists => return Ok(()),
            other => other?,
        };
        let Some(user_type) = keyspace.types.get_mut(alter.name.name.as_str()) else {
            return absent(alter.if_exists, &alter.name.name, SchemaErrorKind::TypeUnknown);
        };
        match &alter.change {
            TypeChange::AlterField { field, type_name } => {
                field_of(user_type, field)?.1 = DataType::of(type_name);
            }
            TypeChange::Add {
                if_not_exists,
                field,
                type_name,
            } => {
                if user_type.fields.iter().any(|(name, _)| name == field.as_str()) {
                    return exists(*if_not_exists, field);
                }
                user_type
                    .fields
                    .push((field.as_str().to_owned(), DataType::of(type_name)));
            }
            TypeChange::Rename { if_exists, renames } => {
                for (from, to) in renames {
                    match field_of(user_type, from) {
                        Ok(field) => to.as_str().clone_into(&mut field.0),
                        Err(_) if *if_exists => {}
                        Err(error) => return Err(error),
                    }
                }
            }
        }
        Ok(())
    }

    fn create_index(&mut self, create: &CreateIndex<'_>, current: Option<&str>) -> Result<()> {
        let keyspace = self.keyspace_of(&create.table, current)?;
        let Some(table) = keyspace.tables.get(create.table.name.as_str()) else {
            return Err(missing(&create.table.name, SchemaErrorKind::TableUnknown));
        };
        let mut targets = Vec::new();
        for target in &create.targets {
            let Some(column) = table.column(target.column.as_str()) else {
                return Err(missing(&target.column, SchemaErrorKind::ColumnUnknown));
            };
            let kind = index_target_kind(target.kind, &column.data_type);
            targets.push(IndexTarget {
                column: column.name.clone(),
                kind,
            });
        }
        let name = match &create.name {
            Some(name) if keyspace.has_index(name.as_str()) => return exists(create.if_not_exists, name),
            Some(name) => name.as_str().to_owned(),
            None => keyspace.free_index_name(&table.name, &targets),
        };
        let class = create
            .using
            .map_or(IndexClass::Legacy, |class| IndexClass::of(&class.decoded()));
        let options = create
            .options
            .iter()
            .find(|property| property.name.as_str() == "options");
        let options = options.and_then(|property| match option_value(&property.value) {
            OptionValue::Map(map) => Some(map),
            _ => None,
        });
        let index = Index {
            name: name.clone(),
            targets,
            class,
            options: options.unwrap_or_default(),
        };
        if let Some(table) = keyspace.tables.get_mut(create.table.name.as_str()) {
            table.indexes.insert(name, index);
        }
        Ok(())
    }

    fn create_view(&mut self, create: &CreateView<'_>, text: &str, current: Option<&str>) -> Result<()> {
        let keyspace = self.keyspace_of(&create.view, current)?;
        let name = create.view.name.as_str();
        if keyspace.tables.contains_key(name) {
            return exists(create.if_not_exists, &create.view.name);
        }
        let Some(base) = keyspace.tables.get(create.base.name.as_str()) else {
            return Err(missing(&create.base.name, SchemaErrorKind::TableUnknown));
        };
        let types = base
            .columns
            .iter()
            .map(|column| (column.name.as_str(), column.data_type.clone()));
        let types: BTreeMap<&str, DataType> = types.collect();
        let key = KeyColumns {
            partition_key: &create.partition_key,
            clustering: &create.clustering,
            order: &create.clustering_order,
        };
        let mut columns = key.columns(&types)?;
        for column in &base.columns {
            let in_key = columns.iter().any(|other| other.name == column.name);
            if !in_key && column.kind != ColumnKind::Static && selects(&create.selection, &column.name) {
                columns.push(Column {
                    kind: ColumnKind::Regular,
                    ..column.clone()
                });
            }
        }
        let view = View {
            base: base.name.clone(),
            include_all_columns: create.selection == Selection::All,
            where_clause: where_text(&create.where_clause, text),
        };
        let mut table = Table {
            keyspace: keyspace.name.clone(),
            name: name.to_owned(),
            columns,
            indexes: BTreeMap::new(),
            view: Some(view),
            compact_storage: false,
            options: BTreeMap::new(),
        };
        table.sort_columns();
        set_table_options(&mut table, &create.options);
        keyspace.tables.insert(name.to_owned(), table);
        Ok(())
    }

    fn alter_view(&mut self, alter: &AlterView<'_>, current: Option<&str>) -> Result<()> {
        let keyspace = match self.keyspace_of(&alter.view, current) {
            Err(_) if alter.if_exists => return Ok(()),
            other => other?,
        };
        let Some(view) = keyspace.tables.get_mut(alter.view.name.as_str()) else {
            return absent(alter.if_exists, &alter.view.name, SchemaErrorKind::TableUnknown);
        };
        set_table_options(view, &alter.options);
        Ok(())
    }

    fn drop(&mut self, drop: &Drop<'_>, current: Option<&str>) -> Result<()> {
        let name = &drop.name.name;
        if drop.dropped == Dropped::Keyspace {
            return match self.keyspaces.remove(name.as_str()) {
                Some(_) => Ok(()),
                None => absent(drop.if_exists, name, SchemaErrorKind::KeyspaceUnknown),
            };
        }
        let keyspace = match self.keyspace_of(&drop.name, current) {
            Err(_) if drop.if_exists => return Ok(()),
            other => other?,
        };
        let unknown = match drop.dropped {
            Dropped::Table | Dropped::View if keyspace.tables.remove(name.as_str()).is_none() => {
                SchemaErrorKind::TableUnknown
            }
            Dropped::Type if keyspace.types.remove(name.as_str()).is_none() => SchemaErrorKind::TypeUnknown,
            Dropped::Index if !keyspace.drop_index(name.as_str()) => SchemaErrorKind::IndexUnknown,
            _ => return Ok(()),
        };
        absent(drop.if_exists, name, unknown)
    }

    fn other(&mut self, other: &Other<'_>, span: Span, current: Option<&str>) -> Result<()> {
        let Some(object) = &other.object else {
            return Err(not_a_definition(other.kind, span));
        };
        let name = object.name.as_str().to_owned();
        match other.kind {
            Kind::CreateFunction => drop(self.keyspace_of(object, current)?.functions.insert(name)),
            Kind::DropFunction => drop(self.keyspace_of(object, current)?.functions.remove(&name)),
            Kind::CreateAggregate => drop(self.keyspace_of(object, current)?.aggregates.insert(name)),
            Kind::DropAggregate => drop(self.keyspace_of(object, current)?.aggregates.remove(&name)),
            kind => return Err(not_a_definition(kind, span)),
        }
        Ok(())
    }

    fn keyspace_of(&mut self, name: &QualifiedName<'_>, current: Option<&str>) -> Result<&mut Keyspace> {
        let span = name.span();
        let keyspace = name
            .keyspace_or(current)
            .ok_or_else(|| at(span, SchemaErrorKind::NoKeyspace))?;
        let unknown = || at(span, SchemaErrorKind::KeyspaceUnknown(keyspace.to_owned()));
        self.keyspaces.get_mut(keyspace).ok_or_else(unknown)
    }
}

impl Keyspace {
    fn has_index(&self, name: &str) -> bool {
        self.tables.values().any(|table| table.indexes.contains_key(name))
    }

    fn drop_index(&mut self, name: &str) -> bool {
        self.tables
            .values_mut()
            .any(|table| table.indexes.remove(name).is_some())
    }

    /// The name that Cassandra gives an index without one: `IndexMetadata.generateDefaultIndexName`.
    fn free_index_name(&self, table: &str, targets: &[IndexTarget]) -> String {
        let column = targets.first().map(|target| format!("_{}", target.column));
        let mut base = format!("{table}{}_idx", column.unwrap_or_default());
        base.retain(|character| character.is_ascii_alphanumeric() || character == '_');
        let numbered = (1..).map(|number| format!("{base}_{number}"));
        let mut names = std::iter::once(base.clone()).chain(numbered);
        names.find(|name| !self.has_index(name)).unwrap_or(base)
    }
}

/// The primary key of a table or view, as its definition writes it.
struct KeyColumns<'a, 'text> {
    partition_key: &'a [Name<'text>],
    clustering: &'a [Name<'text>],
    order: &'a [(Name<'text>, Direction)],
}

impl KeyColumns<'_, '_> {
    fn contains(&self, name: &Name<'_>) -> bool {
        self.partition_key
            .iter()
            .chain(self.clustering)
            .any(|other| other.text == name.text)
    }

    fn columns(&self, types: &BTreeMap<&str, DataType>) -> Result<Vec<Column>> {
        let partition_key = self
            .partition_key
            .iter()
            .map(|name| (name, ColumnKind::PartitionKey));
        let clustering = self
            .clustering
            .iter()
            .map(|name| (name, ColumnKind::Clustering(self.order_of(name))));
        let column = |(name, kind): (&Name<'_>, ColumnKind)| {
            let data_type = types.get(name.as_str()).cloned();
            let data_type = data_type.ok_or_else(|| missing(name, SchemaErrorKind::ColumnUnknown))?;
            Ok(Column {
                name: name.as_str().to_owned(),
                kind,
                data_type,
            })
        };
        partition_key.chain(clustering).map(column).collect()
    }

    fn order_of(&self, column: &Name<'_>) -> Order {
        match self.order.iter().find(|(name, _)| name.text == column.text) {
            Some((_, Direction::Descending)) => Order::Descending,
            _ => Order::Ascending,
        }
    }
}

fn other_column(column: &ColumnDefinition<'_>) -> Column {
    Column {
        name: column.name.as_str().to_owned(),
        kind: if column.is_static {
            ColumnKind::Static
        } else {
            ColumnKind::Regular
        },
        data_type: DataType::of(&column.type_name),
    }
}

fn column_of<'t>(table: &'t mut Table, name: &Name<'_>) -> Result<&'t mut Column> {
    let mut columns = table.columns.iter_mut();
    let column = columns.find(|column| column.name == name.as_str());
    column.ok_or_else(|| missing(name, SchemaErrorKind::ColumnUnknown))
}

fn field_of<'t>(user_type: &'t mut UserType, name: &Name<'_>) -> Result<&'t mut (String, DataType)> {
    let mut fields = user_type.fields.iter_mut();
    let field = fields.find(|(field, _)| field == name.as_str());
    field.ok_or_else(|| missing(name, SchemaErrorKind::ColumnUnknown))
}

/// Adds columns to a table and to its views that were made with `SELECT *`.
fn add_columns(
    keyspace: &mut Keyspace,
    table: &str,
    columns: &[ColumnDefinition<'_>],
    if_not_exists: bool,
) -> Result<()> {
    for column in columns {
        let added = other_column(column);
        for other in keyspace.tables.values_mut() {
            let is_view = other
                .view
                .as_ref()
                .is_some_and(|view| view.base == table && view.include_all_columns);
            let is_target = other.name == table || (is_view && added.kind == ColumnKind::Regular);
            if !is_target {
                continue;
            }
            if other.column(&added.name).is_none() {
                other.columns.push(added.clone());
                other.sort_columns();
            } else if other.name == table && !if_not_exists {
                return exists(false, &column.name);
            }
        }
    }
    Ok(())
}

fn drop_columns(table: &mut Table, columns: &[Name<'_>], if_exists: bool) -> Result<()> {
    for name in columns {
        if table.column(name.as_str()).is_none() && !if_exists {
            return Err(missing(name, SchemaErrorKind::ColumnUnknown));
        }
        table
            .columns
            .retain(|column| column.name != name.as_str() || column.is_primary_key());
    }
    Ok(())
}

/// Renames columns of a table, of its views and in its indexes.
fn rename_columns(
    keyspace: &mut Keyspace,
    table: &str,
    renames: &[(Name<'_>, Name<'_>)],
    if_exists: bool,
) -> Result<()> {
    for (from, to) in renames {
        if let Some(own) = keyspace.tables.get(table)
            && own.column(from.as_str()).is_none()
        {
            absent(if_exists, from, SchemaErrorKind::ColumnUnknown)?;
        }
        for other in keyspace.tables.values_mut() {
            if other.name != table && other.base() != Some(table) {
                continue;
            }
            let columns = other.columns.iter_mut().map(|column| &mut column.name);
            let targets = other.indexes.values_mut().flat_map(|index| &mut index.targets);
            for name in columns.chain(targets.map(|target| &mut target.column)) {
                if name == from.as_str() {
                    to.as_str().clone_into(name);
                }
            }
            other.sort_columns();
        }
    }
    Ok(())
}

/// What is indexed where the definition does not say it, as `system_schema.indexes` would.
fn index_target_kind(kind: IndexTargetKind, data_type: &DataType) -> IndexTargetKind {
    let multi_cell_collection = data_type.is_collection() && data_type.is_multi_cell();
    match kind {
        IndexTargetKind::Simple if multi_cell_collection => IndexTargetKind::Values,
        IndexTargetKind::Values if !data_type.is_collection() => IndexTargetKind::Simple,
        other => other,
    }
}

fn selects(selection: &Selection<'_>, column: &str) -> bool {
    match selection {
        Selection::All => true,
        Selection::Selectors(selectors) => selectors
            .iter()
            .any(|selector| matches!(&selector.term, Term::Column(name) if name == column)),
    }
}

fn where_text(clause: &Where<'_>, text: &str) -> String {
    let relations = clause.relations.iter().map(|relation| relation.span.of(text));
    relations.collect::<Vec<_>>().join(" AND ")
}

fn set_keyspace_options(keyspace: &mut Keyspace, options: &[Property<'_>]) {
    for property in options {
        match (property.name.as_str(), option_value(&property.value)) {
            ("replication", OptionValue::Map(map)) => keyspace.replication = map,
            ("durable_writes", OptionValue::Plain(word) | OptionValue::Text(word)) => {
                keyspace.durable_writes = !word.eq_ignore_ascii_case("false");
            }
            ("tablets", OptionValue::Map(map)) => {
                keyspace.tablets = map
                    .get("enabled")
                    .is_none_or(|enabled| enabled.eq_ignore_ascii_case("true"));
            }
            _ => {}
        }
    }
}

fn set_table_options(table: &mut Table, options: &[Property<'_>]) {
    for property in options {
        // The table's id says which of several tables of one name it is, not what it is.
        if property.name.as_str() != "id" {
            table
                .options
                .insert(property.name.as_str().to_owned(), option_value(&property.value));
        }
    }
}

fn option_value(value: &PropertyValue<'_>) -> OptionValue {
    let decoded = |literal: &Literal<'_>| literal.decoded().into_owned();
    match value {
        PropertyValue::Literal(literal) if literal.kind == LiteralKind::String => {
            OptionValue::Text(decoded(literal))
        }
        PropertyValue::Literal(literal) => OptionValue::Plain(literal.text.to_ascii_lowercase()),
        PropertyValue::Word(word) => OptionValue::Plain(word.as_str().to_owned()),
        PropertyValue::Map(entries) => OptionValue::Map(
            entries
                .iter()
                .map(|(key, value)| (decoded(key), decoded(value)))
                .collect(),
        ),
    }
}

fn at(span: Span, kind: SchemaErrorKind) -> SchemaError {
    SchemaError { kind, span }
}

fn missing(name: &Name<'_>, kind: fn(String) -> SchemaErrorKind) -> SchemaError {
    at(name.span, kind(name.as_str().to_owned()))
}

fn absent(if_exists: bool, name: &Name<'_>, kind: fn(String) -> SchemaErrorKind) -> Result<()> {
    if if_exists {
        Ok(())
    } else {
        Err(missing(name, kind))
    }
}

fn exists(if_not_exists: bool, name: &Name<'_>) -> Result<()> {
    if if_not_exists {
        Ok(())
    } else {
        Err(missing(name, SchemaErrorKind::AlreadyExists))
    }
}

fn not_a_definition(kind: Kind, span: Span) -> SchemaError {
    at(span, SchemaErrorKind::NotADefinition(kind.as_str()))
}
