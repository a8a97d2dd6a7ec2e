//! From the terms of the tree to [`CompiledTerm`]s of a known type.

mod cast;
mod fit;
mod operation;
mod signature;
mod tree;

use crate::schema::{DataType, Keyspace};
use crate::syntax::{Span, Work, ast};
use cqlens_proto::types::CqlType;

use super::constants::BoundConstants;
use super::refusal::Refusal;
use super::term::{Call, CompiledTerm, Fault, Function, Marker};
use super::value;
use cast::CastSource;
use fit::Fit;
pub(super) use fit::accepts;
use operation::{Operands, Operation};
use signature::Signature;
use tree::{is_constant, steps};

/// Compiles terms of the tree for receivers of known types.
#[derive(Debug, Clone, Copy)]
pub(super) struct Compiler<'s> {
    /// The keyspace of the statement: its types and functions are known by name.
    pub(super) keyspace: Option<&'s Keyspace>,
    /// The types of the partition key of the statement's table: what `token()` takes.
    pub(super) partition_key: &'s [CqlType],
    /// The type of the table's tokens: what `token()` gives.
    pub(super) token_type: &'s CqlType,
    /// What it may cost: nested calls ask again and again how well their arguments fit, and time would double
    /// with each level.
    pub(super) work: &'s Work,
    /// Where constants are taken for markers, which ones were.
    pub(super) constants: Option<&'s BoundConstants<'s>>,
}

/// What receives a term's value.
#[derive(Debug, Clone, Copy)]
pub(super) struct Receiver<'r> {
    /// Its name, which markers without a name take over.
    pub(super) name: &'r str,
    pub(super) cql_type: &'r CqlType,
}

impl Compiler<'_> {
    /// Compiles a term for a receiver.
    pub(super) fn term(&self, term: &ast::Term<'_>, receiver: Receiver<'_>) -> Result<CompiledTerm, Refusal> {
        let cql_type = receiver.cql_type;
        if !self.work.spend(steps(term, cql_type)) {
            return Ok(CompiledTerm::Unknown(Fault::NotFollowed));
        }
        let misfit = || {
            let message = format!("invalid value for \"{}\" of type {cql_type}", receiver.name);
            Refusal::at(message, term.span())
        };
        match term {
            ast::Term::Literal(literal) => {
                let compiled = constant(literal, cql_type);
                let compiled = match self.constants {
                    Some(constants) => constants.bound(literal, cql_type, compiled),
                    None => compiled,
                };
                compiled.ok_or_else(misfit)
            }
            ast::Term::Null(_) if *cql_type == CqlType::Counter => Err(misfit()),
            ast::Term::Null(_) => Ok(CompiledTerm::Null),
            // What a row holds that the server has yet to read.
            ast::Term::Reference(_) => Ok(CompiledTerm::Unknown(Fault::Generated(None))),
            ast::Term::BindMarker(marker) => Ok(CompiledTerm::Marker(marker_of(marker, receiver))),
            ast::Term::TypeHint {
                type_name,
                term: inner,
                ..
            } => {
                let hinted = self.type_of(type_name);
                if self.fit(inner, &hinted) == Fit::Not || !accepts(cql_type, &hinted) {
                    return Err(misfit());
                }
                self.term(inner, receiver)
            }
            ast::Term::Tuple { items, .. } => self.tuple(items, receiver).unwrap_or_else(|| Err(misfit())),
            ast::Term::List { items, .. } => match cql_type {
                CqlType::List(element) => {
                    self.collection(cql_type, items.iter().map(|item| (item, &**element)), receiver)
                }
                CqlType::Vector(element, dimension) if usize::try_from(*dimension) == Ok(items.len()) => {
                    self.collection(cql_type, items.iter().map(|item| (item, &**element)), receiver)
                }
                _ => Err(misfit()),
            },
            ast::Term::Set { items, .. } => match cql_type {
                CqlType::Set(element) => {
                    self.collection(cql_type, items.iter().map(|item| (item, &**element)), receiver)
                }
                CqlType::Map(_) if items.is_empty() => {
                    self.collection(cql_type, std::iter::empty(), receiver)
                }
                _ => Err(misfit()),
            },
            ast::Term::Map { entries, .. } => match cql_type {
                CqlType::Map(entry) => {
                    let items = entries
                        .iter()
                        .flat_map(|(key, value)| [(key, &entry.0), (value, &entry.1)]);
                    self.collection(cql_type, items, receiver)
                }
                _ => Err(misfit()),
            },
            ast::Term::UserType { fields, .. } => {
                self.user_type(fields, receiver).unwrap_or_else(|| Err(misfit()))
            }
            ast::Term::Function(_) | ast::Term::Arithmetic { .. } | ast::Term::Negation { .. }
                if self.is_exhausted() =>
            {
                Ok(CompiledTerm::Unknown(Fault::NotFollowed))
            }
            ast::Term::Function(call) => self.function(call, receiver),
            ast::Term::Arithmetic { .. } | ast::Term::Negation { .. } => {
                self.operation(&Operation::of(term), receiver)
            }
            ast::Term::Cast { term, target, .. } => {
                let target = self.type_of(&ast::TypeName::Native(*target));
                self.cast(term, &target, receiver)
            }
            _ => Err(misfit()),
        }
    }

    /// How well a term fits a type, without its being evaluated.
    pub(super) fn fit(&self, term: &ast::Term<'_>, cql_type: &CqlType) -> Fit {
        if !self.work.spend(steps(term, cql_type)) {
            return Fit::Weakly;
        }
        let receiver = Receiver { name: "", cql_type };
        match term {
            ast::Term::Literal(literal) => {
                self.constants.inspect(|constants| constants.depend());
                Fit::of_literal(literal, cql_type)
            }
            ast::Term::Null(_) if *cql_type == CqlType::Counter => Fit::Not,
            ast::Term::Null(_) | ast::Term::BindMarker(_) => Fit::Weakly,
            ast::Term::TypeHint { type_name, .. } => Fit::of_type(&self.type_of(type_name), cql_type),
            ast::Term::Tuple { items, .. } if items.len() == 1 && !matches!(cql_type, CqlType::Tuple(_)) => {
                self.fit(&items[0], cql_type)
            }
            ast::Term::Function(call) => self.fit_of_function(call, cql_type),
            ast::Term::Arithmetic { .. } | ast::Term::Negation { .. } => {
                let fit = |term: &ast::Term<'_>, cql_type: &CqlType| self.fit(term, cql_type);
                operation::fit(self.operands(&fit), &Operation::of(term), cql_type)
            }
            ast::Term::Cast { target, .. } => {
                Fit::of_type(&self.type_of(&ast::TypeName::Native(*target)), cql_type)
            }
            _ if self.term(term, receiver).is_ok() => Fit::Weakly,
            _ => Fit::Not,
        }
    }

    /// Whether the statement is too entangled to be followed further.
    fn is_exhausted(&self) -> bool {
        self.work.is_exhausted()
    }

    /// The type that a name stands for in the statement's keyspace.
    pub(super) fn type_of(&self, type_name: &ast::TypeName<'_>) -> CqlType {
        let data_type = DataType::of(type_name);
        match self.keyspace {
            Some(keyspace) => keyspace.resolve(&data_type),
            None => Keyspace::default().resolve(&data_type),
        }
    }

    /// Components of a tuple; `None` if the type is none. In brackets, `(1)` may also be just a 1.
    fn tuple(
        &self,
        items: &[ast::Term<'_>],
        receiver: Receiver<'_>,
    ) -> Option<Result<CompiledTerm, Refusal>> {
        let types: Vec<&CqlType> = match receiver.cql_type {
            CqlType::Tuple(types) => types.iter().collect(),
            CqlType::Udt(udt) => udt.fields.iter().map(|(_, field)| field).collect(),
            _ if items.len() == 1 => return Some(self.term(&items[0], receiver)),
            _ => return None,
        };
        if items.len() > types.len() {
            return None;
        }
        let names = (0..).map(|index| format!("{}[{index}]", receiver.name));
        Some(self.components(names.zip(items.iter().zip(types))))
    }

    /// The components of a tuple or user-defined type, each with the name of a marker in its place.
    pub(super) fn components<'t>(
        &self,
        items: impl Iterator<Item = (String, (&'t ast::Term<'t>, &'t CqlType))>,
    ) -> Result<CompiledTerm, Refusal> {
        let items = items.map(|(name, (item, cql_type))| {
            let receiver = Receiver {
                name: &name,
                cql_type,
            };
            self.term(item, receiver)
        });
        let items: Result<Vec<CompiledTerm>, Refusal> = items.collect();
        Ok(CompiledTerm::Tuple(items?).folded())
    }

    fn user_type(
        &self,
        fields: &[(ast::Name<'_>, ast::Term<'_>)],
        receiver: Receiver<'_>,
    ) -> Option<Result<CompiledTerm, Refusal>> {
        let CqlType::Udt(udt) = receiver.cql_type else {
            return None;
        };
        let known = |name: &str| udt.fields.iter().any(|(field, _)| field == name);
        if !fields.iter().all(|(name, _)| known(name.as_str())) {
            return None;
        }
        let null = ast::Term::Null(Span::default());
        // Of a field that is given twice the last value counts.
        let value = |field: &str| {
            let given = fields.iter().rev().find(|(name, _)| name == field);
            given.map_or(&null, |(_, value)| value)
        };
        let fields = udt.fields.iter();
        let fields =
            fields.map(|(field, cql_type)| (format!("{}.{field}", receiver.name), (value(field), cql_type)));
        Some(self.components(fields))
    }

    fn collection<'t>(
        &self,
        cql_type: &CqlType,
        items: impl Iterator<Item = (&'t ast::Term<'t>, &'t CqlType)>,
        receiver: Receiver<'_>,
    ) -> Result<CompiledTerm, Refusal> {
        const NULL: &str = "null is not supported inside collections";
        let mut compiled = Vec::new();
        let mut null = None;
        let mut all_constant = true;
        for (item, element) in items {
            all_constant &= is_constant(item);
            let name = &format!("value({})", receiver.name);
            let element = Receiver {
                name,
                cql_type: element,
            };
            let term = self.term(item, element)?;
            match &term {
                CompiledTerm::Null => null = Some(item.span()),
                // Vectors may hold markers, collections may not.
                CompiledTerm::Marker(_) if !matches!(cql_type, CqlType::Vector(..)) => {
                    let message = "bind variables are not supported inside collection literals";
                    return Err(Refusal::at(message, item.span()));
                }
                _ => {}
            }
            compiled.push(term);
        }
        match null {
            // Cassandra puts constants together when it prepares, everything else when it executes.
            Some(span) if all_constant => Err(Refusal::at(NULL, span)),
            Some(_) => Ok(CompiledTerm::Unknown(Fault::invalid(NULL))),
            None => Ok(CompiledTerm::Collection(cql_type.clone(), compiled).folded()),
        }
    }
}

/// A constant as a value of a type; none where it is none.
pub(super) fn constant(literal: &ast::Literal<'_>, cql_type: &CqlType) -> Option<CompiledTerm> {
    match (literal.kind, cql_type) {
        // No key is a duration, and nothing that is followed takes one.
        (ast::LiteralKind::Duration, CqlType::Duration) => Some(CompiledTerm::Unknown(Fault::NotFollowed)),
        (ast::LiteralKind::Duration, _) => None,
        (_, CqlType::Inet) if value::is_host_name(literal) => Some(CompiledTerm::Unknown(Fault::NotFollowed)),
        _ => value::parse(cql_type, literal).map(|bytes| CompiledTerm::Constant(bytes.into_boxed_slice())),
    }
}

/// Functions, casts and arithmetic.
impl Compiler<'_> {
    fn function(
        &self,
        call: &ast::FunctionCall<'_>,
        receiver: Receiver<'_>,
    ) -> Result<CompiledTerm, Refusal> {
        let Some(signatures) = self.signatures(call) else {
            return Ok(CompiledTerm::Unknown(Fault::NotFollowed));
        };
        // What sums of strings and dates give is the server's business, and so is which function takes it.
        if call.arguments.iter().any(operation::is_other_sum) {
            return Ok(CompiledTerm::Unknown(Fault::NotFollowed));
        }
        let chosen = self.choose(signatures, call, receiver.cql_type);
        let signature = chosen.map_err(|message| Refusal::at(message, call.span))?;
        if !accepts(receiver.cql_type, &signature.result) {
            let message = format!(
                "Type error: cannot assign result of function {} (type {}) to {} (type {})",
                call.name.name, signature.result, receiver.name, receiver.cql_type
            );
            return Err(Refusal::at(message, call.span));
        }
        self.call(call.name.name.as_str(), signature, call.arguments.iter())
    }

    fn fit_of_function(&self, call: &ast::FunctionCall<'_>, cql_type: &CqlType) -> Fit {
        let signatures = self.signatures(call);
        let signature = signatures.and_then(|signatures| self.choose(signatures, call, cql_type).ok());
        // What goes wrong is said when the call is compiled.
        signature.map_or(Fit::Weakly, |signature| Fit::of_type(&signature.result, cql_type))
    }

    fn signatures(&self, call: &ast::FunctionCall<'_>) -> Option<Vec<Signature>> {
        let token = || {
            let has_key = !self.partition_key.is_empty();
            has_key.then(|| Signature::new(Function::Token, self.partition_key, self.token_type.clone()))
        };
        signature::signatures(call, self.keyspace, token)
    }

    fn choose(
        &self,
        signatures: Vec<Signature>,
        call: &ast::FunctionCall<'_>,
        receiver: &CqlType,
    ) -> Result<Signature, &'static str> {
        signature::choose(
            signatures,
            call.arguments.len(),
            receiver,
            |argument, cql_type| self.fit(&call.arguments[argument], cql_type),
        )
    }

    /// A call with its arguments compiled, evaluated now if nothing is bound: all functions that are followed
    /// are the server's own.
    fn call<'t>(
        &self,
        name: &str,
        signature: Signature,
        arguments: impl Iterator<Item = &'t ast::Term<'t>>,
    ) -> Result<CompiledTerm, Refusal> {
        let mut compiled = Vec::new();
        for (index, (argument, cql_type)) in arguments.zip(signature.arguments).enumerate() {
            let receiver = Receiver {
                name: &argument_name(index, name),
                cql_type: &cql_type,
            };
            let term = self.term(argument, receiver)?;
            compiled.push((cql_type, term));
        }
        let call = Call {
            function: signature.function,
            arguments: compiled,
            result: signature.result,
        };
        Ok(CompiledTerm::Call(Box::new(call)).folded())
    }

    fn cast(
        &self,
        term: &ast::Term<'_>,
        target: &CqlType,
        receiver: Receiver<'_>,
    ) -> Result<CompiledTerm, Refusal> {
        if !accepts(receiver.cql_type, target) {
            let message = format!(
                "Type error: cannot assign a cast to {target} to {} ({})",
                receiver.name, receiver.cql_type
            );
            return Err(Refusal::at(message, term.span()));
        }
        let source = match cast::source(|source| self.fit(term, source)) {
            CastSource::Only(source) => source.clone(),
            CastSource::Unfit => return Err(Refusal::at("this term cannot be cast", term.span())),
            CastSource::Ambiguous => return Ok(CompiledTerm::Unknown(Fault::NotFollowed)),
        };
        let signature = Signature::new(Function::Cast, [source], target.clone());
        let name = format!("cast_as_{}", target.name());
        self.call(&name, signature, std::iter::once(term))
    }

    fn operands<'c>(&'c self, fit: &'c dyn Fn(&ast::Term<'_>, &CqlType) -> Fit) -> Operands<'c> {
        Operands { fit, work: self.work }
    }

    fn operation(&self, operation: &Operation<'_>, receiver: Receiver<'_>) -> Result<CompiledTerm, Refusal> {
        match operation {
            Operation::Operand(term) => self.term(term, receiver),
            Operation::Negation(term) => {
                let fit = |term: &ast::Term<'_>, cql_type: &CqlType| self.fit(term, cql_type);
                let number = operation::negated_type(self.operands(&fit), term, receiver.cql_type);
                let number = number.map_err(|message| Refusal::at(message, term.span()))?;
                let signature = Signature::new(Function::Negate, [number.clone()], number);
                self.call("_negate", signature, std::iter::once(*term))
            }
            Operation::Chain { first, rest } => self.chain(first, rest, receiver),
        }
    }

    fn chain(
        &self,
        first: &ast::Term<'_>,
        rest: &[(ast::ArithmeticOperator, ast::Term<'_>)],
        receiver: Receiver<'_>,
    ) -> Result<CompiledTerm, Refusal> {
        if !operation::is_followed(rest, receiver.cql_type) {
            return Ok(CompiledTerm::Unknown(Fault::NotFollowed));
        }
        let fit = |term: &ast::Term<'_>, cql_type: &CqlType| self.fit(term, cql_type);
        let types = operation::chain_types(self.operands(&fit), first, rest, receiver.cql_type)?;
        let argument = |index: usize, operator, term: &ast::Term<'_>, cql_type: &CqlType| {
            let name = &argument_name(index, operation::function_name(operator));
            self.operation(&Operation::of(term), Receiver { name, cql_type })
        };
        let (Some((first_operator, _)), Some(first_types)) = (rest.first(), types.first()) else {
            return self.operation(&Operation::of(first), receiver);
        };
        let mut value = argument(0, *first_operator, first, &first_types.left)?;
        for ((operator, right), types) in rest.iter().zip(types) {
            let right = argument(1, *operator, right, &types.right)?;
            let call = Call {
                function: Function::Operate(*operator),
                arguments: vec![(types.left, value), (types.right, right)],
                result: types.result,
            };
            value = CompiledTerm::Call(Box::new(call)).folded();
        }
        Ok(value)
    }
}

/// The name of a marker that is an argument: `Function.makeArgSpec`.
fn argument_name(index: usize, function: &str) -> String {
    format!("arg{index}(system.{})", function.to_lowercase())
}

/// A marker for a receiver.
pub(super) fn marker_of(marker: &ast::BindMarker<'_>, receiver: Receiver<'_>) -> Marker {
    let name = marker.name.as_ref().map_or(receiver.name, |name| name.as_str());
    Marker {
        index: marker.index,
        name: name.into(),
        cql_type: receiver.cql_type.clone(),
    }
}
