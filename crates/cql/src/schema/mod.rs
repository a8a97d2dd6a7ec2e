//! The schema as a value: keyspaces, tables, views, columns, indexes and types.
//!
//! It is read from CQL text ([`Schema::from_cql`], also a statement at a time with [`Schema::apply`]) or from
//! rows of `system_schema` ([`rows`]), and prints itself as CQL again. It does not decide whether a
//! definition is sensible: the server has. What is not modelled (triggers, masks, the bodies of functions) is
//! left out.

mod apply;
mod constraint;
mod data_type;
mod error;
mod lookup;
mod model;
mod names;
mod print;
mod quote;
mod resolve;
pub mod rows;
mod system;
#[cfg(test)]
mod tests;
mod validate;
mod weight;

pub use crate::syntax::ast::IndexTargetKind;
pub use apply::Definition;
pub use constraint::Constraint;
pub use data_type::DataType;
pub use error::{SchemaError, SchemaErrorKind, SchemaErrors};
pub use model::{
    Column, ColumnKind, Index, IndexClass, IndexTarget, Keyspace, OptionValue, Order, Schema, Table,
    UserType, View,
};
pub use names::{ColumnName, TableName};
pub use quote::quote;
pub use system::{is_system, is_virtual};
pub use validate::table_properties;
