//! A client in its parts.

use std::fmt::{self, Display, Formatter};

use serde::Serialize;

use crate::application::{self, Parts};

/// Who sends a statement, as far as it says so itself.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Client {
    /// The application; `(others)` for those for which there was no room.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub application: Option<String>,
    /// Its version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Its driver with its version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// Its address, or the network that it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// How many of the executions this application sent.
    pub executions: u64,
}

impl Client {
    /// The client of this name, `APPLICATION VERSION (DRIVER VERSION) ADDRESS`.
    pub fn of(name: &str, executions: u64) -> Self {
        let Parts {
            application,
            version,
            driver,
            address,
        } = application::parts(name);
        let owned = |part: Option<&str>| part.map(str::to_owned);
        Self {
            application: owned(application),
            version: owned(version),
            driver: owned(driver),
            address: owned(address),
            executions,
        }
    }
}

impl Display for Client {
    fn fmt(&self, to: &mut Formatter<'_>) -> fmt::Result {
        let driver = self.driver.as_ref().map(|driver| format!("({driver})"));
        let parts = [
            self.application.as_deref(),
            self.version.as_deref(),
            driver.as_deref(),
            self.address.as_deref(),
        ];
        let parts: Vec<_> = parts.into_iter().flatten().collect();
        to.write_str(&parts.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_shown_by_the_name_that_it_has_elsewhere() {
        for name in [
            "orders-api 1.2.0 (DataStax Python Driver 3.29.1) 10.0.0.3",
            "orders api (gocql) 10.0.0.0/24",
            "(DataStax Java driver for Apache Cassandra(R) 4.17.0) fe80::1",
            "orders-api v7",
            "10.0.0.3",
            "(others)",
        ] {
            assert_eq!(Client::of(name, 1).to_string(), name);
        }
    }
}
