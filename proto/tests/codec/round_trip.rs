//! What is encoded is decoded to the same, for every message, version, type and value.
use crate::support::messages::{dialect, request, request_extras, response, response_extras};
use crate::support::values::{cql_type, value_of};
use bytes::BytesMut;
use cqlens_proto::cursor::{Cursor, Writer};
use cqlens_proto::envelope::{Envelope, StreamId};
use cqlens_proto::message::{Request, Response};
use cqlens_proto::types::{CqlType, CqlValue};
use proptest::prelude::*;

/// The same envelope with bytes behind its message, which every reader has to ignore. Not for bodies of which
/// the message is "the rest".
fn with_trailing_bytes(envelope: &Envelope) -> Envelope {
    let body = [&envelope.body[..], &[1, 2, 3]].concat().into();
    Envelope {
        header: envelope.header,
        body,
    }
}

proptest! {
    #![proptest_config(crate::support::cases(1000))]

    #[test]
    fn requests_come_back(
        (dialect, request) in dialect().prop_flat_map(|dialect| (Just(dialect), request(dialect))),
        extras in request_extras(),
        stream: i16,
    ) {
        let envelope = request.to_envelope(dialect, StreamId(stream), &extras).unwrap();
        prop_assert_eq!(envelope.header.opcode, request.opcode());
        prop_assert_eq!(envelope.header.body_len as usize, envelope.body.len());
        let decoded = Request::decode(&envelope, dialect.extensions).unwrap();
        prop_assert_eq!(&decoded.message, &request);
        prop_assert_eq!(&decoded.extras, &extras);
        if !matches!(request, Request::Unknown { .. }) {
            let envelope = with_trailing_bytes(&envelope);
            prop_assert_eq!(&Request::decode(&envelope, dialect.extensions).unwrap().message, &request);
        }
    }

    #[test]
    fn responses_come_back(
        (dialect, response) in dialect().prop_flat_map(|dialect| (Just(dialect), response(dialect))),
        extras in response_extras(),
        stream: i16,
    ) {
        let envelope = response.to_envelope(dialect, StreamId(stream), &extras).unwrap();
        prop_assert_eq!(envelope.header.opcode, response.opcode());
        let decoded = Response::decode(&envelope, dialect.extensions).unwrap();
        prop_assert_eq!(&decoded.message, &response);
        prop_assert_eq!(&decoded.extras, &extras);
    }

    #[test]
    fn types_come_back(cql_type in cql_type()) {
        let mut out = BytesMut::new();
        cql_type.encode(&mut Writer::new(&mut out)).unwrap();
        let mut cursor = Cursor::new(&out);
        prop_assert_eq!(CqlType::decode(&mut cursor).unwrap(), cql_type);
        prop_assert!(cursor.rest().is_empty());
    }

    #[test]
    fn values_come_back(
        (cql_type, value) in cql_type().prop_flat_map(|cql_type| {
            let value = value_of(&cql_type);
            (Just(cql_type), value)
        }),
    ) {
        let bytes = value.to_bytes(&cql_type).unwrap().unwrap();
        prop_assert_eq!(CqlValue::decode(&cql_type, &bytes).unwrap(), value);
    }
}
