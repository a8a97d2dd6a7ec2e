#![doc = include_str!("../README.md")]

mod columns;
mod export;
mod rows;

pub use columns::Column;
pub use export::{Export, ExportError, Follow};
pub use rows::{FORMAT, TABLES, columns};
