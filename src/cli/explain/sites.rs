//! Where things are defined: which statement created a keyspace, a table or an index, and which set an option last.

use std::collections::BTreeMap;

use cqlens_cql::schema::{Schema, TableName};
use cqlens_cql::syntax::ast::{Body, CreateIndex, Dropped, QualifiedName, Statement, TableChange};

use super::source::PlacedStatement;
use cqlens_rules::{DefinitionPart, Finding};

/// The statement of each definition.
#[derive(Default)]
pub(super) struct DefinitionSites {
    /// By the statement that created or altered it last: most of it is replication.
    keyspaces: BTreeMap<String, PlacedStatement>,
    tables: BTreeMap<TableName, TableSites>,
    first: Option<PlacedStatement>,
}

/// The statements of a table or a view.
#[derive(Default)]
struct TableSites {
    /// Its columns and key, and the options that nothing has set since.
    created: Option<PlacedStatement>,
    options: BTreeMap<String, PlacedStatement>,
    indexes: BTreeMap<String, PlacedStatement>,
}

impl DefinitionSites {
    /// Takes note of a statement that has changed the schema to what it is now.
    pub(super) fn note(
        &mut self,
        statement: &Statement<'_>,
        keyspace: Option<&str>,
        schema: &Schema,
        place: &PlacedStatement,
    ) {
        self.first.get_or_insert_with(|| place.clone());
        let named = |name: &QualifiedName<'_>| {
            Some(TableName {
                keyspace: name.keyspace_or(keyspace)?.to_owned(),
                table: name.name.as_str().to_owned(),
            })
        };
        match &statement.body {
            Body::CreateKeyspace(create) => self.keyspace(create.name.as_str(), place),
            Body::AlterKeyspace(alter) => self.keyspace(alter.name.as_str(), place),
            Body::CreateTable(create) => self.created(named(&create.table), place),
            Body::CopyTable(copy) => self.created(named(&copy.table), place),
            Body::CreateView(create) => self.created(named(&create.view), place),
            Body::Drop(drop) if drop.dropped == Dropped::Keyspace => {
                let dropped = drop.name.name.as_str();
                self.tables.retain(|table, _| table.keyspace != dropped);
            }
            Body::Drop(drop) if drop.dropped != Dropped::Index => {
                named(&drop.name).map(|name| self.tables.remove(&name));
            }
            Body::CreateIndex(create) => self.index(named(&create.table), create, schema, place),
            Body::AlterTable(alter) => {
                if let TableChange::With(options) = &alter.change {
                    let names = options.iter().map(|option| option.name.as_str());
                    self.options(named(&alter.table), names, place);
                }
            }
            Body::AlterView(alter) => {
                let names = alter.options.iter().map(|option| option.name.as_str());
                self.options(named(&alter.view), names, place);
            }
            _ => {}
        }
    }

    fn keyspace(&mut self, name: &str, place: &PlacedStatement) {
        self.keyspaces.insert(name.to_owned(), place.clone());
    }

    /// `IF NOT EXISTS` leaves a table as it was.
    fn created(&mut self, name: Option<TableName>, place: &PlacedStatement) {
        if let Some(name) = name {
            let sites = self.tables.entry(name).or_default();
            sites.created.get_or_insert_with(|| place.clone());
        }
    }

    fn options<'o>(
        &mut self,
        table: Option<TableName>,
        names: impl Iterator<Item = &'o str>,
        place: &PlacedStatement,
    ) {
        if let Some(table) = table {
            let sites = self.tables.entry(table).or_default();
            sites
                .options
                .extend(names.map(|name| (name.to_owned(), place.clone())));
        }
    }

    /// An index without a name has one that the server makes: it is the one that has no place yet.
    fn index(
        &mut self,
        table: Option<TableName>,
        create: &CreateIndex<'_>,
        schema: &Schema,
        place: &PlacedStatement,
    ) {
        let Some(table) = table else { return };
        let defined = schema.table(&table.keyspace, &table.table);
        let sites = self.tables.entry(table).or_default();
        if let Some(name) = &create.name
            && !create.if_not_exists
        {
            sites.indexes.insert(name.as_str().to_owned(), place.clone());
        }
        for name in defined.into_iter().flat_map(|table| table.indexes.keys()) {
            if !sites.indexes.contains_key(name) {
                sites.indexes.insert(name.clone(), place.clone());
            }
        }
    }

    /// The first definition of all.
    pub(super) fn first(&self) -> Option<&PlacedStatement> {
        self.first.as_ref()
    }

    /// The definition that a finding speaks of, if it is one of them: that of the part, of the table, or of the keyspace.
    pub(super) fn of_finding(&self, finding: &Finding) -> Option<&PlacedStatement> {
        let keyspace = finding.keyspace.as_ref()?;
        let of_table = |table: &String| {
            self.tables.get(&TableName {
                keyspace: keyspace.clone(),
                table: table.clone(),
            })
        };
        let Some(table) = &finding.table else {
            return self.keyspaces.get(keyspace);
        };
        let sites = of_table(table);
        let part = finding.part.as_ref().and_then(|part| match part {
            DefinitionPart::View(view) => of_table(view)?.created.as_ref(),
            DefinitionPart::Option(option) => sites?.options.get(*option),
            DefinitionPart::Index(index) => sites?.indexes.get(index),
        });
        part.or_else(|| sites?.created.as_ref())
            .or_else(|| self.keyspaces.get(keyspace))
    }
}
