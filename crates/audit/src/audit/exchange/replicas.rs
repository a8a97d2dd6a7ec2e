//! Which nodes hold a partition, and which node a connection reaches.
//!
//! Nodes are small numbers here, their places in the cluster that the auditor last saw. So looking them up
//! allocates nothing and compares no names but those of keyspaces.

use std::{collections::HashMap, net::SocketAddr, sync::Arc};

use foldhash::fast::RandomState;

use crate::audit::statement::ids::{ByTable, TableId};
use crate::catalog::{ClusterState, Live, Placement};
use cqlens_cql::footprint::Key;
use cqlens_cql::schema::Keyspace;
use cqlens_window::Unplaced;

/// Which nodes hold partitions, as the auditor last saw it.
#[derive(Debug)]
pub(crate) struct ReplicaLookup {
    ring: CurrentRing,
    by_table: ByTable<Placed>,
    /// By name. Bounded by [`MAX_KEYSPACES`]: all are dropped when there are more.
    keyspaces: HashMap<Box<str>, Placed, RandomState>,
}

/// The ring under which everything here was looked up.
#[derive(Debug)]
struct CurrentRing {
    live: Arc<Live>,
    /// Of the schema and the ring.
    version: u64,
    cluster: Arc<ClusterState>,
    has_tokens: bool,
}

type Placed = Result<Arc<Placement>, Unplaced>;

/// More than a cluster has; names in PREPARED results are the server's word.
const MAX_KEYSPACES: usize = 4_096;

impl ReplicaLookup {
    /// The ring as it is now.
    pub(crate) fn new(live: Arc<Live>) -> Self {
        let (version, cluster) = (live.version(), live.cluster());
        Self {
            ring: CurrentRing {
                version,
                has_tokens: cluster.has_murmur3_tokens(),
                cluster,
                live,
            },
            by_table: ByTable::default(),
            keyspaces: HashMap::default(),
        }
    }

    /// The ring as it is now, whatever changed: the schema, the ring, or the ids of tables.
    pub(crate) fn begin_anew(&mut self) {
        *self = Self::new(Arc::clone(&self.ring.live));
    }

    /// The cluster whose places the nodes here are.
    pub(crate) fn cluster(&self) -> &Arc<ClusterState> {
        &self.ring.cluster
    }

    /// Whether tokens are those of the ring.
    pub(crate) fn has_tokens(&self) -> bool {
        self.ring.has_tokens
    }

    /// The nodes that hold a partition of `table`.
    ///
    /// # Errors
    /// Why they are not known.
    #[inline]
    pub(crate) fn replicas(&mut self, table: TableId, key: &Key<'_>) -> Result<&[u16], Unplaced> {
        let Self {
            ring,
            by_table,
            keyspaces,
        } = self;
        let placed = by_table.of(table, || ring.of_keyspace(&key.table.keyspace, keyspaces));
        match placed {
            Ok(placement) => Ok(placement.replicas(key.token)),
            Err(why) => Err(*why),
        }
    }
}

impl CurrentRing {
    /// As `known`, or found and known from now on.
    #[cold]
    fn of_keyspace(&self, keyspace: &str, known: &mut HashMap<Box<str>, Placed, RandomState>) -> Placed {
        if let Some(placed) = known.get(keyspace) {
            return placed.clone();
        }
        if known.len() >= MAX_KEYSPACES {
            known.clear();
        }
        let placed = self.place(keyspace);
        known.insert(keyspace.into(), placed.clone());
        placed
    }

    fn place(&self, keyspace: &str) -> Placed {
        let placement = self.live.placement(keyspace);
        // The ring may have been replaced meanwhile by one whose nodes have other numbers: the next exchange
        // finds a new version.
        if !Arc::ptr_eq(&self.live.cluster(), &self.cluster) {
            return Err(Unplaced::RingUnknown);
        }
        placement.ok_or_else(|| self.why_not(keyspace))
    }

    fn why_not(&self, keyspace: &str) -> Unplaced {
        let tablets = |keyspace: &Keyspace| keyspace.tablets;
        if self.cluster.partitioner.is_none() {
            Unplaced::RingUnknown
        } else if !self.has_tokens {
            Unplaced::OtherPartitioner
        } else if self.live.schema().keyspaces.get(keyspace).is_some_and(tablets) {
            Unplaced::Tablets
        } else if self.cluster.nodes.iter().all(|node| node.tokens.is_empty()) {
            Unplaced::RingUnknown
        } else {
            Unplaced::ReplicationUnknown
        }
    }
}

/// The node at the other end of a connection.
#[derive(Debug, Clone, Default)]
pub(crate) struct Coordinator {
    address: Option<SocketAddr>,
    /// What was found, under which version of the ring.
    found: Option<(u64, Option<u16>)>,
}

impl Coordinator {
    /// The node that listens at `address`.
    pub(crate) fn at(address: Option<SocketAddr>) -> Self {
        Self { address, found: None }
    }

    /// Its place in the cluster; none where the address is no node's.
    pub(crate) fn node(&mut self, ReplicaLookup { ring, .. }: &ReplicaLookup) -> Option<u16> {
        match self.found {
            Some((version, node)) if version == ring.version => node,
            _ => self.find(ring),
        }
    }

    #[cold]
    fn find(&mut self, ring: &CurrentRing) -> Option<u16> {
        let node = self.address.and_then(|address| ring.cluster.node_at(address));
        self.found = Some((ring.version, node));
        node
    }
}
