//! The statement as a whole, its kind, and what all statements share: names and `USING`.

use std::borrow::Cow;
use std::fmt;

use super::{
    AlterKeyspace, AlterTable, AlterType, AlterView, Annotation, Batch, BindMarker, CopyTable, CreateIndex,
    CreateKeyspace, CreateTable, CreateType, CreateView, Delete, Drop, Dropped, Insert, Select, Term,
    Transaction, Update,
};
use crate::ServerVersion;
use crate::syntax::Span;

/// A parsed CQL statement.
#[derive(Debug, Clone, PartialEq)]
pub struct Statement<'text> {
    /// The text that was parsed; all spans of the tree are offsets into it. In a script this is the whole
    /// script.
    pub text: &'text str,
    /// From the first to the last token, without the trailing semicolon.
    pub span: Span,
    /// Every bind marker in the order of the text, each occurrence of a named one counted:
    /// `bind_markers[i].index == i`.
    pub bind_markers: Vec<BindMarker<'text>>,
    /// What in the text not every version of Cassandra from 4.0 on can read; of several things that which the
    /// fewest can.
    pub extension: Option<Extension>,
    /// What the statement says.
    pub body: Body<'text>,
}

/// Syntax that some servers read and others call an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extension {
    /// Who knows it.
    pub dialect: Dialect,
    /// Its keywords.
    pub span: Span,
}

impl Extension {
    /// Whether a version of Cassandra reads it.
    #[must_use]
    pub fn is_read_by(&self, server: ServerVersion) -> bool {
        match self.dialect {
            Dialect::Cassandra(since) => since <= server,
            Dialect::CassandraUpTo(last) => server <= last,
            Dialect::Scylla | Dialect::Keyspaces | Dialect::Dse => false,
        }
    }
}

/// Who understands an [`Extension`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Dialect {
    /// Cassandra from that version on: `NOT IN`, `BETWEEN` and transactions from 6.0.
    Cassandra(ServerVersion),
    /// Cassandra up to that version: `included_indexes` as a name up to 5.0.
    CassandraUpTo(ServerVersion),
    /// ScyllaDB: `BYPASS CACHE`, `USING TIMEOUT`, `PRUNE MATERIALIZED VIEW`, service levels, local indexes, lists of racks,
    /// `IF … LIKE`, keyspaces without options, `REDUCEFUNC`.
    Scylla,
    /// Amazon Keyspaces: `CUSTOM_PROPERTIES`.
    Keyspaces,
    /// DataStax Enterprise: types of places and of ranges of dates (`'PointType'`).
    Dse,
}

/// The statement itself, by kind.
#[derive(Debug, Clone, PartialEq)]
#[allow(
    clippy::large_enum_variant,
    reason = "the largest is the most frequent; a box would cost it an allocation"
)]
pub enum Body<'text> {
    /// `SELECT`.
    Select(Select<'text>),
    /// `INSERT`.
    Insert(Insert<'text>),
    /// `UPDATE`.
    Update(Update<'text>),
    /// `DELETE`.
    Delete(Delete<'text>),
    /// `BEGIN BATCH … APPLY BATCH`.
    Batch(Batch<'text>),
    /// `BEGIN TRANSACTION … COMMIT TRANSACTION`.
    Transaction(Transaction<'text>),
    /// `TRUNCATE`.
    Truncate(Truncate<'text>),
    /// `USE`.
    Use(Use<'text>),
    /// `CREATE KEYSPACE`.
    CreateKeyspace(CreateKeyspace<'text>),
    /// `ALTER KEYSPACE`.
    AlterKeyspace(AlterKeyspace<'text>),
    /// `CREATE TABLE`.
    CreateTable(CreateTable<'text>),
    /// `CREATE TABLE … LIKE`.
    CopyTable(CopyTable<'text>),
    /// `ALTER TABLE`.
    AlterTable(AlterTable<'text>),
    /// `CREATE TYPE`.
    CreateType(CreateType<'text>),
    /// `ALTER TYPE`.
    AlterType(AlterType<'text>),
    /// `CREATE INDEX` and `CREATE CUSTOM INDEX`.
    CreateIndex(CreateIndex<'text>),
    /// `CREATE MATERIALIZED VIEW`.
    CreateView(CreateView<'text>),
    /// `ALTER MATERIALIZED VIEW`.
    AlterView(AlterView<'text>),
    /// `DROP` of a keyspace, table, type, index or materialized view.
    Drop(Drop<'text>),
    /// `COMMENT ON` and `SECURITY LABEL ON`.
    Annotate(Annotation<'text>),
    /// Everything whose inner structure is not modelled: functions, roles, permissions, triggers, `DESCRIBE`,
    /// …
    Other(Other<'text>),
}

impl<'text> Body<'text> {
    /// What stands behind `USING` of a write, of the batch as a whole for a batch.
    #[must_use]
    pub const fn written_using(&self) -> Option<&Using<'text>> {
        match self {
            Self::Insert(insert) => Some(&insert.using),
            Self::Update(update) => Some(&update.using),
            Self::Delete(delete) => Some(&delete.using),
            Self::Batch(batch) => Some(&batch.using),
            _ => None,
        }
    }
}

impl Statement<'_> {
    /// What kind of statement this is.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match &self.body {
            Body::Select(_) => Kind::Select,
            Body::Insert(_) => Kind::Insert,
            Body::Update(_) => Kind::Update,
            Body::Delete(_) => Kind::Delete,
            Body::Batch(_) => Kind::Batch,
            Body::Transaction(_) => Kind::Transaction,
            Body::Truncate(_) => Kind::Truncate,
            Body::Use(_) => Kind::Use,
            Body::CreateKeyspace(_) => Kind::CreateKeyspace,
            Body::AlterKeyspace(_) => Kind::AlterKeyspace,
            Body::CreateTable(_) => Kind::CreateTable,
            Body::CopyTable(_) => Kind::CopyTable,
            Body::AlterTable(_) => Kind::AlterTable,
            Body::CreateType(_) => Kind::CreateType,
            Body::AlterType(_) => Kind::AlterType,
            Body::CreateIndex(_) => Kind::CreateIndex,
            Body::CreateView(_) => Kind::CreateView,
            Body::AlterView(_) => Kind::AlterView,
            Body::Drop(drop) => match drop.dropped {
                Dropped::Keyspace => Kind::DropKeyspace,
                Dropped::Table => Kind::DropTable,
                Dropped::Type => Kind::DropType,
                Dropped::Index => Kind::DropIndex,
                Dropped::View => Kind::DropView,
            },
            Body::Annotate(annotation) => annotation.statement_kind(),
            Body::Other(other) => other.kind,
        }
    }
}

/// The kinds of statement, named after Cassandra's statement classes (`CREATE USER` is a
/// `CreateRoleStatement`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs, reason = "each variant is the statement of that name")]
pub enum Kind {
    Select,
    Insert,
    Update,
    Delete,
    Batch,
    Transaction,
    Truncate,
    Use,
    CreateKeyspace,
    AlterKeyspace,
    DropKeyspace,
    CreateTable,
    /// `CREATE TABLE … LIKE`.
    CopyTable,
    AlterTable,
    DropTable,
    CreateType,
    AlterType,
    DropType,
    CreateIndex,
    DropIndex,
    CreateView,
    AlterView,
    DropView,
    CreateFunction,
    DropFunction,
    CreateAggregate,
    DropAggregate,
    CreateTrigger,
    DropTrigger,
    CreateRole,
    AlterRole,
    DropRole,
    GrantRole,
    RevokeRole,
    GrantPermissions,
    RevokePermissions,
    ListPermissions,
    ListRoles,
    ListUsers,
    ListSuperusers,
    AddIdentity,
    DropIdentity,
    Describe,
    CommentOnKeyspace,
    CommentOnTable,
    CommentOnColumn,
    CommentOnUserType,
    CommentOnUserTypeField,
    SecurityLabelOnKeyspace,
    SecurityLabelOnTable,
    SecurityLabelOnColumn,
    SecurityLabelOnUserType,
    SecurityLabelOnUserTypeField,
    /// ScyllaDB: `CREATE SERVICE LEVEL`.
    CreateServiceLevel,
    /// ScyllaDB: `ALTER SERVICE LEVEL`.
    AlterServiceLevel,
    /// ScyllaDB: `DROP SERVICE LEVEL`.
    DropServiceLevel,
    /// ScyllaDB: `ATTACH SERVICE LEVEL`.
    AttachServiceLevel,
    /// ScyllaDB: `DETACH SERVICE LEVEL`.
    DetachServiceLevel,
    /// ScyllaDB: `LIST SERVICE LEVEL`, `LIST ALL SERVICE LEVELS`, `LIST ATTACHED SERVICE LEVEL`.
    ListServiceLevel,
    /// ScyllaDB: `PRUNE MATERIALIZED VIEW`.
    PruneView,
}

impl Kind {
    /// Whether a statement that is [`Body::Other`] names an object of a keyspace: functions, aggregates, triggers and views.
    /// Roles, permissions and service levels belong to the cluster.
    #[must_use]
    pub fn is_of_keyspace_object(self) -> bool {
        matches!(
            self,
            Self::CreateFunction
                | Self::DropFunction
                | Self::CreateAggregate
                | Self::DropAggregate
                | Self::CreateTrigger
                | Self::DropTrigger
                | Self::PruneView
        )
    }

    /// The kind in snake case: `select`, `create_table`, `grant_permissions`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Select => "select",
            Self::Insert => "insert",
            Self::Update => "update",
            Self::Delete => "delete",
            Self::Batch => "batch",
            Self::Transaction => "transaction",
            Self::Truncate => "truncate",
            Self::Use => "use",
            Self::CreateKeyspace => "create_keyspace",
            Self::AlterKeyspace => "alter_keyspace",
            Self::DropKeyspace => "drop_keyspace",
            Self::CreateTable => "create_table",
            Self::CopyTable => "copy_table",
            Self::AlterTable => "alter_table",
            Self::DropTable => "drop_table",
            Self::CreateType => "create_type",
            Self::AlterType => "alter_type",
            Self::DropType => "drop_type",
            Self::CreateIndex => "create_index",
            Self::DropIndex => "drop_index",
            Self::CreateView => "create_view",
            Self::AlterView => "alter_view",
            Self::DropView => "drop_view",
            Self::CreateFunction => "create_function",
            Self::DropFunction => "drop_function",
            Self::CreateAggregate => "create_aggregate",
            Self::DropAggregate => "drop_aggregate",
            Self::CreateTrigger => "create_trigger",
            Self::DropTrigger => "drop_trigger",
            Self::CreateRole => "create_role",
            Self::AlterRole => "alter_role",
            Self::DropRole => "drop_role",
            Self::GrantRole => "grant_role",
            Self::RevokeRole => "revoke_role",
            Self::GrantPermissions => "grant_permissions",
            Self::RevokePermissions => "revoke_permissions",
            Self::ListPermissions => "list_permissions",
            Self::ListRoles => "list_roles",
            Self::ListUsers => "list_users",
            Self::ListSuperusers => "list_superusers",
            Self::AddIdentity => "add_identity",
            Self::DropIdentity => "drop_identity",
            Self::Describe => "describe",
            Self::CommentOnKeyspace => "comment_on_keyspace",
            Self::CommentOnTable => "comment_on_table",
            Self::CommentOnColumn => "comment_on_column",
            Self::CommentOnUserType => "comment_on_user_type",
            Self::CommentOnUserTypeField => "comment_on_user_type_field",
            Self::SecurityLabelOnKeyspace => "security_label_on_keyspace",
            Self::SecurityLabelOnTable => "security_label_on_table",
            Self::SecurityLabelOnColumn => "security_label_on_column",
            Self::SecurityLabelOnUserType => "security_label_on_user_type",
            Self::SecurityLabelOnUserTypeField => "security_label_on_user_type_field",
            Self::CreateServiceLevel => "create_service_level",
            Self::AlterServiceLevel => "alter_service_level",
            Self::DropServiceLevel => "drop_service_level",
            Self::AttachServiceLevel => "attach_service_level",
            Self::DetachServiceLevel => "detach_service_level",
            Self::ListServiceLevel => "list_service_level",
            Self::PruneView => "prune_view",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// A name as Cassandra understands it: lower case if it was not quoted, else as it stood between the quotes.
#[derive(Clone, PartialEq, Eq)]
pub struct Name<'text> {
    /// The effective name; borrowed unless letters had to be lowered or `""` undone.
    pub text: Cow<'text, str>,
    /// Whether it stood in quotes.
    pub is_quoted: bool,
    /// Where it stands, quotes included.
    pub span: Span,
}

impl Name<'_> {
    /// The effective name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl PartialEq<str> for Name<'_> {
    fn eq(&self, other: &str) -> bool {
        self.text == other
    }
}

impl PartialEq<&str> for Name<'_> {
    fn eq(&self, other: &&str) -> bool {
        self.text == *other
    }
}

impl fmt::Display for Name<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

impl fmt::Debug for Name<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:?}@{:?}", self.text, self.span)
    }
}

/// A name that may carry its keyspace: of a table, view, type, index or function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QualifiedName<'text> {
    /// The keyspace, where the text names it.
    pub keyspace: Option<Name<'text>>,
    /// The object's own name.
    pub name: Name<'text>,
}

impl QualifiedName<'_> {
    /// Where keyspace and name stand.
    #[must_use]
    pub fn span(&self) -> Span {
        self.keyspace
            .as_ref()
            .map_or(self.name.span, |keyspace| keyspace.span.to(self.name.span))
    }

    /// The keyspace of the text, else the one given (of the request or the connection).
    #[must_use]
    pub fn keyspace_or<'a>(&'a self, default: Option<&'a str>) -> Option<&'a str> {
        self.keyspace
            .as_ref()
            .map_or(default, |keyspace| Some(keyspace.as_str()))
    }
}

/// The parameters of `USING`; a parameter that is given twice counts as Cassandra has it: the last one.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Using<'text> {
    /// `TIMESTAMP`: microseconds since the epoch, an integer literal or a bind marker.
    pub timestamp: Option<Term<'text>>,
    /// `TTL`: seconds, an integer literal or a bind marker.
    pub ttl: Option<Term<'text>>,
    /// `TIMEOUT` (ScyllaDB): a duration literal or a bind marker.
    pub timeout: Option<Term<'text>>,
}

impl Using<'_> {
    /// Whether the statement has no `USING` clause.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.timestamp.is_none() && self.ttl.is_none() && self.timeout.is_none()
    }
}

/// `TRUNCATE [TABLE] table`.
#[derive(Debug, Clone, PartialEq)]
pub struct Truncate<'text> {
    /// The table that loses its rows.
    pub table: QualifiedName<'text>,
    /// `USING TIMEOUT` (ScyllaDB).
    pub using: Using<'text>,
}

/// `USE keyspace`.
#[derive(Debug, Clone, PartialEq)]
pub struct Use<'text> {
    /// The keyspace that unqualified names of the connection refer to from now on.
    pub keyspace: Name<'text>,
}

/// A statement of which only kind and object are kept.
#[derive(Debug, Clone, PartialEq)]
pub struct Other<'text> {
    /// Which statement.
    pub kind: Kind,
    /// What it is about, where it names something: the function, aggregate, role or service level, a
    /// trigger's table, the resource of a permission, or what is described. Role names have no keyspace.
    pub object: Option<QualifiedName<'text>>,
}
