//! Whether a body is laid out as [`Extensions`] say, for connections whose handshake was not captured.
//!
//! An EXECUTE of version 4 with a result metadata id (ScyllaDB's `SCYLLA_USE_METADATA_ID`) can be read as one
//! without, and the other way round: most fields take any bytes. What does not fit is a number of consistency
//! that there is none of, an unknown flag, or an end elsewhere than at the end of the body.

use super::{Dialect, Execute, Extensions, Extras, QueryParameters, QueryResult, RequestHead, Response};
use crate::cursor::Cursor;
use crate::envelope::{Envelope, Opcode};
use crate::message::{Consistency, Request, SerialConsistency};

/// Bytes behind an EXECUTE that ScyllaDB specifies: one, for the version of a tablet (`TABLETS_ROUTING_V2`).
const MAX_TRAILING: usize = 1;

/// The lengths of result metadata ids: digests, or none where a driver has none.
const METADATA_ID_LENGTHS: [usize; 3] = [0, 16, 32];

/// The flag of a statement's markers by which ScyllaDB marks lightweight transactions.
const LIGHTWEIGHT_TRANSACTION: u32 = 0x8000_0000;

/// What a PREPARED result begins with.
const PREPARED: [u8; 4] = [0, 0, 0, 4];

/// Whether an EXECUTE, or a PREPARED result, of whose body of `body_len` bytes `envelope` may have the beginning
/// only, is laid out as `extensions` say. False for other messages.
pub fn fits(envelope: &Envelope, body_len: usize, extensions: Extensions) -> bool {
    let header = &envelope.header;
    let mut cursor = Cursor::new(&envelope.body);
    if Extras::decode(&mut cursor, header).is_err() {
        return false;
    }
    let dialect = Dialect::with(header.version, extensions);
    let is_whole = envelope.body.len() == body_len;
    match header.opcode {
        Opcode::EXECUTE if is_whole => Execute::decode(&mut cursor, dialect)
            .is_ok_and(|execute| is_specified(&execute) && cursor.rest().len() <= MAX_TRAILING),
        Opcode::EXECUTE => RequestHead::execute(&mut cursor, dialect)
            .is_ok_and(|head| matches!(&head.message, Request::Execute(execute) if is_specified(execute))),
        Opcode::RESULT if is_whole && cursor.rest().starts_with(&PREPARED) => {
            let decoded = Response::decode_body(&mut cursor, header.opcode, dialect);
            let Ok(Response::Result(QueryResult::Prepared(prepared))) = decoded else {
                return false;
            };
            let id = prepared.result_metadata_id.map_or(0, |id| id.0.len());
            METADATA_ID_LENGTHS.contains(&id)
                && prepared.bind.other_flags & !LIGHTWEIGHT_TRANSACTION == 0
                && prepared.result.other_flags == 0
                && cursor.rest().is_empty()
        }
        _ => false,
    }
}

/// Whether all numbers and flags have a meaning.
fn is_specified(execute: &Execute<'_>) -> bool {
    let QueryParameters {
        consistency,
        serial_consistency,
        other_flags,
        ..
    } = &execute.parameters;
    let id = execute.result_metadata_id.map_or(0, |id| id.0.len());
    METADATA_ID_LENGTHS.contains(&id)
        && !matches!(consistency, Consistency::Unknown(_))
        && !matches!(
            serial_consistency,
            Some(SerialConsistency(Consistency::Unknown(_)))
        )
        && *other_flags == 0
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use bytes::{BufMut, Bytes, BytesMut};
    use proptest::{collection::vec, prelude::*};

    use super::*;
    use crate::envelope::{StreamId, Version};
    use crate::message::{PagingState, PreparedId, ResultMetadataId, Value, ValuesBuf};

    const WITH_ID: Extensions = Extensions::RESULT_METADATA_ID;

    fn execute(
        extensions: Extensions,
        values: &[Vec<u8>],
        page: Option<i32>,
        state: Option<&[u8]>,
    ) -> Envelope {
        let bound = ValuesBuf::positional(values.iter().map(|value| Value::Bytes(value))).unwrap();
        let request = Request::Execute(Execute {
            id: PreparedId(&[7; 16]),
            result_metadata_id: extensions
                .result_metadata_id
                .then_some(ResultMetadataId(&[9; 16])),
            parameters: QueryParameters {
                values: bound.values(),
                page_size: page,
                paging_state: state.map(PagingState),
                timestamp: Some(1_790_000_000_000_000),
                ..QueryParameters::new(Consistency::LocalQuorum)
            },
        });
        let dialect = Dialect::with(Version::V4, extensions);
        request
            .to_envelope(dialect, StreamId(1), &Extras::default())
            .unwrap()
    }

    fn with_tablet_version(envelope: &Envelope) -> Envelope {
        let mut body = BytesMut::from(&envelope.body[..]);
        body.put_u8(0x2a);
        let mut header = envelope.header;
        header.body_len += 1;
        Envelope {
            header,
            body: body.freeze(),
        }
    }

    proptest! {
        #[test]
        fn what_is_sent_fits_its_own_layout_and_no_other(
            has_id in any::<bool>(),
            has_tablet_version in any::<bool>(),
            values in vec(vec(any::<u8>(), 0..40), 0..6),
            page in proptest::option::of(1..10_000),
            state in proptest::option::of(vec(any::<u8>(), 1..40)),
            kept in 60_usize..200,
        ) {
            let (own, other) = if has_id { (WITH_ID, Extensions::NONE) } else { (Extensions::NONE, WITH_ID) };
            let mut whole = execute(own, &values, page, state.as_deref());
            if has_tablet_version {
                whole = with_tablet_version(&whole);
            }
            let body_len = whole.body.len();
            prop_assert!(fits(&whole, body_len, own));
            prop_assert!(!fits(&whole, body_len, other));
            if kept < body_len {
                whole.body = whole.body.slice(..kept);
                prop_assert!(fits(&whole, body_len, own));
                prop_assert!(!fits(&whole, body_len, other));
            }
        }

        #[test]
        fn no_bytes_make_it_panic(
            opcode in any::<u8>(),
            flags in any::<u8>(),
            body in vec(any::<u8>(), 0..200),
            more in 0_usize..20,
        ) {
            let mut envelope = execute(Extensions::NONE, &[], None, None);
            (envelope.header.opcode, envelope.header.flags.0) = (Opcode(opcode), flags);
            envelope.body = Bytes::from(body);
            for extensions in [Extensions::NONE, WITH_ID] {
                fits(&envelope, envelope.body.len() + more, extensions);
            }
        }
    }

    /// A marked statement, as ScyllaDB answers a PREPARE of one.
    #[test]
    fn a_prepared_result_fits_one_layout() {
        for (has_id, flags) in [(false, 0_u32), (true, 0), (true, LIGHTWEIGHT_TRANSACTION)] {
            let mut body = BytesMut::new();
            body.put_i32(4);
            body.put_u16(16);
            body.put_slice(&[7; 16]);
            if has_id {
                body.put_u16(16);
                body.put_slice(&[9; 16]);
            }
            body.put_u32(flags);
            body.put_slice(&[0, 0, 0, 0, 0, 0, 0, 0]);
            body.put_slice(&[0, 0, 0, 4, 0, 0, 0, 0]);
            let mut envelope = execute(Extensions::NONE, &[], None, None);
            envelope.header = crate::envelope::Header::response(Version::V4, StreamId(1), Opcode::RESULT);
            envelope.body = body.freeze();
            let of = |extensions| fits(&envelope, envelope.body.len(), extensions);
            assert_eq!(
                (of(Extensions::NONE), of(WITH_ID)),
                (!has_id, has_id),
                "{flags:x}"
            );
        }
    }
}
