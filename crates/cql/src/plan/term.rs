//! Terms of a known type: compiled once from the text, evaluated for each execution to the bytes of a value.

use std::borrow::Cow;

use crate::syntax::ast;
use crate::syntax::{Span, Work};
use cqlens_proto::message::{Value, Values};
use cqlens_proto::types::CqlType;

use super::cast;
use super::function::{self, Call};
use super::refusal::Refusal;
use super::value;
use crate::footprint::Reason;
use crate::schema::{DataType, Keyspace};

/// A term that stands for a value of a type.
#[derive(Debug, Clone)]
pub(super) enum Term {
    /// These bytes.
    Constant(Box<[u8]>),
    /// `NULL`.
    Null,
    /// What is bound to a marker.
    Marker(Marker),
    /// A tuple's or user-defined type's components, of which at least one is bound or computed.
    Tuple(Vec<Term>),
    /// A collection or vector with at least one element that is computed.
    Collection(CqlType, Vec<Term>),
    /// A function of terms.
    Call(Box<Call>),
    /// What only the server knows.
    Unknown(Fault),
}

/// A place for a bound value of a type.
#[derive(Debug, Clone)]
pub(super) struct Marker {
    pub(super) index: usize,
    /// The name to look for among named values: the marker's own, else that of its receiver.
    pub(super) name: Box<str>,
    pub(super) cql_type: CqlType,
}

/// What a term was evaluated to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Datum<'v> {
    Bytes(Cow<'v, [u8]>),
    Null,
    NotSet,
}

/// Why a term has no value here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Fault {
    /// Nothing is bound.
    Unbound,
    /// The server makes a value of its own: each time another (`uuid()`), or within one statement the same
    /// (`current_date()`, named here).
    Generated(Option<&'static str>),
    /// The server computes it in a way that is not followed here.
    NotFollowed,
    /// The server refuses it.
    Refused(Reason, Cow<'static, str>),
}

impl Fault {
    /// The reason that stands in reports.
    pub(super) fn reason(&self) -> Reason {
        match self {
            Self::Unbound => Reason::Unbound,
            Self::Generated(_) | Self::NotFollowed => Reason::FunctionValue,
            Self::Refused(reason, _) => *reason,
        }
    }

    pub(super) fn invalid(message: impl Into<Cow<'static, str>>) -> Self {
        Self::Refused(Reason::InvalidKey, message.into())
    }

    pub(super) fn undecodable(message: impl Into<Cow<'static, str>>) -> Self {
        Self::Refused(Reason::ValueUndecodable, message.into())
    }
}

impl Term {
    /// The value of the term; `values` are none where the statement was only prepared.
    pub(super) fn evaluate<'v>(&'v self, values: Option<&Values<'v>>) -> Result<Datum<'v>, Fault> {
        match self {
            Self::Constant(bytes) => Ok(Datum::Bytes(Cow::Borrowed(bytes))),
            Self::Null => Ok(Datum::Null),
            Self::Marker(marker) => marker.evaluate(values),
            Self::Tuple(components) => {
                let mut bytes = Vec::new();
                for component in components {
                    match component.evaluate(values)? {
                        Datum::Bytes(value) => value::push_element(&mut bytes, Some(&value)),
                        Datum::Null => value::push_element(&mut bytes, None),
                        Datum::NotSet => return Err(Fault::invalid("Invalid unset value for tuple field")),
                    }
                }
                Ok(Datum::Bytes(Cow::Owned(bytes)))
            }
            Self::Collection(cql_type, items) => {
                let mut elements = Vec::with_capacity(items.len());
                for item in items {
                    let Datum::Bytes(value) = item.evaluate(values)? else {
                        return Err(Fault::invalid("null is not supported inside collections"));
                    };
                    elements.push(value.into_owned());
                }
                Ok(Datum::Bytes(Cow::Owned(pack(cql_type, elements))))
            }
            Self::Call(call) => call.evaluate(values),
            Self::Unknown(fault) => Err(fault.clone()),
        }
    }

    /// Whether nothing has to be bound, so that it can be evaluated now.
    fn is_static(&self) -> bool {
        match self {
            Self::Constant(_) | Self::Null | Self::Unknown(_) => true,
            Self::Marker(_) => false,
            Self::Tuple(items) | Self::Collection(_, items) => items.iter().all(Self::is_static),
            Self::Call(call) => call.arguments.iter().all(|(_, term)| term.is_static()),
        }
    }

    /// Evaluates what can be evaluated now.
    pub(super) fn folded(self) -> Self {
        if !self.is_static() {
            return self;
        }
        match self.evaluate(None) {
            Ok(Datum::Bytes(bytes)) => Self::Constant(bytes.into_owned().into_boxed_slice()),
            Ok(Datum::Null) => Self::Null,
            Ok(Datum::NotSet) => self,
            Err(fault) => Self::Unknown(fault),
        }
    }
}

impl Marker {
    /// What is bound to the marker, as it came.
    pub(super) fn bound<'v>(&self, values: Option<&Values<'v>>) -> Result<Value<'v>, Fault> {
        let values = values.ok_or(Fault::Unbound)?;
        let value = if values.is_named() {
            values.named(&self.name)
        } else {
            values.nth(self.index)
        };
        // A value that is missing was never bound: the server answers with an error.
        value.ok_or_else(|| Fault::undecodable("fewer values than bind markers"))
    }

    /// What is bound to the marker, as Cassandra takes it over.
    pub(super) fn evaluate<'v>(&self, values: Option<&Values<'v>>) -> Result<Datum<'v>, Fault> {
        match self.bound(values)? {
            Value::Null => Ok(Datum::Null),
            Value::NotSet => Ok(Datum::NotSet),
            Value::Bytes(bytes) => self.taken_over(bytes).map(Datum::Bytes),
        }
    }

    fn taken_over<'v>(&self, bytes: &'v [u8]) -> Result<Cow<'v, [u8]>, Fault> {
        let invalid = || Fault::undecodable(format!("invalid value of type {}", self.cql_type));
        if !value::is_valid(&self.cql_type, bytes) {
            return Err(invalid());
        }
        match &self.cql_type {
            CqlType::List(_) | CqlType::Set(_) | CqlType::Map(_) => {
                value::repacked(&self.cql_type, bytes).ok_or_else(invalid)
            }
            _ => Ok(Cow::Borrowed(bytes)),
        }
    }
}

/// How well a term fits a type: Cassandra's `AssignmentTestable.TestResult`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fit {
    Not,
    Weakly,
    Exactly,
}

/// Compiles terms of the tree for receivers of known types.
#[derive(Debug, Clone, Copy)]
pub(super) struct Compiler<'s> {
    /// The keyspace of the statement: its types and functions are known by name.
    pub(super) keyspace: Option<&'s Keyspace>,
    /// The types of the partition key of the statement's table: what `token()` takes.
    pub(super) partition_key: &'s [CqlType],
    /// The type of the table's tokens: what `token()` gives.
    pub(super) token_type: &'s CqlType,
    /// What it may cost: nested calls ask again and again how well their arguments fit, and time would double with each level.
    pub(super) work: &'s Work,
}

/// What receives a term's value.
#[derive(Debug, Clone, Copy)]
pub(super) struct Receiver<'r> {
    /// Its name, which markers without a name take over.
    pub(super) name: &'r str,
    pub(super) cql_type: &'r CqlType,
}

impl Compiler<'_> {
    /// Compiles a term for a receiver.
    pub(super) fn term(&self, term: &ast::Term<'_>, receiver: Receiver<'_>) -> Result<Term, Refusal> {
        let cql_type = receiver.cql_type;
        if !self.work.spend(steps(term, cql_type)) {
            return Ok(Term::Unknown(Fault::NotFollowed));
        }
        let misfit = || {
            let message = format!("invalid value for \"{}\" of type {cql_type}", receiver.name);
            Refusal::at(message, term.span())
        };
        match term {
            // No key is a duration, and nothing that is followed takes one.
            ast::Term::Literal(literal) if literal.kind == ast::LiteralKind::Duration => match cql_type {
                CqlType::Duration => Ok(Term::Unknown(Fault::NotFollowed)),
                _ => Err(misfit()),
            },
            ast::Term::Literal(literal) if *cql_type == CqlType::Inet && value::is_host_name(literal) => {
                Ok(Term::Unknown(Fault::NotFollowed))
            }
            ast::Term::Literal(literal) => {
                let bytes = value::parse(cql_type, literal).ok_or_else(misfit)?;
                Ok(Term::Constant(bytes.into_boxed_slice()))
            }
            ast::Term::Null(_) if *cql_type == CqlType::Counter => Err(misfit()),
            ast::Term::Null(_) => Ok(Term::Null),
            ast::Term::BindMarker(marker) => Ok(Term::Marker(marker_of(marker, receiver))),
            ast::Term::TypeHint {
                type_name,
                term: inner,
                ..
            } => {
                let hinted = self.type_of(type_name);
                if self.fit(inner, &hinted) == Fit::Not || !accepts(cql_type, &hinted) {
                    return Err(misfit());
                }
                self.term(inner, receiver)
            }
            ast::Term::Tuple { items, .. } => self.tuple(items, receiver).unwrap_or_else(|| Err(misfit())),
            ast::Term::List { items, .. } => match cql_type {
                CqlType::List(element) => {
                    self.collection(cql_type, items.iter().map(|item| (item, &**element)), receiver)
                }
                CqlType::Vector(element, dimension) if usize::try_from(*dimension) == Ok(items.len()) => {
                    self.collection(cql_type, items.iter().map(|item| (item, &**element)), receiver)
                }
                _ => Err(misfit()),
            },
            ast::Term::Set { items, .. } => match cql_type {
                CqlType::Set(element) => {
                    self.collection(cql_type, items.iter().map(|item| (item, &**element)), receiver)
                }
                CqlType::Map(_) if items.is_empty() => {
                    self.collection(cql_type, std::iter::empty(), receiver)
                }
                _ => Err(misfit()),
            },
            ast::Term::Map { entries, .. } => match cql_type {
                CqlType::Map(entry) => {
                    let items = entries
                        .iter()
                        .flat_map(|(key, value)| [(key, &entry.0), (value, &entry.1)]);
                    self.collection(cql_type, items, receiver)
                }
                _ => Err(misfit()),
            },
            ast::Term::UserType { fields, .. } => {
                self.user_type(fields, receiver).unwrap_or_else(|| Err(misfit()))
            }
            ast::Term::Function(_) | ast::Term::Arithmetic { .. } | ast::Term::Negation { .. } => {
                function::compile(*self, term, receiver)
            }
            ast::Term::Cast { term, target, .. } => {
                let target = self.type_of(&ast::TypeName::Native(*target));
                cast::compile(*self, term, &target, receiver)
            }
            _ => Err(misfit()),
        }
    }

    /// How well a term fits a type, without its being evaluated.
    pub(super) fn fit(&self, term: &ast::Term<'_>, cql_type: &CqlType) -> Fit {
        if !self.work.spend(steps(term, cql_type)) {
            return Fit::Weakly;
        }
        let receiver = Receiver { name: "", cql_type };
        match term {
            ast::Term::Literal(literal) => literal_fit(literal, cql_type),
            ast::Term::Null(_) if *cql_type == CqlType::Counter => Fit::Not,
            ast::Term::Null(_) | ast::Term::BindMarker(_) => Fit::Weakly,
            ast::Term::TypeHint { type_name, .. } => {
                let hinted = self.type_of(type_name);
                if hinted == *cql_type {
                    Fit::Exactly
                } else if accepts(cql_type, &hinted) {
                    Fit::Weakly
                } else {
                    Fit::Not
                }
            }
            ast::Term::Tuple { items, .. } if items.len() == 1 && !matches!(cql_type, CqlType::Tuple(_)) => {
                self.fit(&items[0], cql_type)
            }
            ast::Term::Function(_) | ast::Term::Arithmetic { .. } | ast::Term::Negation { .. } => {
                function::fit(*self, term, cql_type)
            }
            ast::Term::Cast { target, .. } => {
                let target = self.type_of(&ast::TypeName::Native(*target));
                match (target == *cql_type, accepts(cql_type, &target)) {
                    (true, _) => Fit::Exactly,
                    (false, true) => Fit::Weakly,
                    (false, false) => Fit::Not,
                }
            }
            _ if self.term(term, receiver).is_ok() => Fit::Weakly,
            _ => Fit::Not,
        }
    }

    /// Whether the statement is too entangled to be followed further.
    pub(super) fn is_exhausted(&self) -> bool {
        self.work.is_exhausted()
    }

    /// The type that a name stands for in the statement's keyspace.
    pub(super) fn type_of(&self, type_name: &ast::TypeName<'_>) -> CqlType {
        let data_type = DataType::of(type_name);
        match self.keyspace {
            Some(keyspace) => keyspace.resolve(&data_type),
            None => Keyspace::default().resolve(&data_type),
        }
    }

    /// Components of a tuple; `None` if the type is none. In brackets, `(1)` may also be just a 1.
    fn tuple(&self, items: &[ast::Term<'_>], receiver: Receiver<'_>) -> Option<Result<Term, Refusal>> {
        let types: Vec<&CqlType> = match receiver.cql_type {
            CqlType::Tuple(types) => types.iter().collect(),
            CqlType::Udt(udt) => udt.fields.iter().map(|(_, field)| field).collect(),
            _ if items.len() == 1 => return Some(self.term(&items[0], receiver)),
            _ => return None,
        };
        if items.len() > types.len() {
            return None;
        }
        let names = (0..).map(|index| format!("{}[{index}]", receiver.name));
        Some(self.components(names.zip(items.iter().zip(types))))
    }

    /// The components of a tuple or user-defined type, each with the name of a marker in its place.
    pub(super) fn components<'t>(
        &self,
        items: impl Iterator<Item = (String, (&'t ast::Term<'t>, &'t CqlType))>,
    ) -> Result<Term, Refusal> {
        let items = items.map(|(name, (item, cql_type))| {
            let receiver = Receiver {
                name: &name,
                cql_type,
            };
            self.term(item, receiver)
        });
        let items: Result<Vec<Term>, Refusal> = items.collect();
        Ok(Term::Tuple(items?).folded())
    }

    fn user_type(
        &self,
        fields: &[(ast::Name<'_>, ast::Term<'_>)],
        receiver: Receiver<'_>,
    ) -> Option<Result<Term, Refusal>> {
        let CqlType::Udt(udt) = receiver.cql_type else {
            return None;
        };
        let known = |name: &str| udt.fields.iter().any(|(field, _)| field == name);
        if !fields.iter().all(|(name, _)| known(name.as_str())) {
            return None;
        }
        let null = ast::Term::Null(Span::default());
        // Of a field that is given twice the last value counts.
        let value = |field: &str| {
            let given = fields.iter().rev().find(|(name, _)| name == field);
            given.map_or(&null, |(_, value)| value)
        };
        let fields = udt.fields.iter();
        let fields =
            fields.map(|(field, cql_type)| (format!("{}.{field}", receiver.name), (value(field), cql_type)));
        Some(self.components(fields))
    }

    fn collection<'t>(
        &self,
        cql_type: &CqlType,
        items: impl Iterator<Item = (&'t ast::Term<'t>, &'t CqlType)>,
        receiver: Receiver<'_>,
    ) -> Result<Term, Refusal> {
        const NULL: &str = "null is not supported inside collections";
        let mut compiled = Vec::new();
        let mut null = None;
        let mut all_constant = true;
        for (item, element) in items {
            all_constant &= is_constant(item);
            let name = &format!("value({})", receiver.name);
            let element = Receiver {
                name,
                cql_type: element,
            };
            let term = self.term(item, element)?;
            match &term {
                Term::Null => null = Some(item.span()),
                // Vectors may hold markers, collections may not.
                Term::Marker(_) if !matches!(cql_type, CqlType::Vector(..)) => {
                    let message = "bind variables are not supported inside collection literals";
                    return Err(Refusal::at(message, item.span()));
                }
                _ => {}
            }
            compiled.push(term);
        }
        match null {
            // Cassandra puts constants together when it prepares, everything else when it executes.
            Some(span) if all_constant => Err(Refusal::at(NULL, span)),
            Some(_) => Ok(Term::Unknown(Fault::invalid(NULL))),
            None => Ok(Term::Collection(cql_type.clone(), compiled).folded()),
        }
    }
}

/// What it takes to look at a term itself, not at the terms in it: its bytes, and what is made of them.
fn steps(term: &ast::Term<'_>, cql_type: &CqlType) -> u64 {
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
fn is_constant(term: &ast::Term<'_>) -> bool {
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

/// A marker for a receiver.
pub(super) fn marker_of(marker: &ast::BindMarker<'_>, receiver: Receiver<'_>) -> Marker {
    let name = marker.name.as_ref().map_or(receiver.name, |name| name.as_str());
    Marker {
        index: marker.index,
        name: name.into(),
        cql_type: receiver.cql_type.clone(),
    }
}

fn pack(cql_type: &CqlType, elements: Vec<Vec<u8>>) -> Vec<u8> {
    match cql_type {
        CqlType::Set(element) => {
            let elements = value::sorted_set(element, elements);
            value::pack(elements.iter().map(AsRef::as_ref), elements.len())
        }
        CqlType::Map(entry) => {
            let mut elements = elements.into_iter();
            let pairs = std::iter::from_fn(|| Some((elements.next()?, elements.next()?))).collect();
            let pairs = value::sorted_map(&entry.0, pairs);
            value::pack(
                pairs
                    .iter()
                    .flat_map(|(key, value)| [key.as_ref(), value.as_ref()]),
                pairs.len(),
            )
        }
        CqlType::Vector(element, _) => value::pack_vector(element, elements.iter().map(AsRef::as_ref)),
        _ => value::pack(elements.iter().map(AsRef::as_ref), elements.len()),
    }
}

/// Whether bytes of `other` are taken for bytes of `cql_type`: Cassandra's `isValueCompatibleWith`.
pub(super) fn accepts(cql_type: &CqlType, other: &CqlType) -> bool {
    use CqlType::{Ascii, BigInt, Blob, Date, Int, Text, Time, TimeUuid, Timestamp, Uuid, Varint};
    match (cql_type, other) {
        (Blob, _)
        | (Text, Ascii)
        | (BigInt, Timestamp)
        | (Timestamp | Time, BigInt)
        | (Date, Int)
        | (Varint, Int | BigInt | Timestamp)
        | (Uuid, TimeUuid) => true,
        (CqlType::List(mine), CqlType::List(theirs)) | (CqlType::Set(mine), CqlType::Set(theirs)) => {
            accepts(mine, theirs)
        }
        (CqlType::Map(mine), CqlType::Map(theirs)) => mine.0 == theirs.0 && accepts(&mine.1, &theirs.1),
        (CqlType::Tuple(mine), CqlType::Tuple(theirs)) => {
            mine.len() >= theirs.len()
                && mine
                    .iter()
                    .zip(theirs)
                    .all(|(mine, theirs)| accepts(mine, theirs))
        }
        (mine, theirs) => mine == theirs,
    }
}

/// How well a constant fits: exactly only the type that Cassandra would guess for it.
fn literal_fit(literal: &ast::Literal<'_>, cql_type: &CqlType) -> Fit {
    let preferred = match literal.kind {
        ast::LiteralKind::String if literal.decoded().is_ascii() => Some(CqlType::Ascii),
        ast::LiteralKind::String => Some(CqlType::Text),
        ast::LiteralKind::Integer if literal.text.parse::<i32>().is_ok() => Some(CqlType::Int),
        ast::LiteralKind::Integer if literal.text.parse::<i64>().is_ok() => Some(CqlType::BigInt),
        ast::LiteralKind::Integer => Some(CqlType::Varint),
        ast::LiteralKind::Float => Some(CqlType::Double),
        ast::LiteralKind::Boolean => Some(CqlType::Boolean),
        ast::LiteralKind::Duration => Some(CqlType::Duration),
        ast::LiteralKind::Uuid => {
            let is_time_based = literal.text.as_bytes().get(14) == Some(&b'1');
            Some(if is_time_based {
                CqlType::TimeUuid
            } else {
                CqlType::Uuid
            })
        }
        ast::LiteralKind::Hex => Some(CqlType::TinyInt),
    };
    if preferred.as_ref() == Some(cql_type) {
        Fit::Exactly
    } else if value::accepts(cql_type, literal.kind) {
        Fit::Weakly
    } else {
        Fit::Not
    }
}
