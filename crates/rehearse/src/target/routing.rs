//! To which nodes a request goes best: those that hold its partition.

use std::{collections::HashMap, sync::Arc};

use cqlens_audit::catalog::Placement;
use cqlens_cql::murmur3;
use cqlens_proto::message::Prepared;

use super::{Core, job::Job, prepared::PreparedKey};
use crate::{
    budget::Share,
    exchange::{RecordedStatement, ValueContent},
};

/// Which nodes hold which partitions.
#[derive(Debug, Default)]
pub(super) struct Routing {
    pub(super) by_keyspace: HashMap<Box<str>, Arc<Placement>>,
    /// Where the nodes of a placement are connected to, by their places; none for those that are not.
    pub(super) addresses: Vec<Option<Arc<str>>>,
    /// What is counted for it, given back with it.
    pub(super) _share: Option<Share>,
}

/// What makes the routing key of a prepared statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RoutingKey {
    /// The keyspace of its table.
    pub(super) keyspace: Box<str>,
    /// For each column of the partition key in order, the marker that binds it.
    pub(super) markers: Vec<u16>,
}

impl RoutingKey {
    /// What it takes up, about.
    pub(super) fn weight(&self) -> usize {
        self.keyspace.len() + size_of_val(&*self.markers)
    }

    /// As PREPARED says it: version 4 and later, where every column of the key has a marker.
    pub(super) fn of(prepared: &Prepared<'_>) -> Option<Self> {
        let markers = &prepared.bind.partition_key_indices;
        let first = usize::from(*markers.first()?);
        let bound = prepared.bind.markers.iter().nth(first)?;
        Some(Self {
            keyspace: bound.keyspace.into(),
            markers: markers.clone(),
        })
    }

    /// The token of an execution; none where a part of the key is null or not bound by its place.
    fn token(&self, statement: &RecordedStatement) -> Option<i64> {
        let value = |marker: &u16| {
            let value = statement.values.get(usize::from(*marker))?;
            match &value.content {
                ValueContent::Bytes(bytes) if value.name.is_none() => Some(bytes),
                _ => None,
            }
        };
        if let [marker] = &*self.markers {
            return value(marker).map(|bytes| murmur3::token(bytes));
        }
        let mut key = Vec::new();
        for marker in &self.markers {
            if !murmur3::push_component(&mut key, value(marker)?) {
                return None;
            }
        }
        Some(murmur3::token(&key))
    }
}

impl Routing {
    fn replicas(&self, keyspace: &str, token: i64) -> Vec<Arc<str>> {
        let Some(placement) = self.by_keyspace.get(keyspace) else {
            return Vec::new();
        };
        let places = placement.replicas(token).iter();
        let addresses = places.filter_map(|place| self.addresses.get(usize::from(*place)));
        addresses.filter_map(Clone::clone).collect()
    }
}

impl Core {
    /// The addresses of the nodes that hold the partition of a request, or of the first statement of a batch that
    /// has one; empty where it is not known.
    pub(super) fn replicas(&self, job: &Job) -> Vec<Arc<str>> {
        let routing = self.routing();
        if routing.by_keyspace.is_empty() || routing.addresses.len() < 2 {
            return Vec::new();
        }
        let request = &job.request.exchange.request;
        let token = |statement: &RecordedStatement| {
            let key = PreparedKey {
                keyspace: request.keyspace.clone(),
                cql: Arc::clone(&statement.cql),
            };
            let prepared = self.prepared().find(&key)?;
            let routing_key = prepared.routing_key.as_ref()?;
            let replicas = routing.replicas(&routing_key.keyspace, routing_key.token(statement)?);
            (!replicas.is_empty()).then_some(replicas)
        };
        let prepared = request
            .statements
            .iter()
            .filter(|statement| statement.is_prepared);
        prepared.take(MOST_LOOKED_AT).find_map(token).unwrap_or_default()
    }
}

/// Statements of a batch that are looked at.
const MOST_LOOKED_AT: usize = 4;
