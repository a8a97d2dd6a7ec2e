//! The templates of definitions. Their structure stays; the values of their options become `?`.

use crate::syntax::ast::{
    Body, Check, ColumnDefinition, CopyTable, CreateIndex, CreateTable, CreateView, Direction, Drop, Dropped,
    IndexTargetDefinition, IndexTargetKind, Mask, Name, Property, PropertyValue, TableChange, TypeChange,
    TypeName,
};

use super::writer::{VALUE, Writer};

impl Writer<'_> {
    /// Writes a definition; other bodies are written elsewhere.
    pub(super) fn definition(&mut self, body: &Body<'_>) {
        match body {
            Body::CreateKeyspace(create) => {
                self.created("KEYSPACE", create.if_not_exists);
                self.name(&create.name);
                self.options(&create.options);
            }
            Body::AlterKeyspace(alter) => {
                self.altered("KEYSPACE", alter.if_exists);
                self.name(&alter.name);
                self.options(&alter.options);
            }
            Body::CreateTable(create) => self.create_table(create),
            Body::CopyTable(copy) => self.copy_table(copy),
            Body::AlterTable(alter) => {
                self.altered("TABLE", alter.if_exists);
                self.table(&alter.table);
                self.table_change(&alter.change);
            }
            Body::CreateType(create) => {
                self.created("TYPE", create.if_not_exists);
                self.user_type(&create.name);
                self.push(" (");
                self.separated(", ", &create.fields, |writer, (name, type_name)| {
                    writer.typed(name, type_name)
                });
                self.push(")");
            }
            Body::AlterType(alter) => {
                self.altered("TYPE", alter.if_exists);
                self.user_type(&alter.name);
                self.type_change(&alter.change);
            }
            Body::CreateIndex(create) => self.create_index(create),
            Body::CreateView(create) => self.create_view(create),
            Body::AlterView(alter) => {
                self.altered("MATERIALIZED VIEW", alter.if_exists);
                self.table(&alter.view);
                self.options(&alter.options);
            }
            Body::Drop(drop) => self.drop_object(drop),
            Body::Select(_)
            | Body::Insert(_)
            | Body::Update(_)
            | Body::Delete(_)
            | Body::Batch(_)
            | Body::Transaction(_)
            | Body::Annotate(_)
            | Body::Truncate(_)
            | Body::Use(_)
            | Body::Other(_) => {}
        }
    }

    fn created(&mut self, what: &str, if_not_exists: bool) {
        self.push("CREATE ");
        self.push(what);
        self.push(if if_not_exists { " IF NOT EXISTS " } else { " " });
    }

    fn altered(&mut self, what: &str, if_exists: bool) {
        self.push("ALTER ");
        self.push(what);
        self.push(if if_exists { " IF EXISTS " } else { " " });
    }

    fn typed(&mut self, name: &Name<'_>, type_name: &TypeName<'_>) {
        self.name(name);
        self.push(" ");
        self.type_name(type_name);
    }

    /// Writes the options of a `WITH` clause that consists of nothing else.
    pub(super) fn options(&mut self, options: &[Property<'_>]) {
        self.properties(&[], false, options);
    }

    fn properties(
        &mut self,
        order: &[(Name<'_>, Direction)],
        compact_storage: bool,
        options: &[Property<'_>],
    ) {
        let mut joint = " WITH ";
        if !order.is_empty() {
            self.push(" WITH CLUSTERING ORDER BY (");
            self.separated(", ", order, |writer, (name, direction)| {
                writer.name(name);
                writer.push(if *direction == Direction::Descending {
                    " DESC"
                } else {
                    " ASC"
                });
            });
            self.push(")");
            joint = " AND ";
        }
        if compact_storage {
            self.push(joint);
            self.push("COMPACT STORAGE");
            joint = " AND ";
        }
        for option in options {
            self.push(joint);
            self.name(&option.name);
            self.push(" = ");
            self.property_value(&option.value);
            joint = " AND ";
        }
    }

    /// The indexes of a hint are no values: they stay in the template.
    fn property_value(&mut self, value: &PropertyValue<'_>) {
        match value {
            PropertyValue::Indexes(indexes) => {
                self.push("{");
                self.separated(", ", indexes, |writer, index| writer.name(&index.name));
                self.push("}");
            }
            PropertyValue::Literal(_) | PropertyValue::Word(_) | PropertyValue::Map(_) => self.push(VALUE),
        }
    }

    fn copy_table(&mut self, copy: &CopyTable<'_>) {
        self.created("TABLE", copy.if_not_exists);
        self.table(&copy.table);
        self.push(" LIKE ");
        self.table(&copy.source);
        let copied = [
            (copy.indexes, "INDEXES"),
            (copy.comments, "COMMENTS"),
            (copy.security_labels, "SECURITY LABELS"),
        ];
        let mut joint = " WITH ";
        for (_, what) in copied.into_iter().filter(|(is_copied, _)| *is_copied) {
            self.push(joint);
            self.push(what);
            joint = " AND ";
        }
        for option in &copy.options {
            self.push(joint);
            self.name(&option.name);
            self.push(" = ");
            self.property_value(&option.value);
            joint = " AND ";
        }
    }

    fn create_table(&mut self, create: &CreateTable<'_>) {
        self.created("TABLE", create.if_not_exists);
        self.table(&create.table);
        self.push(" (");
        self.separated(", ", &create.columns, Self::column);
        // The grammar does not ask for a primary key.
        if !create.partition_key.is_empty() {
            self.push(", ");
            self.primary_key(&create.partition_key, &create.clustering);
        }
        self.push(")");
        self.properties(&create.clustering_order, create.compact_storage, &create.options);
    }

    fn column(&mut self, column: &ColumnDefinition<'_>) {
        self.typed(&column.name, &column.type_name);
        if column.is_static {
            self.push(" STATIC");
        }
        self.push_if(column.not_null, " NOT NULL");
        if let Some(mask) = &column.mask {
            self.mask(mask);
        }
        self.checks(&column.checks);
    }

    fn checks(&mut self, checks: &[Check<'_>]) {
        if checks.is_empty() {
            return;
        }
        self.push(" CHECK ");
        self.separated(" AND ", checks, |writer, check| match check {
            Check::NotNull { .. } => writer.push("NOT NULL"),
            Check::Json { .. } => writer.push("JSON"),
            Check::Function {
                function, operator, ..
            } => {
                writer.push(function.as_str());
                writer.push("() ");
                writer.push(operator.as_str());
                writer.push(" ?");
            }
            Check::Value { column, operator, .. } => {
                writer.name(column);
                writer.push(" ");
                writer.push(operator.as_str());
                writer.push(" ?");
            }
        });
    }

    fn mask(&mut self, mask: &Mask<'_>) {
        self.push(" MASKED WITH ");
        match mask {
            Mask::Default => self.push("DEFAULT"),
            Mask::Function { name, arguments } => {
                self.function_name(name);
                self.push("(");
                self.separated(", ", arguments, |writer, argument| _ = writer.term(argument));
                self.push(")");
            }
        }
    }

    fn primary_key(&mut self, partition_key: &[Name<'_>], clustering: &[Name<'_>]) {
        self.push("PRIMARY KEY (");
        if let [single] = partition_key {
            self.name(single);
        } else {
            self.push("(");
            self.names(partition_key);
            self.push(")");
        }
        for column in clustering {
            self.push(", ");
            self.name(column);
        }
        self.push(")");
    }

    fn table_change(&mut self, change: &TableChange<'_>) {
        match change {
            TableChange::AlterType { column, type_name } => {
                self.push(" ALTER ");
                self.name(column);
                self.push(" TYPE ");
                self.type_name(type_name);
            }
            TableChange::AlterMask {
                if_exists,
                column,
                mask,
            } => {
                self.push(if *if_exists {
                    " ALTER IF EXISTS "
                } else {
                    " ALTER "
                });
                self.name(column);
                match mask {
                    Some(mask) => self.mask(mask),
                    None => self.push(" DROP MASKED"),
                }
            }
            TableChange::AlterChecks {
                if_exists,
                column,
                checks,
            } => {
                self.push(if *if_exists {
                    " ALTER IF EXISTS "
                } else {
                    " ALTER "
                });
                self.name(column);
                self.push_if(checks.is_empty(), " DROP CHECK");
                self.checks(checks);
            }
            TableChange::Add {
                if_not_exists,
                columns,
            } => {
                self.push(if *if_not_exists {
                    " ADD IF NOT EXISTS ("
                } else {
                    " ADD ("
                });
                self.separated(", ", columns, Self::column);
                self.push(")");
            }
            TableChange::Drop {
                if_exists,
                columns,
                timestamp,
            } => {
                self.push(if *if_exists {
                    " DROP IF EXISTS ("
                } else {
                    " DROP ("
                });
                self.names(columns);
                self.push(")");
                if timestamp.is_some() {
                    self.push(" USING TIMESTAMP ?");
                }
            }
            TableChange::Rename { if_exists, renames } => self.renames(*if_exists, renames),
            TableChange::DropCompactStorage => self.push(" DROP COMPACT STORAGE"),
            TableChange::With(options) => self.options(options),
        }
    }

    fn renames(&mut self, if_exists: bool, renames: &[(Name<'_>, Name<'_>)]) {
        self.push(if if_exists {
            " RENAME IF EXISTS "
        } else {
            " RENAME "
        });
        self.separated(" AND ", renames, |writer, (from, to)| {
            writer.name(from);
            writer.push(" TO ");
            writer.name(to);
        });
    }

    fn type_change(&mut self, change: &TypeChange<'_>) {
        match change {
            TypeChange::AlterField { field, type_name } => {
                self.push(" ALTER ");
                self.name(field);
                self.push(" TYPE ");
                self.type_name(type_name);
            }
            TypeChange::Add {
                if_not_exists,
                field,
                type_name,
            } => {
                self.push(if *if_not_exists {
                    " ADD IF NOT EXISTS "
                } else {
                    " ADD "
                });
                self.typed(field, type_name);
            }
            TypeChange::Rename { if_exists, renames } => self.renames(*if_exists, renames),
        }
    }

    fn create_index(&mut self, create: &CreateIndex<'_>) {
        self.created(
            if create.custom { "CUSTOM INDEX" } else { "INDEX" },
            create.if_not_exists,
        );
        if let Some(name) = &create.name {
            self.name(name);
            self.push(" ");
        }
        self.push("ON ");
        self.table(&create.table);
        self.push(" (");
        if !create.partition_key.is_empty() {
            self.push("(");
            self.separated(", ", &create.partition_key, Self::name);
            self.push("), ");
        }
        self.separated(", ", &create.targets, Self::index_target);
        self.push(")");
        if create.using.is_some() {
            self.push(" USING ?");
        }
        self.options(&create.options);
    }

    fn index_target(&mut self, target: &IndexTargetDefinition<'_>) {
        let function = match target.kind {
            IndexTargetKind::Simple => return self.name(&target.column),
            IndexTargetKind::Values => "values(",
            IndexTargetKind::Keys => "keys(",
            IndexTargetKind::Entries => "entries(",
            IndexTargetKind::Full => "full(",
        };
        self.push(function);
        self.name(&target.column);
        self.push(")");
    }

    fn create_view(&mut self, create: &CreateView<'_>) {
        self.created("MATERIALIZED VIEW", create.if_not_exists);
        self.table(&create.view);
        self.push(" AS SELECT ");
        self.selection(&create.selection);
        self.push(" FROM ");
        self.table(&create.base);
        self.where_clause(&create.where_clause);
        self.push(" ");
        self.primary_key(&create.partition_key, &create.clustering);
        self.properties(&create.clustering_order, false, &create.options);
    }

    fn drop_object(&mut self, drop: &Drop<'_>) {
        self.push(match drop.dropped {
            Dropped::Keyspace => "DROP KEYSPACE ",
            Dropped::Table => "DROP TABLE ",
            Dropped::Type => "DROP TYPE ",
            Dropped::Index => "DROP INDEX ",
            Dropped::View => "DROP MATERIALIZED VIEW ",
        });
        if drop.if_exists {
            self.push("IF EXISTS ");
        }
        match drop.dropped {
            Dropped::Keyspace => self.name(&drop.name.name),
            Dropped::Type => self.user_type(&drop.name),
            Dropped::Table | Dropped::Index | Dropped::View => self.table(&drop.name),
        }
    }
}
