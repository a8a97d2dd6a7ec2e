//! Signatures of the functions that are followed, and which of several is meant (`FunctionResolver`).
//!
//! Followed are conversions to and from blobs, between dates, times and time-based UUIDs, and `token()`.
//! Every other function is left to the server: the number of keys stays known, the key does not.

use crate::plan::term::Function;
use crate::schema::Keyspace;
use crate::syntax::ast::FunctionCall;
use cqlens_proto::types::CqlType;

use super::fit::{Fit, accepts};

/// One way to call a function.
#[derive(Debug, Clone)]
pub(super) struct Signature {
    pub(super) function: Function,
    pub(super) arguments: Vec<CqlType>,
    pub(super) result: CqlType,
}

impl Signature {
    pub(super) fn new(function: Function, arguments: impl Into<Vec<CqlType>>, result: CqlType) -> Self {
        Self {
            function,
            arguments: arguments.into(),
            result,
        }
    }
}

/// The one signature that is meant: `FunctionResolver.pickBestMatch`.
///
/// `fit` says how well the argument of an index fits a type.
///
/// # Errors
///
/// What Cassandra says where no signature fits, or several.
pub(super) fn choose(
    mut signatures: Vec<Signature>,
    arguments: usize,
    receiver: &CqlType,
    fit: impl Fn(usize, &CqlType) -> Fit,
) -> Result<Signature, &'static str> {
    let is_only_one = signatures.len() == 1;
    signatures.retain(|signature| signature.arguments.len() == arguments);
    if signatures.is_empty() {
        return Err("invalid number of arguments in call to a function");
    }
    let mut candidates = Vec::new();
    for signature in signatures {
        if !is_only_one && !accepts(receiver, &signature.result) {
            continue;
        }
        let types = signature.arguments.iter().enumerate();
        match types.map(|(index, cql_type)| fit(index, cql_type)).min() {
            Some(Fit::Not) => {}
            Some(Fit::Weakly) => candidates.push(signature),
            Some(Fit::Exactly) | None => return Ok(signature),
        }
    }
    match candidates.len() {
        0 => Err("invalid call to a function: its arguments are of other types"),
        1 => Ok(candidates.remove(0)),
        _ => Err("ambiguous call to a function: use type casts to disambiguate"),
    }
}

/// The signatures of a native function that is followed; `token` is that of `token()`, if the table has a
/// partition key.
pub(super) fn signatures(
    call: &FunctionCall<'_>,
    keyspace: Option<&Keyspace>,
    token: impl FnOnce() -> Option<Signature>,
) -> Option<Vec<Signature>> {
    use CqlType::{BigInt, Date, Time, TimeUuid, Timestamp, Uuid};
    let is_native = call
        .name
        .keyspace
        .as_ref()
        .is_none_or(|keyspace| keyspace.as_str() == "system");
    let name = call.name.name.as_str();
    let is_users = keyspace.is_some_and(|keyspace| keyspace.functions.contains(name));
    if !is_native || is_users {
        return None;
    }
    let none = |result| vec![Signature::new(Function::Generate, [], result)];
    let clock = |name, result| vec![Signature::new(Function::Clock(name), [], result)];
    let from = |function, arguments: &[CqlType], result: &CqlType| {
        let signature = |argument: &CqlType| Signature::new(function, [argument.clone()], result.clone());
        arguments.iter().map(signature).collect()
    };
    Some(match name.replace('_', "").as_str() {
        "now" | "currenttimeuuid" => none(TimeUuid),
        "currenttimestamp" => clock("timestamp", Timestamp),
        "currentdate" => clock("date", Date),
        "currenttime" => clock("time", Time),
        "uuid" => none(Uuid),
        "mintimeuuid" => from(Function::MinTimeUuid, &[Timestamp], &TimeUuid),
        "maxtimeuuid" => from(Function::MaxTimeUuid, &[Timestamp], &TimeUuid),
        "todate" => from(Function::ToDate, &[TimeUuid, Timestamp], &Date),
        "totimestamp" => from(Function::ToTimestamp, &[TimeUuid, Date], &Timestamp),
        "tounixtimestamp" => from(Function::ToUnixTimestamp, &[TimeUuid, Timestamp, Date], &BigInt),
        "token" => vec![token()?],
        other => match (other.strip_suffix("asblob"), other.strip_prefix("blobas")) {
            (Some(native), _) => from(
                Function::Reinterpret,
                &[CqlType::native_from_name(native)?],
                &CqlType::Blob,
            ),
            (None, Some(native)) => from(
                Function::Reinterpret,
                &[CqlType::Blob],
                &CqlType::native_from_name(native)?,
            ),
            (None, None) => return None,
        },
    })
}
