//! The statements of recordings, as scripts.

use std::path::Path;
use std::rc::Rc;

use cqlens_rehearse::recording::{RecordingReader, Statement};

use super::source::SourceText;
use crate::cli::log;

/// The distinct statements of a recording: one script for each keyspace of unqualified names, since nothing ends a USE.
///
/// # Errors
/// A recording that cannot be read.
pub(super) fn scripts(path: &Path) -> anyhow::Result<Vec<Rc<SourceText>>> {
    let (mut statements, faults) = RecordingReader::open(path)?.statements();
    for fault in faults {
        log::failed(&anyhow::anyhow!("{fault}"));
    }
    statements.sort_by(|one, other| one.keyspace.cmp(&other.keyspace));
    let name = path.display().to_string();
    let mut line = 1;
    let of_keyspaces = statements.chunk_by(|one, other| one.keyspace == other.keyspace);
    let scripts = of_keyspaces.map(|statements| {
        let text = script(statements);
        let source = SourceText::at_line(&name, &text, line);
        line += text.matches('\n').count();
        Rc::new(source)
    });
    Ok(scripts.collect())
}

fn script(statements: &[Statement]) -> String {
    let keyspace = statements
        .first()
        .and_then(|statement| statement.keyspace.as_deref());
    let mut script = String::new();
    if let Some(keyspace) = keyspace {
        script += &format!("USE \"{}\";\n", keyspace.replace('"', "\"\""));
    }
    for statement in statements {
        let cql = statement.cql.trim().trim_end_matches(';');
        script += cql;
        // Behind a comment that goes to the end of its line, a semicolon would belong to it.
        let may_hide = cql
            .lines()
            .last()
            .is_some_and(|last| last.contains("--") || last.contains("//"));
        script += if may_hide { "\n;\n" } else { ";\n" };
    }
    script
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_end_and_have_their_keyspace() {
        let statement = |cql: &str| Statement {
            keyspace: Some("A\"b".into()),
            cql: cql.into(),
        };
        assert_eq!(
            script(&[statement("SELECT 1;"), statement("SELECT 2 -- two")]),
            "USE \"A\"\"b\";\nSELECT 1;\nSELECT 2 -- two\n;\n"
        );
    }
}
