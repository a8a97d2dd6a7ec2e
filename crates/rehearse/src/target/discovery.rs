//! Which nodes the cluster has, and which of them hold a partition: read from a node, and again every now and then.

use std::{
    collections::HashMap,
    fmt,
    net::SocketAddr,
    sync::{Arc, Weak},
};

use cqlens_audit::catalog::{ClusterState, Node, Placement, Record, Replication, Ring, system_schema};
use cqlens_client::{Client, ClientError, ClientOptions};
use cqlens_cql::schema::Keyspace;
use tokio::{net::lookup_host, time::sleep};

use super::{
    Core,
    routing::Routing,
    sets::{Sets, TargetNode},
};
use crate::budget::Share;

/// How to connect to a node that the cluster names; none for one that is not to be connected to.
#[derive(Clone)]
pub struct ConnectTo(Arc<dyn Fn(SocketAddr) -> Option<ClientOptions> + Send + Sync>);

impl ConnectTo {
    /// As a function has it.
    pub fn new(options: impl Fn(SocketAddr) -> Option<ClientOptions> + Send + Sync + 'static) -> Self {
        Self(Arc::new(options))
    }
}

impl fmt::Debug for ConnectTo {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("ConnectTo(…)")
    }
}

/// Nodes that have connections beside those that were named.
const MOST_NODES: usize = 100;
/// Bytes of one placement: a hundred nodes with 256 tokens each take a tenth of it.
const MOST_PLACEMENT: usize = 8 << 20;
/// Of a keyspace beside its name.
const EACH: usize = 64;
/// Ways of replication; keyspaces with the same one share a placement.
const MOST_PLACEMENTS: usize = 16;

/// Reads the nodes as long as the target is used.
pub(super) async fn follow(core: Weak<Core>, sets: Weak<Sets>, connect_to: ConnectTo) {
    let mut turn = 0;
    loop {
        let (Some(strong), Some(open)) = (core.upgrade(), sets.upgrade()) else {
            return;
        };
        let nodes = open.nodes();
        let Some(asked) = nodes.get(turn % nodes.len().max(1)) else {
            return;
        };
        match read(&strong, asked).await {
            Ok(reading) => {
                let named: Vec<_> = nodes.iter().filter(|node| node.is_named).collect();
                let found = reading.nodes(asked, &named, &connect_to).await;
                let share = Share::of(&strong.settings.memory, 8);
                strong.set_routing(reading.routing(&found, share));
                open.use_nodes(&strong, found.into_iter().flatten());
            }
            Err(error) => {
                tracing::debug!(address = &*asked.address, %error, "the nodes cannot be read");
                turn += 1;
            }
        }
        let pause = strong.settings.look_every;
        // Nothing here keeps the target alive.
        drop((strong, open));
        sleep(pause).await;
    }
}

/// The cluster as one of its nodes describes it.
struct Reading {
    cluster: ClusterState,
    replications: Vec<(String, Replication)>,
}

async fn read(core: &Core, asked: &TargetNode) -> Result<Reading, ClientError> {
    let highest = core.settings.highest_version;
    let mut client = Client::negotiate_up_to(highest, &*asked.address, &asked.options).await?;
    let local = records(&mut client, "SELECT * FROM system.local WHERE key = 'local'").await?;
    // Cassandra 3 has no peers_v2.
    let peers = match records(&mut client, "SELECT * FROM system.peers_v2").await {
        Err(ClientError::Server { .. }) => records(&mut client, "SELECT * FROM system.peers").await?,
        other => other?,
    };
    let partitioner = local.first().and_then(|row| row.optional_text("partitioner"));
    let cluster = ClusterState {
        partitioner: partitioner.map(|class| class.rsplit('.').next().unwrap_or_default().to_owned()),
        nodes: local.iter().take(1).chain(&peers).map(Node::of_row).collect(),
        asked: client.peer(),
        ..ClusterState::default()
    };
    Ok(Reading {
        cluster,
        replications: replications(&mut client).await?,
    })
}

async fn replications(client: &mut Client) -> Result<Vec<(String, Replication)>, ClientError> {
    // Only Scylla has such a table, and tablets.
    let with_tablets = match records(client, "SELECT * FROM system_schema.scylla_keyspaces").await {
        Err(ClientError::Server { .. }) => Vec::new(),
        other => other?,
    };
    let with_tablets: Vec<_> = with_tablets.iter().map(system_schema::with_tablets).collect();
    let rows = records(client, "SELECT * FROM system_schema.keyspaces").await?;
    let replication = |row: &Record| {
        let row = system_schema::keyspace(row, &with_tablets);
        let keyspace = Keyspace {
            replication: row.replication,
            tablets: row.tablets,
            ..Keyspace::default()
        };
        (row.name, Replication::of(&keyspace))
    };
    Ok(rows.iter().map(replication).collect())
}

async fn records(client: &mut Client, cql: &str) -> Result<Vec<Record>, ClientError> {
    let answer = client.query(cql).await?;
    let columns = || {
        let columns = answer.columns.iter();
        columns.map(|column| (column.name.as_str(), &column.column_type))
    };
    let records = answer.rows.iter().map(|row| Record::new(columns(), row));
    Ok(records.collect::<Result<_, _>>()?)
}

impl Reading {
    /// The nodes of the datacenter that was asked, by their places in the cluster; none for those that requests are
    /// not sent to.
    async fn nodes(
        &self,
        asked: &TargetNode,
        named: &[&TargetNode],
        connect_to: &ConnectTo,
    ) -> Vec<Option<TargetNode>> {
        let mut by_address = HashMap::new();
        for node in named {
            by_address.extend(only_address(node).await.map(|address| (address, *node)));
        }
        let port = self.cluster.asked.map_or(0, |address| address.port());
        let center = self
            .cluster
            .nodes
            .first()
            .and_then(|node| node.data_center.as_ref());
        let mut found = vec![Some(asked.clone())];
        for node in self.cluster.nodes.iter().skip(1) {
            let is_near = node.data_center.as_ref() == center && found.len() <= MOST_NODES;
            let address = node.native(port).filter(|_| is_near);
            found.push(address.and_then(|address| match by_address.get(&address) {
                Some(named) => Some((*named).clone()),
                None => Some(TargetNode {
                    address: address.to_string().into(),
                    options: (connect_to.0)(address)?,
                    is_named: false,
                }),
            }));
        }
        found
    }

    /// Which node holds what, as far as there is room for it.
    fn routing(&self, nodes: &[Option<TargetNode>], share: Share) -> Routing {
        let addresses = nodes
            .iter()
            .map(|node| node.as_ref().map(|node| Arc::clone(&node.address)));
        let mut placements: HashMap<&Replication, Option<Arc<Placement>>> = HashMap::new();
        let mut by_keyspace = HashMap::new();
        let ring = Ring::of(&self.cluster);
        for (keyspace, replication) in &self.replications {
            if placements.len() >= MOST_PLACEMENTS && !placements.contains_key(replication) {
                continue;
            }
            let placement = placements.entry(replication).or_insert_with(|| {
                let ring = ring.as_ref().filter(|_| *replication != Replication::Unknown)?;
                let room = share.limit().saturating_sub(share.used());
                let placement = ring.place(replication, room.min(MOST_PLACEMENT));
                share.count_evicted(usize::from(placement.is_none()));
                let placement = placement.filter(|placement| share.try_take(placement.bytes()))?;
                Some(Arc::new(placement))
            });
            if let Some(placement) = placement
                && share.try_take(EACH + keyspace.len())
            {
                by_keyspace.insert(keyspace.as_str().into(), Arc::clone(placement));
            }
        }
        Routing {
            by_keyspace,
            addresses: addresses.collect(),
            _share: Some(share),
        }
    }
}

/// Where a name leads, if it leads to one place.
async fn only_address(node: &TargetNode) -> Option<SocketAddr> {
    let mut addresses = lookup_host(&*node.address).await.ok()?;
    let first = addresses.next()?;
    addresses.all(|other| other == first).then_some(first)
}

#[cfg(test)]
mod tests {
    use cqlens_capture::memory::Part;

    use super::*;

    #[test]
    fn placements_are_kept_up_to_a_number_of_bytes() {
        let part = Part::new("rehearsal", 64 << 20);
        let node = Node {
            tokens: (0..60_000).collect(),
            ..Node::default()
        };
        let replications = (0..16).map(|factor| (format!("k{factor}"), Replication::Simple(factor)));
        let reading = Reading {
            cluster: ClusterState {
                partitioner: Some("Murmur3Partitioner".to_owned()),
                nodes: vec![node],
                ..ClusterState::default()
            },
            replications: replications.collect(),
        };
        let routing = reading.routing(&[], Share::of(&part, 8));
        let kept: usize = routing
            .by_keyspace
            .values()
            .map(|placement| placement.bytes())
            .sum();
        assert!(kept > 4 << 20 && kept <= 8 << 20, "{kept}");
        assert!(part.used() >= kept && part.used() <= 8 << 20 && part.evicted() > 0);
        drop(routing);
        assert_eq!(part.used(), 0);
        let long = vec![("k".repeat(9 << 20), Replication::Simple(1))];
        let reading = Reading {
            replications: long,
            ..reading
        };
        assert!(reading.routing(&[], Share::of(&part, 8)).by_keyspace.is_empty());
    }
}
