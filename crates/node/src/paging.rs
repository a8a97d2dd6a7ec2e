//! Where a page of a read ends and the next one starts.

use bytes::BytesMut;
use cqlens_proto::cursor::{Cursor, Writer};
use cqlens_proto::notation;

use super::failure::Failure;
use super::store::PartitionId;

/// The place behind the last row that was sent; clients carry it as an opaque paging state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mark {
    /// The partition of that row.
    pub(super) partition: PartitionId,
    /// Its position; `None` if it was the partition's static columns alone.
    pub(super) position: Option<Vec<u8>>,
    /// Rows that LIMIT still allows.
    pub(super) rows_left: u64,
    /// Rows of this partition that PER PARTITION LIMIT still allows.
    pub(super) rows_left_in_partition: u64,
}

impl Mark {
    /// The bytes for the client: routing key, position and what is left, each with its length.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = BytesMut::new();
        let mut writer = Writer::new(&mut out);
        writer.long(self.partition.token);
        writer.long(self.rows_left.cast_signed());
        writer.long(self.rows_left_in_partition.cast_signed());
        // Lengths are those of keys that were stored: they fit.
        let _ = writer.bytes("routing key", Some(&self.partition.routing_key));
        let _ = writer.bytes("position", self.position.as_deref());
        out.to_vec()
    }

    /// The mark that a client gives back.
    ///
    /// # Errors
    /// Bytes that this node did not make.
    pub(super) fn decode(state: &[u8]) -> Result<Mark, Failure> {
        let mut cursor = Cursor::new(state);
        let read = |cursor: &mut Cursor<'_>| {
            let token = cursor.read("token", notation::long)?;
            let rows_left = cursor.read("rows left", notation::long)?.cast_unsigned();
            let rows_left_in_partition = cursor.read("rows left", notation::long)?.cast_unsigned();
            let routing_key = cursor
                .read("routing key", notation::bytes)?
                .unwrap_or_default()
                .to_vec();
            let position = cursor.read("position", notation::bytes)?.map(<[u8]>::to_vec);
            let partition = PartitionId { token, routing_key };
            Ok::<_, cqlens_proto::error::DecodeError>(Mark {
                partition,
                position,
                rows_left,
                rows_left_in_partition,
            })
        };
        read(&mut cursor).map_err(|_| Failure::protocol("Invalid value for the paging state"))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_mark_comes_back_and_a_foreign_one_is_refused() {
        let mark = Mark {
            partition: PartitionId {
                token: -5,
                routing_key: b"k".to_vec(),
            },
            position: Some(vec![1, 2]),
            rows_left: u64::MAX,
            rows_left_in_partition: 3,
        };
        assert_eq!(Mark::decode(&mark.encode()).unwrap(), mark);
        assert!(Mark::decode(b"something else").is_err());
    }
}
