//! What is sent through proxies that are compared.

use cqlens_proto::envelope::Version;

use crate::{
    backend::Table,
    load::{Load, Statement},
};

pub(crate) const LOADS: &[Load] = &[
    load(
        "1 connection, depth 1",
        Version::V4,
        1,
        1,
        None,
        Statement::Read(Table::Small),
    ),
    load(
        "16 connections, 5,000/s",
        Version::V4,
        16,
        1,
        Some(5_000),
        Statement::Read(Table::Small),
    ),
    load(
        "16 x 32, prepared, v4",
        Version::V4,
        16,
        32,
        None,
        Statement::Read(Table::Small),
    ),
    load(
        "16 x 32, prepared, v5",
        Version::V5,
        16,
        32,
        None,
        Statement::Read(Table::Small),
    ),
    load("16 x 32, unprepared", Version::V4, 16, 32, None, Statement::Text),
    load(
        "8 x 4, 64 KiB rows",
        Version::V4,
        8,
        4,
        None,
        Statement::Read(Table::Large),
    ),
];

/// One connection that reads one row after the other.
pub(crate) const POINT_READ: Load = load("", Version::V4, 1, 1, None, Statement::Read(Table::Small));

const fn load(
    name: &'static str,
    version: Version,
    connections: usize,
    depth: i16,
    rate: Option<u32>,
    statement: Statement,
) -> Load {
    Load {
        name,
        version,
        connections,
        depth,
        rate,
        statement,
    }
}
