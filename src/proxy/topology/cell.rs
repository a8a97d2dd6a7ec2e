//! One cell: what it says of a node, and what it says once the node is reached by way of its listener.

use std::net::{IpAddr, SocketAddr};

use cqlens_proto::types::Uuid;

use super::{
    node::Identity,
    reading::{Form, Role},
};

/// Adds what a cell tells to what is known of the row's node.
pub(super) fn identify(identity: &mut Identity, role: Role, cell: &[u8]) {
    match role {
        Role::HostId(form) => identity.host_id = identity.host_id.or_else(|| host_id(form, cell)),
        Role::Broadcast(form) => identity.broadcast = identity.broadcast.or_else(|| address(form, cell)),
        Role::Address(form) => {
            let is_of_a_node = |address: &IpAddr| !address.is_unspecified();
            identity.native = identity
                .native
                .or_else(|| address(form, cell).filter(is_of_a_node));
        }
        Role::Port(form) => identity.port = identity.port.or_else(|| port(form, cell)),
        Role::Other | Role::JsonRow | Role::Unclear => {}
    }
}

/// What stands in place of a cell that is not null; none where it stays as it is.
pub(super) fn replaced(role: Role, cell: &[u8], listen: SocketAddr) -> Option<Vec<u8>> {
    match role {
        // Values of no bytes are neither null nor an address.
        Role::Address(Form::Binary) if !cell.is_empty() => Some(octets(listen.ip())),
        Role::Address(form) if !cell.is_empty() => Some(shown(form, &listen.ip().to_string())),
        Role::Port(Form::Binary) => number(cell.len(), listen.port()),
        // A port is a number in JSON too.
        Role::Port(_) if !cell.is_empty() => Some(listen.port().to_string().into_bytes()),
        _ => None,
    }
}

/// What stands in place of an address that is null.
pub(super) fn filled(role: Role, listen: SocketAddr) -> Option<Vec<u8>> {
    match role {
        Role::Address(Form::Binary) => Some(octets(listen.ip())),
        Role::Address(form) => Some(shown(form, &listen.ip().to_string())),
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

fn address(form: Form, cell: &[u8]) -> Option<IpAddr> {
    match form {
        Form::Binary => inet(cell),
        Form::Text | Form::Json => text(form, cell)?.parse().ok(),
    }
}

fn host_id(form: Form, cell: &[u8]) -> Option<Uuid> {
    match form {
        Form::Binary => cell.try_into().ok().map(Uuid),
        Form::Text | Form::Json => Uuid::parse(text(form, cell)?),
    }
}

fn port(form: Form, cell: &[u8]) -> Option<u16> {
    match form {
        Form::Binary => {
            let is_short = cell.len() <= size_of::<u64>();
            let number = cell
                .iter()
                .fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
            u16::try_from(number).ok().filter(|port| is_short && *port != 0)
        }
        Form::Text | Form::Json => text(form, cell)?.parse().ok(),
    }
}

/// The text of a cell; in JSON without its quotes. Addresses and UUIDs have nothing that JSON escapes.
fn text(form: Form, cell: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(cell).ok()?;
    let quoted = || text.strip_prefix('"')?.strip_suffix('"');
    Some(match form {
        Form::Json => quoted().unwrap_or(text),
        Form::Binary | Form::Text => text,
    })
}

fn shown(form: Form, text: &str) -> Vec<u8> {
    match form {
        Form::Json => format!("\"{text}\"").into_bytes(),
        Form::Binary | Form::Text => text.as_bytes().to_vec(),
    }
}

/// A port as a big-endian number of as many bytes as there were: `int`, or what it was cast to.
fn number(length: usize, port: u16) -> Option<Vec<u8>> {
    match length {
        0 => None,
        2 => Some(port.to_be_bytes().to_vec()),
        8 => Some(u64::from(port).to_be_bytes().to_vec()),
        // `int`, and a `varint` in a form that every reader takes.
        _ => Some(u32::from(port).to_be_bytes().to_vec()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(std::net::Ipv4Addr::new(127, 0, 1, 2)), 9043);

    #[test]
    fn every_form_is_replaced_by_the_same_form() {
        for (role, before, after) in [
            (
                Role::Address(Form::Binary),
                &[10, 0, 0, 1][..],
                &[127, 0, 1, 2][..],
            ),
            (Role::Address(Form::Text), b"10.0.0.1", b"127.0.1.2"),
            (Role::Address(Form::Json), b"\"10.0.0.1\"", b"\"127.0.1.2\""),
            (Role::Port(Form::Binary), &[0, 0, 0x23, 0x52], &[0, 0, 0x23, 0x53]),
            (
                Role::Port(Form::Binary),
                &[0, 0, 0, 0, 0, 0, 0x23, 0x52],
                &[0, 0, 0, 0, 0, 0, 0x23, 0x53],
            ),
            (Role::Port(Form::Json), b"9042", b"9043"),
        ] {
            assert_eq!(replaced(role, before, LISTEN).as_deref(), Some(after), "{role:?}");
        }
        assert_eq!(replaced(Role::Other, b"10.0.0.1", LISTEN), None);
        assert_eq!(replaced(Role::Address(Form::Binary), b"", LISTEN), None);
    }

    #[test]
    fn every_form_identifies_a_node() {
        let mut identity = Identity::default();
        let uuid = "00000000-0000-0000-0000-000000000007";
        identify(
            &mut identity,
            Role::HostId(Form::Json),
            format!("\"{uuid}\"").as_bytes(),
        );
        identify(&mut identity, Role::Address(Form::Text), b"10.0.0.1");
        identify(&mut identity, Role::Broadcast(Form::Binary), &[10, 0, 0, 2]);
        identify(&mut identity, Role::Port(Form::Binary), &[0, 0, 0x23, 0x52]);
        let expected = Identity {
            host_id: Uuid::parse(uuid),
            native: Some([10, 0, 0, 1].into()),
            port: Some(9042),
            broadcast: Some([10, 0, 0, 2].into()),
        };
        assert_eq!(identity, expected);
    }

    #[test]
    fn an_address_that_is_none_identifies_nobody() {
        let mut identity = Identity::default();
        identify(&mut identity, Role::Address(Form::Binary), &[0, 0, 0, 0]);
        assert_eq!(identity, Identity::default());
    }
}
