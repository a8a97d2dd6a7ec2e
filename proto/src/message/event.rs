//! EVENT (v5 §4.2.6) and the schema change that RESULT shares with it (v5 §4.2.5.5).

use std::net::IpAddr;

use super::extras::{string_list, write_string_list};
use crate::cursor::{Cursor, Writer};
use crate::error::{DecodeError, EncodeError};
use crate::notation;

/// EVENT: `<type [string]>` and what the type says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event<'a> {
    /// A node joined or left.
    TopologyChange(NodeChange<'a>),
    /// A node went up or down.
    StatusChange(NodeChange<'a>),
    /// Something in the schema changed.
    SchemaChange(SchemaChange<'a>),
    /// ScyllaDB's CLIENT_ROUTES_CHANGE.
    ClientRoutesChange {
        /// What changed, such as `UPDATE_NODES`.
        change: &'a str,
        /// Connections that it concerns.
        connection_ids: Vec<&'a str>,
        /// Nodes that it concerns.
        host_ids: Vec<&'a str>,
    },
    /// A type that is not known.
    Unknown {
        /// The type.
        event_type: &'a str,
        /// What follows it, undecoded.
        rest: &'a [u8],
    },
}

/// `<change [string]><address [inet]>`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeChange<'a> {
    /// `NEW_NODE`, `REMOVED_NODE`, `MOVED_NODE`; `UP`, `DOWN`.
    pub change: &'a str,
    /// The node's address for clients.
    pub address: IpAddr,
    /// Its port, as sent.
    pub port: i32,
}

/// `<change [string]><target [string]><keyspace [string]>[<name [string]>[<argument types [string list]>]]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchemaChange<'a> {
    /// `CREATED`, `UPDATED` or `DROPPED`.
    pub change: &'a str,
    /// The keyspace, of the object or itself.
    pub keyspace: &'a str,
    /// What changed in it.
    pub object: SchemaObject<'a>,
}

/// The target of a schema change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SchemaObject<'a> {
    /// The keyspace itself.
    Keyspace,
    /// A table, one of its indexes, or a view.
    Table(&'a str),
    /// A user-defined type.
    Type(&'a str),
    /// A user-defined function: its name and the CQL types of its arguments.
    Function(&'a str, Vec<&'a str>),
    /// A user-defined aggregate: its name and the CQL types of its arguments.
    Aggregate(&'a str, Vec<&'a str>),
    /// A target that is not known, with its name if there is one.
    Other {
        /// The target as sent.
        target: &'a str,
        /// The object's name.
        name: Option<&'a str>,
    },
}

const TOPOLOGY_CHANGE: &str = "TOPOLOGY_CHANGE";
const STATUS_CHANGE: &str = "STATUS_CHANGE";
const SCHEMA_CHANGE: &str = "SCHEMA_CHANGE";
const CLIENT_ROUTES_CHANGE: &str = "CLIENT_ROUTES_CHANGE";

impl<'a> Event<'a> {
    /// The event's type, as REGISTER names it.
    pub fn event_type(&self) -> &'a str {
        match self {
            Event::TopologyChange(_) => TOPOLOGY_CHANGE,
            Event::StatusChange(_) => STATUS_CHANGE,
            Event::SchemaChange(_) => SCHEMA_CHANGE,
            Event::ClientRoutesChange { .. } => CLIENT_ROUTES_CHANGE,
            Event::Unknown { event_type, .. } => event_type,
        }
    }

    pub(super) fn decode(cursor: &mut Cursor<'a>) -> Result<Self, DecodeError> {
        Ok(match cursor.read("event type", notation::string)? {
            TOPOLOGY_CHANGE => Event::TopologyChange(NodeChange::decode(cursor)?),
            STATUS_CHANGE => Event::StatusChange(NodeChange::decode(cursor)?),
            SCHEMA_CHANGE => Event::SchemaChange(SchemaChange::decode(cursor)?),
            CLIENT_ROUTES_CHANGE => Event::ClientRoutesChange {
                change: cursor.read("change", notation::string)?,
                connection_ids: string_list(cursor, "connection ids")?,
                host_ids: string_list(cursor, "host ids")?,
            },
            event_type => Event::Unknown {
                event_type,
                rest: cursor.rest(),
            },
        })
    }

    pub(super) fn encode(&self, writer: &mut Writer<'_>) -> Result<(), EncodeError> {
        writer.string("event type", self.event_type())?;
        match self {
            Event::TopologyChange(change) | Event::StatusChange(change) => change.encode(writer),
            Event::SchemaChange(change) => change.encode(writer),
            Event::ClientRoutesChange {
                change,
                connection_ids,
                host_ids,
            } => {
                writer.string("change", change)?;
                write_string_list(writer, "connection ids", connection_ids)?;
                write_string_list(writer, "host ids", host_ids)
            }
            Event::Unknown { rest, .. } => {
                writer.raw(rest);
                Ok(())
            }
        }
    }
}

impl<'a> NodeChange<'a> {
    fn decode(cursor: &mut Cursor<'a>) -> Result<Self, DecodeError> {
        let change = cursor.read("change", notation::string)?;
        let (address, port) = cursor.read("address", notation::inet)?;
        Ok(NodeChange {
            change,
            address,
            port,
        })
    }

    fn encode(&self, writer: &mut Writer<'_>) -> Result<(), EncodeError> {
        writer.string("change", self.change)?;
        writer.inet(self.address, self.port);
        Ok(())
    }
}

impl<'a> SchemaChange<'a> {
    pub(super) fn decode(cursor: &mut Cursor<'a>) -> Result<Self, DecodeError> {
        let change = cursor.read("change", notation::string)?;
        let target = cursor.read("target", notation::string)?;
        let keyspace = cursor.read("keyspace", notation::string)?;
        let object = SchemaObject::decode(cursor, target)?;
        Ok(SchemaChange {
            change,
            keyspace,
            object,
        })
    }

    pub(super) fn encode(&self, writer: &mut Writer<'_>) -> Result<(), EncodeError> {
        writer.string("change", self.change)?;
        writer.string("target", self.object.target())?;
        writer.string("keyspace", self.keyspace)?;
        self.object.encode(writer)
    }
}

impl<'a> SchemaObject<'a> {
    /// The target as the wire names it.
    pub fn target(&self) -> &'a str {
        match self {
            SchemaObject::Keyspace => "KEYSPACE",
            SchemaObject::Table(_) => "TABLE",
            SchemaObject::Type(_) => "TYPE",
            SchemaObject::Function(..) => "FUNCTION",
            SchemaObject::Aggregate(..) => "AGGREGATE",
            SchemaObject::Other { target, .. } => target,
        }
    }

    fn decode(cursor: &mut Cursor<'a>, target: &'a str) -> Result<Self, DecodeError> {
        if target == "KEYSPACE" {
            return Ok(SchemaObject::Keyspace);
        }
        let is_known = matches!(target, "TABLE" | "TYPE" | "FUNCTION" | "AGGREGATE");
        if !is_known {
            return Ok(SchemaObject::Other {
                target,
                name: cursor.read("name", notation::string).ok(),
            });
        }
        let name = cursor.read("name", notation::string)?;
        Ok(match target {
            "TABLE" => SchemaObject::Table(name),
            "TYPE" => SchemaObject::Type(name),
            "FUNCTION" => SchemaObject::Function(name, string_list(cursor, "argument types")?),
            _ => SchemaObject::Aggregate(name, string_list(cursor, "argument types")?),
        })
    }

    fn encode(&self, writer: &mut Writer<'_>) -> Result<(), EncodeError> {
        match self {
            SchemaObject::Keyspace | SchemaObject::Other { name: None, .. } => Ok(()),
            SchemaObject::Table(name)
            | SchemaObject::Type(name)
            | SchemaObject::Other { name: Some(name), .. } => writer.string("name", name),
            SchemaObject::Function(name, argument_types) | SchemaObject::Aggregate(name, argument_types) => {
                writer.string("name", name)?;
                write_string_list(writer, "argument types", argument_types)
            }
        }
    }
}
