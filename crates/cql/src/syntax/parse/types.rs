//! Types.

use crate::ServerVersion;
use crate::syntax::ast::{Dialect, Literal, LiteralKind, NativeType, TypeName};
use crate::syntax::{Expected, Keyword, ParseErrorKind, TokenKind};

use super::name::{is_name, is_type_name};
use super::parser::{Parsed, Parser};

impl<'text> Parser<'text, '_> {
    // type ::= native_type | collection | tuple | vector | frozen | type_name | string
    pub(super) fn type_name(&mut self) -> Parsed<TypeName<'text>> {
        self.nested(Self::type_name_here)
    }

    fn type_name_here(&mut self) -> Parsed<TypeName<'text>> {
        let next = self.peek();
        if self.kind_at(1) == TokenKind::Less {
            return self.parametrised_type();
        }
        match next.kind {
            TokenKind::String => self.custom_type(),
            TokenKind::Keyword(keyword) if self.kind_at(1) != TokenKind::Dot => match native_type(keyword) {
                Some(native) => {
                    self.advance();
                    Ok(TypeName::Native(native))
                }
                None => Ok(TypeName::UserDefined(self.user_type_name()?)),
            },
            kind if is_name(kind) => Ok(TypeName::UserDefined(self.user_type_name()?)),
            _ => Err(self.missing(Expected::Type)),
        }
    }

    // collection ::= LIST '<' type '>' | SET '<' type '>' | MAP '<' type ',' type '>'
    // tuple      ::= TUPLE '<' type (',' type)* '>'
    // vector     ::= VECTOR '<' type ',' integer '>'
    // frozen     ::= FROZEN '<' type '>'
    fn parametrised_type(&mut self) -> Parsed<TypeName<'text>> {
        let TokenKind::Keyword(keyword) = self.kind() else {
            return Err(self.missing(Expected::Type));
        };
        if !matches!(
            keyword,
            Keyword::List | Keyword::Set | Keyword::Map | Keyword::Tuple | Keyword::Vector | Keyword::Frozen
        ) {
            return Err(self.missing(Expected::Type));
        }
        self.advance();
        self.expect(TokenKind::Less)?;
        let parsed = match keyword {
            Keyword::List => TypeName::List(Box::new(self.type_name()?)),
            Keyword::Set => TypeName::Set(Box::new(self.type_name()?)),
            Keyword::Map => {
                let key = Box::new(self.type_name()?);
                self.expect(TokenKind::Comma)?;
                TypeName::Map(key, Box::new(self.type_name()?))
            }
            Keyword::Tuple => TypeName::Tuple(self.comma_separated(Self::type_name)?),
            Keyword::Vector => {
                self.since_version(ServerVersion::V5_0, self.last_span());
                let element = Box::new(self.type_name()?);
                self.expect(TokenKind::Comma)?;
                TypeName::Vector(element, self.vector_dimension()?)
            }
            _ => self.frozen_type()?,
        };
        self.expect(TokenKind::Greater)?;
        Ok(parsed)
    }

    /// Cassandra reads the dimension as a 32-bit number while it parses.
    fn vector_dimension(&mut self) -> Parsed<Literal<'text>> {
        let token = self.expect(TokenKind::Integer)?;
        let text = self.text_of(token);
        if text.parse::<i32>().is_err() {
            return Err(Self::refused(ParseErrorKind::ValueNotAllowed, token.span));
        }
        Ok(Literal {
            kind: LiteralKind::Integer,
            text,
            span: token.span,
        })
    }

    /// Only what could be changed in place can be frozen.
    fn frozen_type(&mut self) -> Parsed<TypeName<'text>> {
        let start = self.peek().span;
        let inner = self.type_name()?;
        if matches!(inner, TypeName::Native(_) | TypeName::Custom(_)) {
            return Err(Self::refused(ParseErrorKind::ValueNotAllowed, self.since(start)));
        }
        Ok(TypeName::Frozen(Box::new(inner)))
    }

    /// A Java class, perhaps with parameters. Cassandra loads it while it parses.
    fn custom_type(&mut self) -> Parsed<TypeName<'text>> {
        let token = self.expect(TokenKind::String)?;
        let literal = Literal {
            kind: LiteralKind::String,
            text: self.text_of(token),
            span: token.span,
        };
        let decoded = literal.decoded();
        if DSE_CLASSES.contains(&class_name(&decoded)) {
            self.extend(Dialect::Dse, token.span);
        } else if !may_be_class(class_name(&decoded)) {
            return Err(Self::refused(ParseErrorKind::ValueNotAllowed, token.span));
        }
        Ok(TypeName::Custom(literal))
    }

    /// Whether the parenthesis at hand encloses a type and something that has this type follows, for which
    /// `starts_operand` says whether it may begin with the token at that distance.
    ///
    /// A name in parentheses is a type or, in a selector, a column; a string is a custom type or a value.
    /// What follows decides.
    pub(super) fn at_type_hint(&self, starts_operand: impl Fn(&Self, usize) -> bool) -> bool {
        if self.kind_at(2) == TokenKind::Less {
            return matches!(self.kind_at(1), TokenKind::Keyword(_));
        }
        let close = match self.kind_at(1) {
            TokenKind::String => 2,
            kind if is_name(kind) && self.kind_at(2) == TokenKind::Dot => 4,
            kind if is_type_name(kind) => 2,
            TokenKind::Keyword(keyword) if native_type(keyword).is_some() => 2,
            _ => return false,
        };
        self.kind_at(close) == TokenKind::CloseParenthesis && starts_operand(self, close + 1)
    }

    // native_type ::= ASCII | BIGINT | … | VARINT
    pub(super) fn native_type(&mut self) -> Parsed<NativeType> {
        if let TokenKind::Keyword(keyword) = self.kind()
            && let Some(native) = native_type(keyword)
        {
            self.advance();
            return Ok(native);
        }
        Err(self.missing(Expected::Type))
    }
}

const fn native_type(keyword: Keyword) -> Option<NativeType> {
    Some(match keyword {
        Keyword::Ascii => NativeType::Ascii,
        Keyword::Bigint => NativeType::Bigint,
        Keyword::Blob => NativeType::Blob,
        Keyword::Boolean => NativeType::Boolean,
        Keyword::Counter => NativeType::Counter,
        Keyword::Date => NativeType::Date,
        Keyword::Decimal => NativeType::Decimal,
        Keyword::Double => NativeType::Double,
        Keyword::Duration => NativeType::Duration,
        Keyword::Float => NativeType::Float,
        Keyword::Inet => NativeType::Inet,
        Keyword::Int => NativeType::Int,
        Keyword::Smallint => NativeType::Smallint,
        Keyword::Text => NativeType::Text,
        Keyword::Time => NativeType::Time,
        Keyword::Timestamp => NativeType::Timestamp,
        Keyword::Timeuuid => NativeType::Timeuuid,
        Keyword::Tinyint => NativeType::Tinyint,
        Keyword::Uuid => NativeType::Uuid,
        Keyword::Varchar => NativeType::Varchar,
        Keyword::Varint => NativeType::Varint,
        _ => return None,
    })
}

/// The name at the beginning of a custom type; what follows are parameters, or not looked at.
pub(in crate::syntax) fn class_name(text: &str) -> &str {
    let text = text.trim_start();
    let is_part =
        |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '+' | '.' | '_' | '&');
    text.find(|letter| !is_part(letter))
        .map_or(text, |end| &text[..end])
}

/// Whether a server could know a class of that name: without a package it must be one of Cassandra's own. No
/// name at all is `BytesType`.
fn may_be_class(name: &str) -> bool {
    let is_word = |part: &str| {
        let mut bytes = part.bytes();
        bytes
            .next()
            .is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
            && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$')
    };
    if name.is_empty() {
        return true;
    }
    if name.contains('.') {
        name.split('.').all(is_word)
    } else {
        MARSHAL_CLASSES.contains(&name)
    }
}

/// Those that DataStax Enterprise has besides.
const DSE_CLASSES: [&str; 4] = ["DateRangeType", "LineStringType", "PointType", "PolygonType"];

/// The types of `org.apache.cassandra.db.marshal`, which may be named without their package.
const MARSHAL_CLASSES: [&str; 33] = [
    "AsciiType",
    "BooleanType",
    "ByteType",
    "BytesType",
    "CompositeType",
    "CounterColumnType",
    "DateType",
    "DecimalType",
    "DoubleType",
    "DurationType",
    "DynamicCompositeType",
    "EmptyType",
    "FloatType",
    "FrozenType",
    "InetAddressType",
    "Int32Type",
    "IntegerType",
    "LegacyTimeUUIDType",
    "LexicalUUIDType",
    "ListType",
    "LongType",
    "MapType",
    "ReversedType",
    "SetType",
    "ShortType",
    "SimpleDateType",
    "TimeType",
    "TimeUUIDType",
    "TimestampType",
    "TupleType",
    "UTF8Type",
    "UUIDType",
    "VectorType",
];
