//! Who is connected to a node, as it says itself.

use std::net::{IpAddr, SocketAddr};

use super::SystemReader;
use cqlens_audit::catalog::Record;
use cqlens_client::{ClientError, DRIVER_NAME};

/// A connection to a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeClient {
    /// Where it comes from.
    pub address: SocketAddr,
    /// The driver's name as its STARTUP has it.
    pub driver: String,
}

/// Takes the clients of the node with this address; none if it does not list them.
pub type SeeClients = Box<dyn Fn(SocketAddr, Option<&[NodeClient]>) + Send + Sync>;

/// The node's clients but for connections of cqlens itself (`system_views.clients`, Cassandra 4.0).
pub(super) async fn clients(reader: &mut SystemReader) -> Result<Vec<NodeClient>, ClientError> {
    let rows = reader
        .records("SELECT address, port, driver_name FROM system_views.clients")
        .await?;
    let clients = rows.iter().filter_map(client);
    Ok(clients.filter(|client| client.driver != DRIVER_NAME).collect())
}

/// None of a row without an address.
fn client(row: &Record) -> Option<NodeClient> {
    let address: IpAddr = row.optional_text("address")?.parse().ok()?;
    let port = u16::try_from(row.count("port")).ok()?;
    Some(NodeClient {
        address: SocketAddr::new(address.to_canonical(), port),
        driver: row
            .optional_text("driver_name")
            .filter(|name| !name.is_empty())
            .unwrap_or_else(|| "an unnamed driver".to_owned()),
    })
}
