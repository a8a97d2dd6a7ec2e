//! Values for the markers that a server described: of their types, now and then null, not set, or of a wrong
//! length.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use bytes::Bytes;
use cqlens_client::Bind;
use cqlens_proto::types::{BigInt, CqlType, CqlValue, Date, Decimal, Duration, Time, Timestamp, Uuid};

use super::random::Random;

/// A value to bind to a marker of the type.
pub(crate) fn bind(random: &mut Random, cql_type: &CqlType) -> Bind {
    match random.below(100) {
        0 | 1 => Bind::Null,
        2 | 3 => Bind::NotSet,
        4 => Bind::Bytes(Bytes::from_static(&[1, 2, 3])),
        5 => Bind::Bytes(Bytes::new()),
        6 => Bind::Bytes(with_null(cql_type)),
        _ => Bind::value(&value(random, cql_type), cql_type).unwrap(),
    }
}

/// A row of some table as JSON.
pub(crate) fn json(random: &mut Random) -> Bind {
    let rows = [
        r#"{"id": 1}"#,
        r#"{"id": "2", "name": "it's"}"#,
        r#"{"id": 3, "title": null}"#,
        r#"{"k": 1}"#,
        r#"{"k": "a", "v": 1}"#,
        r#"{"k": [1, 2]}"#,
        r#"{"c3": 3, "a": 1, "b": 2, "c1": 1, "c2": "x"}"#,
        r#"{"a": 1, "b": "x", "c": "123e4567-e89b-12d3-a456-426614174000"}"#,
        r#"{"id": null}"#,
        "{}",
    ];
    Bind::Bytes(Bytes::from_static(random.pick(&rows).as_bytes()))
}

/// A tuple or list whose only component is null; of other types bytes that are too many for most.
fn with_null(cql_type: &CqlType) -> Bytes {
    let null = [0xFF; 4];
    match cql_type {
        CqlType::List(_) | CqlType::Set(_) => [[0, 0, 0, 1], null].concat().into(),
        CqlType::Tuple(components) => null.repeat(components.len()).into(),
        CqlType::Udt(udt) => null.repeat(udt.fields.len()).into(),
        _ => Bytes::from_static(&[0; 17]),
    }
}

fn value(random: &mut Random, cql_type: &CqlType) -> CqlValue {
    match cql_type {
        CqlType::List(element) => CqlValue::List(several(random, element)),
        CqlType::Set(element) => CqlValue::Set(several(random, element)),
        CqlType::Map(types) => {
            let keys = several(random, &types.0).into_iter();
            CqlValue::Map(keys.map(|key| (key, value(random, &types.1))).collect())
        }
        CqlType::Tuple(components) => {
            CqlValue::Tuple(components.iter().map(|part| value(random, part)).collect())
        }
        CqlType::Udt(udt) => {
            let fields = udt.fields.iter();
            CqlValue::Udt(
                fields
                    .map(|(name, field)| (name.clone(), value(random, field)))
                    .collect(),
            )
        }
        CqlType::Vector(element, dimension) => {
            CqlValue::Vector((0..*dimension).map(|_| value(random, element)).collect())
        }
        native => scalar(random, native),
    }
}

/// No element to three of them, duplicates among them.
fn several(random: &mut Random, element: &CqlType) -> Vec<CqlValue> {
    let mut elements: Vec<CqlValue> = (0..random.below(4)).map(|_| value(random, element)).collect();
    if random.chance(25) {
        elements.extend(elements.first().cloned());
    }
    elements
}

fn scalar(random: &mut Random, native: &CqlType) -> CqlValue {
    let small = i8::try_from(random.between(0, 6)).unwrap() - 1;
    match native {
        CqlType::Ascii => CqlValue::Ascii(random.pick(&["a", "b", "it's"]).to_owned()),
        CqlType::Text => CqlValue::Text(random.pick(&["a", "b", "c", "it's", "Ω", ""]).to_owned()),
        CqlType::BigInt => CqlValue::BigInt(small.into()),
        CqlType::Counter => CqlValue::Counter(small.into()),
        CqlType::Blob => CqlValue::Blob(random.element(&[vec![], vec![1], vec![0xCA, 0xFE]]).clone()),
        CqlType::Boolean => CqlValue::Boolean(random.chance(50)),
        CqlType::Decimal => {
            let (unscaled, scale) = *random.element(&[(1, 0), (10, 1), (100, 2), (-25, -2), (0, 0), (0, 3)]);
            CqlValue::Decimal(Decimal {
                unscaled: BigInt::from(unscaled),
                scale,
            })
        }
        CqlType::Double => CqlValue::Double(*random.element(&[1.0, 2.5, 0.0, -0.0, f64::NAN, f64::INFINITY])),
        CqlType::Float => CqlValue::Float(*random.element(&[1.0, 2.5, 0.0, -0.0, f32::NAN])),
        CqlType::Int => CqlValue::Int(small.into()),
        CqlType::SmallInt => CqlValue::SmallInt(small.into()),
        CqlType::TinyInt => CqlValue::TinyInt(small),
        CqlType::Varint => CqlValue::Varint(BigInt::from(small)),
        CqlType::Timestamp => CqlValue::Timestamp(Timestamp(*random.element(&[1_704_067_200_000, 0, -1]))),
        CqlType::Date => CqlValue::Date(Date(*random.element(&[2_147_503_371, 0, u32::MAX]))),
        CqlType::Time => CqlValue::Time(Time(*random.element(&[36_000_000_000_000, 0]))),
        CqlType::Duration => CqlValue::Duration(Duration {
            months: 0,
            days: 1,
            nanoseconds: 3_600_000_000_000,
        }),
        CqlType::Inet => CqlValue::Inet(*random.element(&[
            IpAddr::V4(Ipv4Addr::LOCALHOST),
            IpAddr::V6(Ipv6Addr::LOCALHOST),
            IpAddr::V4(Ipv4Addr::new(10, 0, 0, 7)),
        ])),
        CqlType::Uuid => CqlValue::Uuid(uuid(random.pick(&[
            "123e4567-e89b-12d3-a456-426614174000",
            "a3c0ffee-0000-4000-8000-000000000001",
        ]))),
        CqlType::TimeUuid => CqlValue::TimeUuid(uuid(random.pick(&[
            "123e4567-e89b-12d3-a456-426614174000",
            "5132b130-ae79-11e4-ab27-0800200c9a66",
        ]))),
        // A type that nobody can bind: no bytes are as good as any.
        CqlType::Custom(_) => CqlValue::Custom(Vec::new()),
        other => panic!("no values of type {other:?}"),
    }
}

fn uuid(text: &str) -> Uuid {
    Uuid::parse(text).unwrap()
}
