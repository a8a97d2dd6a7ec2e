//! What a `SELECT` asks for: which columns, and whether rows are folded.

use crate::syntax::ast::{Name, Selection, Term};

use super::refusal::Refusal;
use crate::schema::{Column, Keyspace, Table};

/// The columns that are selected, in any expression; all of them for `*`.
pub(super) fn columns<'s>(selection: &Selection<'_>, table: &'s Table) -> Result<Vec<&'s Column>, Refusal> {
    let Selection::Selectors(selectors) = selection else {
        return Ok(table.columns.iter().collect());
    };
    let mut columns = Vec::new();
    for selector in selectors {
        visit(&selector.term, &mut |name| {
            let column = table.column(name.as_str());
            columns.push(column.ok_or_else(|| Refusal::no_column(name, &table.name, name.span))?);
            Ok(())
        })?;
    }
    Ok(columns)
}

/// Whether the selection folds all rows into one: a native or user-defined aggregate is called.
pub(super) fn is_aggregate(selection: &Selection<'_>, keyspace: &Keyspace) -> bool {
    let Selection::Selectors(selectors) = selection else {
        return false;
    };
    selectors.iter().any(|selector| folds(&selector.term, keyspace))
}

/// The column that a term is.
pub(super) fn column_name<'t>(term: &'t Term<'_>) -> Option<&'t str> {
    match term {
        Term::Column(name) => Some(name.as_str()),
        _ => None,
    }
}

fn visit<'t>(
    term: &'t Term<'_>,
    found: &mut impl FnMut(&'t Name<'_>) -> Result<(), Refusal>,
) -> Result<(), Refusal> {
    match term {
        Term::Column(name) => found(name),
        _ => children(term)
            .into_iter()
            .try_for_each(|child| visit(child, found)),
    }
}

fn folds(term: &Term<'_>, keyspace: &Keyspace) -> bool {
    const NATIVE: [&str; 5] = ["count", "min", "max", "sum", "avg"];
    match term {
        Term::CountRows(_) => true,
        Term::Function(call) => {
            let name = call.name.name.as_str();
            NATIVE.contains(&name)
                || keyspace.aggregates.contains(name)
                || call.arguments.iter().any(|argument| folds(argument, keyspace))
        }
        _ => children(term).into_iter().any(|child| folds(child, keyspace)),
    }
}

fn children<'t, 'a>(term: &'t Term<'a>) -> Vec<&'t Term<'a>> {
    match term {
        Term::Function(call) => call.arguments.iter().collect(),
        Term::Cast { term, .. } | Term::TypeHint { term, .. } | Term::Negation { term, .. } => vec![term],
        Term::List { items, .. } | Term::Set { items, .. } | Term::Tuple { items, .. } => {
            items.iter().collect()
        }
        // The keys of a map in a selector may be fields of a user-defined type.
        Term::Map { entries, .. } => entries.iter().map(|(_, value)| value).collect(),
        Term::UserType { fields, .. } => fields.iter().map(|(_, value)| value).collect(),
        Term::Arithmetic { first, rest, .. } => std::iter::once(&**first)
            .chain(rest.iter().map(|(_, operand)| operand))
            .collect(),
        Term::Field { receiver, .. } => vec![receiver],
        Term::Element { receiver, key, .. } => vec![receiver, key],
        Term::Slice {
            receiver, from, to, ..
        } => {
            let ends = from.iter().chain(to).map(|end| &**end);
            std::iter::once(&**receiver).chain(ends).collect()
        }
        Term::Metadata { column, .. } => vec![column],
        Term::Literal(_)
        | Term::Null(_)
        | Term::BindMarker(_)
        | Term::Column(_)
        | Term::Reference(_)
        | Term::CountRows(_) => Vec::new(),
    }
}
