//! What counts as one client: an address, or all addresses of a network.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    str::FromStr,
};

/// How many leading bits of an address tell clients apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientNetworks {
    version_4: u8,
    version_6: u8,
}

impl Default for ClientNetworks {
    /// One IPv4 address, or an IPv6 network of 64 bits, since one machine may have all addresses of it.
    fn default() -> Self {
        Self {
            version_4: 32,
            version_6: 64,
        }
    }
}

impl FromStr for ClientNetworks {
    type Err = String;

    /// Reads `32,64`: the bits for IPv4, then those for IPv6.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "bits for IPv4 (1 to 32) and IPv6 (1 to 128), such as 32,64".to_owned();
        let bits = |text: &str, most: u8| {
            let bits: u8 = text.trim().parse().map_err(|_| wrong())?;
            (1..=most).contains(&bits).then_some(bits).ok_or_else(wrong)
        };
        let (version_4, version_6) = text.split_once(',').ok_or_else(wrong)?;
        Ok(Self {
            version_4: bits(version_4, 32)?,
            version_6: bits(version_6, 128)?,
        })
    }
}

impl ClientNetworks {
    /// The first address of the network of `address`. An IPv4 address may be mapped into IPv6.
    pub(super) fn network(self, address: IpAddr) -> IpAddr {
        match address.to_canonical() {
            IpAddr::V4(address) => {
                let rest = u32::MAX.checked_shr(self.version_4.into()).unwrap_or(0);
                Ipv4Addr::from_bits(address.to_bits() & !rest).into()
            }
            IpAddr::V6(address) => {
                let rest = u128::MAX.checked_shr(self.version_6.into()).unwrap_or(0);
                Ipv6Addr::from_bits(address.to_bits() & !rest).into()
            }
        }
    }

    /// Whose limit a client at `address` has reached, in words for the client.
    pub(super) fn whose(self, address: IpAddr) -> &'static str {
        let is_one = match address.to_canonical() {
            IpAddr::V4(_) => self.version_4 == 32,
            IpAddr::V6(_) => self.version_6 == 128,
        };
        if is_one {
            " from this address"
        } else {
            " from this network"
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn addresses_of_a_network_are_one_client() {
        let network = |networks: &str, address: &str| {
            let networks: ClientNetworks = networks.parse().unwrap();
            networks.network(address.parse().unwrap()).to_string()
        };
        assert_eq!(network("32,64", "10.1.2.3"), "10.1.2.3");
        assert_eq!(network("32,64", "::ffff:10.1.2.3"), "10.1.2.3");
        assert_eq!(network("32,64", "2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
        assert_eq!(network("24,56", "10.1.2.3"), "10.1.2.0");
        assert_eq!(network("1,1", "255.0.0.1"), "128.0.0.0");
        assert_eq!(network("24,128", "2001:db8::6"), "2001:db8::6");
        assert_eq!("32,64".parse(), Ok(ClientNetworks::default()));
        for wrong in ["", "32", "33,64", "32,129", "0,64", "32,0", "a,b", "32,64,1"] {
            assert!(wrong.parse::<ClientNetworks>().is_err(), "{wrong}");
        }
    }
}
