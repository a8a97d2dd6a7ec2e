//! Relations to restrictions: what a `WHERE` clause says of each column (`Relation.toRestriction`).

use crate::syntax::Span;
use crate::syntax::ast::{self, Comparand, Relation, RelationOperator, Subject};
use cqlens_proto::types::CqlType;

use super::compile::{Compiler, Receiver, marker_of};
use super::refusal::Refusal;
use super::restriction::{Choices, Contains, FilterValue, Restriction, Slice, Test};
use super::term::{CompiledTerm, Marker};
use crate::schema::{Column, DataType, Keyspace, Table};

/// Makes restrictions of the relations of one table.
pub(super) struct Translator<'s> {
    pub(super) table: &'s Table,
    pub(super) keyspace: &'s Keyspace,
    pub(super) compiler: Compiler<'s>,
}

impl<'s> Translator<'s> {
    pub(super) fn column(&self, name: &str, span: Span) -> Result<&'s Column, Refusal> {
        let column = self.table.column(name);
        column.ok_or_else(|| Refusal::no_column(name, &self.table.name, span))
    }

    /// The restriction of a relation on one column or on a tuple of clustering columns, not on a token.
    pub(super) fn restriction(&self, relation: &Relation<'_>) -> Result<Restriction<'s>, Refusal> {
        match &relation.subject {
            Subject::Column(name) => {
                let column = self.column(name.as_str(), name.span)?;
                let mut filters = Vec::new();
                let test = self.single(column, relation, &mut filters)?;
                Ok(Restriction {
                    columns: vec![column],
                    is_multi_column: false,
                    test,
                    filters,
                })
            }
            Subject::Element(name, key) => {
                let column = self.column(name.as_str(), name.span)?;
                let test = self.entry(column, key, relation)?;
                Ok(Restriction {
                    columns: vec![column],
                    is_multi_column: false,
                    test,
                    filters: Vec::new(),
                })
            }
            Subject::Columns(names) => {
                let columns: Result<Vec<_>, _> = names
                    .iter()
                    .map(|name| self.column(name.as_str(), name.span))
                    .collect();
                let columns = columns?;
                self.check_tuple(&columns, relation.span)?;
                let test = self.multi(&columns, relation)?;
                Ok(Restriction {
                    columns,
                    is_multi_column: true,
                    test,
                    filters: Vec::new(),
                })
            }
            Subject::Token(_) | Subject::Field(..) => Err(unsupported(relation)),
        }
    }

    /// What a relation says of a column; what it filters by is added to `filters`.
    fn single(
        &self,
        column: &'s Column,
        relation: &Relation<'_>,
        filters: &mut Vec<FilterValue>,
    ) -> Result<Test, Refusal> {
        let data_type = &column.data_type;
        let refuse = |why: &str| Err(Refusal::at(why.to_owned(), relation.span));
        let contains = matches!(
            relation.operator,
            RelationOperator::Contains
                | RelationOperator::ContainsKey
                | RelationOperator::NotContains
                | RelationOperator::NotContainsKey
        );
        let is_key = matches!(
            relation.operator,
            RelationOperator::ContainsKey | RelationOperator::NotContainsKey
        );
        if contains && !data_type.is_collection() {
            return refuse("CONTAINS is for collections only");
        }
        if is_key && !matches!(data_type.thawed(), DataType::Map(..)) {
            return refuse("CONTAINS KEY is for maps only");
        }
        if data_type.is_multi_cell() && relation.operator != RelationOperator::IsNotNull && !contains {
            return refuse(
                "a collection or user-defined type that is not frozen cannot be compared as a whole",
            );
        }
        let cql_type = self.keyspace.resolve(data_type);
        let receiver = Receiver {
            name: &column.name,
            cql_type: &cql_type,
        };
        let one = || match &relation.comparand {
            Comparand::One(term) => self.compiler.term(term, receiver),
            _ => Err(unsupported(relation)),
        };
        Ok(match relation.operator {
            RelationOperator::Equal => Test::Equal(one()?),
            RelationOperator::In => match &relation.comparand {
                // Cassandra treats an `IN` of one listed value as `=`.
                Comparand::List(terms) if terms.len() == 1 => {
                    Test::Equal(self.compiler.term(&terms[0], receiver)?)
                }
                _ => Test::In(self.choices(relation, receiver)?),
            },
            RelationOperator::LessThan
            | RelationOperator::LessOrEqual
            | RelationOperator::GreaterThan
            | RelationOperator::GreaterOrEqual => {
                if mentions_duration(&cql_type) {
                    return refuse("slice restrictions are not supported on durations");
                }
                Test::Slice(Slice::of(relation.operator, one()?, false))
            }
            RelationOperator::Between => {
                if mentions_duration(&cql_type) {
                    return refuse("slice restrictions are not supported on durations");
                }
                let Comparand::Range(range) = &relation.comparand else {
                    return Err(unsupported(relation));
                };
                let start = self.compiler.term(&range.0, receiver)?;
                Test::Slice(Slice::between(
                    start,
                    self.compiler.term(&range.1, receiver)?,
                    false,
                ))
            }
            RelationOperator::NotEqual => Test::Slice(Slice::without(Choices::Listed(vec![one()?]), false)),
            RelationOperator::NotIn => {
                if mentions_duration(&cql_type) {
                    return refuse("slice restrictions are not supported on durations");
                }
                Test::Slice(Slice::without(self.choices(relation, receiver)?, false))
            }
            RelationOperator::Contains
            | RelationOperator::ContainsKey
            | RelationOperator::NotContains
            | RelationOperator::NotContainsKey => self.contains(column, relation, &cql_type, filters)?,
            RelationOperator::Like => {
                filters.push(FilterValue {
                    column: column.name.as_str().into(),
                    term: one()?,
                    is_pattern: true,
                });
                Test::Like
            }
            RelationOperator::IsNotNull => Test::IsNotNull,
            RelationOperator::IsNull => return Err(unsupported(relation)),
        })
    }

    /// `CONTAINS`, `CONTAINS KEY`, and their opposites.
    fn contains(
        &self,
        column: &Column,
        relation: &Relation<'_>,
        cql_type: &CqlType,
        filters: &mut Vec<FilterValue>,
    ) -> Result<Test, Refusal> {
        use RelationOperator::{ContainsKey, NotContains, NotContainsKey};
        let is_key = matches!(relation.operator, ContainsKey | NotContainsKey);
        let is_opposite = matches!(relation.operator, NotContains | NotContainsKey);
        let element = element_type(cql_type, is_key).ok_or_else(|| unsupported(relation))?;
        if let Comparand::One(term) = &relation.comparand {
            let name = format!("{}({})", if is_key { "key" } else { "value" }, column.name);
            let receiver = Receiver {
                name: &name,
                cql_type: element,
            };
            let term = self.compiler.term(term, receiver)?;
            if is_opposite {
                filters.push(FilterValue {
                    column: column.name.as_str().into(),
                    term,
                    is_pattern: false,
                });
            }
        }
        Ok(Test::Contains(Contains {
            values: usize::from(!is_opposite && !is_key),
            keys: usize::from(!is_opposite && is_key),
            entries: 0,
            opposites: usize::from(is_opposite),
        }))
    }

    /// What a list holds, of which each value is compared with a column.
    fn choices(&self, relation: &Relation<'_>, receiver: Receiver<'_>) -> Result<Choices, Refusal> {
        match &relation.comparand {
            Comparand::List(terms) => {
                let terms = terms.iter().map(|term| self.compiler.term(term, receiver));
                terms.collect::<Result<_, _>>().map(Choices::Listed)
            }
            Comparand::Marker(marker) => Ok(Choices::Bound(list_marker(marker, receiver))),
            _ => Err(unsupported(relation)),
        }
    }

    /// `column[key] = value` or `column[key] != value`.
    fn entry(&self, column: &Column, key: &ast::Term<'_>, relation: &Relation<'_>) -> Result<Test, Refusal> {
        let cql_type = self.keyspace.resolve(&column.data_type);
        let (
            CqlType::Map(entry),
            false,
            RelationOperator::Equal | RelationOperator::NotEqual,
            Comparand::One(value),
        ) = (
            &cql_type,
            column.is_primary_key(),
            relation.operator,
            &relation.comparand,
        )
        else {
            return Err(Refusal::at(
                "only = and != on an entry of a map that is not part of the key are supported",
                relation.span,
            ));
        };
        self.compiler.term(
            key,
            Receiver {
                name: &format!("key({})", column.name),
                cql_type: &entry.0,
            },
        )?;
        self.compiler.term(
            value,
            Receiver {
                name: &format!("value({})", column.name),
                cql_type: &entry.1,
            },
        )?;
        // An index finds what is in a map, and no map that is frozen.
        let is_found = relation.operator == RelationOperator::Equal && column.data_type.is_multi_cell();
        Ok(Test::Contains(Contains {
            values: 0,
            keys: 0,
            entries: usize::from(is_found),
            opposites: usize::from(!is_found),
        }))
    }

    /// A tuple names clustering columns, without gaps and in their order: `MultiColumnRelation.receivers`.
    fn check_tuple(&self, columns: &[&Column], span: Span) -> Result<(), Refusal> {
        let clustering = self.table.clustering();
        let position = |column: &Column| clustering.iter().position(|other| other.name == column.name);
        let mut previous = None;
        for column in columns {
            let Some(position) = position(column) else {
                let message =
                    "Multi-column relations can only be applied to clustering columns but was applied to: ";
                return Err(Refusal::at(format!("{message}{}", column.name), span));
            };
            if previous.is_some_and(|previous| position != previous + 1) {
                let message =
                    "Clustering columns must appear in the PRIMARY KEY order in multi-column relations";
                return Err(Refusal::at(message, span));
            }
            previous = Some(position);
        }
        Ok(())
    }

    fn multi(&self, columns: &[&Column], relation: &Relation<'_>) -> Result<Test, Refusal> {
        let types: Vec<CqlType> = columns
            .iter()
            .map(|column| self.keyspace.resolve(&column.data_type))
            .collect();
        let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
        let name = format!("({})", names.join(","));
        let cql_type = CqlType::Tuple(types);
        let receiver = Receiver {
            name: &name,
            cql_type: &cql_type,
        };
        Ok(match (&relation.operator, &relation.comparand) {
            (RelationOperator::Equal, Comparand::One(term)) => {
                Test::Equal(self.tuple(term, columns, receiver)?)
            }
            (RelationOperator::In, Comparand::List(terms)) if terms.len() == 1 => {
                Test::Equal(self.tuple(&terms[0], columns, receiver)?)
            }
            (RelationOperator::In, Comparand::List(terms)) => {
                let terms: Result<Vec<CompiledTerm>, _> = terms
                    .iter()
                    .map(|term| self.tuple(term, columns, receiver))
                    .collect();
                Test::In(Choices::Listed(terms?))
            }
            (RelationOperator::In, Comparand::Marker(marker)) => {
                Test::In(Choices::Bound(list_marker(marker, receiver)))
            }
            (
                operator @ (RelationOperator::LessThan
                | RelationOperator::LessOrEqual
                | RelationOperator::GreaterThan
                | RelationOperator::GreaterOrEqual),
                Comparand::One(term),
            ) => Test::Slice(Slice::of(*operator, self.tuple(term, columns, receiver)?, true)),
            (RelationOperator::Between, Comparand::Range(range)) => {
                let start = self.tuple(&range.0, columns, receiver)?;
                Test::Slice(Slice::between(
                    start,
                    self.tuple(&range.1, columns, receiver)?,
                    true,
                ))
            }
            (RelationOperator::NotEqual, Comparand::One(term)) => {
                let term = self.tuple(term, columns, receiver)?;
                Test::Slice(Slice::without(Choices::Listed(vec![term]), true))
            }
            (RelationOperator::NotIn, Comparand::List(terms)) => {
                let terms = terms.iter().map(|term| self.tuple(term, columns, receiver));
                Test::Slice(Slice::without(
                    Choices::Listed(terms.collect::<Result<_, _>>()?),
                    true,
                ))
            }
            (RelationOperator::NotIn, Comparand::Marker(marker)) => Test::Slice(Slice::without(
                Choices::Bound(list_marker(marker, receiver)),
                true,
            )),
            _ => return Err(unsupported(relation)),
        })
    }

    /// A tuple as long as the columns that it is compared with, or a marker for one. Markers in a tuple that
    /// is written out are called after the columns.
    fn tuple(
        &self,
        term: &ast::Term<'_>,
        columns: &[&Column],
        receiver: Receiver<'_>,
    ) -> Result<CompiledTerm, Refusal> {
        let (ast::Term::Tuple { items, .. }, CqlType::Tuple(types)) = (term, receiver.cql_type) else {
            return self.compiler.term(term, receiver);
        };
        if items.len() != types.len() {
            let message = format!(
                "Expected {} elements in value tuple, but got {}",
                types.len(),
                items.len()
            );
            return Err(Refusal::at(message, term.span()));
        }
        let names = columns.iter().map(|column| column.name.clone());
        self.compiler.components(names.zip(items.iter().zip(types)))
    }
}

/// The marker of `IN ?`, which is bound to a list.
fn list_marker(marker: &ast::BindMarker<'_>, receiver: Receiver<'_>) -> Marker {
    let name = format!(
        "in({})",
        receiver.name.trim_start_matches('(').trim_end_matches(')')
    );
    let cql_type = CqlType::list(receiver.cql_type.clone());
    marker_of(
        marker,
        Receiver {
            name: &name,
            cql_type: &cql_type,
        },
    )
}

fn element_type(cql_type: &CqlType, is_key: bool) -> Option<&CqlType> {
    match cql_type {
        CqlType::List(element) | CqlType::Set(element) => Some(element),
        CqlType::Map(entry) if is_key => Some(&entry.0),
        CqlType::Map(entry) => Some(&entry.1),
        _ => None,
    }
}

fn mentions_duration(cql_type: &CqlType) -> bool {
    match cql_type {
        CqlType::Duration => true,
        CqlType::List(inner) | CqlType::Set(inner) | CqlType::Vector(inner, _) => mentions_duration(inner),
        CqlType::Map(entry) => mentions_duration(&entry.0) || mentions_duration(&entry.1),
        CqlType::Tuple(types) => types.iter().any(mentions_duration),
        CqlType::Udt(udt) => udt.fields.iter().any(|(_, field)| mentions_duration(field)),
        _ => false,
    }
}

fn unsupported(relation: &Relation<'_>) -> Refusal {
    let message = format!("Unsupported \"{}\" relation", relation.operator.as_str());
    Refusal::at(message, relation.span)
}
