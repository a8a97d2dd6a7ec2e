//! CQL: from text to tokens, trees and templates.
//!
//! The grammar is Cassandra 6.0's, with ScyllaDB's `BYPASS CACHE`, `USING TIMEOUT`, `PRUNE MATERIALIZED VIEW`
//! and service levels; [`ast::Statement::extension`] says what 5.0 does not read of it. What Cassandra calls a
//! syntax error is one here; what only a schema can tell is not looked at.
//!
//! ```text
//! text ── lexer ──> tokens ── parse/ ──> ast::Statement ── template ──> Template, Fingerprint
//! ```

pub mod ast;
mod cqlsh;
mod cut;
mod error;
mod keyword;
mod lexer;
mod parse;
mod script;
mod span;
mod target;
mod template;
mod text_shape;
mod token;
mod work;

pub(crate) use cut::MAX_NAME_LEN;
pub use cut::cut_name;
pub use error::{Expected, ParseError, ParseErrorKind};
pub use keyword::{Keyword, KeywordClass};
pub use lexer::MAX_TOKENS;
pub use lexer::tokens;
pub use parse::{MAX_DEPTH, parse, parse_tokens, parse_with_shared_markers, parse_within};
pub use script::{ScriptPart, script, statements};
pub use span::Span;
pub use target::DefinitionTarget;
pub use template::{Fingerprint, Template, Templates};
pub use text_shape::TextShape;
pub use token::{Token, TokenKind};
pub use work::Work;
