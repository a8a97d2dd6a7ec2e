//! Writes the pieces that all templates are made of: names, values, terms, types.
//!
//! What is written reads back as the same tree, values aside; where CQL could misread a name it is put in
//! quotes.

use std::collections::HashSet;

use crate::syntax::ast::{FunctionCall, MetadataFunction, Name, QualifiedName, Term, TypeName};
use crate::syntax::parse::class_name;
use crate::syntax::{Keyword, MAX_NAME_LEN, cut_name};

/// What every value becomes.
pub(super) const VALUE: &str = "?";

/// A template in the making.
pub(super) struct Writer<'a> {
    text: String,
    keyspace: Option<&'a str>,
    /// Bytes written, those that were taken back included, and pieces; see [`crate::syntax::Work`].
    steps: u64,
}

impl<'a> Writer<'a> {
    /// A writer that gives tables without a keyspace that one; `capacity` is the expected length in bytes.
    pub(super) fn new(keyspace: Option<&'a str>, capacity: usize) -> Self {
        Self {
            text: String::with_capacity(capacity + 32),
            keyspace,
            steps: 0,
        }
    }

    /// The steps taken so far.
    pub(super) const fn steps(&self) -> u64 {
        self.steps
    }

    /// Counts the steps of another writer, whose text is written here.
    pub(super) const fn add_steps(&mut self, steps: u64) {
        self.steps += steps;
    }

    pub(super) const fn keyspace(&self) -> Option<&'a str> {
        self.keyspace
    }

    pub(super) fn into_text(self) -> String {
        self.text
    }

    /// Writes `text` as it is.
    pub(super) fn push(&mut self, text: &str) {
        self.steps += 1 + text.len() as u64;
        self.text.push_str(text);
    }

    /// Writes items with `separator` between them.
    pub(super) fn separated<T>(
        &mut self,
        separator: &str,
        items: impl IntoIterator<Item = T>,
        mut write: impl FnMut(&mut Self, T),
    ) {
        for (index, item) in items.into_iter().enumerate() {
            if index > 0 {
                self.push(separator);
            }
            write(self, item);
        }
    }

    /// Writes a name, in quotes only where it needs them, and cut off if it is longer than names are.
    pub(super) fn name(&mut self, name: &Name<'_>) {
        if !name.is_quoted && name.as_str().len() <= MAX_NAME_LEN {
            return self.push(name.as_str());
        }
        self.quoted_if(name.as_str(), Keyword::is_reserved);
    }

    pub(super) fn names(&mut self, names: &[Name<'_>]) {
        self.separated(", ", names, Self::name);
    }

    /// Writes a name, in quotes if it is no plain word or a keyword for which `is_taken` holds.
    fn quoted_if(&mut self, name: &str, is_taken: impl FnOnce(Keyword) -> bool) {
        let name = cut_name(name);
        if is_plain(&name) && !Keyword::of(&name).is_some_and(is_taken) {
            return self.push(&name);
        }
        self.push("\"");
        if name.contains('"') {
            self.push(&name.replace('"', "\"\""))
        } else {
            self.push(&name)
        }
        self.push("\"");
    }

    /// A name as it is written, in quotes only where it needs them.
    pub(super) fn quoted(name: &str) -> String {
        let mut writer = Writer::new(None, name.len());
        writer.quoted_if(name, Keyword::is_reserved);
        writer.into_text()
    }

    /// Writes a table, view or index with the keyspace of the text, or else of the connection.
    pub(super) fn table(&mut self, table: &QualifiedName<'_>) {
        self.keyspace_of(table);
        self.name(&table.name);
    }

    /// Writes a user-defined type with the keyspace of the text, or else of the connection.
    pub(super) fn user_type(&mut self, name: &QualifiedName<'_>) {
        self.keyspace_of(name);
        self.quoted_if(name.name.as_str(), |keyword| !keyword.may_name_type());
    }

    fn keyspace_of(&mut self, name: &QualifiedName<'_>) {
        match (&name.keyspace, self.keyspace) {
            (Some(keyspace), _) => self.name(keyspace),
            (None, Some(keyspace)) => self.quoted_if(keyspace, Keyword::is_reserved),
            (None, None) => return,
        }
        self.push(".");
    }

    /// Writes a function; without a keyspace it may be a native one, so that it is given none.
    pub(super) fn function_name(&mut self, function: &QualifiedName<'_>) {
        if let Some(keyspace) = &function.keyspace {
            self.name(keyspace);
            self.push(".");
        }
        if function.name == "expr" {
            // `expr(` would be a token of its own.
            return self.push("\"expr\"");
        }
        self.quoted_if(function.name.as_str(), |keyword| !keyword.may_name_function());
    }

    /// Writes a column of a selector, where `JSON`, `DISTINCT` and `AS` could be taken for the keywords.
    pub(super) fn selected_name(&mut self, name: &Name<'_>) {
        if matches!(name.as_str(), "json" | "distinct" | "as") {
            return self.quoted_if(name.as_str(), |_| true);
        }
        self.name(name);
    }

    /// Writes a term and says whether all of it is values, so that it became `?`.
    pub(super) fn term(&mut self, term: &Term<'_>) -> bool {
        match term {
            Term::Literal(_) | Term::Null(_) | Term::BindMarker(_) => {
                self.push(VALUE);
                return true;
            }
            Term::List { items, .. } => return self.enclosed("[", items, "]"),
            Term::Set { items, .. } => return self.enclosed("{", items, "}"),
            Term::Tuple { items, .. } => return self.enclosed("(", items, ")"),
            Term::Map { entries, .. } => return self.map(entries),
            Term::UserType { fields, .. } => return self.user_type_value(fields),
            Term::Negation { term, .. } => return self.negation(term),
            Term::Function(call) => self.function(call),
            Term::Cast { term, target, .. } => {
                self.push("CAST(");
                self.term(term);
                self.push(" AS ");
                self.push(target.as_str());
                self.push(")");
            }
            Term::TypeHint { type_name, term, .. } => {
                self.push("(");
                self.type_name(type_name);
                self.push(") ");
                self.term(term);
            }
            Term::Arithmetic { first, rest, .. } => {
                self.term(first);
                for (operator, operand) in rest {
                    self.push(" ");
                    self.push(operator.as_str());
                    self.push(" ");
                    self.term(operand);
                }
            }
            Term::Column(name) => self.selected_name(name),
            Term::Reference(reference) => self.reference(reference),
            Term::Field { receiver, field, .. } => {
                self.term(receiver);
                self.push(".");
                self.name(field);
            }
            Term::Element { receiver, key, .. } => {
                self.term(receiver);
                self.push("[");
                self.term(key);
                self.push("]");
            }
            Term::Slice {
                receiver, from, to, ..
            } => {
                self.term(receiver);
                self.push("[");
                from.iter().for_each(|term| _ = self.term(term));
                self.push("..");
                to.iter().for_each(|term| _ = self.term(term));
                self.push("]");
            }
            Term::CountRows(_) => self.push("count(*)"),
            Term::Metadata { function, column, .. } => {
                self.push(metadata_function(*function));
                self.push("(");
                self.term(column);
                self.push(")");
            }
        }
        false
    }

    fn function(&mut self, call: &FunctionCall<'_>) {
        self.function_name(&call.name);
        self.push("(");
        self.separated(", ", &call.arguments, |writer, argument| {
            _ = writer.term(argument)
        });
        self.push(")");
    }

    /// Writes what `write` does, or `?` if that says it wrote only values.
    fn collapsed(&mut self, write: impl FnOnce(&mut Self) -> bool) -> bool {
        let start = self.text.len();
        let only_values = write(self);
        if only_values {
            self.text.truncate(start);
            self.push(VALUE);
        }
        only_values
    }

    fn enclosed(&mut self, open: &str, items: &[Term<'_>], close: &str) -> bool {
        self.collapsed(|writer| {
            let mut only_values = true;
            writer.push(open);
            writer.separated(", ", items, |writer, item| only_values &= writer.term(item));
            writer.push(close);
            only_values
        })
    }

    fn map(&mut self, entries: &[(Term<'_>, Term<'_>)]) -> bool {
        self.collapsed(|writer| {
            let mut only_values = true;
            writer.push("{");
            writer.separated(", ", entries, |writer, (key, value)| {
                only_values &= writer.term(key);
                writer.push(": ");
                only_values &= writer.term(value);
            });
            writer.push("}");
            only_values
        })
    }

    fn user_type_value(&mut self, fields: &[(Name<'_>, Term<'_>)]) -> bool {
        self.collapsed(|writer| {
            let mut only_values = true;
            writer.push("{");
            writer.separated(", ", fields, |writer, (field, value)| {
                writer.name(field);
                writer.push(": ");
                only_values &= writer.term(value);
            });
            writer.push("}");
            only_values
        })
    }

    fn negation(&mut self, term: &Term<'_>) -> bool {
        self.collapsed(|writer| {
            // With a blank, since `-n` would begin `-NaN`.
            writer.push("- ");
            writer.term(term)
        })
    }

    /// Writes the list of `IN`: one `?` if there are only values, else each different element once.
    ///
    /// A list of tuples may not also hold bind markers, so there the values are left out.
    pub(super) fn in_list(&mut self, items: &[Term<'_>], are_tuples: bool) {
        let mut seen_value = false;
        let mut seen: HashSet<Box<str>> = HashSet::new();
        self.collapsed(|writer| {
            let mut only_values = true;
            let mut is_first = true;
            writer.push("(");
            for item in items {
                let start = writer.text.len();
                if !is_first {
                    writer.push(", ");
                }
                let element = writer.text.len();
                let is_value = writer.term(item);
                only_values &= is_value;
                // Every value is written `?`.
                let is_needless = if is_value {
                    are_tuples || std::mem::replace(&mut seen_value, true)
                } else {
                    !seen.insert(writer.text[element..].into())
                };
                if is_needless {
                    writer.text.truncate(start)
                } else {
                    is_first = false
                }
            }
            writer.push(")");
            only_values
        });
    }

    /// Writes a type.
    pub(super) fn type_name(&mut self, type_name: &TypeName<'_>) {
        match type_name {
            TypeName::Native(native) => self.push(native.as_str()),
            TypeName::List(element) => self.parametrised("list", &[element]),
            TypeName::Set(element) => self.parametrised("set", &[element]),
            TypeName::Map(key, value) => self.parametrised("map", &[key, value]),
            TypeName::Tuple(components) => self.parametrised("tuple", &components.iter().collect::<Vec<_>>()),
            TypeName::Frozen(inner) => self.parametrised("frozen", &[inner]),
            TypeName::Vector(element, dimension) => {
                self.push("vector<");
                self.type_name(element);
                self.push(", ");
                self.push(dimension.text);
                self.push(">");
            }
            TypeName::UserDefined(name) => self.user_type(name),
            TypeName::Custom(class) => {
                self.push("'");
                self.push(class_name(&class.decoded()));
                self.push("'");
            }
        }
    }

    fn parametrised(&mut self, name: &str, parameters: &[&TypeName<'_>]) {
        self.push(name);
        self.push("<");
        self.separated(", ", parameters, |writer, parameter| writer.type_name(parameter));
        self.push(">");
    }
}

const fn metadata_function(function: MetadataFunction) -> &'static str {
    match function {
        MetadataFunction::WriteTime => "writetime",
        MetadataFunction::MaxWriteTime => "maxwritetime",
        MetadataFunction::Ttl => "ttl",
    }
}

/// Whether the lexer would read a name as one word, and as the same one.
fn is_plain(name: &str) -> bool {
    let is_word = name.as_bytes().first().is_some_and(u8::is_ascii_lowercase)
        && name
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
    is_word && !matches!(name, "true" | "false" | "nan" | "infinity")
}
