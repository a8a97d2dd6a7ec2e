//! `CREATE INDEX` (`CreateIndexStatement`, `StorageAttachedIndex.validateOptions`, `SASIIndex.validateOptions`).

use super::properties::unknown;
use super::type_name::has_duration;
use super::{Validated, is_of_a_jar, is_one_of, is_plain, refused, repeated};
use crate::schema::data_type::DataType;
use crate::schema::model::{Column, ColumnKind, Index, IndexClass, Keyspace, Schema, Table};
use crate::syntax::ast::{
    CreateIndex, IndexTargetDefinition, IndexTargetKind, Literal, NativeType, PropertyValue,
};

impl Schema {
    pub(super) fn validate_new_index(&self, create: &CreateIndex<'_>, current: Option<&str>) -> Validated {
        let Some((keyspace, table)) = self.known_table(&create.table, current) else {
            return Ok(());
        };
        let new = NewIndex {
            create,
            table,
            keyspace,
            class: create
                .using
                .map_or(IndexClass::Legacy, |class| IndexClass::of(&class.decoded())),
        };
        if create.if_not_exists && (new.has_name_of_another() || new.equal().is_some()) {
            return Ok(());
        }
        new.check_table()?;
        new.check_form()?;
        for target in &create.targets {
            if let Some(column) = table.column(target.column.as_str()) {
                new.check_target(target, column)?;
                new.check_class(target, column)?;
            }
        }
        match new.equal() {
            Some(equal) if !new.has_name_of_another() => Err(refused(
                create.name.as_ref().map_or(create.table.span(), |name| name.span),
                format!(
                    "Index {} is a duplicate of existing index {}",
                    new.name(),
                    equal.name
                ),
            )),
            _ => Ok(()),
        }
    }
}

struct NewIndex<'a, 'text> {
    create: &'a CreateIndex<'text>,
    table: &'a Table,
    keyspace: &'a Keyspace,
    class: IndexClass,
}

impl NewIndex<'_, '_> {
    fn name(&self) -> String {
        match &self.create.name {
            Some(name) => name.to_string(),
            None => "of that column".to_owned(),
        }
    }

    fn has_name_of_another(&self) -> bool {
        self.create.name.as_ref().is_some_and(|name| {
            let mut tables = self.keyspace.tables.values();
            tables.any(|table| table.indexes.contains_key(name.as_str()))
        })
    }

    /// The index of the table that differs in nothing but its name.
    fn equal(&self) -> Option<&Index> {
        let [target] = self.create.targets.as_slice() else {
            return None;
        };
        let column = self.table.column(target.column.as_str())?;
        let part = |kind: IndexTargetKind| match kind {
            IndexTargetKind::Simple if column.data_type.is_collection() => IndexTargetKind::Values,
            IndexTargetKind::Values if !column.data_type.is_collection() => IndexTargetKind::Simple,
            other => other,
        };
        self.table.indexes.values().find(|index| {
            let is_same = matches!(index.targets.as_slice(), [own] if own.column == column.name && part(own.kind) == part(target.kind));
            is_same && index.class == self.class
        })
    }

    fn check_table(&self) -> Validated {
        let message = match self.table {
            table if table.is_counter() => "Secondary indexes on counter tables aren't supported",
            table if table.view.is_some() => "Secondary indexes on materialized views aren't supported",
            _ => return Ok(()),
        };
        Err(refused(self.create.table.name.span, message))
    }

    fn check_form(&self) -> Validated {
        let create = self.create;
        if let Some(name) = create.name.as_ref().filter(|name| !is_plain(name.as_str())) {
            return Err(refused(name.span, format!("Illegal index name {name}")));
        }
        let place = create
            .targets
            .first()
            .map_or(create.table.span(), |target| target.column.span);
        let is_custom = create.custom || self.class != IndexClass::Legacy;
        match (create.targets.len(), is_custom) {
            (0, false) => {
                return Err(refused(
                    place,
                    "Only CUSTOM indexes can be created without specifying a target column",
                ));
            }
            (2.., false) => return Err(refused(place, "Only CUSTOM indexes support multiple columns")),
            _ => {}
        }
        let mut options = create.options.iter();
        if let Some(option) = options.find(|option| option.name.as_str() != "options") {
            return Err(unknown(option));
        }
        if let Some(option) = create.options.first().filter(|_| !is_custom) {
            return Err(refused(
                option.name.span,
                "Cannot specify options for a non-CUSTOM index",
            ));
        }
        if let Some(target) = repeated(create.targets.iter().map(|target| &target.column)) {
            return Err(refused(
                target.span,
                format!("Duplicate column '{target}' in index target list"),
            ));
        }
        if matches!(self.class, IndexClass::Sai | IndexClass::Sasi) && create.targets.len() != 1 {
            return Err(refused(
                place,
                "An index of that class is created over one column",
            ));
        }
        let unknown = match (&self.class, create.using) {
            (_, None) if create.custom => Some((place, "legacy_local_table".to_owned())),
            // It has no short name.
            (IndexClass::Sasi, Some(using)) if !using.decoded().contains('.') => {
                Some((using.span, using.decoded().into_owned()))
            }
            (IndexClass::Custom(class), Some(using)) if !is_of_a_jar(class) => {
                Some((using.span, class.clone()))
            }
            _ => None,
        };
        match unknown {
            Some((place, class)) => Err(refused(
                place,
                format!("Unable to find custom indexer class '{class}'"),
            )),
            None => Ok(()),
        }
    }

    fn check_target(&self, target: &IndexTargetDefinition<'_>, column: &Column) -> Validated {
        use IndexTargetKind::{Entries, Full, Keys, Simple, Values};
        let (name, data_type) = (&target.column, &column.data_type);
        let is_collection = data_type.is_collection();
        let is_frozen = is_collection && !data_type.is_multi_cell();
        let part = match target.kind {
            Simple | Values => "values",
            Keys => "keys",
            Entries => "entries",
            Full => "full",
        };
        let is_only_key =
            self.table.partition_key().len() == 1 && self.table.partition_key()[0].name == column.name;
        let message = match target.kind {
            _ if matches!(data_type, DataType::UserDefined(_)) => {
                format!("Cannot create index on non-frozen UDT column {name}")
            }
            _ if has_duration(data_type, self.keyspace) => {
                let what = match data_type.thawed() {
                    DataType::Tuple(_) => "tuples containing durations",
                    DataType::UserDefined(_) => "UDTs containing durations",
                    DataType::Native(_) => "duration columns",
                    _ => "collections containing durations",
                };
                format!("Secondary indexes are not supported on {what}")
            }
            _ if self.table.compact_storage && column.is_primary_key() => {
                "Secondary indexes are not supported on PRIMARY KEY columns in COMPACT STORAGE tables"
                    .to_owned()
            }
            _ if self.table.compact_storage && !self.table.clustering().is_empty() => {
                "Secondary indexes are not supported on compact value column of COMPACT STORAGE tables"
                    .to_owned()
            }
            _ if is_only_key => {
                format!("Cannot create secondary index on the only partition key column {name}")
            }
            Full if !is_frozen => "full() indexes can only be created on frozen collections".to_owned(),
            Simple | Values | Keys | Entries if is_frozen => format!(
                "Cannot create {part}() index on frozen column {name}. Frozen collections are immutable and must be fully indexed by \
                 using the 'full({name})' modifier"
            ),
            Values | Keys | Entries if !is_collection => format!(
                "Cannot create {part}() index on {name}. Non-collection columns only support simple indexes"
            ),
            Keys | Entries if !matches!(data_type, DataType::Map(..)) => {
                format!("Cannot create index on {part} of column {name} with non-map type")
            }
            _ => return Ok(()),
        };
        Err(refused(name.span, message))
    }

    fn check_class(&self, target: &IndexTargetDefinition<'_>, column: &Column) -> Validated {
        match self.class {
            IndexClass::Sai => self.check_sai(target, column),
            IndexClass::Sasi => self.check_sasi(target, column),
            IndexClass::Legacy | IndexClass::Custom(_) => Ok(()),
        }
    }

    fn check_sai(&self, target: &IndexTargetDefinition<'_>, column: &Column) -> Validated {
        if let DataType::Vector(element, _) = &column.data_type
            && **element != DataType::Native(NativeType::Float)
        {
            return Err(refused(
                target.column.span,
                "SAI ANN indexes are only allowed on vector columns with float elements",
            ));
        }
        let indexed = match (&column.data_type, target.kind) {
            (DataType::Map(key, _), IndexTargetKind::Keys) => key,
            (DataType::Map(_, element), IndexTargetKind::Simple | IndexTargetKind::Values)
            | (DataType::List(element) | DataType::Set(element), _) => element,
            (whole, _) => whole,
        };
        if *indexed == DataType::Native(NativeType::Blob) {
            return Err(refused(target.column.span, "Unsupported type: blob"));
        }
        self.options()
            .try_for_each(|(key, value)| check_sai_option(key, value, column))
    }

    fn check_sasi(&self, target: &IndexTargetDefinition<'_>, column: &Column) -> Validated {
        if column.kind == ColumnKind::PartitionKey {
            return Err(refused(
                target.column.span,
                "partition key columns are not yet supported by SASI",
            ));
        }
        if column.data_type.is_multi_cell() {
            return Err(refused(
                target.column.span,
                "complex columns are not yet supported by SASI",
            ));
        }
        self.options().try_for_each(|(key, value)| {
            let mode = value.decoded();
            let is_known = is_one_of(&mode, &["prefix", "contains", "sparse"]);
            let is_literal = matches!(
                column.data_type,
                DataType::Native(NativeType::Ascii | NativeType::Text | NativeType::Varchar)
            );
            match &*key.decoded() {
                "mode" if !is_known => Err(refused(value.span, format!("Incorrect index mode: {mode}"))),
                "mode" if is_literal && mode.eq_ignore_ascii_case("sparse") => Err(refused(
                    value.span,
                    "SPARSE mode is only supported on non-literal columns.",
                )),
                "analyzer_class" if !mode.contains('.') => Err(refused(
                    value.span,
                    format!("Unable to find analyzer class '{mode}'"),
                )),
                _ => Ok(()),
            }
        })
    }

    /// Those of `WITH OPTIONS = {…}`.
    fn options(&self) -> impl Iterator<Item = (&Literal<'_>, &Literal<'_>)> {
        let maps = self
            .create
            .options
            .iter()
            .filter_map(|option| match &option.value {
                PropertyValue::Map(entries) if option.name.as_str() == "options" => Some(entries),
                _ => None,
            });
        maps.flatten().map(|(key, value)| (key, value))
    }
}

/// `StorageAttachedIndex.VALID_OPTIONS`
fn check_sai_option(key: &Literal<'_>, value: &Literal<'_>, column: &Column) -> Validated {
    use NativeType::{Ascii, Text, Varchar};
    let (name, text) = (key.decoded(), value.decoded());
    let is_text = matches!(column.data_type, DataType::Native(Ascii | Text | Varchar));
    let message = match &*name {
        "case_sensitive" | "normalize" | "ascii" if !is_one_of(&text, &["true", "false"]) => {
            format!("Illegal value for boolean option '{name}': {text}")
        }
        "case_sensitive" | "normalize" | "ascii" if !is_text => {
            format!("CQL type {} cannot be analyzed.", column.data_type)
        }
        "similarity_function" | "optimize_for" | "maximum_node_connections" | "construction_beam_width"
            if !matches!(column.data_type, DataType::Vector(..)) =>
        {
            format!("CQL type {} cannot have vector options", column.data_type)
        }
        "optimize_for" if !is_one_of(&text, &["latency", "recall"]) => {
            format!("optimize_for '{text}' was not recognized. Valid values are: LATENCY, RECALL")
        }
        "similarity_function" if !is_one_of(&text, &["euclidean", "dot_product", "cosine"]) => format!(
            "Similarity function {text} was not recognized. Valid values are: EUCLIDEAN, DOT_PRODUCT, COSINE"
        ),
        "similarity_function"
            if is_one_of(&text, &["cosine"]) && matches!(column.data_type, DataType::Vector(_, 1)) =>
        {
            "Cosine similarity is not supported for single-dimension vectors".to_owned()
        }
        "case_sensitive"
        | "normalize"
        | "ascii"
        | "similarity_function"
        | "optimize_for"
        | "maximum_node_connections"
        | "construction_beam_width"
        | "target"
        | "class_name" => return Ok(()),
        _ => format!("Properties specified [{name}] are not understood by StorageAttachedIndex"),
    };
    Err(refused(key.span, message))
}
