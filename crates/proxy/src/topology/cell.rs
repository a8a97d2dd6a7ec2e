//! One cell: what it says of a node, and what replaces it where the node is reached through its listener.

use std::net::{IpAddr, SocketAddr};

use cqlens_proto::types::Uuid;

use super::{
    node::NodeIdentity,
    select_shape::{AddressEncoding, ColumnRole},
};

/// Adds what a cell says to what is known of the row's node.
pub(super) fn identify(identity: &mut NodeIdentity, role: ColumnRole, cell: &[u8]) {
    match role {
        ColumnRole::HostId => identity.host_id = identity.host_id.or_else(|| cell.try_into().ok().map(Uuid)),
        ColumnRole::Broadcast => identity.broadcast = identity.broadcast.or_else(|| inet(cell)),
        ColumnRole::Address(encoding) => {
            let is_of_a_node = |address: &IpAddr| !address.is_unspecified();
            identity.native = identity
                .native
                .or_else(|| address(encoding, cell).filter(is_of_a_node));
        }
        ColumnRole::Port => identity.port = identity.port.or_else(|| port(cell)),
        ColumnRole::Other | ColumnRole::Undetermined => {}
    }
}

/// What replaces a cell that is not null; `None` where it stays as it is.
pub(super) fn replaced(role: ColumnRole, cell: &[u8], listen: SocketAddr) -> Option<Vec<u8>> {
    // Values of no bytes are neither null nor an address or a port.
    if cell.is_empty() {
        return None;
    }
    match role {
        ColumnRole::Port => Some(u32::from(listen.port()).to_be_bytes().to_vec()),
        role => filled(role, listen),
    }
}

/// What replaces an address that is null.
pub(super) fn filled(role: ColumnRole, listen: SocketAddr) -> Option<Vec<u8>> {
    match role {
        ColumnRole::Address(AddressEncoding::Inet) => Some(octets(listen.ip())),
        ColumnRole::Address(AddressEncoding::Text) => Some(listen.ip().to_string().into_bytes()),
        _ => None,
    }
}

/// The bytes of an `inet` value.
pub(super) fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

/// The address that the bytes of an `inet` value are.
pub(super) fn inet(bytes: &[u8]) -> Option<IpAddr> {
    if let Ok(octets) = <[u8; 4]>::try_from(bytes) {
        return Some(octets.into());
    }
    <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from)
}

fn address(encoding: AddressEncoding, cell: &[u8]) -> Option<IpAddr> {
    match encoding {
        AddressEncoding::Inet => inet(cell),
        AddressEncoding::Text => std::str::from_utf8(cell).ok()?.parse().ok(),
    }
}

/// The port that the bytes of an `int` are.
fn port(cell: &[u8]) -> Option<u16> {
    let number = u32::from_be_bytes(cell.try_into().ok()?);
    u16::try_from(number).ok().filter(|port| *port != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(std::net::Ipv4Addr::new(127, 0, 1, 2)), 9043);

    #[test]
    fn every_form_is_replaced_by_the_same_form() {
        for (role, before, after) in [
            (
                ColumnRole::Address(AddressEncoding::Inet),
                &[10, 0, 0, 1][..],
                &[127, 0, 1, 2][..],
            ),
            (
                ColumnRole::Address(AddressEncoding::Text),
                b"10.0.0.1",
                b"127.0.1.2",
            ),
            (ColumnRole::Port, &[0, 0, 0x23, 0x52], &[0, 0, 0x23, 0x53]),
        ] {
            assert_eq!(replaced(role, before, LISTEN).as_deref(), Some(after), "{role:?}");
            assert_eq!(replaced(role, b"", LISTEN), None);
        }
        for role in [ColumnRole::Other, ColumnRole::Undetermined] {
            assert_eq!(replaced(role, b"10.0.0.1", LISTEN), None);
        }
    }

    #[test]
    fn every_form_identifies_a_node() {
        let mut identity = NodeIdentity::default();
        identify(&mut identity, ColumnRole::HostId, &[7; 16]);
        identify(
            &mut identity,
            ColumnRole::Address(AddressEncoding::Text),
            b"10.0.0.1",
        );
        identify(&mut identity, ColumnRole::Broadcast, &[10, 0, 0, 2]);
        identify(&mut identity, ColumnRole::Port, &[0, 0, 0x23, 0x52]);
        let expected = NodeIdentity {
            host_id: Some(Uuid([7; 16])),
            native: Some([10, 0, 0, 1].into()),
            port: Some(9042),
            broadcast: Some([10, 0, 0, 2].into()),
        };
        assert_eq!(identity, expected);
    }

    #[test]
    fn an_unspecified_address_identifies_no_node() {
        let mut identity = NodeIdentity::default();
        identify(
            &mut identity,
            ColumnRole::Address(AddressEncoding::Inet),
            &[0, 0, 0, 0],
        );
        assert_eq!(identity, NodeIdentity::default());
    }
}
