//! The same statement at another consistency level.

use crate::error_code::UNAVAILABLE;
use cqlens_window::Pattern;

/// One serial consistency level wherever a row is written under a condition, or is read to see what was decided.
pub(crate) fn same_for_all(patterns: &[&Pattern]) -> Option<(String, String)> {
    let written = |level: &str| {
        let conditional = |pattern: &&&Pattern| pattern.serial_consistency.contains_key(level);
        patterns.iter().find(conditional)
    };
    let read = |level: &str| {
        let at = |pattern: &&&Pattern| pattern.head.kind.is_read() && pattern.consistency.contains_key(level);
        patterns.iter().find(at)
    };
    let (global, local) = (written("SERIAL"), written("LOCAL_SERIAL"));
    let (pattern, before, after) = match (global, local) {
        // Only SERIAL holds whichever datacenter the other writer is in.
        (Some(_), Some(pattern)) => (
            pattern,
            "serial consistency SERIAL in some requests, LOCAL_SERIAL in others".to_owned(),
            "serial consistency SERIAL in all requests".to_owned(),
        ),
        (Some(_), None) => of_read(read("LOCAL_SERIAL")?, "LOCAL_SERIAL", "SERIAL"),
        (None, Some(_)) => of_read(read("SERIAL")?, "SERIAL", "LOCAL_SERIAL"),
        (None, None) => return None,
    };
    let cql = &pattern.head.cql;
    Some((format!("-- {before}\n{cql};"), format!("-- {after}\n{cql};")))
}

fn of_read<'p, 'w>(pattern: &'p &'w Pattern, before: &str, after: &str) -> (&'p &'w Pattern, String, String) {
    let before = format!("at consistency level {before}");
    let after = format!("at consistency level {after}, as the conditional writes");
    (pattern, before, after)
}

/// Levels that need more replicas than a majority in one datacenter has.
const MORE_THAN_LOCAL: [&str; 5] = ["ALL", "EACH_QUORUM", "QUORUM", "THREE", "TWO"];

/// The statement that found too few replicas most often, at a level that needs fewer. Nothing where it is at such a
/// level already: then it is nodes that are missing.
pub(crate) fn with_replicas_down(patterns: &[&Pattern]) -> Option<(String, String)> {
    let unavailable = |pattern: &Pattern| pattern.error_codes.get(&UNAVAILABLE).copied().unwrap_or(0);
    let pattern = patterns.iter().max_by_key(|pattern| unavailable(pattern))?;
    // Whatever else went wrong more often is not helped by it.
    if unavailable(pattern) * 2 < pattern.errors {
        return None;
    }
    let level = MORE_THAN_LOCAL
        .iter()
        .find(|level| pattern.consistency.contains_key(**level))?;
    let cql = &pattern.head.cql;
    Some((
        format!("-- at consistency level {level} while a replica is down: UNAVAILABLE\n{cql};"),
        format!("-- at consistency level LOCAL_QUORUM: one of three replicas may be down\n{cql};"),
    ))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::testing::{read, write};
    use cqlens_cql::{footprint::PartitionClass, plan::StatementKind};

    const CLAIM: &str = "INSERT INTO shop.names (name) VALUES (?) IF NOT EXISTS";
    const READ: &str = "SELECT owner FROM shop.names WHERE name = ?";

    fn claim(levels: &[&str]) -> Pattern {
        let mut pattern = write(CLAIM, StatementKind::Insert, &[], 60);
        levels
            .iter()
            .for_each(|level| pattern.count_serial_consistency(level, 30));
        pattern
    }

    fn read_at(level: &str) -> Pattern {
        let mut pattern = read(READ, &[], PartitionClass::Single, 60);
        pattern.consistency.insert(level.to_owned(), 60);
        pattern
    }

    #[test]
    fn all_writes_get_the_level_that_holds_everywhere_and_reads_that_of_the_writes() {
        let (before, after) =
            same_for_all(&[&read_at("LOCAL_ONE"), &claim(&["SERIAL", "LOCAL_SERIAL"])]).unwrap();
        assert_eq!(
            before,
            format!("-- serial consistency SERIAL in some requests, LOCAL_SERIAL in others\n{CLAIM};")
        );
        assert_eq!(
            after,
            format!("-- serial consistency SERIAL in all requests\n{CLAIM};")
        );
        let (_, after) = same_for_all(&[&claim(&["LOCAL_SERIAL"]), &read_at("SERIAL")]).unwrap();
        assert_eq!(
            after,
            format!("-- at consistency level LOCAL_SERIAL, as the conditional writes\n{READ};")
        );
        assert_eq!(same_for_all(&[&read_at("SERIAL")]), None);
    }

    #[test]
    fn a_lower_level_helps_where_replicas_are_missing_and_nowhere_else() {
        let failing = |level: &str, code: u32| {
            let mut pattern = read_at(level);
            (0..20).for_each(|_| pattern.count_error(code));
            with_replicas_down(&[&read_at("ONE"), &pattern])
        };
        let (before, after) = failing("ALL", UNAVAILABLE).unwrap();
        assert_eq!(
            before,
            format!("-- at consistency level ALL while a replica is down: UNAVAILABLE\n{READ};")
        );
        assert!(
            after.starts_with("-- at consistency level LOCAL_QUORUM"),
            "{after}"
        );
        assert_eq!(failing("LOCAL_QUORUM", UNAVAILABLE), None);
        assert_eq!(failing("ALL", 0x1001), None);
    }
}
