//! Models beside each other, a table for each purpose.

use std::io::{self, Write};

use super::{prose, prose_cell};
use crate::{ModelReport, Report};
use cqlens_rules::Severity;

/// Problems that are named of one model.
const MOST_PROBLEMS: usize = 2;

pub(super) fn chapters(report: &Report, to: &mut dyn Write) -> io::Result<()> {
    if report.chapters.is_empty() {
        return Ok(());
    }
    writeln!(
        to,
        "\n## Models side by side\n\nWhat the same operation touches in each model: the mean number of \
         partitions and rows that it reads, and the tombstones of its worst read."
    )?;
    for chapter in &report.chapters {
        writeln!(to, "\n**{}** {}\n", prose(&chapter.title), prose(&chapter.about))?;
        writeln!(to, "| Model | Partitions | Rows | Tombstones | Problems |")?;
        writeln!(to, "| --- | ---: | ---: | ---: | --- |")?;
        for model in &chapter.models {
            let (name, figures) = (prose_cell(&model.name), model.figures().join(" | "));
            writeln!(to, "| {name} | {figures} | {} |", problems(report, model))?;
        }
    }
    Ok(())
}

/// `medium client-join (9)`: the worst, with their ranks in the list; a note where there is nothing else to say.
fn problems(report: &Report, model: &ModelReport) -> String {
    let ranked = (1..).zip(&report.problems);
    let of_model = ranked.filter(|(_, problem)| model.problems.contains(&problem.id));
    let mut named: Vec<String> = Vec::new();
    for (rank, problem) in of_model.take(MOST_PROBLEMS) {
        if problem.severity == Severity::Info && !named.is_empty() {
            break;
        }
        let rule = problem.rules.first().copied().unwrap_or_default();
        named.push(format!("{} {rule} ({rank})", problem.severity));
    }
    match named.is_empty() {
        true => "none".to_owned(),
        false => named.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::markdown;
    use crate::{Chapter, ChapterTables, testing::busy_report};

    #[test]
    fn models_stand_beside_each_other_with_their_worst_problems() {
        let mut report = busy_report();
        assert!(!markdown(&report).contains("Models side by side"));
        let place = |keyspace| ChapterTables {
            keyspace,
            tables: &[],
        };
        report.chapters = vec![Chapter {
            title: "Jobs | done".to_owned(),
            about: "One job.".to_owned(),
            models: vec![
                report.model("Take the first, delete it", place("work"), 10),
                report.model("Nothing", place("nowhere"), 0),
            ],
        }];
        let text = markdown(&report);
        let worst = report
            .problems
            .iter()
            .position(|problem| problem.keyspace.as_deref() == Some("work"));
        let rank = worst.map_or(0, |at| at + 1);
        assert!(text.contains("**Jobs \\| done** One job."), "{text}");
        let row = text
            .lines()
            .find(|line| line.starts_with("| Take the first, delete it | "));
        let row = row.unwrap_or_default();
        assert!(row.contains(&format!(" ({rank})")), "{row}");
        assert!(text.contains("| Nothing | – | – | – | none |"), "{text}");
        let list = text.find("| # | Severity | Table |");
        assert!(
            list < text.find("## Models side by side"),
            "the problems come first"
        );
    }
}
