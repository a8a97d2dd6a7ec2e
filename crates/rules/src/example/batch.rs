//! What to send instead of a large batch.

use cqlens_window::Pattern;

/// The costliest batch, and its statements in smaller requests.
pub(crate) fn split(patterns: &[&Pattern]) -> Option<(String, String)> {
    let pattern = patterns.first()?;
    Some((format!("{};", pattern.head.cql), in_parts(pattern)?))
}

/// The statements of a batch in requests that are no larger than they must be: each by itself, or, where a logged batch keeps
/// copies in step, those that write one row and its copies.
pub(super) fn in_parts(pattern: &Pattern) -> Option<String> {
    let (is_logged, statements) = match pattern.head.cql.strip_prefix("BEGIN ")? {
        batch if batch.starts_with("BATCH ") => (true, &batch["BATCH ".len()..]),
        batch => (false, batch.split_once(" BATCH ")?.1),
    };
    let statements = statements.strip_suffix("APPLY BATCH")?;
    // A template has no texts; only a quoted name could have the sign.
    let is_plain = !statements.starts_with("USING") && !statements.contains('"');
    let mut lines: Vec<&str> = Vec::new();
    for line in statements.split_terminator(';').map(str::trim) {
        if !line.is_empty() && !lines.contains(&line) {
            lines.push(line);
        }
    }
    match lines.as_slice() {
        [] => None,
        _ if !is_plain => None,
        // As many partitions as statements are one row and its copies, which belong together.
        [_, _, ..] if is_logged && pattern.partitions.quantile(0.5) <= lines.len() as u64 => None,
        [_, _, ..] if is_logged => Some(format!(
            "-- a batch for each row and its copies; several of them at the same time\nBEGIN BATCH\n  {};\nAPPLY BATCH;",
            lines.join(";\n  ")
        )),
        _ => {
            let lines = lines.join(";\n");
            let where_right = if is_logged {
                "where the rows need not change together: "
            } else {
                ""
            };
            Some(format!(
                "-- {where_right}each on its own, at the same time: each goes to a replica of its partition\n{lines};"
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::batch;

    fn parts(kind: &str, statements: &str) -> Option<String> {
        of_partitions(30, kind, statements)
    }

    fn of_partitions(partitions: u64, kind: &str, statements: &str) -> Option<String> {
        let mut pattern = batch(&[], partitions, 100);
        pattern.head.cql = format!("BEGIN {kind} {statements} APPLY BATCH");
        in_parts(&pattern)
    }

    #[test]
    fn what_must_not_be_written_together_is_sent_by_itself() {
        let one = "INSERT INTO s.a (k) VALUES (?);";
        let alone = "each on its own, at the same time: each goes to a replica of its partition\nINSERT INTO s.a (k) VALUES (?);";
        for (kind, where_right) in [
            ("BATCH", "where the rows need not change together: "),
            ("UNLOGGED BATCH", ""),
            ("COUNTER BATCH", ""),
        ] {
            let expected = format!("-- {where_right}{alone}");
            assert_eq!(
                parts(kind, &format!("{one} {one} {one}")),
                Some(expected),
                "{kind}"
            );
        }
        assert_eq!(
            parts("BATCH", "USING TIMESTAMP ? INSERT INTO s.a (k) VALUES (?);"),
            None
        );
    }

    #[test]
    fn copies_stay_together() {
        let (row, copy) = (
            "INSERT INTO s.a (k, v) VALUES (?, ?);",
            "INSERT INTO s.b (v, k) VALUES (?, ?);",
        );
        let expected = "-- a batch for each row and its copies; several of them at the same time\nBEGIN BATCH\n  \
                        INSERT INTO s.a (k, v) VALUES (?, ?);\n  INSERT INTO s.b (v, k) VALUES (?, ?);\nAPPLY BATCH;";
        assert_eq!(
            parts("BATCH", &format!("{row} {copy} {row} {copy}")).as_deref(),
            Some(expected)
        );
        let both = format!("{row} {copy}");
        assert!(of_partitions(3, "BATCH", &both).is_some());
        assert_eq!(of_partitions(2, "BATCH", &both), None, "it is that batch already");
    }
}
