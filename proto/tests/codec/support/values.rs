//! Every type, and values of a type.

use std::net::IpAddr;

use cqlens_proto::types::{
    BigInt, CqlType, CqlValue, Date, Decimal, Duration, Time, Timestamp, UdtType, Uuid,
};
use proptest::collection::vec;
use proptest::prelude::*;

const NATIVE: [CqlType; 20] = [
    CqlType::Ascii,
    CqlType::BigInt,
    CqlType::Blob,
    CqlType::Boolean,
    CqlType::Counter,
    CqlType::Decimal,
    CqlType::Double,
    CqlType::Float,
    CqlType::Int,
    CqlType::Timestamp,
    CqlType::Uuid,
    CqlType::Text,
    CqlType::Varint,
    CqlType::TimeUuid,
    CqlType::Inet,
    CqlType::Date,
    CqlType::Time,
    CqlType::SmallInt,
    CqlType::TinyInt,
    CqlType::Duration,
];

pub(crate) fn cql_type() -> impl Strategy<Value = CqlType> {
    let leaf = prop_oneof![
        20 => proptest::sample::select(&NATIVE[..]),
        1 => Just(CqlType::Custom("com.example.Type".into())),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        let udt = vec(("[a-z]{1,4}", inner.clone()), 1..4).prop_map(unique_fields);
        prop_oneof![
            inner.clone().prop_map(CqlType::list),
            inner.clone().prop_map(CqlType::set),
            (inner.clone(), inner.clone()).prop_map(|(key, value)| CqlType::map(key, value)),
            vec(inner.clone(), 1..4).prop_map(CqlType::Tuple),
            udt.prop_map(|fields| CqlType::Udt(Box::new(UdtType {
                keyspace: "k".into(),
                name: "type".into(),
                fields
            }))),
            (inner, 1_u32..4).prop_map(|(inner, dimensions)| CqlType::Vector(Box::new(inner), dimensions)),
        ]
    })
}

fn unique_fields(fields: Vec<(String, CqlType)>) -> Vec<(String, CqlType)> {
    fields
        .into_iter()
        .enumerate()
        .map(|(index, (name, field))| (format!("{name}{index}"), field))
        .collect()
}

fn big_int() -> impl Strategy<Value = BigInt> {
    vec(any::<u8>(), 1..20).prop_map(|bytes| BigInt::from_signed_bytes_be(&bytes))
}

/// A value of a type that is not null.
pub(crate) fn value_of(cql_type: &CqlType) -> BoxedStrategy<CqlValue> {
    match cql_type {
        CqlType::Ascii => "[ -~]{0,9}".prop_map(CqlValue::Ascii).boxed(),
        CqlType::BigInt => any::<i64>().prop_map(CqlValue::BigInt).boxed(),
        CqlType::Blob => vec(any::<u8>(), 0..9).prop_map(CqlValue::Blob).boxed(),
        CqlType::Boolean => any::<bool>().prop_map(CqlValue::Boolean).boxed(),
        CqlType::Counter => any::<i64>().prop_map(CqlValue::Counter).boxed(),
        CqlType::Decimal => (big_int(), any::<i32>())
            .prop_map(|(unscaled, scale)| CqlValue::Decimal(Decimal { unscaled, scale }))
            .boxed(),
        CqlType::Double => proptest::num::f64::NORMAL.prop_map(CqlValue::Double).boxed(),
        CqlType::Float => proptest::num::f32::NORMAL.prop_map(CqlValue::Float).boxed(),
        CqlType::Int => any::<i32>().prop_map(CqlValue::Int).boxed(),
        CqlType::Timestamp => any::<i64>()
            .prop_map(|millis| CqlValue::Timestamp(Timestamp(millis)))
            .boxed(),
        CqlType::Uuid => any::<[u8; 16]>()
            .prop_map(|uuid| CqlValue::Uuid(Uuid(uuid)))
            .boxed(),
        CqlType::Text => "\\PC{0,9}".prop_map(CqlValue::Text).boxed(),
        CqlType::Varint => big_int().prop_map(CqlValue::Varint).boxed(),
        CqlType::TimeUuid => any::<[u8; 16]>()
            .prop_map(|uuid| CqlValue::TimeUuid(Uuid(uuid)))
            .boxed(),
        CqlType::Inet => any::<IpAddr>().prop_map(CqlValue::Inet).boxed(),
        CqlType::Date => any::<u32>().prop_map(|day| CqlValue::Date(Date(day))).boxed(),
        CqlType::Time => (0..Time::END)
            .prop_map(|nanos| CqlValue::Time(Time(nanos)))
            .boxed(),
        CqlType::SmallInt => any::<i16>().prop_map(CqlValue::SmallInt).boxed(),
        CqlType::TinyInt => any::<i8>().prop_map(CqlValue::TinyInt).boxed(),
        CqlType::Duration => any::<(i32, i32, i64)>()
            .prop_map(|(months, days, nanoseconds)| {
                CqlValue::Duration(Duration {
                    months,
                    days,
                    nanoseconds,
                })
            })
            .boxed(),
        CqlType::List(element) => vec(nullable(element), 0..3).prop_map(CqlValue::List).boxed(),
        CqlType::Set(element) => vec(value_of(element), 0..3).prop_map(CqlValue::Set).boxed(),
        CqlType::Map(entry) => vec((value_of(&entry.0), value_of(&entry.1)), 0..3)
            .prop_map(CqlValue::Map)
            .boxed(),
        CqlType::Tuple(types) => types
            .iter()
            .map(nullable)
            .collect::<Vec<_>>()
            .prop_map(CqlValue::Tuple)
            .boxed(),
        CqlType::Udt(udt) => {
            let names: Vec<String> = udt.fields.iter().map(|(name, _)| name.clone()).collect();
            let values: Vec<_> = udt.fields.iter().map(|(_, field)| nullable(field)).collect();
            values
                .prop_map(move |values| CqlValue::Udt(names.iter().cloned().zip(values).collect()))
                .boxed()
        }
        CqlType::Vector(element, dimensions) => vec(value_of(element), *dimensions as usize)
            .prop_map(CqlValue::Vector)
            .boxed(),
        _ => vec(any::<u8>(), 0..9).prop_map(CqlValue::Custom).boxed(),
    }
}

fn nullable(cql_type: &CqlType) -> BoxedStrategy<CqlValue> {
    prop_oneof![4 => value_of(cql_type), 1 => Just(CqlValue::Null)].boxed()
}
