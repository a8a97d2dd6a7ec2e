//! What findings of several rules come from.

/// What a consultant names in one breath: findings with one cause, on one table or of one application, are one problem.
///
/// Ids of problems contain its name, so that it never changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cause(&'static str);

impl Cause {
    pub(crate) const BATCHES: Self = Self("batches");
    pub(crate) const COLLECTIONS: Self = Self("collections");
    pub(crate) const CONDITIONS: Self = Self("conditional writes");
    pub(crate) const CONSISTENCY_LEVELS: Self = Self("consistency levels");
    /// That of one rule only, whose findings on one statement are one problem.
    pub(crate) const COPIES: Self = Self("dual-write-without-batch");
    pub(crate) const DELETES: Self = Self("deletes");
    pub(crate) const EXPIRY: Self = Self("expiry");
    pub(crate) const FAILURES: Self = Self("failures");
    pub(crate) const LARGE_READS: Self = Self("large reads");
    pub(crate) const NO_TABLE_FOR_THE_QUERY: Self = Self("no table for the query");
    pub(crate) const SASI_INDEXES: Self = Self("SASI indexes");
    pub(crate) const SEVERAL_PARTITIONS_A_READ: Self = Self("several partitions a read");
    pub(crate) const TRANSACTIONS: Self = Self("transactions");
    pub(crate) const TWO_STEPS: Self = Self("reads in two steps");
    pub(crate) const UNEVEN_PARTITIONS: Self = Self("uneven partitions");
    pub(crate) const VIEWS: Self = Self("materialized views");

    /// That of a rule that stands alone.
    pub(crate) const fn of_rule(id: &'static str) -> Self {
        Self(id)
    }

    pub(crate) fn name(self) -> &'static str {
        self.0
    }

    /// Causes of which findings may be one problem are looked up together.
    pub(crate) fn looked_up_by(self) -> Self {
        match self {
            Self::BATCHES => Self::COPIES,
            other => other,
        }
    }

    /// Whether its findings are one problem as soon as they are about one statement.
    pub(crate) fn is_of_statements(self) -> bool {
        [
            Self::CONDITIONS,
            Self::FAILURES,
            Self::TWO_STEPS,
            Self::COPIES,
            Self::BATCHES,
            Self::TRANSACTIONS,
        ]
        .contains(&self)
    }

    /// Whether findings with these causes, of which each is one of statements, are one problem if they are about the same
    /// statements. Batches of one table are one already, and those of another table are another problem.
    pub(crate) fn is_one_with(self, other: Self) -> bool {
        match (self, other) {
            (Self::COPIES, Self::BATCHES) | (Self::BATCHES, Self::COPIES) => true,
            (Self::BATCHES, Self::BATCHES) => false,
            _ => self == other,
        }
    }
}
