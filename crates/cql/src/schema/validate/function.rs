//! Which functions there are (`NativeFunctions`, 5.0).

use super::Validated;
use crate::ServerVersion;
use crate::schema::error::{SchemaError, SchemaErrorKind};
use crate::schema::model::Keyspace;
use crate::syntax::ast::{FunctionCall, Term};
use cqlens_proto::types::CqlType;

/// Without underscores, which most of them may be written with or without.
const NATIVE: &[&str] = &[
    "abs",
    "avg",
    "collectionavg",
    "collectioncount",
    "collectionmax",
    "collectionmin",
    "collectionsum",
    "count",
    "countrows",
    "currentdate",
    "currenttime",
    "currenttimestamp",
    "currenttimeuuid",
    "exp",
    "floor",
    "fromjson",
    "log",
    "log10",
    "mapkeys",
    "mapvalues",
    "maskdefault",
    "maskhash",
    "maskinner",
    "masknull",
    "maskouter",
    "maskreplace",
    "max",
    "maxtimeuuid",
    "min",
    "mintimeuuid",
    "now",
    "randomfloatvector",
    "round",
    "similaritycosine",
    "similaritydotproduct",
    "similarityeuclidean",
    "sum",
    "todate",
    "tojson",
    "token",
    "totimestamp",
    "tounixtimestamp",
    "uuid",
];

/// What 5.0 has removed.
const BEFORE_5_0: &[&str] = &["dateof", "unixtimestampof"];

/// Refuses calls of functions that neither Cassandra nor the keyspace has.
pub(super) fn check(term: &Term<'_>, keyspace: &Keyspace, version: ServerVersion) -> Validated {
    // What comes with later versions is not known.
    if version > ServerVersion::V5_0 {
        return Ok(());
    }
    match term {
        Term::Function(call) => {
            if !is_known(call, keyspace, version) {
                return Err(SchemaError {
                    kind: SchemaErrorKind::FunctionUnknown(call.name.name.as_str().to_owned()),
                    span: call.name.span(),
                });
            }
            call.arguments
                .iter()
                .try_for_each(|argument| check(argument, keyspace, version))
        }
        Term::Cast { term, .. } | Term::TypeHint { term, .. } | Term::Negation { term, .. } => {
            check(term, keyspace, version)
        }
        _ => Ok(()),
    }
}

fn is_known(call: &FunctionCall<'_>, keyspace: &Keyspace, version: ServerVersion) -> bool {
    let name = call.name.name.as_str();
    let of = call.name.keyspace.as_ref().map(|keyspace| keyspace.as_str());
    let is_users = keyspace.functions.contains(name) || keyspace.aggregates.contains(name);
    match of {
        Some("system") => is_native(name, version),
        Some(other) => other != keyspace.name || is_users,
        None => is_users || is_native(name, version),
    }
}

fn is_native(name: &str, version: ServerVersion) -> bool {
    let name = name.to_ascii_lowercase().replace('_', "");
    let is_type = |name: &str| CqlType::native_from_name(name).is_some();
    let converts = name.strip_suffix("asblob").is_some_and(is_type)
        || name.strip_prefix("blobas").is_some_and(is_type)
        || name.starts_with("castas");
    converts
        || NATIVE.contains(&name.as_str())
        || version < ServerVersion::V5_0 && BEFORE_5_0.contains(&name.as_str())
}
