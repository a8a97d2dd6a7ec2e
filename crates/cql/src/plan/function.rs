//! Functions and arithmetic in terms: which of several signatures is meant, and what the deterministic ones give.
//!
//! Followed are conversions to and from blobs, between dates, times and time-based UUIDs, `token()`, and arithmetic.
//! Everything else is left to the server: the number of keys stays known, the key does not.

use std::borrow::Cow;

use crate::syntax::ast::{self, ArithmeticOperator, FunctionCall};
use cqlens_proto::message::Values;
use cqlens_proto::types::CqlType;

use super::arithmetic::{self, Operation};
use super::cast;
use super::refusal::Refusal;
use super::term::{Compiler, Datum, Fault, Fit, Receiver, Term, accepts};
use super::value;
use crate::murmur3;

/// A function with its arguments.
#[derive(Debug, Clone)]
pub(super) struct Call {
    pub(super) function: Function,
    pub(super) arguments: Vec<(CqlType, Term)>,
    pub(super) result: CqlType,
}

/// The functions that are followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Function {
    /// A value of the server's own: `now()`, `uuid()`, ...
    Generate,
    /// What the server's clock says, by name.
    Clock(&'static str),
    /// The bytes as they are: `int_as_blob`, `blob_as_int`.
    Reinterpret,
    ToDate,
    ToTimestamp,
    ToUnixTimestamp,
    MinTimeUuid,
    MaxTimeUuid,
    /// The token of a partition key.
    Token,
    Cast,
    Negate,
    Operate(ArithmeticOperator),
}

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

/// Compiles a function call, a negation or a sum or product.
pub(super) fn compile(
    compiler: Compiler<'_>,
    term: &ast::Term<'_>,
    receiver: Receiver<'_>,
) -> Result<Term, Refusal> {
    match term {
        _ if compiler.is_exhausted() => Ok(Term::Unknown(Fault::NotFollowed)),
        ast::Term::Function(call) => {
            let Some(signatures) = signatures(compiler, call) else {
                return Ok(Term::Unknown(Fault::NotFollowed));
            };
            // What sums of strings and dates give is the server's business, and so is which function takes it.
            if call.arguments.iter().any(arithmetic::is_other_sum) {
                return Ok(Term::Unknown(Fault::NotFollowed));
            }
            let chosen = choose(compiler, signatures, &call.arguments, Some(receiver.cql_type));
            let signature = chosen.map_err(|message| Refusal::at(message, call.span))?;
            if !accepts(receiver.cql_type, &signature.result) {
                let message = format!(
                    "Type error: cannot assign result of function {} (type {}) to {} (type {})",
                    call.name.name, signature.result, receiver.name, receiver.cql_type
                );
                return Err(Refusal::at(message, call.span));
            }
            call_of(
                compiler,
                call.name.name.as_str(),
                signature,
                call.arguments.iter(),
            )
        }
        _ => arithmetic::compile(compiler, &Operation::of(term), receiver),
    }
}

/// A call with its arguments compiled, evaluated now if nothing is bound. All functions that are followed are the
/// server's own.
pub(super) fn call_of<'t>(
    compiler: Compiler<'_>,
    name: &str,
    signature: Signature,
    arguments: impl Iterator<Item = &'t ast::Term<'t>>,
) -> Result<Term, Refusal> {
    let mut compiled = Vec::new();
    for (index, (argument, cql_type)) in arguments.zip(signature.arguments).enumerate() {
        let term = compiler.term(
            argument,
            Receiver {
                name: &argument_name(index, name),
                cql_type: &cql_type,
            },
        )?;
        compiled.push((cql_type, term));
    }
    let call = Call {
        function: signature.function,
        arguments: compiled,
        result: signature.result,
    };
    Ok(Term::Call(Box::new(call)).folded())
}

/// What a marker is called that is an argument: `Function.makeArgSpec`.
pub(super) fn argument_name(index: usize, function: &str) -> String {
    format!("arg{index}(system.{})", function.to_lowercase())
}

/// How well a function call, negation, sum or product fits a type.
pub(super) fn fit(compiler: Compiler<'_>, term: &ast::Term<'_>, cql_type: &CqlType) -> Fit {
    let ast::Term::Function(call) = term else {
        return arithmetic::fit(compiler, &Operation::of(term), cql_type);
    };
    let signature = signatures(compiler, call)
        .and_then(|signatures| choose(compiler, signatures, &call.arguments, Some(cql_type)).ok());
    match signature {
        // What goes wrong is said when the call is compiled.
        None => Fit::Weakly,
        Some(signature) if signature.result == *cql_type => Fit::Exactly,
        Some(signature) if accepts(cql_type, &signature.result) => Fit::Weakly,
        Some(_) => Fit::Not,
    }
}

/// The one signature that is meant: `FunctionResolver.pickBestMatch`.
fn choose(
    compiler: Compiler<'_>,
    mut signatures: Vec<Signature>,
    arguments: &[ast::Term<'_>],
    receiver: Option<&CqlType>,
) -> Result<Signature, &'static str> {
    let is_only_one = signatures.len() == 1;
    signatures.retain(|signature| signature.arguments.len() == arguments.len());
    if signatures.is_empty() {
        return Err("invalid number of arguments in call to a function");
    }
    let mut candidates = Vec::new();
    for signature in signatures {
        if !is_only_one && receiver.is_some_and(|receiver| !accepts(receiver, &signature.result)) {
            continue;
        }
        let fits = signature.arguments.iter().zip(arguments);
        match fits
            .map(|(cql_type, argument)| compiler.fit(argument, cql_type))
            .min()
        {
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

/// The signatures of a native function that is followed.
fn signatures(compiler: Compiler<'_>, call: &FunctionCall<'_>) -> Option<Vec<Signature>> {
    use CqlType::{BigInt, Date, Time, TimeUuid, Timestamp, Uuid};
    let is_native = call
        .name
        .keyspace
        .as_ref()
        .is_none_or(|keyspace| keyspace.as_str() == "system");
    let name = call.name.name.as_str();
    let is_users = compiler
        .keyspace
        .is_some_and(|keyspace| keyspace.functions.contains(name));
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
        "token" if !compiler.partition_key.is_empty() => {
            vec![Signature::new(
                Function::Token,
                compiler.partition_key,
                compiler.token_type.clone(),
            )]
        }
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

impl Call {
    /// The function's value.
    pub(super) fn evaluate<'v>(&'v self, values: Option<&Values<'v>>) -> Result<Datum<'v>, Fault> {
        match self.function {
            Function::Generate => return Err(Fault::Generated(None)),
            Function::Clock(name) => return Err(Fault::Generated(Some(name))),
            _ => {}
        }
        let mut arguments: Vec<Cow<'v, [u8]>> = Vec::with_capacity(self.arguments.len());
        let mut any_null = false;
        for (_, term) in &self.arguments {
            match term.evaluate(values)? {
                Datum::Bytes(bytes) => arguments.push(bytes),
                Datum::Null => any_null = true,
                Datum::NotSet => {
                    return Err(Fault::invalid(
                        "Invalid unset value for argument in call to function",
                    ));
                }
            }
        }
        if any_null {
            return Ok(Datum::Null);
        }
        if let [only] = arguments.as_slice()
            && self.function == Function::Reinterpret
        {
            let valid = value::is_valid(&self.result, only);
            return valid
                .then(|| Datum::Bytes(only.clone()))
                .ok_or_else(|| Fault::invalid("a blob is not a value of the type that it is taken for"));
        }
        self.apply(&arguments)
            .map(|bytes| bytes.map_or(Datum::Null, |bytes| Datum::Bytes(Cow::Owned(bytes))))
    }

    /// The bytes of the result; none for null.
    fn apply(&self, arguments: &[Cow<'_, [u8]>]) -> Result<Option<Vec<u8>>, Fault> {
        let arguments: Vec<(&CqlType, &[u8])> = self
            .arguments
            .iter()
            .map(|(cql_type, _)| cql_type)
            .zip(arguments.iter().map(AsRef::as_ref))
            .collect();
        match (self.function, arguments.as_slice()) {
            (Function::Token, components) => Ok(token(components)),
            // Empty numbers and times are null to functions.
            (_, arguments) if arguments.iter().any(|(_, bytes)| bytes.is_empty()) => Ok(None),
            (Function::Negate, [(cql_type, bytes)]) => arithmetic::negate(cql_type, bytes).map(Some),
            (Function::Operate(operator), [left, right]) => {
                arithmetic::operate(operator, *left, *right, &self.result).map(Some)
            }
            (Function::Cast, [(cql_type, bytes)]) => cast::convert(cql_type, bytes, &self.result).map(Some),
            (function, [(cql_type, bytes)]) => Ok(convert_time(function, cql_type, bytes)),
            _ => Err(Fault::NotFollowed),
        }
    }
}

fn token(components: &[(&CqlType, &[u8])]) -> Option<Vec<u8>> {
    let token = match components {
        [(_, only)] => murmur3::token(only),
        several => {
            let mut key = Vec::new();
            if !several
                .iter()
                .all(|(_, component)| murmur3::push_component(&mut key, component))
            {
                return None;
            }
            murmur3::token(&key)
        }
    };
    Some(token.to_be_bytes().to_vec())
}

/// Milliseconds from the epoch of time-based UUIDs (1582-10-15) to 1970.
const UUID_EPOCH_MILLIS: i64 = 12_219_292_800_000;
const MILLIS_OF_DAY: i64 = 86_400_000;

fn convert_time(function: Function, from: &CqlType, bytes: &[u8]) -> Option<Vec<u8>> {
    let millis = match from {
        CqlType::Timestamp => i64::from_be_bytes(*bytes.first_chunk()?),
        CqlType::Date => (i64::from(u32::from_be_bytes(*bytes.first_chunk()?)) - (1 << 31)) * MILLIS_OF_DAY,
        CqlType::TimeUuid => {
            let [low0, low1, low2, low3, mid0, mid1, high0, high1] = *bytes.first_chunk::<8>()?;
            let ticks = i64::from_be_bytes([high0 & 0x0f, high1, mid0, mid1, low0, low1, low2, low3]);
            ticks / 10_000 - UUID_EPOCH_MILLIS
        }
        _ => return None,
    };
    match function {
        Function::ToDate => Some(value::days_of_date(millis.div_euclid(MILLIS_OF_DAY))),
        Function::ToTimestamp | Function::ToUnixTimestamp => Some(millis.to_be_bytes().to_vec()),
        // The least and the greatest clock sequence and node, as signed bytes.
        Function::MinTimeUuid => Some(time_uuid(millis, 0, 0x80)),
        Function::MaxTimeUuid => Some(time_uuid(millis, 9_999, 0x7f)),
        _ => None,
    }
}

fn time_uuid(millis: i64, ticks: i64, rest: u8) -> Vec<u8> {
    let ticks = millis
        .wrapping_add(UUID_EPOCH_MILLIS)
        .wrapping_mul(10_000)
        .wrapping_add(ticks);
    let [high0, high1, mid0, mid1, low0, low1, low2, low3] = ticks.to_be_bytes();
    let mut bytes = vec![low0, low1, low2, low3, mid0, mid1, 0x10 | (high0 & 0x0f), high1];
    bytes.resize(16, rest);
    bytes
}
