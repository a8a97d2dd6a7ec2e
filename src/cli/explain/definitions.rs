//! The schema that the inputs make: that of `--schema`, and what statements have changed of it so far. What the rules find
//! in its definitions is said where these stand.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use cqlens_cql::schema::{Keyspace, Schema, SchemaError, SchemaErrorKind, TableName, is_system};
use cqlens_cql::syntax::ast::{Body, Dropped, QualifiedName, Statement};
use cqlens_cql::syntax::{self};

use super::lint::Judge;
use super::remark::Remark;
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
    places: DefinitionSites,
    /// What the rules found in `--schema`, and where that is.
    found_before: BTreeSet<FindingKey>,
    places_before: DefinitionSites,
}

/// What became of a definition.
pub(super) enum Applied {
    /// It is in force.
    Done,
    /// What it changes is not known.
    Unjudged,
    /// Cassandra would refuse it.
    Refused(SchemaError),
    /// The statement defines nothing.
    NoDefinition,
}

type FindingKey = (&'static str, Option<String>, Option<String>, Option<String>);

impl Definitions {
    /// Those of `--schema`, whose text is `source`.
    pub(super) fn of_schema(schema: Schema, source: &Rc<SourceText>, judge: &Judge<'_>) -> Self {
        let judged = judge.definitions(&schema);
        let all = judged.open.iter().chain(&judged.accepted);
        Self {
            found_before: all.map(key).collect(),
            places_before: DefinitionSites::of(source),
            schema,
            is_complete: true,
            ..Self::default()
        }
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
        self.is_complete || keyspace.is_some_and(|name| self.created.contains(name) || is_system(name))
    }

    /// Takes over a definition; names without a keyspace are `keyspace`'s.
    pub(super) fn apply(
        &mut self,
        statement: &Statement<'_>,
        keyspace: Option<&str>,
        place: &PlacedStatement,
    ) -> Applied {
        let defined = Defined::by(statement, keyspace);
        let outcome = match self.schema.apply(statement, keyspace) {
            Err(error) => self.apply_assuming(statement, keyspace, error),
            Ok(()) => Ok(()),
        };
        match outcome {
            Ok(()) => {
                if let Body::CreateKeyspace(create) = &statement.body {
                    self.created.insert(create.name.as_str().to_owned());
                }
                for defined in defined {
                    self.places.insert(defined, place.clone());
                }
                Applied::Done
            }
            Err(error) => self.refused(error, keyspace_of(statement, keyspace)),
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
            SchemaErrorKind::KeyspaceUnknown(name) if !self.is_complete => {
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
            SchemaErrorKind::NoKeyspace if !self.is_complete => Applied::Unjudged,
            SchemaErrorKind::KeyspaceUnknown(_)
            | SchemaErrorKind::TableUnknown(_)
            | SchemaErrorKind::TypeUnknown(_)
            | SchemaErrorKind::IndexUnknown(_)
                if !self.knows_all_of(keyspace) =>
            {
                Applied::Unjudged
            }
            _ => Applied::Refused(error),
        }
    }

    /// What the rules find in the definitions as they stand after the last input, the severest first, each with its place.
    /// What was there before stays with `--schema`.
    pub(super) fn findings(&self, judge: &Judge<'_>) -> JudgedDefinitions {
        let judged = judge.definitions(&self.schema);
        let placed = |finding: Finding| {
            let (new, before) = (&self.places, &self.places_before);
            let place = match self.found_before.contains(&key(&finding)) {
                true => before.of_finding(&finding),
                false => new.of_finding(&finding).or_else(|| before.of_finding(&finding)),
            };
            let place = place.or(new.first.as_ref()).or(before.first.as_ref())?;
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

/// What a statement defines or alters, in the eyes of the rules.
enum Defined {
    Keyspace(String),
    Table(TableName),
}

impl Defined {
    /// All of it: what a view costs is a finding on its base.
    fn by(statement: &Statement<'_>, keyspace: Option<&str>) -> Vec<Self> {
        let tables = match &statement.body {
            Body::CreateKeyspace(create) => return vec![Self::Keyspace(create.name.as_str().to_owned())],
            Body::AlterKeyspace(alter) => return vec![Self::Keyspace(alter.name.as_str().to_owned())],
            Body::CreateTable(create) => vec![&create.table],
            Body::AlterTable(alter) => vec![&alter.table],
            Body::CreateIndex(create) => vec![&create.table],
            Body::CreateView(create) => vec![&create.view, &create.base],
            Body::AlterView(alter) => vec![&alter.view],
            _ => Vec::new(),
        };
        let named = tables.into_iter().filter_map(|table| {
            Some(Self::Table(TableName {
                keyspace: table.keyspace_or(keyspace)?.to_owned(),
                table: table.name.as_str().to_owned(),
            }))
        });
        named.collect()
    }
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
        _ => keyspace,
    }
}

/// Where things are defined, or altered last.
#[derive(Default)]
struct DefinitionSites {
    keyspaces: BTreeMap<String, PlacedStatement>,
    tables: BTreeMap<TableName, PlacedStatement>,
    first: Option<PlacedStatement>,
}

impl DefinitionSites {
    fn of(source: &Rc<SourceText>) -> Self {
        let mut places = Self::default();
        let mut used: Option<String> = None;
        for (span, statement) in syntax::statements(&source.text) {
            let Ok(statement) = statement else { continue };
            if let Body::Use(using) = &statement.body {
                used = Some(using.keyspace.as_str().to_owned());
            }
            let place = source.statement(span);
            for defined in Defined::by(&statement, used.as_deref()) {
                places.insert(defined, place.clone());
            }
        }
        places
    }

    fn insert(&mut self, defined: Defined, place: PlacedStatement) {
        self.first.get_or_insert_with(|| place.clone());
        match defined {
            Defined::Keyspace(name) => drop(self.keyspaces.insert(name, place)),
            Defined::Table(name) => drop(self.tables.insert(name, place)),
        }
    }

    /// The definition that a finding speaks of, if it is one of them.
    fn of_finding(&self, finding: &Finding) -> Option<&PlacedStatement> {
        let keyspace = finding.keyspace.as_ref();
        let table = keyspace
            .zip(finding.table.as_ref())
            .and_then(|(keyspace, table)| {
                self.tables.get(&TableName {
                    keyspace: keyspace.clone(),
                    table: table.clone(),
                })
            });
        let keyspace = keyspace.and_then(|name| self.keyspaces.get(name));
        table.or(keyspace)
    }
}
