//! Where a store is, as one text: `s3://bucket/cqlens`, `cassandra://db1,db2/cqlens?username=cqlens&password-file=secret`.

use std::{
    fmt,
    path::{Path, PathBuf},
    str::FromStr,
};

use url::Url;

/// Where a store is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// A folder or an object store.
    Objects(Url),
    /// A keyspace.
    Cassandra(CassandraAddress),
}

/// A keyspace, the nodes that have it, and how to log in to them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CassandraAddress {
    /// Hosts with their port, the first one to be tried first.
    pub nodes: Vec<String>,
    /// The keyspace.
    pub keyspace: String,
    /// `username`: the role that writes or reads.
    pub username: Option<String>,
    /// `password-file`: where its password is.
    pub password_file: Option<PathBuf>,
    /// `tls-ca`: CA certificates to verify the nodes, in PEM; without them there is no TLS.
    pub tls_ca: Option<PathBuf>,
}

/// Why a text is not the address of a store.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// Another scheme.
    #[error("expected a folder, or a URL that begins with s3://, gs://, az://, file:/// or cassandra://")]
    Scheme,
    /// No URL.
    #[error("not a URL: {0}")]
    Url(#[from] url::ParseError),
    /// A relative folder whose place is not known, because the working directory is gone.
    #[error("the folder cannot be found from here")]
    Folder,
    /// No bucket or container.
    #[error("expected a bucket or container, as in s3://bucket/folder")]
    Bucket,
    /// A password in the URL.
    #[error("user names and passwords do not belong in the URL, where others can read them")]
    Secret,
    /// No host.
    #[error("expected a host, as in cassandra://db1:9042/cqlens")]
    Host,
    /// No keyspace, or more than that.
    #[error("expected one keyspace of letters, digits and underscores, as in cassandra://db1:9042/cqlens")]
    Keyspace,
    /// Parameters that are not known, or not together.
    #[error("expected `username` and `password-file` together, or `tls-ca`: {0:?} is neither")]
    Parameter(String),
}

/// Cassandra's port.
const PORT: u16 = 9042;

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        if !text.contains("://") {
            let folder = std::path::absolute(Path::new(text)).map_err(|_gone| AddressError::Folder)?;
            let url = Url::from_directory_path(folder).map_err(|()| AddressError::Folder)?;
            return Ok(Self::Objects(url));
        }
        let url = Url::parse(text)?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(AddressError::Secret);
        }
        match url.scheme() {
            "cassandra" => cassandra(&url).map(Self::Cassandra),
            "file" => Ok(Self::Objects(url)),
            "s3" | "gs" | "az" if url.host_str().is_none_or(str::is_empty) => Err(AddressError::Bucket),
            "s3" | "gs" | "az" => Ok(Self::Objects(url)),
            _ => Err(AddressError::Scheme),
        }
    }
}

fn cassandra(url: &Url) -> Result<CassandraAddress, AddressError> {
    let hosts = url.host_str().filter(|hosts| !hosts.is_empty());
    let port = url.port().unwrap_or(PORT);
    let hosts = hosts.ok_or(AddressError::Host)?.split(',');
    let keyspace = url.path().trim_start_matches('/');
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if keyspace.is_empty() || keyspace.len() > 48 || !keyspace.chars().all(is_name) {
        return Err(AddressError::Keyspace);
    }
    let mut address = CassandraAddress {
        nodes: hosts.map(|host| format!("{host}:{port}")).collect(),
        keyspace: keyspace.to_owned(),
        username: None,
        password_file: None,
        tls_ca: None,
    };
    for (name, value) in url.query_pairs() {
        let value = value.into_owned();
        match name.as_ref() {
            "username" => address.username = Some(value),
            "password-file" => address.password_file = Some(value.into()),
            "tls-ca" => address.tls_ca = Some(value.into()),
            _ => return Err(AddressError::Parameter(name.into_owned())),
        }
    }
    match (&address.username, &address.password_file) {
        (Some(_), None) => Err(AddressError::Parameter("username".to_owned())),
        (None, Some(_)) => Err(AddressError::Parameter("password-file".to_owned())),
        _ => Ok(address),
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Objects(url) => url.fmt(f),
            Self::Cassandra(address) => {
                write!(f, "cassandra://{}/{}", address.nodes.join(","), address.keyspace)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
    use super::*;

    fn read(text: &str) -> Result<Address, AddressError> {
        text.parse()
    }

    #[test]
    fn folders_and_object_stores_are_told_by_their_scheme() {
        for (text, shown) in [
            ("/var/lib/cqlens/fleet", "file:///var/lib/cqlens/fleet/"),
            ("file:///var/lib/cqlens", "file:///var/lib/cqlens"),
            ("s3://reviews/cqlens", "s3://reviews/cqlens"),
            ("gs://reviews", "gs://reviews"),
            ("az://reviews/cqlens", "az://reviews/cqlens"),
        ] {
            assert_eq!(read(text).unwrap().to_string(), shown);
        }
        assert!(read("fleet").unwrap().to_string().ends_with("/fleet/"));
    }

    #[test]
    fn a_keyspace_has_nodes_and_may_have_a_login_and_tls() {
        let Address::Cassandra(plain) = read("cassandra://db1,db2/cqlens").unwrap() else {
            panic!("no keyspace");
        };
        assert_eq!(plain.nodes, ["db1:9042", "db2:9042"]);
        assert_eq!((plain.keyspace.as_str(), plain.username), ("cqlens", None));
        let text = "cassandra://[::1]:9142/fleet?username=cqlens&password-file=/etc/cqlens/secret&tls-ca=/etc/ca%20here.pem";
        let address = read(text).unwrap();
        assert_eq!(address.to_string(), "cassandra://[::1]:9142/fleet");
        let Address::Cassandra(secured) = address else {
            panic!("no keyspace");
        };
        assert_eq!(secured.password_file, Some("/etc/cqlens/secret".into()));
        assert_eq!(secured.tls_ca, Some("/etc/ca here.pem".into()));
    }

    #[test]
    fn mistakes_are_told() {
        for (text, error) in [
            ("http://bucket/x", AddressError::Scheme),
            ("s3:///x", AddressError::Bucket),
            ("s3://key:secret@bucket/x", AddressError::Secret),
            ("cassandra://me@db1/cqlens", AddressError::Secret),
            ("cassandra:///cqlens", AddressError::Host),
            ("cassandra://db1", AddressError::Keyspace),
            ("cassandra://db1/a/b", AddressError::Keyspace),
            ("cassandra://db1/a;b", AddressError::Keyspace),
            (
                "cassandra://db1/a?username=x",
                AddressError::Parameter("username".to_owned()),
            ),
            (
                "cassandra://db1/a?password=x",
                AddressError::Parameter("password".to_owned()),
            ),
        ] {
            assert_eq!(read(text), Err(error), "{text}");
        }
        assert!(matches!(read("cassandra://db1:x/a"), Err(AddressError::Url(_))));
    }
}
