//! The settings that give each node a listen address: a rule, a map, or both.

use std::{fmt, net::SocketAddr};

use anyhow::bail;

use super::{
    endpoint::Endpoint,
    names::{ListenFor, Mapped},
    rule::{Listen, overlap},
};

/// Where nodes listen, as settings have it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::cli::proxy) struct ListenRules {
    /// For nodes that are not in the map.
    pub(in crate::cli::proxy) rule: Option<Listen>,
    pub(in crate::cli::proxy) map: Vec<Mapped>,
    /// The nodes that this process listens for; all if it is empty.
    pub(in crate::cli::proxy) listen_for: Vec<ListenFor>,
}

impl fmt::Display for ListenRules {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.rule, self.map.first()) {
            (Some(rule), _) => rule.fmt(out),
            (None, Some(first)) if self.map.len() == 1 => first.listen.fmt(out),
            (None, Some(first)) => write!(out, "{} and {} more", first.listen, self.map.len() - 1),
            (None, None) => Ok(()),
        }
    }
}

impl ListenRules {
    /// The setting from which a node has its listen address.
    pub(in crate::cli::proxy) fn setting_of(&self, node: &Endpoint) -> &'static str {
        match self.map.iter().any(|mapped| mapped.node.is(node)) {
            true => "map",
            false => "listen",
        }
    }

    /// Whether a node could be given this address.
    pub(in crate::cli::proxy) fn has(&self, address: SocketAddr) -> bool {
        self.map.iter().any(|mapped| mapped.listen == address)
            || self.rule.as_ref().is_some_and(|rule| rule.has(address))
    }

    /// Refuses settings that cannot work with any cluster.
    pub(in crate::cli::proxy) fn check(&self, admin: Option<SocketAddr>) -> anyhow::Result<()> {
        if let Some(rule) = &self.rule {
            if let Listen::One(address) = rule {
                bail!(
                    "listen: {address} is one address, and topology = cluster needs one for each node: a rule (127.0.1.{{n}}:9042, \
                     127.0.0.1:9042-9049, 127.0.0.1:9042+), or a map"
                );
            }
            if rule.nth(1).is_none_or(|first| first.ip().is_unspecified()) {
                bail!("listen: clients would be told to connect to {rule}, which is not reachable");
            }
        } else if self.map.is_empty() {
            bail!("listen: topology = cluster needs a listen address for each node: a rule, or a map");
        }
        self.check_overlaps(admin)
    }

    fn check_overlaps(&self, admin: Option<SocketAddr>) -> anyhow::Result<()> {
        for (index, one) in self.map.iter().enumerate() {
            let others = self.map.iter().skip(index + 1);
            if let Some(other) = others.clone().find(|other| other.node == one.node) {
                bail!(
                    "map: the node {} is listed twice, with {} and {}",
                    one.node,
                    one.listen,
                    other.listen
                );
            }
            if let Some(other) = others.clone().find(|other| other.listen == one.listen) {
                bail!(
                    "map: the nodes {} and {} have the same listen address, {}",
                    one.node,
                    other.node,
                    one.listen
                );
            }
            if let Some(rule) = self.rule.as_ref().filter(|rule| rule.overlaps(one.listen)) {
                bail!(
                    "map: {}, the listen address of {}, overlaps with listen ({rule})",
                    one.listen,
                    one.node
                );
            }
        }
        let Some(admin) = admin else { return Ok(()) };
        if let Some(rule) = self.rule.as_ref().filter(|rule| rule.overlaps(admin)) {
            bail!("admin: {admin} overlaps with listen ({rule})");
        }
        if let Some(mapped) = self.map.iter().find(|mapped| overlap(mapped.listen, admin)) {
            bail!(
                "admin: {admin} overlaps with {}, the listen address of the node {} (map)",
                mapped.listen,
                mapped.node
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn checked(listen: &str, map: &[&str], admin: Option<&str>) -> String {
        let rules = ListenRules {
            rule: (!listen.is_empty()).then(|| listen.parse().unwrap()),
            map: map.iter().map(|pair| pair.parse().unwrap()).collect(),
            listen_for: Vec::new(),
        };
        let checked = rules.check(admin.map(|admin| admin.parse().unwrap()));
        checked.err().map_or_else(String::new, |error| error.to_string())
    }

    #[test]
    fn rules_that_cannot_work_are_refused() {
        let one = "10.0.0.1=127.0.2.1:9042";
        assert_eq!(checked("127.0.1.{n}:9042", &[one], Some("127.0.1.1:9043")), "");
        assert_eq!(checked("", &[one], None), "");
        for (listen, map, admin, says) in [
            ("", &[][..], None, "listen: topology = cluster needs"),
            (
                "127.0.0.1:9042",
                &[],
                None,
                "listen: 127.0.0.1:9042 is one address",
            ),
            ("0.0.0.0:9042+", &[], None, "which is not reachable"),
            (
                "127.0.2.{n}:9042",
                &[one],
                None,
                "map: 127.0.2.1:9042, the listen address of 10.0.0.1, overlaps with listen (127.0.2.{n}:9042)",
            ),
            (
                "",
                &[one, "10.0.0.2=127.0.2.1:9042"],
                None,
                "map: the nodes 10.0.0.1 and 10.0.0.2 have the same listen address, 127.0.2.1:9042",
            ),
            (
                "",
                &[one, "10.0.0.1=127.0.2.2:9042"],
                None,
                "map: the node 10.0.0.1 is listed twice",
            ),
            (
                "127.0.0.1:9042+",
                &[],
                Some("127.0.0.1:9143"),
                "admin: 127.0.0.1:9143 overlaps with listen",
            ),
            (
                "",
                &[one],
                Some("127.0.2.1:9042"),
                "admin: 127.0.2.1:9042 overlaps with 127.0.2.1:9042, the listen address of the node 10.0.0.1",
            ),
        ] {
            let error = checked(listen, map, admin);
            assert!(error.contains(says), "{listen} {map:?} {admin:?}: {error}");
        }
    }
}
