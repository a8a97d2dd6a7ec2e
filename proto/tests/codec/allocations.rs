//! The paths that every request takes do not allocate: cutting, and decoding an EXECUTE with its values.
use std::hint::black_box;
use std::sync::Arc;

use bytes::BytesMut;
use cqlens_proto::cutter::{Cutter, Negotiated};
use cqlens_proto::envelope::{Direction, Envelope, StreamId, Version};
use cqlens_proto::message::*;
use cqlens_proto::types::{CqlType, CqlValue, Elements};

fn allocations(run: impl FnOnce()) -> u64 {
    allocation_counter::measure(run).count_total
}

fn execute(version: Version) -> Envelope {
    let list = CqlValue::List(vec![CqlValue::Int(1), CqlValue::Int(2)]);
    let list = list.to_bytes(&CqlType::list(CqlType::Int)).unwrap().unwrap();
    let values = ValuesBuf::positional([Value::Bytes(&list), Value::Null, Value::NotSet]).unwrap();
    let parameters = QueryParameters {
        values: values.values(),
        page_size: Some(5000),
        timestamp: Some(1),
        ..QueryParameters::new(Consistency::LocalQuorum)
    };
    let execute = Execute {
        id: PreparedId(&[7; 16]),
        result_metadata_id: (version == Version::V5).then_some(ResultMetadataId(&[8; 16])),
        parameters,
    };
    Request::Execute(execute)
        .to_envelope(Dialect::new(version), StreamId(1), &Extras::default())
        .unwrap()
}

#[test]
fn an_execute_is_decoded_without_allocating() {
    for version in [Version::V4, Version::V5] {
        let envelope = execute(version);
        let count = allocations(|| {
            let decoded = Request::decode(black_box(&envelope), Extensions::NONE).unwrap();
            let Request::Execute(execute) = decoded.message else {
                unreachable!()
            };
            let list = execute.parameters.values.nth(0).and_then(Value::bytes).unwrap();
            assert_eq!(Elements::of_list(list).unwrap().count(), 2);
            assert_eq!(black_box(&execute).parameters.values.iter().count(), 3);
        });
        assert_eq!(count, 0, "{version}");
    }
}

#[test]
fn rows_are_decoded_and_a_column_is_read_without_allocating() {
    let mut content = RowsContent::new(2);
    (0..100).for_each(|_| content.push([Some(&b"key"[..]), None]).unwrap());
    let metadata = ResultMetadata {
        column_count: 2,
        ..ResultMetadata::none()
    };
    let response = Response::Result(QueryResult::Rows(Rows::new(metadata, &content).unwrap()));
    let envelope = response
        .to_envelope(Dialect::new(Version::V4), StreamId(1), &Extras::default())
        .unwrap();
    let count = allocations(|| {
        let decoded = Response::decode(black_box(&envelope), Extensions::NONE).unwrap();
        let Response::Result(QueryResult::Rows(rows)) = decoded.message else {
            unreachable!()
        };
        assert_eq!(
            rows.column(0).filter(|cell| *cell == Ok(Some(b"key"))).count(),
            100
        );
    });
    assert_eq!(count, 0);
}

#[test]
fn cutting_does_not_allocate() {
    let mut bytes = BytesMut::new();
    (0..50).for_each(|_| execute(Version::V4).encode(&mut bytes).unwrap());
    let mut cutter = Cutter::new(Direction::Request, Arc::new(Negotiated::new()));
    let count = allocations(|| {
        let found: u32 = bytes
            .chunks(100)
            .map(|chunk| cutter.cut(chunk).envelopes.total())
            .sum();
        assert_eq!(found, 50);
    });
    assert_eq!(count, 0);
}
