//! `INSERT … JSON`: the partition key inside a JSON text (`Json.parseJson`, `AbstractType.fromJSONObject`).

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::syntax::Span;
use crate::syntax::ast::{self, Literal, LiteralKind};
use cqlens_proto::message::{Value as BoundValue, Values};
use cqlens_proto::types::CqlType;
use serde_json::Value;

use super::compile::{Receiver, marker_of};
use super::keys::{Choice, Counted, KeyColumn, KeyPlan};
use super::term::{CompiledTerm, Fault, Marker};
use super::value;
use crate::footprint::Keys;
use crate::{footprint::Reason, schema::TableName};

/// The partition key of an `INSERT … JSON`.
#[derive(Debug, Clone)]
pub(super) struct JsonKey {
    table: Arc<TableName>,
    /// Names and types of the key's columns, in order.
    columns: Vec<(String, CqlType)>,
    source: JsonSource,
    /// The other columns, which a document deletes that does not name them; none with `DEFAULT UNSET`.
    others: Vec<Box<str>>,
    /// The columns that have constraints.
    checked: Vec<Box<str>>,
}

#[derive(Debug, Clone)]
enum JsonSource {
    /// The text is in the statement: the key is known, or why it is not.
    Known {
        key: Result<KeyPlan, Fault>,
        /// The columns that it sets to null.
        nulls: Vec<Box<str>>,
    },
    Marker(Marker),
}

/// The columns of others that a document sets to null, or does not name.
fn nulls_of<'c>(text: &str, others: &'c [Box<str>]) -> Vec<&'c str> {
    let Ok(members) = object(text) else {
        return Vec::new();
    };
    let is_null = |column: &&'c str| members.get(*column).is_none_or(Value::is_null);
    others.iter().map(AsRef::as_ref).filter(is_null).collect()
}

impl JsonKey {
    /// `others` are the columns outside the primary key that a document deletes unless it names them.
    pub(super) fn of(
        term: &ast::Term<'_>,
        columns: Vec<(String, CqlType)>,
        others: Vec<Box<str>>,
        table: Arc<TableName>,
    ) -> Self {
        let source = match term {
            ast::Term::Literal(literal) => {
                let text = literal.decoded();
                let nulls = nulls_of(&text, &others);
                JsonSource::Known {
                    key: key_of(&text, &columns, &table),
                    nulls: nulls.into_iter().map(Into::into).collect(),
                }
            }
            ast::Term::BindMarker(marker) => {
                let receiver = Receiver {
                    name: "[json]",
                    cql_type: &CqlType::Text,
                };
                JsonSource::Marker(marker_of(marker, receiver))
            }
            _ => JsonSource::Known {
                key: Err(Fault::NotFollowed),
                nulls: Vec::new(),
            },
        };
        Self {
            table,
            columns,
            source,
            others,
            checked: Vec::new(),
        }
    }

    /// The same where these columns have constraints.
    pub(super) fn checking(self, checked: Vec<Box<str>>) -> Self {
        Self { checked, ..self }
    }

    /// The first column with constraints that an execution sets to null: none of them lets null pass.
    pub(super) fn violation(&self, values: &Values<'_>) -> Option<&str> {
        if self.checked.is_empty() {
            return None;
        }
        let nulls = self.nulls(values);
        self.checked
            .iter()
            .map(AsRef::as_ref)
            .find(|column| nulls.contains(column))
    }

    /// The columns that an execution sets to null by naming them so, or by not naming them.
    pub(super) fn nulls(&self, values: &Values<'_>) -> Vec<&str> {
        match &self.source {
            JsonSource::Known { nulls, .. } => nulls.iter().map(AsRef::as_ref).collect(),
            JsonSource::Marker(marker) => match marker.bound(Some(values)) {
                Ok(BoundValue::Bytes(bytes)) => match std::str::from_utf8(bytes) {
                    Ok(text) => nulls_of(text, &self.others),
                    Err(_) => Vec::new(),
                },
                _ => Vec::new(),
            },
        }
    }

    pub(super) fn count(&self, values: Option<&Values<'_>>, keys: &mut Keys) -> Result<Counted, Fault> {
        let bound;
        let plan = match &self.source {
            JsonSource::Known { key, .. } => key.as_ref().map_err(Clone::clone)?,
            JsonSource::Marker(marker) => {
                let BoundValue::Bytes(bytes) = marker.bound(values)? else {
                    return Err(Fault::invalid("Got null for INSERT JSON values"));
                };
                let text = std::str::from_utf8(bytes).map_err(|_| malformed())?;
                bound = key_of(text, &self.columns, &self.table)?;
                &bound
            }
        };
        plan.count(None, keys)
    }
}

/// Why a JSON text in a statement is refused when prepared; `known` says which columns there are.
pub(super) fn check(text: &str, known: impl Fn(&str) -> bool) -> Result<(), String> {
    let object = object(text).map_err(|_| "Could not decode JSON string as a map".to_owned())?;
    match object.keys().find(|name| !known(name)) {
        Some(name) => Err(format!("JSON values map contains unrecognized column: {name}")),
        None => Ok(()),
    }
}

fn malformed() -> Fault {
    Fault::Refused(Reason::Json, "Could not decode JSON string as a map".into())
}

/// The members of a JSON object by column: names in quotes keep their case, others are in lower case.
fn object(text: &str) -> Result<BTreeMap<String, Value>, Fault> {
    let Ok(Value::Object(members)) = serde_json::from_str(text) else {
        return Err(malformed());
    };
    let column = |name: String| match name.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        Some(quoted) => quoted.to_owned(),
        None => name.to_lowercase(),
    };
    Ok(members
        .into_iter()
        .map(|(name, value)| (column(name), value))
        .collect())
}

fn key_of(text: &str, columns: &[(String, CqlType)], table: &Arc<TableName>) -> Result<KeyPlan, Fault> {
    let members = object(text)?;
    let mut key = Vec::new();
    for (name, cql_type) in columns {
        let term = match members.get(name) {
            None | Some(Value::Null) => CompiledTerm::Null,
            Some(value) => match bytes_of(cql_type, value) {
                Ok(bytes) => CompiledTerm::Constant(bytes.into_boxed_slice()),
                Err(fault) => CompiledTerm::Unknown(fault),
            },
        };
        key.push(KeyColumn {
            cql_type: cql_type.clone(),
            choice: Choice::One(term),
        });
    }
    Ok(KeyPlan {
        table: Arc::clone(table),
        columns: key,
        token: None,
    })
}

/// A JSON value as a value of a type.
fn bytes_of(cql_type: &CqlType, json: &Value) -> Result<Vec<u8>, Fault> {
    let misfit = || Fault::undecodable(format!("a JSON value is no {cql_type}"));
    match (cql_type, json) {
        (CqlType::List(element), Value::Array(items)) => {
            let items = all(element, items)?;
            Ok(value::pack(items.iter().map(AsRef::as_ref), items.len()))
        }
        (CqlType::Set(element), Value::Array(items)) => {
            let items = value::sorted_set(element, all(element, items)?);
            Ok(value::pack(items.iter().map(AsRef::as_ref), items.len()))
        }
        (CqlType::Vector(element, dimension), Value::Array(items)) => {
            let fits = usize::try_from(*dimension) == Ok(items.len());
            let items = all(element, items)?;
            if fits {
                Ok(value::pack_vector(element, items.iter().map(AsRef::as_ref)))
            } else {
                Err(misfit())
            }
        }
        (CqlType::Map(entry), Value::Object(members)) => {
            let pair = |(key, member): (&String, &Value)| {
                Ok((
                    bytes_of(&entry.0, &Value::String(key.clone()))?,
                    bytes_of(&entry.1, member)?,
                ))
            };
            let pairs: Result<Vec<_>, Fault> = members.iter().map(pair).collect();
            let pairs = value::sorted_map(&entry.0, pairs?);
            Ok(value::pack(
                pairs
                    .iter()
                    .flat_map(|(key, value)| [key.as_ref(), value.as_ref()]),
                pairs.len(),
            ))
        }
        (CqlType::Tuple(types), Value::Array(items)) if items.len() <= types.len() => {
            components(types.iter().zip(items))
        }
        (CqlType::Udt(udt), Value::Object(members)) => {
            let member = |name: &String| members.get(name).unwrap_or(&Value::Null);
            components(udt.fields.iter().map(|(name, field)| (field, member(name))))
        }
        (CqlType::Text | CqlType::Ascii, Value::String(text)) => Ok(text.as_bytes().to_vec()),
        (CqlType::Boolean, Value::Bool(boolean)) => Ok(vec![u8::from(*boolean)]),
        // Numbers that fit an int are ints to the server's JSON reader, and no dates, times or timestamps.
        (CqlType::Date | CqlType::Time, Value::Number(_)) => Err(misfit()),
        (CqlType::Timestamp, Value::Number(number))
            if number.as_i64().is_none_or(|number| i32::try_from(number).is_ok()) =>
        {
            Err(misfit())
        }
        // How many digits a decimal keeps depends on the server's JSON reader.
        (CqlType::Decimal, Value::Number(number)) if number.is_f64() => Err(Fault::NotFollowed),
        (_, Value::Number(number)) => {
            let is_float = matches!(cql_type, CqlType::Float | CqlType::Double);
            let kind = if number.is_f64() || is_float {
                LiteralKind::Float
            } else {
                LiteralKind::Integer
            };
            constant(cql_type, kind, &number.to_string()).ok_or_else(misfit)
        }
        (CqlType::Varint | CqlType::Decimal, Value::String(text)) if text.len() > MAX_DIGITS => Err(
            Fault::Refused(Reason::StatementTooComplex, "a number of too many digits".into()),
        ),
        (_, Value::String(text)) => constant(cql_type, kind_of(cql_type), text).ok_or_else(misfit),
        _ => Err(misfit()),
    }
}

fn all(element: &CqlType, items: &[Value]) -> Result<Vec<Vec<u8>>, Fault> {
    items.iter().map(|item| bytes_of(element, item)).collect()
}

fn components<'v>(items: impl Iterator<Item = (&'v CqlType, &'v Value)>) -> Result<Vec<u8>, Fault> {
    let mut bytes = Vec::new();
    for (cql_type, item) in items {
        match item {
            Value::Null => value::push_element(&mut bytes, None),
            item => value::push_element(&mut bytes, Some(&bytes_of(cql_type, item)?)),
        }
    }
    Ok(bytes)
}

/// What kind of CQL constant a JSON string stands for.
fn kind_of(cql_type: &CqlType) -> LiteralKind {
    match cql_type {
        CqlType::Float | CqlType::Double | CqlType::Decimal => LiteralKind::Float,
        CqlType::Uuid | CqlType::TimeUuid => LiteralKind::Uuid,
        CqlType::Blob => LiteralKind::Hex,
        CqlType::Boolean => LiteralKind::Boolean,
        CqlType::Int | CqlType::BigInt | CqlType::SmallInt | CqlType::TinyInt | CqlType::Varint => {
            LiteralKind::Integer
        }
        _ => LiteralKind::String,
    }
}

/// Numbers of more digits are not read: a key of so many is nobody's, and the time to read them grows with
/// their square.
const MAX_DIGITS: usize = 4 << 10;

fn constant(cql_type: &CqlType, kind: LiteralKind, text: &str) -> Option<Vec<u8>> {
    let quoted = format!("'{}'", text.replace('\'', "''"));
    let text = if kind == LiteralKind::String {
        &quoted
    } else {
        text
    };
    value::parse(
        cql_type,
        &Literal {
            kind,
            text,
            span: Span::default(),
        },
    )
}
