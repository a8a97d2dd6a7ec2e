//! Java class names of types, as servers send them for custom types and keep them in old schema tables.
//!
//! `class ::= [package .] name [ "(" parameter { "," parameter } ")" ]`; parameters are classes, a number of
//! dimensions, or for user types a keyspace, a name in hexadecimal, and `field in hexadecimal : class`.

use super::{CqlType, UdtType};
use crate::error::MAX_DEPTH;

const PACKAGE: &str = "org.apache.cassandra.db.marshal.";

/// Names of the classes without parameters.
static SIMPLE: [(&str, CqlType); 22] = [
    ("AsciiType", CqlType::Ascii),
    ("LongType", CqlType::BigInt),
    ("BytesType", CqlType::Blob),
    ("BooleanType", CqlType::Boolean),
    ("CounterColumnType", CqlType::Counter),
    ("DecimalType", CqlType::Decimal),
    ("DoubleType", CqlType::Double),
    ("FloatType", CqlType::Float),
    ("Int32Type", CqlType::Int),
    ("TimestampType", CqlType::Timestamp),
    ("UUIDType", CqlType::Uuid),
    ("UTF8Type", CqlType::Text),
    ("IntegerType", CqlType::Varint),
    ("TimeUUIDType", CqlType::TimeUuid),
    ("InetAddressType", CqlType::Inet),
    ("SimpleDateType", CqlType::Date),
    ("TimeType", CqlType::Time),
    ("ShortType", CqlType::SmallInt),
    ("ByteType", CqlType::TinyInt),
    ("DurationType", CqlType::Duration),
    // Older classes for the same values.
    ("DateType", CqlType::Timestamp),
    ("LexicalUUIDType", CqlType::Uuid),
];

/// The type of a class name, `None` for text that is not one.
pub(super) fn parse(name: &str) -> Option<CqlType> {
    let mut parser = Parser { rest: name };
    let parsed = parser.class(MAX_DEPTH)?;
    parser.rest.trim().is_empty().then_some(parsed)
}

/// The class name of a type.
pub(super) fn of(cql_type: &CqlType) -> String {
    match cql_type {
        CqlType::List(element) => format!("{PACKAGE}ListType({})", of(element)),
        CqlType::Set(element) => format!("{PACKAGE}SetType({})", of(element)),
        CqlType::Map(entry) => format!("{PACKAGE}MapType({},{})", of(&entry.0), of(&entry.1)),
        CqlType::Tuple(elements) => {
            let elements: Vec<String> = elements.iter().map(of).collect();
            format!("{PACKAGE}TupleType({})", elements.join(","))
        }
        CqlType::Udt(udt) => {
            let fields: String = udt
                .fields
                .iter()
                .map(|(name, field)| format!(",{}:{}", hex(name), of(field)))
                .collect();
            format!("{PACKAGE}UserType({},{}{fields})", udt.keyspace, hex(&udt.name))
        }
        // The blank before the comma is Cassandra's.
        CqlType::Vector(element, dimensions) => {
            format!("{PACKAGE}VectorType({} , {dimensions})", of(element))
        }
        CqlType::Custom(name) => name.to_string(),
        native => {
            let simple = SIMPLE.iter().find(|(_, its_type)| its_type == native);
            format!("{PACKAGE}{}", simple.map_or("BytesType", |(name, _)| name))
        }
    }
}

struct Parser<'a> {
    rest: &'a str,
}

impl<'a> Parser<'a> {
    /// A class that may contain `depth` more levels.
    fn class(&mut self, depth: usize) -> Option<CqlType> {
        let depth = depth.checked_sub(1)?;
        let start = self.rest.trim_start();
        let name = self.word();
        let name = name.strip_prefix(PACKAGE).unwrap_or(name);
        match name {
            "ListType" => Some(CqlType::list(self.only_parameter(depth)?)),
            "SetType" => Some(CqlType::set(self.only_parameter(depth)?)),
            // Frozen or reversed, the values are the same.
            "FrozenType" | "ReversedType" => self.only_parameter(depth),
            "MapType" => {
                let [key, value] = <[CqlType; 2]>::try_from(self.parameters(depth)?).ok()?;
                Some(CqlType::map(key, value))
            }
            "TupleType" => self.parameters(depth).map(CqlType::Tuple),
            "VectorType" => self.vector(depth),
            "UserType" => self.user_type(depth),
            simple => match SIMPLE.iter().find(|(name, _)| *name == simple) {
                Some((_, its_type)) => Some(its_type.clone()),
                None => self.other(start),
            },
        }
    }

    /// A class that is not known, with its parameters, whatever they are; its name has been passed.
    fn other(&mut self, start: &'a str) -> Option<CqlType> {
        let name_len = start.len() - self.rest.len();
        let mut open = 0_usize;
        let mut parameters_len = 0;
        if self.rest.starts_with('(') {
            let closing = self.rest.char_indices().find(|(_, sign)| {
                open += usize::from(*sign == '(');
                open -= usize::from(*sign == ')');
                open == 0
            });
            parameters_len = closing?.0 + 1;
        }
        let (class, rest) = start.split_at(name_len + parameters_len);
        self.rest = rest;
        (name_len > 0).then(|| CqlType::Custom(class.into()))
    }

    fn only_parameter(&mut self, depth: usize) -> Option<CqlType> {
        let [parameter] = <[CqlType; 1]>::try_from(self.parameters(depth)?).ok()?;
        Some(parameter)
    }

    /// `"(" class { "," class } ")"`.
    fn parameters(&mut self, depth: usize) -> Option<Vec<CqlType>> {
        self.expect('(')?;
        let mut parameters = vec![self.class(depth)?];
        while self.accept(',') {
            parameters.push(self.class(depth)?);
        }
        self.expect(')')?;
        Some(parameters)
    }

    /// `"(" class "," dimensions ")"`.
    fn vector(&mut self, depth: usize) -> Option<CqlType> {
        self.expect('(')?;
        let element = self.class(depth)?;
        self.expect(',')?;
        let dimensions = self.word().parse().ok().filter(|dimensions| *dimensions > 0)?;
        self.expect(')')?;
        Some(CqlType::Vector(Box::new(element), dimensions))
    }

    /// `"(" keyspace "," name { "," field ":" class } ")"`, name and fields in hexadecimal.
    fn user_type(&mut self, depth: usize) -> Option<CqlType> {
        self.expect('(')?;
        let keyspace = self.word().to_owned();
        self.expect(',')?;
        let name = unhex(self.word())?;
        let mut fields = Vec::new();
        while self.accept(',') {
            let field = unhex(self.word())?;
            self.expect(':')?;
            fields.push((field, self.class(depth)?));
        }
        self.expect(')')?;
        Some(CqlType::Udt(Box::new(UdtType {
            keyspace,
            name,
            fields,
        })))
    }

    /// The longest run of letters, digits and the signs that identifiers of classes have.
    fn word(&mut self) -> &'a str {
        let text = self.rest.trim_start();
        let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '+' | '&');
        let end = text.find(|c| !is_part(c)).unwrap_or(text.len());
        let (word, rest) = text.split_at(end);
        self.rest = rest;
        word
    }

    fn accept(&mut self, sign: char) -> bool {
        match self.rest.trim_start().strip_prefix(sign) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn expect(&mut self, sign: char) -> Option<()> {
        self.accept(sign).then_some(())
    }
}

fn hex(text: &str) -> String {
    text.bytes().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(digits: &str) -> Option<String> {
    if !digits.len().is_multiple_of(2) {
        return None;
    }
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    let bytes = digits
        .as_bytes()
        .chunks_exact(2)
        .map(byte)
        .collect::<Option<Vec<u8>>>()?;
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn wrappers_that_do_not_change_values_are_taken_off() {
        let name =
            format!("{PACKAGE}ReversedType({PACKAGE}FrozenType({PACKAGE}ListType({PACKAGE}Int32Type)))");
        assert_eq!(parse(&name), Some(CqlType::list(CqlType::Int)));
    }

    #[test]
    fn a_user_type_has_its_names_in_hexadecimal() {
        let name = "UserType(ks,61646472657373,737472656574:UTF8Type,7a6970:Int32Type)";
        let CqlType::Udt(udt) = parse(name).unwrap() else {
            unreachable!()
        };
        assert_eq!((&udt.keyspace[..], &udt.name[..]), ("ks", "address"));
        assert_eq!(
            udt.fields,
            [("street".into(), CqlType::Text), ("zip".into(), CqlType::Int)]
        );
        let written = of(&CqlType::Udt(udt.clone()));
        assert_eq!(parse(&written), Some(CqlType::Udt(udt)));
    }

    #[test]
    fn an_unknown_class_may_be_a_parameter() {
        let unknown = CqlType::Custom("com.example.Box(Int32Type,(x))".into());
        assert_eq!(
            parse("ListType(com.example.Box(Int32Type,(x)))"),
            Some(CqlType::list(unknown))
        );
    }

    #[test]
    fn other_classes_are_not_guessed() {
        for name in [
            "",
            "com.example.Type(",
            "ListType",
            "ListType(",
            "ListType(Int32Type",
            "MapType(Int32Type)",
            "VectorType(FloatType , 0)",
            "Int32Type)",
        ] {
            assert_eq!(parse(name), None, "{name}");
        }
        assert_eq!(parse(&"ListType(".repeat(100_000)), None);
    }
}
