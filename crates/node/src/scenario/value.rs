//! The values of a scenario, serialized by the types of the markers that they are for.

use bytes::Bytes;
use cqlens_cql::syntax::Span;
use cqlens_cql::syntax::ast::{Literal, LiteralKind};
use cqlens_proto::types::CqlType;

use super::ValueTemplate;
use super::expression::Scope;
use super::outcome::StepError;
use crate::{bind, literal};

impl ValueTemplate {
    /// The bytes of a value of a type; `None` for null.
    ///
    /// # Errors
    /// Texts that are no value of the type.
    pub(super) fn bytes(
        &self,
        cql_type: &CqlType,
        scope: &mut Scope<'_>,
    ) -> Result<Option<Bytes>, StepError> {
        let text = match self {
            ValueTemplate::Number(number) => number.to_string(),
            ValueTemplate::Text(template) => match template.text(scope) {
                Some(text) => text,
                None => return Ok(None),
            },
            ValueTemplate::List(items) => return list(items, cql_type, scope).map(Some),
        };
        let kind = match cql_type {
            CqlType::Boolean => LiteralKind::Boolean,
            CqlType::Uuid | CqlType::TimeUuid => LiteralKind::Uuid,
            CqlType::Blob => LiteralKind::Hex,
            CqlType::Duration => LiteralKind::Duration,
            CqlType::Float | CqlType::Double | CqlType::Decimal => LiteralKind::Float,
            CqlType::Text | CqlType::Ascii | CqlType::Inet => LiteralKind::String,
            // A timestamp may be milliseconds or a date.
            _ if text.parse::<i128>().is_ok() => LiteralKind::Integer,
            _ => LiteralKind::String,
        };
        // The text of a string stands without quotes here, so that it cannot need escaping.
        let literal = Literal {
            kind,
            text: &text,
            span: Span::default(),
        };
        match literal::serialize(&literal, cql_type) {
            Some(bytes) => Ok(Some(bytes.into())),
            None => Err(StepError::Value {
                text,
                cql_type: cql_type.clone(),
            }),
        }
    }
}

fn list(items: &[ValueTemplate], cql_type: &CqlType, scope: &mut Scope<'_>) -> Result<Bytes, StepError> {
    let (CqlType::List(element) | CqlType::Set(element)) = cql_type else {
        return Err(StepError::Value {
            text: "a list".to_owned(),
            cql_type: cql_type.clone(),
        });
    };
    let mut values = Vec::new();
    for item in items {
        values.extend(item.bytes(element, scope)?);
    }
    let packed = match cql_type {
        CqlType::Set(_) => bind::set_of(values, element),
        _ => bind::collection(values.len(), &values),
    };
    packed.map_err(|_| StepError::Malformed("a list is too long"))
}
