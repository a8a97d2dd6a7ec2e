//! The catalogue as a table: what each rule is about, how severe its findings are, and what decides it. For terminals and for
//! the head of `docs/rules.md`.

use super::{capitalized, wrapped_at};
use cqlens_rules::{About, RULES, RuleSeverity, Settings, Threshold};

/// The groups of rules in the order of the catalogue, each with its rules.
pub(super) fn groups() -> Vec<(&'static str, Vec<&'static About>)> {
    let mut groups: Vec<(&str, Vec<&About>)> = Vec::new();
    for about in RULES.iter().map(|rule| rule.about()) {
        match groups.last_mut() {
            Some((group, rules)) if *group == about.group => rules.push(about),
            _ => groups.push((about.group, vec![about])),
        }
    }
    groups
}

/// The least and the most severe that a rule gives, or what the settings say instead.
fn severity(about: &About, settings: &Settings) -> String {
    match settings.severities.get(about.id) {
        Some(RuleSeverity::Off) => return "off".to_owned(),
        Some(RuleSeverity::AtMost(most)) => return format!("at most {most}"),
        None => {}
    }
    match about.severities {
        [] => String::new(),
        [only] => only.to_string(),
        [least, .., most] => format!("{least} to {most}"),
    }
}

/// A threshold as the file of settings has it below `[rules.ID]`.
fn setting(about: &About, threshold: &Threshold, settings: &Settings) -> String {
    format!("{} = {}", threshold.name, settings.threshold(about.id, threshold))
}

/// Summaries in lines of so many characters: the whole line stays below 130.
const SUMMARY_WIDTH: usize = 50;

/// The table for terminals: below the name of each group a rule with its severity, its summary and its thresholds.
pub(super) fn text(settings: &Settings) -> String {
    let abouts = || RULES.iter().map(|rule| rule.about());
    let id_width = abouts().map(|about| about.id.len()).max().unwrap_or(0);
    let severities = abouts().map(|about| severity(about, settings).len());
    let severity_width = severities.max().unwrap_or(0);
    let mut lines = vec![format!(
        "{:id_width$}  {:severity_width$}  {:SUMMARY_WIDTH$}  thresholds",
        "rule", "severity", "what it finds"
    )];
    for (group, rules) in groups() {
        lines.push(format!("\n{}", capitalized(group)));
        for about in rules {
            let summary = wrapped_at(SUMMARY_WIDTH, about.summary, "");
            let mut summary = summary.lines();
            let thresholds = about.thresholds.iter();
            let mut thresholds = thresholds.map(|threshold| setting(about, threshold, settings));
            let (mut id, mut severity) = (about.id, severity(about, settings));
            loop {
                let (said, threshold) = (summary.next(), thresholds.next());
                if said.is_none() && threshold.is_none() {
                    break;
                }
                let line = format!(
                    "{id:id_width$}  {severity:severity_width$}  {:SUMMARY_WIDTH$}  {}",
                    said.unwrap_or_default(),
                    threshold.unwrap_or_default()
                );
                lines.push(line.trim_end().to_owned());
                (id, severity) = ("", String::new());
            }
        }
    }
    lines.join("\n") + "\n"
}

/// The tables for Markdown, one for each group, with links to the pages of the same document.
pub(super) fn markdown(settings: &Settings) -> String {
    let row = |about: &About| {
        let thresholds = about.thresholds.iter();
        let thresholds: Vec<_> = thresholds
            .map(|threshold| format!("`{}`", setting(about, threshold, settings)))
            .collect();
        format!(
            "| [`{0}`](#{0}) | {1} | {2} | {3} |\n",
            about.id,
            severity(about, settings),
            about.summary,
            thresholds.join(", ")
        )
    };
    let table = |(group, rules): (&str, Vec<&About>)| {
        let rows: String = rules.into_iter().map(row).collect();
        let heading = "| Rule | Severity | What it finds | Thresholds |\n| --- | --- | --- | --- |\n";
        format!("\n**{}**\n\n{heading}{rows}", capitalized(group))
    };
    groups().into_iter().map(table).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use cqlens_rules::Severity;

    /// The lines of a rule in the table for terminals.
    fn lines(id: &str, settings: &Settings) -> Vec<String> {
        let text = text(settings);
        let lines = text.lines().skip_while(|line| !line.starts_with(id));
        let mut lines = lines.map(str::to_owned);
        let first = lines.next().unwrap();
        let more = lines.take_while(|line| line.starts_with(' '));
        [first].into_iter().chain(more).collect()
    }

    #[test]
    fn a_line_has_severity_and_summary_and_one_threshold_follows_the_other() {
        let lines = lines("in-partition-key ", &Settings::default());
        assert!(
            lines[0].contains("  info to high    A statement names several "),
            "{lines:?}"
        );
        let ends = |line: usize| lines[line].split("  ").last().unwrap().trim_start();
        assert_eq!(
            [ends(0), ends(1), ends(2)],
            [
                "low_partitions = 5",
                "medium_partitions = 10",
                "high_partitions = 20"
            ]
        );
        assert!(
            text(&Settings::default())
                .lines()
                .all(|line| line.chars().count() < 140)
        );
    }

    #[test]
    fn what_is_set_is_what_the_table_shows() {
        let about = cqlens_rules::find("in-partition-key").unwrap().about();
        let set = |severity| Settings {
            thresholds: [((about.id.to_owned(), about.thresholds[0].name.to_owned()), 7.5)].into(),
            severities: [(about.id.to_owned(), severity)].into(),
        };
        let limited = lines(about.id, &set(RuleSeverity::AtMost(Severity::Low)));
        assert!(limited[0].contains(" at most low ") && limited[0].ends_with("low_partitions = 7.5"));
        let off = lines(about.id, &set(RuleSeverity::Off));
        assert!(off[0].contains(" off "), "{off:?}");
    }

    #[test]
    fn markdown_has_a_row_with_a_link_for_every_rule() {
        let text = markdown(&Settings::default());
        for rule in RULES {
            let start = format!("| [`{0}`](#{0}) | ", rule.about().id);
            let row = text.lines().find(|line| line.starts_with(&start)).unwrap();
            assert_eq!(row.matches(" |").count(), 4, "{row}");
            for threshold in rule.about().thresholds {
                assert!(
                    row.contains(&format!("`{} = {}`", threshold.name, threshold.default)),
                    "{row}"
                );
            }
        }
    }
}
