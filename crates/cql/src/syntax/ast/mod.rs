//! What a CQL text says, as a tree: statements, relations, terms and types, each with its place in the text.
//!
//! The tree borrows the text. Names are *effective* names: unquoted ones in lower case, quoted ones as they
//! are with `""` undone. Nothing here knows a schema: whether a column exists, or is part of a key, is for
//! others. Spans take part in equality; compare templates to ask whether two statements say the same.

mod annotation;
mod definition;
mod modification;
mod relation;
mod select;
mod statement;
mod term;
mod transaction;
mod types;

pub use annotation::{AnnotatedObject, Annotation, AnnotationKind};
pub use definition::{
    AlterKeyspace, AlterTable, AlterType, AlterView, Check, CheckFunction, ColumnDefinition, CopyTable,
    CreateIndex, CreateKeyspace, CreateTable, CreateType, CreateView, Drop, Dropped, IndexTargetDefinition,
    IndexTargetKind, Mask, Property, PropertyValue, TableChange, TypeChange,
};
pub use modification::{
    Assignment, AssignmentOperation, Batch, BatchKind, Delete, Deletion, DeletionTarget, If, Insert,
    InsertSource, JsonDefault, Modification, Update,
};
pub use relation::{Comparand, CustomIndexExpression, Relation, RelationOperator, Subject, Where};
pub use select::{Direction, Ordering, Select, Selection, Selector};
pub use statement::{
    Body, Dialect, Extension, Kind, Name, Other, QualifiedName, Statement, Truncate, Use, Using,
};
pub use term::{ArithmeticOperator, BindMarker, FunctionCall, Literal, LiteralKind, MetadataFunction, Term};
pub use transaction::{Let, Returning, RowCondition, RowReference, Transaction};
pub use types::{NativeType, TypeName};
