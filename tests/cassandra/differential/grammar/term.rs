//! Values in the text: constants, markers, functions, casts and sums.

use cqlens_proto::types::CqlType;

use super::literal::{literal, stray};
use super::{Grammar, Markers};

impl Grammar<'_> {
    /// A value of the type, for a column or place of that name.
    pub(super) fn term(&mut self, cql_type: &CqlType, name: &str) -> String {
        let is_marker = match self.markers {
            Markers::None => false,
            Markers::Positional | Markers::Named => self.random.chance(85),
            Markers::Some => self.random.chance(40),
        };
        if is_marker {
            return self.marker(name);
        }
        match self.random.below(100) {
            0..3 => stray(&mut self.random).to_owned(),
            3..10 => self.computed(cql_type),
            10..12 => format!(
                "({}) {}",
                type_name(cql_type),
                literal(&mut self.random, cql_type)
            ),
            _ => literal(&mut self.random, cql_type),
        }
    }

    fn marker(&mut self, name: &str) -> String {
        if self.markers == Markers::Positional || (self.markers == Markers::Some && self.random.chance(70)) {
            return "?".to_owned();
        }
        match self.random.below(10) {
            // One name at two places.
            0 => ":again".to_owned(),
            1 => ":\"Odd \"\"name\"".to_owned(),
            2..5 if name.chars().all(|c| c.is_ascii_alphanumeric()) => format!(":{name}"),
            _ => {
                self.named += 1;
                format!(":m{}", self.named)
            }
        }
    }

    /// A value that the server computes, where the type has one.
    fn computed(&mut self, cql_type: &CqlType) -> String {
        let choices: &[&str] = match cql_type {
            CqlType::Uuid => &["uuid()", "UUID()", "now()"],
            CqlType::TimeUuid => &[
                "now()",
                "currentTimeUUID()",
                "minTimeuuid('2024-01-01')",
                "max_timeuuid('2024-01-01')",
            ],
            CqlType::Date => &[
                "currentDate()",
                "toDate(now())",
                "to_date(now())",
                "'2024-01-01' + 2d",
            ],
            CqlType::Timestamp => &["currentTimestamp()", "toTimestamp(now())", "'2024-01-01' - 1h"],
            CqlType::Time => &["currentTime()", "current_time()"],
            CqlType::Blob => &[
                "intAsBlob(1)",
                "text_as_blob('a')",
                "bigintAsBlob((bigint) 7)",
                "blobAsInt(0x01)",
            ],
            CqlType::Text => &[
                "'a' + 'b'",
                "blobAsText(0x61)",
                "blob_as_text(0x62)",
                "system.blobAsText(0x61)",
            ],
            CqlType::Int => &[
                "1 + 1",
                "2 * (3 - 1)",
                "7 % 4",
                "-(-1)",
                "blobAsInt(0x00000003)",
                "8 / 2",
                "length('ab')",
                "1 + 1.5",
            ],
            CqlType::BigInt => &[
                "1 + 1",
                "toUnixTimestamp(now())",
                "5 * 1",
                "blobAsBigint(0x0000000000000002)",
            ],
            CqlType::Varint => &["1 + 1", "10 - 9", "3 * 1"],
            CqlType::Decimal => &["1.0 + 1", "0.5 * 2", "1.5 - 0.5"],
            CqlType::Double | CqlType::Float => &["1.0 + 1", "2 * 0.5", "-(1.5)"],
            CqlType::List(_) | CqlType::Set(_) => &["null", "(int) 1"],
            _ => return literal(&mut self.random, cql_type),
        };
        self.random.pick(choices).to_owned()
    }

    /// The values of an `IN`: listed, duplicates among them, or one marker.
    pub(super) fn in_list(&mut self, cql_type: &CqlType, name: &str) -> String {
        let wants_marker = match self.markers {
            Markers::None => false,
            Markers::Positional | Markers::Named => self.random.chance(45),
            Markers::Some => self.random.chance(30),
        };
        if wants_marker {
            return self.marker(name);
        }
        let count = *self.random.element(&[0, 1, 1, 2, 2, 3, 3, 4, 6]);
        let mut items: Vec<String> = (0..count).map(|_| self.term(cql_type, name)).collect();
        if self.random.chance(30) {
            items.extend(items.first().cloned());
        }
        format!("({})", items.join(", "))
    }

    /// A limit or other count of a clause.
    pub(super) fn count(&mut self) -> String {
        if self.markers != Markers::None && self.random.chance(50) {
            return self.marker("count");
        }
        self.random
            .pick(&["1", "2", "10", "100", "2147483647", "1", "3", "0", "-1"])
            .to_owned()
    }
}

/// The type as a hint writes it.
fn type_name(cql_type: &CqlType) -> String {
    match cql_type {
        CqlType::List(element) => format!("list<{}>", type_name(element)),
        CqlType::Set(element) => format!("set<{}>", type_name(element)),
        CqlType::Map(types) => format!("map<{}, {}>", type_name(&types.0), type_name(&types.1)),
        CqlType::Tuple(parts) => {
            let parts: Vec<String> = parts.iter().map(type_name).collect();
            format!("tuple<{}>", parts.join(", "))
        }
        CqlType::Vector(element, dimension) => format!("vector<{}, {dimension}>", type_name(element)),
        CqlType::Udt(udt) => udt.name.clone(),
        native => native.name().to_owned(),
    }
}
