//! Definitions: `CREATE`, `ALTER` and `DROP` of keyspaces, tables, types, indexes and materialized views.

use super::{Direction, Literal, Name, QualifiedName, RelationOperator, Selection, Term, TypeName, Where};

/// `CREATE KEYSPACE name WITH options`.
#[derive(Debug, Clone, PartialEq)]
pub struct CreateKeyspace<'text> {
    /// `IF NOT EXISTS`.
    pub if_not_exists: bool,
    /// The new keyspace.
    pub name: Name<'text>,
    /// Its options, `replication` among them.
    pub options: Vec<Property<'text>>,
}

/// `ALTER KEYSPACE name WITH options`.
#[derive(Debug, Clone, PartialEq)]
pub struct AlterKeyspace<'text> {
    /// `IF EXISTS`.
    pub if_exists: bool,
    /// The keyspace.
    pub name: Name<'text>,
    /// The options that change.
    pub options: Vec<Property<'text>>,
}

/// `name = value` of a `WITH` clause.
#[derive(Debug, Clone, PartialEq)]
pub struct Property<'text> {
    /// The property's name in its effective form.
    pub name: Name<'text>,
    /// Its value.
    pub value: PropertyValue<'text>,
}

/// The value of a property.
#[derive(Debug, Clone, PartialEq)]
pub enum PropertyValue<'text> {
    /// A constant.
    Literal(Literal<'text>),
    /// An unreserved keyword, which stands for itself.
    Word(Name<'text>),
    /// `{key: value, …}`, constants both.
    Map(Vec<(Literal<'text>, Literal<'text>)>),
    /// `{index, …}` of `included_indexes` and `excluded_indexes`; may be empty.
    Indexes(Vec<QualifiedName<'text>>),
}

/// `CREATE TABLE name (columns, PRIMARY KEY (…)) WITH options`.
#[derive(Debug, Clone, PartialEq)]
pub struct CreateTable<'text> {
    /// `IF NOT EXISTS`.
    pub if_not_exists: bool,
    /// The new table.
    pub table: QualifiedName<'text>,
    /// Its columns, in the order of the text.
    pub columns: Vec<ColumnDefinition<'text>>,
    /// The columns of the partition key, from `PRIMARY KEY (…)` or from the column that is marked so.
    pub partition_key: Vec<Name<'text>>,
    /// The clustering columns in order.
    pub clustering: Vec<Name<'text>>,
    /// `CLUSTERING ORDER BY`, as far as the text says it.
    pub clustering_order: Vec<(Name<'text>, Direction)>,
    /// `COMPACT STORAGE`.
    pub compact_storage: bool,
    /// All other properties: `comment`, `compaction`, `id`, …
    pub options: Vec<Property<'text>>,
}

/// A column of a table.
#[derive(Debug, Clone, PartialEq)]
pub struct ColumnDefinition<'text> {
    /// Its name.
    pub name: Name<'text>,
    /// Its type.
    pub type_name: TypeName<'text>,
    /// `STATIC`.
    pub is_static: bool,
    /// `NOT NULL`, not as a `CHECK` (Cassandra 6.0).
    pub not_null: bool,
    /// `MASKED WITH`.
    pub mask: Option<Mask<'text>>,
    /// `CHECK … AND …` (Cassandra 6.0).
    pub checks: Vec<Check<'text>>,
}

/// A constraint of a column (`ColumnConstraint`).
#[derive(Debug, Clone, PartialEq)]
pub enum Check<'text> {
    /// `NOT NULL` or `NOT_NULL()`.
    NotNull {
        /// There are values in the brackets, which it does not take.
        has_arguments: bool,
    },
    /// `JSON` or `JSON()`: the value is a JSON document.
    Json {
        /// There are values in the brackets, which it does not take.
        has_arguments: bool,
    },
    /// `LENGTH() < 5`
    Function {
        /// What is computed of the value.
        function: CheckFunction,
        /// There are values in the brackets, which none of them takes.
        has_arguments: bool,
        /// A comparison.
        operator: RelationOperator,
        /// What the result is compared with.
        value: Term<'text>,
    },
    /// `column < 5`
    Value {
        /// The column, which ought to be the one that is constrained.
        column: Name<'text>,
        /// A comparison.
        operator: RelationOperator,
        /// What the value is compared with.
        value: Term<'text>,
    },
}

/// The functions of a constraint that are compared with something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CheckFunction {
    /// `LENGTH()`: characters of a text, bytes of a blob.
    Length,
    /// `OCTET_LENGTH()`: bytes.
    OctetLength,
    /// `REGEXP()`: the whole value matches a regular expression.
    Regexp,
}

impl CheckFunction {
    /// Its name in upper case.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Length => "LENGTH",
            Self::OctetLength => "OCTET_LENGTH",
            Self::Regexp => "REGEXP",
        }
    }
}

/// `CREATE TABLE new LIKE old WITH …` (Cassandra 6.0).
#[derive(Debug, Clone, PartialEq)]
pub struct CopyTable<'text> {
    /// `IF NOT EXISTS`.
    pub if_not_exists: bool,
    /// The new table.
    pub table: QualifiedName<'text>,
    /// The table that it is like.
    pub source: QualifiedName<'text>,
    /// `INDEXES`: indexes are copied too.
    pub indexes: bool,
    /// `COMMENTS`: comments are copied too.
    pub comments: bool,
    /// `SECURITY LABELS`: security labels are copied too.
    pub security_labels: bool,
    /// The properties in which it is not like the other.
    pub options: Vec<Property<'text>>,
}

/// A dynamic data mask.
#[derive(Debug, Clone, PartialEq)]
pub enum Mask<'text> {
    /// `MASKED WITH DEFAULT`
    Default,
    /// `MASKED WITH function(arguments)`
    Function {
        /// The masking function.
        name: QualifiedName<'text>,
        /// Its arguments after the column itself.
        arguments: Vec<Term<'text>>,
    },
}

/// `ALTER TABLE`.
#[derive(Debug, Clone, PartialEq)]
pub struct AlterTable<'text> {
    /// `IF EXISTS`.
    pub if_exists: bool,
    /// The table.
    pub table: QualifiedName<'text>,
    /// What becomes of it.
    pub change: TableChange<'text>,
}

/// One change of a table.
#[derive(Debug, Clone, PartialEq)]
pub enum TableChange<'text> {
    /// `ALTER column TYPE type` (refused by current versions).
    AlterType {
        /// The column.
        column: Name<'text>,
        /// Its new type.
        type_name: TypeName<'text>,
    },
    /// `ALTER [IF EXISTS] column MASKED WITH …` or `DROP MASKED`.
    AlterMask {
        /// `IF EXISTS`, of the column.
        if_exists: bool,
        /// The column.
        column: Name<'text>,
        /// Its new mask, or none.
        mask: Option<Mask<'text>>,
    },
    /// `ALTER [IF EXISTS] column CHECK …` or `DROP CHECK` (Cassandra 6.0).
    AlterChecks {
        /// `IF EXISTS`, of the column.
        if_exists: bool,
        /// The column.
        column: Name<'text>,
        /// Its new constraints, none for `DROP CHECK`.
        checks: Vec<Check<'text>>,
    },
    /// `ADD [IF NOT EXISTS] columns`.
    Add {
        /// `IF NOT EXISTS`, of the columns.
        if_not_exists: bool,
        /// The new columns.
        columns: Vec<ColumnDefinition<'text>>,
    },
    /// `DROP [IF EXISTS] columns [USING TIMESTAMP t]`.
    Drop {
        /// `IF EXISTS`, of the columns.
        if_exists: bool,
        /// The columns.
        columns: Vec<Name<'text>>,
        /// An integer literal: microseconds since the epoch.
        timestamp: Option<Literal<'text>>,
    },
    /// `RENAME [IF EXISTS] a TO b AND …`.
    Rename {
        /// `IF EXISTS`, of the columns.
        if_exists: bool,
        /// Old and new names.
        renames: Vec<(Name<'text>, Name<'text>)>,
    },
    /// `DROP COMPACT STORAGE`.
    DropCompactStorage,
    /// `WITH options`.
    With(Vec<Property<'text>>),
}

/// `CREATE TYPE name (fields)`.
#[derive(Debug, Clone, PartialEq)]
pub struct CreateType<'text> {
    /// `IF NOT EXISTS`.
    pub if_not_exists: bool,
    /// The new type.
    pub name: QualifiedName<'text>,
    /// Its fields in order.
    pub fields: Vec<(Name<'text>, TypeName<'text>)>,
}

/// `ALTER TYPE`.
#[derive(Debug, Clone, PartialEq)]
pub struct AlterType<'text> {
    /// `IF EXISTS`.
    pub if_exists: bool,
    /// The type.
    pub name: QualifiedName<'text>,
    /// What becomes of it.
    pub change: TypeChange<'text>,
}

/// One change of a user-defined type.
#[derive(Debug, Clone, PartialEq)]
pub enum TypeChange<'text> {
    /// `ALTER field TYPE type` (refused by current versions).
    AlterField {
        /// The field.
        field: Name<'text>,
        /// Its new type.
        type_name: TypeName<'text>,
    },
    /// `ADD [IF NOT EXISTS] field type`.
    Add {
        /// `IF NOT EXISTS`, of the field.
        if_not_exists: bool,
        /// The new field.
        field: Name<'text>,
        /// Its type.
        type_name: TypeName<'text>,
    },
    /// `RENAME [IF EXISTS] a TO b AND …`.
    Rename {
        /// `IF EXISTS`, of the fields.
        if_exists: bool,
        /// Old and new names.
        renames: Vec<(Name<'text>, Name<'text>)>,
    },
}

/// `CREATE [CUSTOM] INDEX [name] ON table (targets) [USING class] [WITH options]`.
#[derive(Debug, Clone, PartialEq)]
pub struct CreateIndex<'text> {
    /// `CUSTOM`.
    pub custom: bool,
    /// `IF NOT EXISTS`.
    pub if_not_exists: bool,
    /// The index' name; Cassandra makes one up where the text has none.
    pub name: Option<Name<'text>>,
    /// The table that is indexed.
    pub table: QualifiedName<'text>,
    /// The partition key, if the index is local to partitions (ScyllaDB: `((key), column)`).
    pub partition_key: Vec<Name<'text>>,
    /// What of it; may be empty for custom indexes.
    pub targets: Vec<IndexTargetDefinition<'text>>,
    /// `USING 'class'`, a string literal: `'sai'`, `'legacy_local_table'` or a class name.
    pub using: Option<Literal<'text>>,
    /// `WITH`: usually `OPTIONS = {…}`.
    pub options: Vec<Property<'text>>,
}

/// One indexed column.
#[derive(Debug, Clone, PartialEq)]
pub struct IndexTargetDefinition<'text> {
    /// The column.
    pub column: Name<'text>,
    /// Which part of it.
    pub kind: IndexTargetKind,
}

/// What of a column an index holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum IndexTargetKind {
    /// `column`: its value; for collections their values.
    Simple,
    /// `values(column)`
    Values,
    /// `keys(column)`
    Keys,
    /// `entries(column)`
    Entries,
    /// `full(column)`
    Full,
}

/// `CREATE MATERIALIZED VIEW name AS SELECT … FROM base WHERE … PRIMARY KEY (…)`.
#[derive(Debug, Clone, PartialEq)]
pub struct CreateView<'text> {
    /// `IF NOT EXISTS`.
    pub if_not_exists: bool,
    /// The new view.
    pub view: QualifiedName<'text>,
    /// The columns that it takes over.
    pub selection: Selection<'text>,
    /// The table that it is made of.
    pub base: QualifiedName<'text>,
    /// `WHERE`.
    pub where_clause: Where<'text>,
    /// The columns of its partition key.
    pub partition_key: Vec<Name<'text>>,
    /// Its clustering columns in order.
    pub clustering: Vec<Name<'text>>,
    /// `CLUSTERING ORDER BY`, as far as the text says it.
    pub clustering_order: Vec<(Name<'text>, Direction)>,
    /// All other properties.
    pub options: Vec<Property<'text>>,
}

/// `ALTER MATERIALIZED VIEW name WITH options`.
#[derive(Debug, Clone, PartialEq)]
pub struct AlterView<'text> {
    /// `IF EXISTS`.
    pub if_exists: bool,
    /// The view.
    pub view: QualifiedName<'text>,
    /// The options that change.
    pub options: Vec<Property<'text>>,
}

/// `DROP KEYSPACE | TABLE | TYPE | INDEX | MATERIALIZED VIEW name`.
#[derive(Debug, Clone, PartialEq)]
pub struct Drop<'text> {
    /// What kind of thing.
    pub dropped: Dropped,
    /// `IF EXISTS`.
    pub if_exists: bool,
    /// Its name; a keyspace stands in `name.name`.
    pub name: QualifiedName<'text>,
}

/// What a `DROP` drops.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dropped {
    /// `KEYSPACE`
    Keyspace,
    /// `TABLE`
    Table,
    /// `TYPE`
    Type,
    /// `INDEX`
    Index,
    /// `MATERIALIZED VIEW`
    View,
}
