//! Which type the term of a `CAST(term AS type)` has (`CastFcts`).

use cqlens_proto::types::CqlType;

use super::fit::Fit;

/// The types that a cast may begin with, in no particular order: Cassandra takes the one that fits exactly.
static SOURCES: [CqlType; 18] = [
    CqlType::TinyInt,
    CqlType::SmallInt,
    CqlType::Int,
    CqlType::BigInt,
    CqlType::Float,
    CqlType::Double,
    CqlType::Decimal,
    CqlType::Varint,
    CqlType::Counter,
    CqlType::Ascii,
    CqlType::Text,
    CqlType::Boolean,
    CqlType::Uuid,
    CqlType::TimeUuid,
    CqlType::Timestamp,
    CqlType::Date,
    CqlType::Time,
    CqlType::Inet,
];

/// The type of a cast's term.
pub(super) enum CastSource {
    Only(&'static CqlType),
    /// Several types fit equally well.
    Ambiguous,
    /// Nothing that can be cast.
    Unfit,
}

/// Chooses the type of a cast's term, by how well the term fits a type.
pub(super) fn source(fit: impl Fn(&CqlType) -> Fit) -> CastSource {
    let fits: Vec<_> = SOURCES.iter().map(|source| (fit(source), source)).collect();
    let exact = fits.iter().find(|(fit, _)| *fit == Fit::Exactly);
    let mut weak = fits.iter().filter(|(fit, _)| *fit == Fit::Weakly);
    match (exact, weak.next(), weak.next()) {
        (Some((_, source)), ..) | (None, Some((_, source)), None) => CastSource::Only(source),
        (None, None, _) => CastSource::Unfit,
        _ => CastSource::Ambiguous,
    }
}
