//! `WHERE` clauses to restrictions, relation by relation (`StatementRestrictions`).

use crate::syntax::ast::{Comparand, Relation, RelationOperator, Subject, Where};

use super::compile::Receiver;
use super::index::Indexes;
use super::refusal::Refusal;
use super::restriction::{Restriction, Slice, Test};
use super::restrictions::{Purpose, Restrictions, TokenTest};
use super::translator::Translator;
use crate::schema::{Column, ColumnKind, Table};

impl<'s> Restrictions<'s> {
    /// Reads a `WHERE` clause.
    ///
    /// `ann` is the column of an `ORDER BY … ANN OF`; `only_static` says that all columns that are read or
    /// written are static.
    pub(super) fn of(
        translator: &Translator<'s>,
        clause: &Where<'_>,
        purpose: Purpose,
        ann: Option<&'s Column>,
        only_static: bool,
    ) -> Result<Self, Refusal> {
        Self::with_hints(translator, clause, purpose, ann, only_static, &[])
    }

    /// The same, where the statement excludes indexes.
    pub(super) fn with_hints(
        translator: &Translator<'s>,
        clause: &Where<'_>,
        purpose: Purpose,
        ann: Option<&'s Column>,
        only_static: bool,
        excluded: &'s [String],
    ) -> Result<Self, Refusal> {
        let mut restrictions = Self {
            table: translator.table,
            partition: vec![None; translator.table.partition_key().len()],
            token: None,
            clustering: Vec::new(),
            others: Vec::new(),
            is_key_range: false,
            uses_index: false,
            indexes: Vec::new(),
            refused_before_6: None,
        };
        let indexes = Indexes {
            table: translator.table,
            keyspace: translator.keyspace,
            excluded,
        };
        for relation in &clause.relations {
            restrictions.add_relation(translator, relation, purpose, indexes)?;
        }
        if let Some(column) = ann {
            let restriction = Restriction {
                columns: vec![column],
                is_multi_column: false,
                filters: Vec::new(),
                test: Test::Ann,
            };
            merge(&mut restrictions.others, restriction, translator.table)?;
        }
        restrictions.conclude(clause, purpose, indexes, only_static)?;
        Ok(restrictions)
    }

    fn add_relation(
        &mut self,
        translator: &Translator<'s>,
        relation: &Relation<'_>,
        purpose: Purpose,
        indexes: Indexes<'s>,
    ) -> Result<(), Refusal> {
        if let Subject::Token(names) = &relation.subject {
            return self.add_token(translator, names, relation);
        }
        let restriction = translator.restriction(relation)?;
        let is_write = matches!(purpose, Purpose::Update | Purpose::Delete);
        if restriction.is_contains() && is_write && !matches!(relation.subject, Subject::Element(..)) {
            return Err(Refusal::at(
                "Cannot use CONTAINS with this statement",
                relation.span,
            ));
        }
        if matches!(restriction.test, Test::IsNotNull) {
            return Err(Refusal::at("Unsupported restriction: IS NOT NULL", relation.span));
        }
        let is_select = matches!(purpose, Purpose::Select { .. });
        if matches!(restriction.test, Test::Like) && !(is_select && indexes.serve(&restriction)) {
            let message = "LIKE restriction is only supported on properly indexed columns";
            let refusal = Refusal::at(message, relation.span);
            let may_filter = purpose
                == Purpose::Select {
                    allow_filtering: true,
                };
            if !may_filter {
                return Err(refusal);
            }
            self.refused_before_6.get_or_insert(refusal);
        }
        self.note_new_relation(&restriction, relation);
        match restriction.kind() {
            ColumnKind::PartitionKey => self.add_partition(restriction),
            ColumnKind::Clustering(_) => {
                let allow_filtering = purpose
                    == Purpose::Select {
                        allow_filtering: true,
                    };
                let may_filter = allow_filtering || (is_select && indexes.serve(&restriction));
                self.add_clustering(restriction, may_filter)
            }
            ColumnKind::Static | ColumnKind::Regular => merge(&mut self.others, restriction, self.table),
        }
    }

    /// What Cassandra refuses up to 5.0, though it can be said.
    fn note_new_relation(&mut self, restriction: &Restriction<'_>, relation: &Relation<'_>) {
        let is_of_entry = matches!(relation.subject, Subject::Element(..));
        let message = match relation.operator {
            RelationOperator::NotEqual => "Unsupported \"!=\" relation",
            _ if is_of_entry && !restriction.columns[0].data_type.is_multi_cell() => {
                "Map-entry predicates on frozen map columns are not supported"
            }
            _ => return,
        };
        self.refused_before_6
            .get_or_insert_with(|| Refusal::at(message, relation.span));
    }

    fn add_partition(&mut self, restriction: Restriction<'s>) -> Result<(), Refusal> {
        let name = &restriction.columns[0].name;
        let position = self
            .table
            .partition_key()
            .iter()
            .position(|column| column.name == *name)
            .unwrap_or(0);
        let slot = &mut self.partition[position];
        *slot = Some(match slot.take() {
            Some(existing) => existing.and(restriction)?,
            None => restriction,
        });
        Ok(())
    }

    /// `ClusteringColumnRestrictions.mergeWith`.
    fn add_clustering(&mut self, restriction: Restriction<'s>, may_filter: bool) -> Result<(), Refusal> {
        let last = self
            .clustering
            .last()
            .map(|last| (last.positions(self.table).0, last.is_slice()));
        let (first, _) = restriction.positions(self.table);
        let is_slice = restriction.is_slice();
        let name = restriction.columns[0].name.clone();
        merge(&mut self.clustering, restriction, self.table)?;
        if let (Some((last_first, last_is_slice)), false) = (last, may_filter) {
            let after_slice = last_is_slice && first > last_first;
            let slice_before = is_slice && first < last_first;
            if after_slice || slice_before {
                let message = "cannot be restricted (preceding column is restricted by a non-EQ relation)";
                return Err(Refusal::new(format!("Clustering column \"{name}\" {message}")));
            }
        }
        Ok(())
    }

    fn add_token(
        &mut self,
        translator: &Translator<'s>,
        names: &[crate::syntax::ast::Name<'_>],
        relation: &Relation<'_>,
    ) -> Result<(), Refusal> {
        for name in names {
            translator.column(name.as_str(), name.span)?;
        }
        let key = self.table.partition_key();
        let in_order =
            names.len() == key.len() && names.iter().zip(key).all(|(name, column)| *name == *column.name);
        if !in_order {
            let message =
                "The token() function must be applied to all partition key components, in their order";
            return Err(Refusal::at(message, relation.span));
        }
        let receiver = Receiver {
            name: "partition key token",
            cql_type: translator.compiler.token_type,
        };
        let compile = |term| translator.compiler.term(term, receiver);
        let test = match (relation.operator, &relation.comparand) {
            (RelationOperator::Equal, Comparand::One(term)) => TokenTest::Equal(compile(term)?),
            (
                RelationOperator::LessThan
                | RelationOperator::LessOrEqual
                | RelationOperator::GreaterThan
                | RelationOperator::GreaterOrEqual,
                Comparand::One(term),
            ) => TokenTest::Slice(Slice::of(relation.operator, compile(term)?, false)),
            (RelationOperator::Between, Comparand::Range(range)) => {
                TokenTest::Slice(Slice::between(compile(&range.0)?, compile(&range.1)?, false))
            }
            _ => {
                return Err(Refusal::at(
                    "the operator cannot be used with the token function",
                    relation.span,
                ));
            }
        };
        self.token = Some(match (self.token.take(), test) {
            (None, test) => test,
            (Some(TokenTest::Slice(mine)), TokenTest::Slice(theirs)) => {
                TokenTest::Slice(mine.and(theirs, "token")?)
            }
            _ => {
                let message =
                    "the token cannot be restricted by more than one relation if it includes an Equal";
                return Err(Refusal::at(message, relation.span));
            }
        });
        Ok(())
    }
}

/// Adds a restriction, merged with those that share a column with it.
fn merge<'s>(
    into: &mut Vec<Restriction<'s>>,
    restriction: Restriction<'s>,
    table: &Table,
) -> Result<(), Refusal> {
    let shares = |one: &Restriction<'_>, other: &Restriction<'_>| {
        one.columns
            .iter()
            .any(|column| other.columns.iter().any(|mine| mine.name == column.name))
    };
    let mut merged = restriction;
    while let Some(index) = into.iter().position(|existing| shares(existing, &merged)) {
        merged = into.remove(index).and(merged)?;
    }
    into.push(merged);
    into.sort_by(|left, right| match left.kind() {
        ColumnKind::Clustering(_) => left.positions(table).0.cmp(&right.positions(table).0),
        _ => left.columns[0].name.cmp(&right.columns[0].name),
    });
    Ok(())
}
