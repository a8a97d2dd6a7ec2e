//! Rows of nodes with the addresses of their listeners. All bytes but those of the changed cells stay as they
//! are.
//!
//! A null address is filled in where the row has a host id: a driver without an address for clients would
//! take the one for other nodes, and bypass the proxy. Rows without a host id are of nodes that have not
//! joined; drivers ignore them, and they stay as they are.

use std::{net::SocketAddr, ops::Range};

use bytes::{Bytes, BytesMut};
use cqlens_proto::message::{Row, Rows};

use super::{
    cell,
    known_nodes::{KnownNodes, NodeAddress},
    node::NodeIdentity,
    select_shape::{ColumnRole, Columns, SelectShape, Table},
};

/// The addresses of the nodes at one moment, as one connection shows them.
#[derive(Debug, Clone, Copy)]
pub(super) struct AddressView<'a> {
    pub(super) known: &'a KnownNodes,
    /// The node of the connection.
    pub(super) own: &'a NodeAddress,
    /// The client finds the nodes of events by their addresses for other nodes: those are the listeners' too,
    /// then.
    pub(super) names_by_peer: bool,
}

impl<'a> AddressView<'a> {
    /// The node with an identity; the node of the connection is known even where `known` lacks it.
    pub(super) fn find(self, identity: &NodeIdentity) -> Option<&'a NodeAddress> {
        let port = self.own.native.port();
        let own = || identity.is(self.own, port).then_some(self.own);
        identity.find(self.known, port).or_else(own)
    }
}

/// The changes to make to rows.
#[derive(Debug, Default)]
pub(super) struct Rewritten {
    /// Replacements of ranges of the body, in order.
    edits: Vec<(Range<usize>, Vec<u8>)>,
    /// Nodes of rows that were left out, since they are not known or not ready.
    pub(super) missing: Vec<NodeIdentity>,
    /// A column is computed from an address and passes as it is.
    pub(super) may_leak: bool,
}

impl Rewritten {
    /// The body with everything replaced; none where nothing is.
    pub(super) fn body(&self, body: &Bytes) -> Option<Bytes> {
        if self.edits.is_empty() {
            return None;
        }
        let mut out = BytesMut::with_capacity(body.len() + 64);
        let mut at = 0;
        for (range, replacement) in &self.edits {
            out.extend_from_slice(body.get(at..range.start).unwrap_or_default());
            out.extend_from_slice(replacement);
            at = range.end;
        }
        out.extend_from_slice(body.get(at..).unwrap_or_default());
        Some(out.freeze())
    }
}

/// The roles of a result's columns; none if they cannot be told, because neither the result nor PREPARED
/// names them.
pub(super) fn roles(shape: &SelectShape, rows: &Rows<'_>) -> Option<Vec<ColumnRole>> {
    let table = shape.table;
    let roles = match (&shape.columns, &rows.metadata.columns) {
        (Columns::Listed(roles), _) => roles.clone(),
        (Columns::All { .. }, Some(columns)) => columns
            .iter()
            .map(|column| ColumnRole::of_column(table, column.name))
            .collect(),
        (Columns::All { known }, None) => known.clone()?,
    };
    (roles.len() == rows.metadata.column_count).then_some(roles)
}

/// Rewrites `rows`, the end of `body`. Rows of nodes that are not known or not ready are left out.
///
/// None if a row ends early.
pub(super) fn rewrite(
    body: &Bytes,
    rows: &Rows<'_>,
    shape: &SelectShape,
    roles: &[ColumnRole],
    view: AddressView<'_>,
) -> Option<Rewritten> {
    let mut rewritten = Rewritten {
        may_leak: roles.contains(&ColumnRole::Undetermined),
        ..Rewritten::default()
    };
    if !roles.iter().any(|role| role.shows_address()) {
        return Some(rewritten);
    }
    let start = body.len() - rows.byte_len();
    let (mut at, mut kept) = (start, 0_usize);
    for row in rows.iter() {
        let row = row.ok()?;
        let place = at..at + row.byte_len();
        at = place.end;
        let row = RowOfNode::read(row, roles);
        match row.listen(shape.table, view) {
            Ok(Some(listen)) => row.edit(place.start, listen, view, &mut rewritten.edits),
            Ok(None) => {}
            Err(identity) => {
                rewritten.missing.push(identity);
                rewritten.edits.push((place, Vec::new()));
                continue;
            }
        }
        kept += 1;
    }
    if kept < rows.len() {
        let count = u32::try_from(kept).ok()?.to_be_bytes().to_vec();
        rewritten.edits.insert(0, (start - 4..start, count));
    }
    Some(rewritten)
}

/// A row, and what it says of its node.
struct RowOfNode<'a> {
    row: Row<'a>,
    roles: &'a [ColumnRole],
    identity: NodeIdentity,
    /// An address or port has a value.
    tells: bool,
    /// An address has none.
    lacks: bool,
}

impl<'a> RowOfNode<'a> {
    fn read(row: Row<'a>, roles: &'a [ColumnRole]) -> Self {
        let mut read = Self {
            row,
            roles,
            identity: NodeIdentity::default(),
            tells: false,
            lacks: false,
        };
        for (cell, role) in row.iter().zip(roles) {
            read.see(*role, cell);
        }
        read
    }

    fn see(&mut self, role: ColumnRole, value: Option<&[u8]>) {
        match (role, value) {
            (ColumnRole::Address(_), None) => self.lacks = true,
            (ColumnRole::Address(_) | ColumnRole::Port, Some(_)) => self.tells = true,
            _ => {}
        }
        if let Some(value) = value {
            cell::identify(&mut self.identity, role, value);
        }
    }

    /// The listener of the row's node; `Ok(None)` if the row may pass as it is.
    ///
    /// # Errors
    /// Who the node is, if it has none.
    fn listen(&self, table: Table, view: AddressView<'_>) -> Result<Option<SocketAddr>, NodeIdentity> {
        let fills = self.lacks && self.identity.host_id.is_some();
        if !self.tells && !fills {
            return Ok(None);
        }
        if table == Table::Local {
            return Ok(Some(view.own.listen));
        }
        let identity = match table {
            // The address of a client route is not one that the node knows of.
            Table::ClientRoutes => NodeIdentity {
                native: None,
                ..self.identity
            },
            Table::Local | Table::Peers => self.identity,
        };
        match view.find(&identity).filter(|node| node.ready) {
            Some(node) => Ok(Some(node.listen)),
            None => Err(identity),
        }
    }

    /// `start` is where the row begins in the body.
    fn edit(
        &self,
        start: usize,
        listen: SocketAddr,
        view: AddressView<'_>,
        edits: &mut Vec<(Range<usize>, Vec<u8>)>,
    ) {
        let mut at = start;
        for (cell, role) in self.row.iter().zip(self.roles) {
            let place = at..at + CELL_LENGTH + cell.map_or(0, <[u8]>::len);
            at = place.end;
            let new = match (role, cell) {
                (ColumnRole::Broadcast, Some(_)) if view.names_by_peer => Some(cell::octets(listen.ip())),
                _ => self.new_value(*role, cell, listen),
            };
            let Some(new) = new else { continue };
            // A body has at most 256 MB, and no cell grows by more than a few addresses.
            let length = i32::try_from(new.len()).unwrap_or(i32::MAX).to_be_bytes();
            edits.push((place, [&length[..], &new].concat()));
        }
    }

    /// What stands in place of a value; none where it stays as it is.
    fn new_value(&self, role: ColumnRole, value: Option<&[u8]>, listen: SocketAddr) -> Option<Vec<u8>> {
        match value {
            Some(value) => cell::replaced(role, value, listen).filter(|new| new[..] != *value),
            None if self.identity.host_id.is_some() => cell::filled(role, listen),
            None => None,
        }
    }
}

/// Length of the `[int]` before a cell, in bytes.
const CELL_LENGTH: usize = 4;
