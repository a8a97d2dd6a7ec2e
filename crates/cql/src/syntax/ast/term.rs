//! Terms: values and expressions, on the right of relations, in assignments, and as selectors.
//!
//! Selectors are terms too, since all they add are columns and ways into them. Sums and products are flat
//! lists, so that the depth of a tree is the depth of its brackets, which the parser bounds.

use std::borrow::Cow;

use super::{Name, NativeType, QualifiedName, RowReference, TypeName};
use crate::syntax::Span;

/// A value or an expression.
#[derive(Debug, Clone, PartialEq)]
pub enum Term<'text> {
    /// A constant.
    Literal(Literal<'text>),
    /// `NULL`.
    Null(Span),
    /// `?` or `:name`.
    BindMarker(BindMarker<'text>),
    /// `name(arguments)`, `token(…)` among them, and in selectors `count(*)` as [`Term::CountRows`].
    Function(Box<FunctionCall<'text>>),
    /// `CAST(term AS type)`.
    Cast {
        /// What is converted.
        term: Box<Term<'text>>,
        /// The native type it becomes.
        target: NativeType,
        /// From `CAST` to the closing bracket.
        span: Span,
    },
    /// `(type) term`: the term is to be read as of that type.
    TypeHint {
        /// The type in brackets.
        type_name: Box<TypeName<'text>>,
        /// What has that type.
        term: Box<Term<'text>>,
        /// From the opening bracket to the end of the term.
        span: Span,
    },
    /// `[term, …]`: a list or a vector.
    List {
        /// The elements.
        items: Vec<Term<'text>>,
        /// Brackets included.
        span: Span,
    },
    /// `{term, …}`: a set; `{}` is the empty set or the empty map, as the column's type has it.
    Set {
        /// The elements, duplicates included.
        items: Vec<Term<'text>>,
        /// Braces included.
        span: Span,
    },
    /// `{term: term, …}`: a map. In a selector whose keys are all names it may also be a user-defined type's
    /// value.
    Map {
        /// Keys and values in the order of the text, duplicates included.
        entries: Vec<(Term<'text>, Term<'text>)>,
        /// Braces included.
        span: Span,
    },
    /// `{field: term, …}`: a value of a user-defined type.
    UserType {
        /// Field names and values in the order of the text.
        fields: Vec<(Name<'text>, Term<'text>)>,
        /// Braces included.
        span: Span,
    },
    /// `(term, …)`: a tuple. In a selector, `(term)` is only a pair of brackets.
    Tuple {
        /// The components.
        items: Vec<Term<'text>>,
        /// Brackets included.
        span: Span,
    },
    /// `-term`, where the sign is not part of a number literal.
    Negation {
        /// What is negated.
        term: Box<Term<'text>>,
        /// Sign included.
        span: Span,
    },
    /// A sum or a product, evaluated from left to right; the operators of one node have one precedence.
    Arithmetic {
        /// The leftmost operand.
        first: Box<Term<'text>>,
        /// Every further operator and operand; never empty.
        rest: Vec<(ArithmeticOperator, Term<'text>)>,
        /// From the first operand to the last.
        span: Span,
    },
    /// A column (selectors, `GROUP BY`).
    Column(Name<'text>),
    /// A part of a row that a transaction has read (values of its writes).
    Reference(RowReference<'text>),
    /// `receiver.field` (selectors).
    Field {
        /// The value of a user-defined type.
        receiver: Box<Term<'text>>,
        /// Its field.
        field: Name<'text>,
        /// From the receiver to the field.
        span: Span,
    },
    /// `receiver[key]` (selectors).
    Element {
        /// The collection.
        receiver: Box<Term<'text>>,
        /// Map key, set element or list index.
        key: Box<Term<'text>>,
        /// From the receiver to the closing bracket.
        span: Span,
    },
    /// `receiver[from..to]` (selectors); at least one end is given.
    Slice {
        /// The collection.
        receiver: Box<Term<'text>>,
        /// The lower end, included.
        from: Option<Box<Term<'text>>>,
        /// The upper end, included.
        to: Option<Box<Term<'text>>>,
        /// From the receiver to the closing bracket.
        span: Span,
    },
    /// `count(*)` (selectors).
    CountRows(Span),
    /// `writetime(c)`, `maxwritetime(c)` or `ttl(c)` (selectors).
    Metadata {
        /// Which of them.
        function: MetadataFunction,
        /// The column, or a field, element or slice of it.
        column: Box<Term<'text>>,
        /// From the function's name to the closing bracket.
        span: Span,
    },
}

impl<'text> Term<'text> {
    /// The row of a transaction that the value is taken of.
    pub const fn as_reference(&self) -> Option<&RowReference<'text>> {
        match self {
            Self::Reference(reference) => Some(reference),
            _ => None,
        }
    }

    /// Where the term stands.
    #[must_use]
    pub const fn span(&self) -> Span {
        match self {
            Self::Literal(literal) => literal.span,
            Self::BindMarker(marker) => marker.span,
            Self::Function(call) => call.span,
            Self::Column(name) => name.span,
            Self::Reference(reference) => reference.span,
            Self::Null(span)
            | Self::CountRows(span)
            | Self::Cast { span, .. }
            | Self::TypeHint { span, .. }
            | Self::List { span, .. }
            | Self::Set { span, .. }
            | Self::Map { span, .. }
            | Self::UserType { span, .. }
            | Self::Tuple { span, .. }
            | Self::Negation { span, .. }
            | Self::Arithmetic { span, .. }
            | Self::Field { span, .. }
            | Self::Element { span, .. }
            | Self::Slice { span, .. }
            | Self::Metadata { span, .. } => *span,
        }
    }
}

/// A constant as it stands in the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Literal<'text> {
    /// Which kind of constant.
    pub kind: LiteralKind,
    /// The source text, quotes and sign included; see [`Literal::decoded`].
    pub text: &'text str,
    /// Where it stands.
    pub span: Span,
}

impl<'text> Literal<'text> {
    /// The text that the literal stands for: a string without its quotes and with `''` undone, a number,
    /// boolean, UUID, duration or blob as it is written.
    #[must_use]
    pub fn decoded(&self) -> Cow<'text, str> {
        if self.kind != LiteralKind::String {
            return Cow::Borrowed(self.text);
        }
        if let Some(inner) = self
            .text
            .strip_prefix("$$")
            .and_then(|rest| rest.strip_suffix("$$"))
        {
            return Cow::Borrowed(inner);
        }
        let inner = self
            .text
            .strip_prefix('\'')
            .and_then(|rest| rest.strip_suffix('\''))
            .unwrap_or(self.text);
        if inner.contains('\'') {
            Cow::Owned(inner.replace("''", "'"))
        } else {
            Cow::Borrowed(inner)
        }
    }
}

/// The kinds of constant that CQL's lexer tells apart; a column's type decides what a constant of it means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LiteralKind {
    /// `'…'` or `$$…$$`.
    String,
    /// `-?[0-9]+`, of any length.
    Integer,
    /// `-?[0-9]+(.[0-9]*)?([eE][+-]?[0-9]+)?`, `NaN`, `Infinity` and their negatives.
    Float,
    /// `true` or `false`, in any case.
    Boolean,
    /// `1h30m` and the two ISO 8601 forms.
    Duration,
    /// 8-4-4-4-12 hex digits.
    Uuid,
    /// `0x` and hex digits: a blob.
    Hex,
    /// A list or a map of constants within a map of options, brackets included: `['r1', 'r2']`.
    Nested,
}

/// A place for a value that is bound at execution.
#[derive(Debug, Clone, PartialEq)]
pub struct BindMarker<'text> {
    /// Its place among the markers of the statement (of the whole batch for `BEGIN BATCH`), from 0.
    pub index: usize,
    /// The effective name of `:name`; `None` for `?`.
    pub name: Option<Name<'text>>,
    /// Where it stands.
    pub span: Span,
}

/// A call of a native or user-defined function or aggregate.
#[derive(Debug, Clone, PartialEq)]
pub struct FunctionCall<'text> {
    /// The function; `token` and `count` come without keyspace.
    pub name: QualifiedName<'text>,
    /// The arguments.
    pub arguments: Vec<Term<'text>>,
    /// From the name to the closing bracket.
    pub span: Span,
}

/// Functions that read what is stored beside a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MetadataFunction {
    /// `writetime(column)`.
    WriteTime,
    /// `maxwritetime(column)`.
    MaxWriteTime,
    /// `ttl(column)`.
    Ttl,
}

/// The operators of arithmetic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ArithmeticOperator {
    /// `+`
    Add,
    /// `-`
    Subtract,
    /// `*`
    Multiply,
    /// `/`
    Divide,
    /// `%`
    Modulo,
}

impl ArithmeticOperator {
    /// The operator's sign.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
            Self::Divide => "/",
            Self::Modulo => "%",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn string(text: &str) -> Literal<'_> {
        Literal {
            kind: LiteralKind::String,
            text,
            span: Span::default(),
        }
    }

    #[test]
    fn a_quoted_string_loses_its_quotes_and_undoes_doubled_ones() {
        assert_eq!(string("'it''s'").decoded(), "it's");
        assert_eq!(string("''").decoded(), "");
        assert_eq!(string("''''").decoded(), "'");
    }

    #[test]
    fn a_dollar_string_is_taken_literally() {
        assert_eq!(string("$$it''s $1$$").decoded(), "it''s $1");
    }
}
