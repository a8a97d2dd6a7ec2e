//! Which secondary index serves which restriction (`Index.supportsExpression`).

use crate::syntax::ast::IndexTargetKind;
use cqlens_proto::types::CqlType;

use super::restriction::{Contains, Restriction, Test};
use crate::schema::{DataType, Index, IndexClass, Keyspace, Table};

/// An operator as indexes tell them apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    Equal,
    In,
    Range,
    Contains,
    ContainsKey,
    Like,
    Ann,
}

/// The indexes of a table that can be queried.
#[derive(Debug, Clone, Copy)]
pub(super) struct Indexes<'s> {
    pub(super) table: &'s Table,
    pub(super) keyspace: &'s Keyspace,
    /// Those that the statement does not want to be used, by name.
    pub(super) excluded: &'s [String],
}

impl<'s> Indexes<'s> {
    /// Whether any index serves the restriction.
    pub(super) fn serve(self, restriction: &Restriction<'_>) -> bool {
        self.all().any(|index| self.serves(index, restriction))
    }

    /// Whether filtering is needed for these restrictions, whichever index is asked: each legacy index can
    /// answer for itself only, storage-attached ones answer together.
    pub(super) fn need_filtering<'r>(
        self,
        restrictions: impl Iterator<Item = &'r Restriction<'r>> + Clone,
    ) -> bool {
        let of_class = |index: &&Index| index.class == IndexClass::Sai;
        let together: Vec<&Index> = self.all().filter(of_class).collect();
        let alone = self
            .all()
            .filter(|index| !of_class(index))
            .map(|index| vec![index]);
        let mut groups = alone.chain((!together.is_empty()).then_some(together));
        groups.all(|group| {
            let mut restrictions = restrictions.clone();
            restrictions.any(|restriction| self.group_needs_filtering(&group, restriction))
        })
    }

    /// The names of the indexes that a read with these restrictions asks.
    pub(super) fn chosen<'r>(
        self,
        restrictions: impl Iterator<Item = &'r Restriction<'r>> + Clone,
    ) -> Vec<&'s Index> {
        let serves = |index: &&Index| {
            restrictions
                .clone()
                .any(|restriction| self.serves(index, restriction))
        };
        let serving: Vec<&Index> = self.all().filter(serves).collect();
        // SASI says of itself that it returns the fewest rows, storage-attached indexes that they return the
        // most.
        let rank = |index: &&Index| match index.class {
            IndexClass::Sasi => 0,
            IndexClass::Legacy | IndexClass::Custom(_) => 1,
            IndexClass::Sai => 2,
        };
        match serving.iter().copied().min_by_key(rank) {
            Some(best) if best.class == IndexClass::Sai => serving,
            best => best.into_iter().collect(),
        }
    }

    fn all(self) -> impl Iterator<Item = &'s Index> {
        let excluded = self.excluded;
        let indexes = self.table.indexes.values();
        indexes.filter(move |index| !excluded.contains(&index.name))
    }

    fn group_needs_filtering(self, group: &[&Index], restriction: &Restriction<'_>) -> bool {
        if restriction.is_multi_column {
            let served = |column: &str| {
                let operators = operators(&restriction.test);
                group.iter().any(|index| {
                    operators
                        .iter()
                        .any(|&operator| self.supports(index, column, operator))
                })
            };
            return !restriction.columns.iter().all(|column| served(&column.name));
        }
        let several = match restriction.test {
            Test::Contains(Contains {
                values,
                keys,
                entries,
                opposites,
            }) => values + keys + entries + opposites > 1,
            _ => false,
        };
        // Of several CONTAINS on one column, a legacy index checks only one.
        let checks_all = |index: &Index| !several || index.class == IndexClass::Sai;
        !group
            .iter()
            .any(|index| self.serves(index, restriction) && checks_all(index))
    }

    fn serves(self, index: &Index, restriction: &Restriction<'_>) -> bool {
        let operators = operators(&restriction.test);
        let mut columns = restriction.columns.iter();
        columns.any(|column| {
            operators
                .iter()
                .any(|&operator| self.supports(index, &column.name, operator))
        })
    }

    fn supports(self, index: &Index, column: &str, operator: Operator) -> bool {
        let Some(target) = index.targets.iter().find(|target| target.column == column) else {
            return false;
        };
        let Some(column) = self.table.column(column) else {
            return false;
        };
        match &index.class {
            IndexClass::Legacy => legacy_supports(&column.data_type, target.kind, operator),
            IndexClass::Sai => sai_supports(
                &self.keyspace.resolve(&column.data_type),
                column.data_type.is_multi_cell(),
                target.kind,
                operator,
            ),
            IndexClass::Sasi => sasi_supports(index, &self.keyspace.resolve(&column.data_type), operator),
            IndexClass::Custom(_) => operator == Operator::Equal,
        }
    }

    /// Whether an index exists on a column, whatever it supports.
    pub(super) fn depends_on(self, column: &str) -> bool {
        self.table
            .indexes
            .values()
            .any(|index| index.targets.iter().any(|target| target.column == column))
    }
}

fn operators(test: &Test) -> Vec<Operator> {
    match test {
        Test::Equal(_) => vec![Operator::Equal],
        Test::In(_) => vec![Operator::In],
        Test::Slice(slice) if slice.is_bounded() => vec![Operator::Range],
        // No index finds what is to be left out.
        Test::Slice(_) => Vec::new(),
        Test::Contains(Contains {
            values,
            keys,
            entries,
            opposites: _,
        }) => {
            let kinds = [
                (values, Operator::Contains),
                (keys, Operator::ContainsKey),
                (entries, Operator::Equal),
            ];
            kinds
                .into_iter()
                .filter(|(count, _)| **count > 0)
                .map(|(_, operator)| operator)
                .collect()
        }
        Test::Like => vec![Operator::Like],
        Test::Ann => vec![Operator::Ann],
        Test::IsNotNull => Vec::new(),
    }
}

/// `CassandraIndex` and its subclasses by kind of column.
fn legacy_supports(data_type: &DataType, kind: IndexTargetKind, operator: Operator) -> bool {
    if !data_type.is_multi_cell() {
        return operator == Operator::Equal;
    }
    match (data_type, kind) {
        // A set's elements are its keys.
        (DataType::Set(_), _) => matches!(operator, Operator::Contains | Operator::ContainsKey),
        (_, IndexTargetKind::Keys) => operator == Operator::ContainsKey,
        (_, IndexTargetKind::Entries) => operator == Operator::Equal,
        _ => operator == Operator::Contains,
    }
}

/// `IndexTermType.supports`.
fn sai_supports(cql_type: &CqlType, is_multi_cell: bool, kind: IndexTargetKind, operator: Operator) -> bool {
    let is_vector = matches!(cql_type, CqlType::Vector(..));
    if operator == Operator::Ann {
        return is_vector;
    }
    if is_multi_cell {
        return match kind {
            IndexTargetKind::Keys => operator == Operator::ContainsKey,
            IndexTargetKind::Entries => operator == Operator::Equal,
            _ => operator == Operator::Contains,
        };
    }
    let only_equality = kind == IndexTargetKind::Full
        || matches!(
            cql_type,
            CqlType::Text | CqlType::Ascii | CqlType::Boolean | CqlType::Uuid
        )
        || matches!(cql_type, CqlType::List(_) | CqlType::Set(_) | CqlType::Map(_));
    match operator {
        Operator::Equal => true,
        Operator::Range => !only_equality,
        _ => false,
    }
}

/// `ColumnIndex.supports` of SASI.
fn sasi_supports(index: &Index, cql_type: &CqlType, operator: Operator) -> bool {
    let option = |name: &str| index.options.get(name).map(String::as_str);
    let is_text = matches!(cql_type, CqlType::Text | CqlType::Ascii);
    let is_tokenized = option("analyzer_class").is_some_and(|class| class.ends_with(".StandardAnalyzer"));
    let has_ranges = option("mode").is_none_or(|mode| !mode.eq_ignore_ascii_case("contains"));
    match operator {
        Operator::Like => is_text,
        Operator::Equal => !is_tokenized,
        Operator::Range => !is_text && has_ranges,
        _ => false,
    }
}
