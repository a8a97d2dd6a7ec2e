//! A table's partitions, in the order of the ring.

use std::collections::BTreeMap;
use std::ops::RangeBounds;

use bytes::Bytes;

use super::partition::Partition;
use cqlens_cql::murmur3;

/// What a partition is found by, ordered as a scan of the ring meets it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PartitionId {
    /// The Murmur3 token of the routing key.
    pub(crate) token: i64,
    /// The partition key as it is routed: the value of its one column, or the composite of several.
    pub(crate) routing_key: Vec<u8>,
}

impl PartitionId {
    /// The id of a partition key; `None` where a component of a composite key is too long to be one.
    pub(crate) fn of(key: &[Bytes]) -> Option<PartitionId> {
        let mut routing_key = Vec::new();
        match key {
            [only] => routing_key.extend_from_slice(only),
            components => {
                for component in components {
                    if !murmur3::push_component(&mut routing_key, component) {
                        return None;
                    }
                }
            }
        }
        Some(PartitionId {
            token: murmur3::token(&routing_key),
            routing_key,
        })
    }

    /// Before every partition with that token.
    pub(crate) fn first_of(token: i64) -> PartitionId {
        PartitionId {
            token,
            routing_key: Vec::new(),
        }
    }
}

/// The rows of one table.
#[derive(Debug, Clone, Default)]
pub(crate) struct StoredTable {
    partitions: BTreeMap<PartitionId, Partition>,
    changes: u64,
}

impl StoredTable {
    /// The partition of a key.
    pub(crate) fn partition(&self, id: &PartitionId) -> Option<&Partition> {
        self.partitions.get(id)
    }

    /// The partition of a key, made if it is not there.
    pub(crate) fn partition_mut(&mut self, id: PartitionId, key: &[Bytes]) -> &mut Partition {
        self.changes += 1;
        self.partitions
            .entry(id)
            .or_insert_with(|| Partition::new(key.to_vec()))
    }

    /// The partitions of a part of the ring, in its order.
    pub(crate) fn range(
        &self,
        range: impl RangeBounds<PartitionId>,
    ) -> impl Iterator<Item = (&PartitionId, &Partition)> {
        self.partitions.range(range)
    }

    /// How often the table was written: what was derived from it at the same count is still right.
    pub(crate) fn changes(&self) -> u64 {
        self.changes
    }

    /// Drops all rows and tombstones.
    pub(crate) fn truncate(&mut self) {
        self.changes += 1;
        self.partitions.clear();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_composite_key_is_routed_as_cassandra_does() {
        let id = PartitionId::of(&[Bytes::from("a"), Bytes::from("bc")]).unwrap();
        assert_eq!(id.routing_key, b"\0\x01a\0\0\x02bc\0");
        assert_eq!(PartitionId::of(&[Bytes::from("a")]).unwrap().routing_key, b"a");
    }

    #[test]
    fn partitions_come_in_token_order() {
        let mut table = StoredTable::default();
        for key in ["a", "b", "c", "d", "e"] {
            let key = [Bytes::from(key)];
            table.partition_mut(PartitionId::of(&key).unwrap(), &key);
        }
        let tokens: Vec<_> = table.range(..).map(|(id, _)| id.token).collect();
        assert!(tokens.is_sorted());
        assert_eq!(tokens.len(), 5);
    }
}
