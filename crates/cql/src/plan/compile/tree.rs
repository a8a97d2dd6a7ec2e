//! What the tree alone shows of a term: what it costs to compile it, and whether it is constant.

use crate::plan::value;
use crate::syntax::ast;
use cqlens_proto::types::CqlType;

/// What it takes to look at a term itself, not at the terms in it: its bytes, and what is made of them.
pub(super) fn steps(term: &ast::Term<'_>, cql_type: &CqlType) -> u64 {
    let bytes = match term {
        ast::Term::Literal(literal) => {
            let len = literal.text.len() as u64;
            // Digits become a number of any size in time that grows with their square.
            let digits = match cql_type {
                CqlType::Varint | CqlType::Decimal => len * len / value::DIGITS_SQUARED_PER_STEP,
                _ => 0,
            };
            len + digits
        }
        ast::Term::Function(call) => call.name.name.as_str().len() as u64,
        ast::Term::TypeHint { term: inner, .. } => (term.span().len() - inner.span().len()) as u64,
        _ => 0,
    };
    1 + bytes
}

/// Whether a term is made of constants alone: no function, no operation, no marker.
pub(super) fn is_constant(term: &ast::Term<'_>) -> bool {
    match term {
        ast::Term::Literal(_) | ast::Term::Null(_) => true,
        ast::Term::TypeHint { term, .. } => is_constant(term),
        ast::Term::List { items, .. } | ast::Term::Set { items, .. } | ast::Term::Tuple { items, .. } => {
            items.iter().all(is_constant)
        }
        ast::Term::Map { entries, .. } => entries
            .iter()
            .all(|(key, value)| is_constant(key) && is_constant(value)),
        ast::Term::UserType { fields, .. } => fields.iter().all(|(_, value)| is_constant(value)),
        _ => false,
    }
}
