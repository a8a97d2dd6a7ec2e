//! Constants of every type, as CQL writes them: few of each, so that keys meet, and one value in several
//! spellings, so that duplicates of an `IN` list are not only equal texts.

use cqlens_proto::types::CqlType;

use super::super::random::Random;

/// A constant of the type.
pub(crate) fn literal(random: &mut Random, cql_type: &CqlType) -> String {
    match cql_type {
        CqlType::List(element) => format!("[{}]", several(random, element)),
        CqlType::Vector(element, dimension) => {
            let elements: Vec<String> = (0..*dimension).map(|_| literal(random, element)).collect();
            format!("[{}]", elements.join(", "))
        }
        CqlType::Set(element) => format!("{{{}}}", several(random, element)),
        CqlType::Map(types) => {
            let entries: Vec<String> = (0..random.below(3))
                .map(|_| format!("{}: {}", literal(random, &types.0), literal(random, &types.1)))
                .collect();
            format!("{{{}}}", entries.join(", "))
        }
        CqlType::Tuple(components) => {
            let components: Vec<String> = components.iter().map(|part| literal(random, part)).collect();
            format!("({})", components.join(", "))
        }
        CqlType::Udt(udt) => {
            let mut fields = udt.fields.clone();
            // Fields may be left out, and come in any order.
            if random.chance(20) {
                fields.pop();
            }
            if random.chance(20) {
                fields.reverse();
            }
            let fields: Vec<String> = fields
                .iter()
                .map(|(name, field)| format!("{name}: {}", literal(random, field)))
                .collect();
            format!("{{{}}}", fields.join(", "))
        }
        native => random.pick(spellings(native)).to_owned(),
    }
}

fn several(random: &mut Random, element: &CqlType) -> String {
    let elements: Vec<String> = (0..random.below(4)).map(|_| literal(random, element)).collect();
    elements.join(", ")
}

fn spellings(native: &CqlType) -> &'static [&'static str] {
    match native {
        CqlType::Ascii => &["'a'", "'b'", "'it''s'", "$$a$$", "'?'", "'ab cd'"],
        CqlType::Text => &[
            "'a'",
            "'b'",
            "'c'",
            "'it''s'",
            "$$a$$",
            "$$it's ?$$",
            "'Ω'",
            "'--'",
            "'/*'",
            "''",
        ],
        CqlType::BigInt | CqlType::Counter => &["1", "2", "3", "-1", "0", "9223372036854775807", "002"],
        CqlType::Blob => &["0x01", "0x02", "0xCAFE", "0xcafe", "0Xcafe", "0x", "0x00FF"],
        CqlType::Boolean => &["true", "false", "TRUE", "False"],
        CqlType::Decimal => &["1", "1.0", "1.00", "-2.5e3", "-2500", "1E40", "0", "0.0", "NaN"],
        CqlType::Double | CqlType::Float => &[
            "1",
            "1.0",
            "2.5",
            "0.0",
            "-0.0",
            "NaN",
            "-NaN",
            "Infinity",
            "-infinity",
            "1e10",
            "-3",
        ],
        CqlType::Int => &["1", "2", "3", "4", "5", "-1", "0", "2147483647", "003"],
        CqlType::Timestamp => &[
            "'2024-01-01'",
            "'2024-01-01 00:00:00+0000'",
            "1704067200000",
            "'2024-02-29T12:30:00.123Z'",
            "'2024-01-01 01:00+01:00'",
            "0",
        ],
        CqlType::Uuid => &[
            "123e4567-e89b-12d3-a456-426614174000",
            "123E4567-E89B-12D3-A456-426614174000",
            "a3c0ffee-0000-4000-8000-000000000001",
            "00000000-0000-0000-0000-000000000000",
        ],
        CqlType::TimeUuid => &[
            "123e4567-e89b-12d3-a456-426614174000",
            "5132b130-ae79-11e4-ab27-0800200c9a66",
            "5132B130-AE79-11E4-AB27-0800200C9A66",
        ],
        CqlType::Varint => &[
            "1",
            "2",
            "001",
            "-1",
            "128",
            "123456789012345678901234567890",
            "0",
        ],
        CqlType::Inet => &[
            "'127.0.0.1'",
            "'::ffff:127.0.0.1'",
            "'::1'",
            "'0:0:0:0:0:0:0:1'",
            "'10.0.0.7'",
        ],
        CqlType::Date => &[
            "'2024-01-01'",
            "'2024-02-29'",
            "2147503371",
            "'1969-12-31'",
            "'-0044-03-15'",
        ],
        CqlType::Time => &[
            "'10:00:00'",
            "'10:00:00.000'",
            "36000000000000",
            "'23:59:59.999999999'",
        ],
        CqlType::SmallInt => &["1", "2", "-1", "32767", "0002"],
        CqlType::TinyInt => &["1", "2", "-1", "127", "-128"],
        CqlType::Duration => &[
            "1h",
            "PT1H",
            "1y2mo3w4d5h6m7s8ms9us10ns",
            "P1Y2M3DT4H5M6S",
            "-1d",
            "P2W",
            "90m",
        ],
        other => panic!("no constants of type {other:?}"),
    }
}

/// A constant that is of another type, mostly.
pub(crate) fn stray(random: &mut Random) -> &'static str {
    random.pick(&[
        "1",
        "'a'",
        "true",
        "0xCAFE",
        "1.5",
        "NULL",
        "null",
        "[1]",
        "{1}",
        "{1: 2}",
        "(1, 2)",
        "1h",
        "{a: 1}",
        "NaN",
        "123e4567-e89b-12d3-a456-426614174000",
        "99999999999999999999",
        "''",
        "-1",
        "{}",
        "[]",
    ])
}
