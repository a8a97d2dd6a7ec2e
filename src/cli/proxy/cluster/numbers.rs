//! The number of each node, by which it keeps its listen address.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
};

use cqlens_proto::types::Uuid;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// All numbers that were ever given, in no order. A number is not given to another node while this remembers,
/// unless there is no other number left; then that of the node goes that has been gone for the longest time.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Numbers {
    #[serde(default, rename = "node")]
    nodes: Vec<NumberedNode>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct NumberedNode {
    /// From 1 on.
    number: u32,
    host_id: String,
    /// Where it was last seen, for a reader of the file.
    address: SocketAddr,
    /// Since when it is no longer in the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    gone_since: Option<Timestamp>,
}

impl Numbers {
    /// Whether each node and each number stands there once.
    pub(super) fn is_consistent(&self) -> bool {
        let numbers: BTreeSet<_> = self.nodes.iter().map(|node| node.number).collect();
        let hosts: BTreeSet<_> = self.nodes.iter().map(|node| &node.host_id).collect();
        numbers.len() == self.nodes.len() && hosts.len() == self.nodes.len() && !numbers.contains(&0)
    }

    /// Gives each of `present` a number up to `highest`, new nodes in the order of their ids. Nodes that
    /// have gone are remembered.
    pub(super) fn assign(&mut self, present: &[(Uuid, SocketAddr)], highest: u32, now: Timestamp) {
        // As texts, ids have the order that they have as bytes.
        let present: BTreeMap<String, SocketAddr> = present
            .iter()
            .map(|(host_id, address)| (host_id.to_string(), *address))
            .collect();
        for node in &mut self.nodes {
            match present.get(&node.host_id) {
                Some(address) => (node.address, node.gone_since) = (*address, None),
                None => node.gone_since = node.gone_since.or(Some(now)),
            }
        }
        for (host_id, address) in present {
            if self.number_of(&host_id).is_some_and(|number| number <= highest) {
                continue;
            }
            // What it had under another rule may be too high for this one.
            self.nodes.retain(|node| node.host_id != host_id);
            if let Some(number) = self.free(highest) {
                self.nodes.retain(|node| node.number != number);
                self.nodes.push(NumberedNode {
                    number,
                    host_id,
                    address,
                    gone_since: None,
                });
            }
        }
    }

    /// The number of a node; none where there was none left.
    pub(super) fn number(&self, host_id: Uuid) -> Option<u32> {
        self.number_of(&host_id.to_string())
    }

    fn number_of(&self, host_id: &str) -> Option<u32> {
        let found = self.nodes.iter().find(|node| node.host_id == host_id);
        found.map(|node| node.number)
    }

    /// The lowest number that no node has had, else the number of the node that left first.
    fn free(&self, highest: u32) -> Option<u32> {
        let taken: BTreeSet<_> = self.nodes.iter().map(|node| node.number).collect();
        let never_had = (1..=highest).find(|number| !taken.contains(number));
        never_had.or_else(|| {
            let gone = self
                .nodes
                .iter()
                .filter(|node| node.gone_since.is_some() && node.number <= highest);
            gone.max_by_key(|node| Reverse((node.gone_since, node.number)))
                .map(|node| node.number)
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn node(number: u8) -> (Uuid, SocketAddr) {
        (Uuid([number; 16]), SocketAddr::from(([10, 0, 0, number], 9042)))
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn numbers_of(numbers: &Numbers, nodes: &[u8]) -> Vec<Option<u32>> {
        nodes.iter().map(|id| numbers.number(node(*id).0)).collect()
    }

    #[test]
    fn without_memory_the_order_of_ids_decides() {
        let mut one = Numbers::default();
        one.assign(&[node(7), node(3), node(5)], 9, at(0));
        assert_eq!(numbers_of(&one, &[3, 5, 7]), [Some(1), Some(2), Some(3)]);
        let mut other = Numbers::default();
        other.assign(&[node(5), node(7), node(3)], 9, at(99));
        assert_eq!(one, other);
    }

    #[test]
    fn who_stays_keeps_the_number_and_who_comes_gets_a_new_one() {
        let mut numbers = Numbers::default();
        numbers.assign(&[node(3), node(5)], 9, at(0));
        numbers.assign(&[node(1), node(5)], 9, at(1));
        assert_eq!(numbers_of(&numbers, &[1, 3, 5]), [Some(3), Some(1), Some(2)]);
        // Back again.
        numbers.assign(&[node(1), node(3), node(5)], 9, at(2));
        assert_eq!(numbers_of(&numbers, &[1, 3, 5]), [Some(3), Some(1), Some(2)]);
    }

    #[test]
    fn only_where_none_is_left_a_node_gets_the_number_of_the_one_that_left_first() {
        let mut numbers = Numbers::default();
        numbers.assign(&[node(1), node(2), node(3)], 3, at(0));
        numbers.assign(&[node(1), node(3)], 3, at(1));
        numbers.assign(&[node(3)], 3, at(2));
        numbers.assign(&[node(3), node(4)], 3, at(3));
        assert_eq!(
            numbers_of(&numbers, &[1, 2, 3, 4]),
            [Some(1), None, Some(3), Some(2)]
        );
        numbers.assign(&[node(3), node(4), node(5), node(6)], 3, at(4));
        assert_eq!(numbers_of(&numbers, &[5, 6]), [Some(1), None], "three for four");
        assert!(numbers.is_consistent());
    }
}
