//! The schema that the inputs make: that of `--schema`, and what statements have changed of it so far. What the rules find
//! in its definitions is said where these stand.

use std::collections::BTreeSet;
use std::rc::Rc;

use cqlens_cql::schema::{DataType, Keyspace, Schema, SchemaError, SchemaErrorKind, TableName, is_system};
use cqlens_cql::syntax::ast::{Body, Dropped, QualifiedName, Statement};
use cqlens_cql::syntax::{self, DefinitionTarget, ParseError};

use super::lint::Judge;
use super::remark::Remark;
use super::server::Server;
use super::sites::DefinitionSites;
use super::source::{PlacedStatement, SourceText};
use cqlens_rules::Finding;

/// The schema so far, and where it is defined.
#[derive(Default)]
pub(super) struct Definitions {
    pub(super) schema: Schema,
    /// Whether `--schema` says all that there was before the inputs.
    is_complete: bool,
    /// Keyspaces of which all tables are known, since the inputs create them.
    created: BTreeSet<String>,
    /// Keyspaces that the inputs only name. What else they have is not known.
    assumed: BTreeSet<String>,
    undefined: Undefined,
    sites: DefinitionSites,
    /// What the rules found in `--schema`, and where that is.
    found_before: BTreeSet<FindingKey>,
    sites_before: DefinitionSites,
}

/// What definitions would have defined or altered that are not understood, or not accepted: nothing is known of it.
#[derive(Default)]
struct Undefined {
    keyspaces: BTreeSet<String>,
    /// Tables, views and types.
    objects: BTreeSet<TableName>,
}

/// What became of a definition.
pub(super) enum Applied {
    /// It is in force.
    Done,
    /// What it changes is not known.
    Unjudged(SchemaError),
    /// Cassandra would refuse it.
    Refused(SchemaError),
    /// The statement defines nothing.
    NoDefinition,
}

/// A statement of `--schema` that is left out.
pub(super) struct UnreadDefinition {
    pub(super) place: PlacedStatement,
    pub(super) error: SchemaError,
}

type FindingKey = (&'static str, Option<String>, Option<String>, Option<String>);

impl Definitions {
    /// Those of `--schema`, whose text is `source`; names without a keyspace are `keyspace`'s. What is not understood is
    /// left out.
    pub(super) fn of_schema(
        source: &Rc<SourceText>,
        keyspace: Option<&str>,
        judge: &Judge<'_>,
    ) -> (Self, Vec<UnreadDefinition>) {
        let mut definitions = Self::default();
        let mut left_out = Vec::new();
        let mut keyspace = keyspace.map(ToOwned::to_owned);
        for (span, statement) in syntax::statements(&source.text) {
            let place = source.statement(span);
            let applied = match &statement {
                Err(error) => definitions.not_understood(error, keyspace.as_deref(), &place),
                Ok(Statement {
                    body: Body::Use(using),
                    ..
                }) => {
                    keyspace = Some(using.keyspace.as_str().to_owned());
                    Applied::Done
                }
                Ok(statement) => definitions.apply(statement, keyspace.as_deref(), &place),
            };
            if let Applied::Unjudged(error) | Applied::Refused(error) = applied {
                left_out.push(UnreadDefinition { place, error });
            }
        }
        let judged = judge.definitions(&definitions.schema);
        let all = judged.open.iter().chain(&judged.accepted);
        definitions.found_before = all.map(key).collect();
        definitions.sites_before = std::mem::take(&mut definitions.sites);
        definitions.is_complete = true;
        (definitions, left_out)
    }

    /// The same where the cluster may have more than is known of it.
    pub(super) fn may_lack_some(self) -> Self {
        Self {
            is_complete: false,
            ..self
        }
    }

    /// Whether what is not found in that keyspace does not exist; else it may be defined elsewhere.
    pub(super) fn knows_all_of(&self, keyspace: Option<&str>) -> bool {
        let is_undefined = |name: &str| self.undefined.keyspaces.contains(name);
        match keyspace {
            None => self.is_complete,
            Some(name) if is_system(name) => true,
            Some(name) => (self.is_complete || self.created.contains(name)) && !is_undefined(name),
        }
    }

    /// Whether a definition of that table was not understood, or not accepted, or has a type that is defined elsewhere: what
    /// Cassandra would refuse is not known.
    pub(super) fn is_undefined(&self, keyspace: Option<&str>, table: &str) -> bool {
        keyspace.is_some_and(|keyspace| {
            // ScyllaDB's, of a table with `cdc`: the server defines it.
            let logged = table.strip_suffix("_scylla_cdc_log");
            let is_log = logged.is_some_and(|logged| self.schema.table(keyspace, logged).is_some());
            is_log
                || self.has_unknown_type(keyspace, table)
                || self.undefined.objects.contains(&TableName {
                    keyspace: keyspace.to_owned(),
                    table: table.to_owned(),
                })
        })
    }

    fn has_unknown_type(&self, keyspace: &str, table: &str) -> bool {
        let table = self.schema.table(keyspace, table);
        table
            .zip(self.schema.keyspace(keyspace))
            .is_some_and(|(table, keyspace)| {
                let mut columns = table.columns.iter();
                columns.any(|column| names_unknown_type(&column.data_type, keyspace))
            })
    }

    /// Takes note of a definition that is no CQL, or that the server does not read.
    pub(super) fn leave_out(&mut self, keyspace: Option<&str>, place: &PlacedStatement) {
        match (DefinitionTarget::of(place.text()), keyspace) {
            (Some(DefinitionTarget::Keyspace(name)), _) => {
                self.undefined.keyspaces.insert(name);
            }
            (
                Some(DefinitionTarget::Object {
                    keyspace: Some(keyspace),
                    name,
                }),
                _,
            ) => self.undefine(keyspace, name),
            (Some(DefinitionTarget::Object { keyspace: None, name }), Some(keyspace)) => {
                self.undefine(keyspace.to_owned(), name);
            }
            _ => {}
        }
    }

    fn undefine(&mut self, keyspace: String, table: String) {
        self.undefined.objects.insert(TableName { keyspace, table });
    }

    fn not_understood(
        &mut self,
        error: &ParseError,
        keyspace: Option<&str>,
        place: &PlacedStatement,
    ) -> Applied {
        self.leave_out(keyspace, place);
        Applied::Refused(SchemaError {
            kind: SchemaErrorKind::Syntax(error.clone()),
            span: error.span,
        })
    }

    /// Takes over a definition of the inputs. One that the server would refuse is said to be refused, and taken over as well as
    /// it can be: what follows means it.
    pub(super) fn define(
        &mut self,
        statement: &Statement<'_>,
        keyspace: Option<&str>,
        place: &PlacedStatement,
        server: Server,
    ) -> Applied {
        let refused = self.refuses(statement, keyspace, server);
        match (self.apply(statement, keyspace, place), refused) {
            (Applied::Done, Some(error)) => Applied::Refused(error),
            (applied, _) => applied,
        }
    }

    /// Why the server would refuse a statement, unless that is for something that may be defined elsewhere.
    pub(super) fn refuses(
        &self,
        statement: &Statement<'_>,
        keyspace: Option<&str>,
        server: Server,
    ) -> Option<SchemaError> {
        let Server::Cassandra(version) = server else {
            return None;
        };
        let error = self.schema.validate(statement, keyspace, version).err()?;
        match self.refused(error, keyspace_of(statement, keyspace)) {
            Applied::Refused(error) => Some(error),
            Applied::Done | Applied::Unjudged(_) | Applied::NoDefinition => None,
        }
    }

    /// Takes over a definition; names without a keyspace are `keyspace`'s.
    pub(super) fn apply(
        &mut self,
        statement: &Statement<'_>,
        keyspace: Option<&str>,
        place: &PlacedStatement,
    ) -> Applied {
        let outcome = match self.schema.apply(statement, keyspace) {
            Err(error) => self.apply_assuming(statement, keyspace, error),
            Ok(()) => Ok(()),
        };
        match outcome {
            Ok(()) => {
                if let Body::CreateKeyspace(create) = &statement.body {
                    let name = create.name.as_str();
                    self.undefined.keyspaces.remove(name);
                    self.created.insert(name.to_owned());
                }
                if let Some(name) = defined_anew(statement, keyspace) {
                    self.undefined.objects.remove(&name);
                }
                self.sites.note(statement, keyspace, &self.schema, place);
                Applied::Done
            }
            Err(error) => {
                let is_there = matches!(error.kind, SchemaErrorKind::AlreadyExists(_));
                let applied = self.refused(error, keyspace_of(statement, keyspace));
                if !is_there && !matches!(applied, Applied::NoDefinition) {
                    self.leave_out(keyspace, place);
                }
                applied
            }
        }
    }

    /// Tries again with a keyspace that only its name is known of, or forgets that it was no more.
    fn apply_assuming(
        &mut self,
        statement: &Statement<'_>,
        keyspace: Option<&str>,
        error: SchemaError,
    ) -> Result<(), SchemaError> {
        match error.kind {
            SchemaErrorKind::KeyspaceUnknown(name)
                if !self.is_complete || self.undefined.keyspaces.contains(&name) =>
            {
                let assumed = Keyspace {
                    name: name.clone(),
                    ..Keyspace::default()
                };
                self.schema.keyspaces.insert(name.clone(), assumed);
                self.assumed.insert(name);
                self.schema.apply(statement, keyspace)
            }
            SchemaErrorKind::AlreadyExists(name)
                if matches!(statement.body, Body::CreateKeyspace(_)) && self.assumed.remove(&name) =>
            {
                let assumed = self.schema.keyspaces.remove(&name).unwrap_or_default();
                self.schema.apply(statement, keyspace)?;
                if let Some(created) = self.schema.keyspaces.get_mut(&name) {
                    created.tables = assumed.tables;
                    created.types = assumed.types;
                }
                Ok(())
            }
            kind => Err(SchemaError { kind, ..error }),
        }
    }

    fn refused(&self, error: SchemaError, keyspace: Option<&str>) -> Applied {
        match &error.kind {
            SchemaErrorKind::NotADefinition(_) => Applied::NoDefinition,
            SchemaErrorKind::NoKeyspace if !self.is_complete => Applied::Unjudged(error),
            SchemaErrorKind::KeyspaceUnknown(_)
            | SchemaErrorKind::TableUnknown(_)
            | SchemaErrorKind::TypeUnknown(_)
            | SchemaErrorKind::FunctionUnknown(_)
            | SchemaErrorKind::IndexUnknown(_)
                if !self.knows_all_of(keyspace) =>
            {
                Applied::Unjudged(error)
            }
            SchemaErrorKind::TableUnknown(name) | SchemaErrorKind::TypeUnknown(name)
                if self.is_undefined(keyspace, name) =>
            {
                Applied::Unjudged(error)
            }
            _ => Applied::Refused(error),
        }
    }

    /// What the rules find in the definitions as they stand after the last input, the severest first, each with its place.
    /// What was there before stays with `--schema`.
    pub(super) fn findings(&self, judge: &Judge<'_>) -> JudgedDefinitions {
        let judged = judge.definitions(&self.schema);
        let placed = |finding: Finding| {
            let (new, before) = (&self.sites, &self.sites_before);
            let place = match self.found_before.contains(&key(&finding)) {
                true => before.of_finding(&finding),
                false => new.of_finding(&finding).or_else(|| before.of_finding(&finding)),
            };
            let place = place.or(new.first()).or(before.first())?;
            Some((finding, place.clone()))
        };
        JudgedDefinitions {
            accepted: judged.accepted,
            open: judged
                .open
                .into_iter()
                .filter_map(placed)
                .map(|(finding, place)| (Remark::from_finding(finding, Vec::new()), place))
                .collect(),
        }
    }
}

/// What the rules find in definitions, by whether it is accepted.
pub(super) struct JudgedDefinitions {
    pub(super) open: Vec<(Remark, PlacedStatement)>,
    pub(super) accepted: Vec<Finding>,
}

fn key(finding: &Finding) -> FindingKey {
    let finding = finding.clone();
    (finding.rule, finding.keyspace, finding.table, finding.subject)
}

/// Whether it is, or holds, a user-defined type that the keyspace does not have.
fn names_unknown_type(data_type: &DataType, keyspace: &Keyspace) -> bool {
    let unknown = |data_type: &DataType| names_unknown_type(data_type, keyspace);
    match data_type {
        DataType::Native(_) | DataType::Custom(_) => false,
        DataType::List(inner)
        | DataType::Set(inner)
        | DataType::Vector(inner, _)
        | DataType::Frozen(inner) => unknown(inner),
        DataType::Map(key, value) => unknown(key) || unknown(value),
        DataType::Tuple(components) => components.iter().any(unknown),
        DataType::UserDefined(name) => !keyspace.types.contains_key(name),
    }
}

/// What a statement defines or drops as a whole, so that all of it is known again.
fn defined_anew(statement: &Statement<'_>, keyspace: Option<&str>) -> Option<TableName> {
    let name = match &statement.body {
        Body::CreateTable(create) => &create.table,
        Body::CopyTable(copy) => &copy.table,
        Body::CreateType(create) => &create.name,
        Body::CreateView(create) => &create.view,
        Body::Drop(drop) if drop.dropped != Dropped::Index => &drop.name,
        _ => return None,
    };
    Some(TableName {
        keyspace: name.keyspace_or(keyspace)?.to_owned(),
        table: name.name.as_str().to_owned(),
    })
}

/// The keyspace of what a statement defines, alters or drops.
fn keyspace_of<'s>(statement: &'s Statement<'_>, keyspace: Option<&'s str>) -> Option<&'s str> {
    let of = |name: &'s QualifiedName<'_>| name.keyspace_or(keyspace);
    match &statement.body {
        Body::CreateKeyspace(create) => Some(create.name.as_str()),
        Body::AlterKeyspace(alter) => Some(alter.name.as_str()),
        Body::Drop(drop) if drop.dropped == Dropped::Keyspace => Some(drop.name.name.as_str()),
        Body::Drop(drop) => of(&drop.name),
        Body::CreateTable(create) => of(&create.table),
        Body::AlterTable(alter) => of(&alter.table),
        Body::CreateType(create) => of(&create.name),
        Body::AlterType(alter) => of(&alter.name),
        Body::CreateIndex(create) => of(&create.table),
        Body::CreateView(create) => of(&create.view),
        Body::AlterView(alter) => of(&alter.view),
        Body::Select(select) => of(&select.table),
        Body::Insert(insert) => of(&insert.table),
        Body::Update(update) => of(&update.table),
        Body::Delete(delete) => of(&delete.table),
        _ => keyspace,
    }
}
