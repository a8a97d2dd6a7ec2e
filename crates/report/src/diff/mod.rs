//! Two reports beside each other: findings, statements, tables and clients that are new, gone or different.
//!
//! Both are read in their JSON form, so that reports of earlier versions can be compared. What chance may
//! explain is no difference ([`noise`]).

mod findings;
mod html;
mod markdown;
mod noise;
mod patterns;
mod reading;
mod schema;
#[cfg(test)]
mod testing;
mod text;

use std::{
    collections::BTreeMap,
    io::{self, Write},
};

use jiff::Timestamp;
use serde::Serialize;

use super::{Baseline, BaselineError};
use crate::text::Lines;
use cqlens_rules::Severity;

pub use findings::{FindingChange, FindingChanges};
pub use patterns::{Figure, FigureChange, PatternChange, PatternChanges};
pub use reading::ReadReport;
pub use schema::ChangedDefinition;

/// The name and version of the format, the first field of the JSON form.
pub(super) const DIFF_FORMAT: &str = "cqlens.diff.v1";

/// How a comparison is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum DiffFormat {
    /// For terminals.
    Text,
    /// For pull requests.
    #[cfg_attr(feature = "clap", value(alias = "markdown"))]
    Md,
    /// One self-contained file.
    Html,
    /// For programs.
    Json,
}

impl DiffFormat {
    /// The endings of [`Self::of_path`], in words.
    pub const ENDINGS: &str = ".txt, .md, .html or .json";

    /// The format that a file name asks for by its ending (`.txt`, `.md`, `.html`, `.json`).
    pub fn of_path(path: &std::path::Path) -> Option<Self> {
        match path.extension()?.to_str()? {
            "txt" => Some(Self::Text),
            "md" | "markdown" => Some(Self::Md),
            "html" | "htm" => Some(Self::Html),
            "json" => Some(Self::Json),
            _ => None,
        }
    }
}

/// What differs between two reports of one cluster.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct ReportDiff {
    /// Always `cqlens.diff.v1`.
    #[cfg_attr(feature = "json-schema", schemars(extend("const" = DIFF_FORMAT)))]
    pub format: &'static str,
    /// The cluster that the traffic belongs to.
    pub cluster: Option<String>,
    /// The report that is compared with.
    pub base: ComparedReport,
    /// The report that is compared.
    pub new: ComparedReport,
    /// What a reader must know before any difference, in whole sentences.
    pub notices: Vec<String>,
    /// Findings.
    pub findings: FindingChanges,
    /// Statements.
    pub patterns: PatternChanges,
    /// Tables and columns, by table.
    pub schema: Vec<ChangedDefinition>,
    /// Clients.
    pub clients: ClientChanges,
}

/// One of the two reports.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct ComparedReport {
    /// When it was made.
    pub generated_at: Timestamp,
    /// When observation began.
    pub start: Timestamp,
    /// When it ended.
    pub end: Timestamp,
    /// Seconds in which at least one source observed.
    pub seconds: f64,
}

/// Clients that only one of the reports has.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct ClientChanges {
    /// Only in the new report.
    pub new: Vec<String>,
    /// Only in the base report.
    pub gone: Vec<String>,
}

impl ReportDiff {
    /// What is different in `new`.
    ///
    /// # Errors
    /// Reports of different clusters.
    pub fn between(base: &ReadReport, new: &ReadReport) -> Result<Self, BaselineError> {
        let name = new.judged.cluster.name.as_deref();
        base.judged.check_cluster(name)?;
        Ok(Self {
            format: DIFF_FORMAT,
            cluster: name.or(base.judged.cluster.name.as_deref()).map(str::to_owned),
            base: ComparedReport::of(&base.judged),
            new: ComparedReport::of(&new.judged),
            notices: notices(base, new),
            findings: FindingChanges::between(base, new),
            patterns: PatternChanges::between(base, new),
            schema: schema::changes(base, new),
            clients: ClientChanges {
                new: only_in(&new.seen.clients, &base.seen.clients),
                gone: only_in(&base.seen.clients, &new.seen.clients),
            },
        })
    }

    /// Whether a finding that is open in the new report and of `severity` or above is new, or worse than it
    /// was.
    pub fn fails_on_new(&self, severity: Severity) -> bool {
        let FindingChanges { new, worse, .. } = &self.findings;
        let mut both = new.iter().chain(worse);
        both.any(|change| change.is_open() && change.severity >= severity)
    }

    /// Writes the comparison to `to`.
    ///
    /// # Errors
    /// Whatever `to` fails with.
    pub fn render(&self, format: DiffFormat, to: &mut dyn Write) -> io::Result<()> {
        match format {
            DiffFormat::Text => text::render(self, &mut Lines::new(to)),
            DiffFormat::Md => markdown::render(self, &mut Lines::new(to)),
            DiffFormat::Html => html::render(self, &mut Lines::new(to)),
            DiffFormat::Json => {
                serde_json::to_writer_pretty(Lines::of_json(&mut *to), self)?;
                writeln!(to)
            }
        }
    }

    /// `2 new findings, 1 worse, none better, 3 gone, 14 unchanged`.
    fn headline(&self) -> String {
        let FindingChanges {
            new,
            worse,
            better,
            gone,
            unchanged,
        } = &self.findings;
        let count = |count: usize| match count {
            0 => "none".to_owned(),
            count => count.to_string(),
        };
        format!(
            "Findings: {} new, {} worse, {} better, {} gone, {unchanged} unchanged",
            count(new.len()),
            count(worse.len()),
            count(better.len()),
            count(gone.len()),
        )
    }

    /// The kinds of changes of findings, each with its heading; those that need no action come last.
    fn finding_groups(&self) -> [(&'static str, &[FindingChange]); 4] {
        [
            ("New findings", &self.findings.new),
            ("Worse", &self.findings.worse),
            ("Better", &self.findings.better),
            ("Gone", &self.findings.gone),
        ]
    }

    /// The kinds of changes of statements, each with its heading.
    fn pattern_groups(&self) -> [(&'static str, &[PatternChange]); 3] {
        [
            ("New statements", &self.patterns.new),
            ("Changed statements", &self.patterns.changed),
            ("Statements not seen again", &self.patterns.gone),
        ]
    }
}

impl ComparedReport {
    fn of(report: &Baseline) -> Self {
        Self {
            generated_at: report.generated_at,
            start: report.window.start,
            end: report.window.end,
            seconds: report.window.seconds,
        }
    }

    /// `14 November 2026, 06:00 to 21 November 2026, 06:00 UTC, 7 days observed`.
    fn shown(&self) -> String {
        let time = |at: Timestamp| at.strftime("%-d %B %Y, %H:%M").to_string();
        format!(
            "{} to {} UTC, {} observed",
            time(self.start),
            time(self.end),
            cqlens_window::number::seconds(self.seconds)
        )
    }
}

fn only_in(these: &BTreeMap<String, u64>, those: &BTreeMap<String, u64>) -> Vec<String> {
    let only = these.keys().filter(|name| !those.contains_key(*name));
    only.cloned().collect()
}

/// One of the times is so many times the other: what comes once a day is not seen in an hour.
const UNLIKE: f64 = 4.0;

fn notices(base: &ReadReport, new: &ReadReport) -> Vec<String> {
    let mut notices = Vec::new();
    let (before, after) = (base.seconds(), new.seconds());
    if before.max(after) > UNLIKE * before.min(after) {
        notices.push(format!(
            "The two reports cover different lengths of time ({} and {}): statements that run only at \
                certain hours may be missing from one of them.",
            cqlens_window::number::seconds(before),
            cqlens_window::number::seconds(after)
        ));
    }
    for (name, report) in [("base", base), ("new", new)] {
        if !schema::is_known(report) {
            notices.push(format!(
                "The {name} report has no schema: tables and columns are not compared."
            ));
        }
    }
    notices
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::{testing::*, *};

    #[test]
    fn a_report_does_not_differ_from_itself() {
        let report = scan("items", 1_000);
        let diff = between(&report, &report);
        assert_eq!(
            (&diff.findings.new[..], &diff.findings.gone[..]),
            (&[][..], &[][..])
        );
        assert!(diff.findings.unchanged > 0);
        assert_eq!(diff.patterns.changed, []);
        assert_eq!(diff.schema, []);
        assert_eq!(diff.clients, ClientChanges::default());
        assert_eq!(diff.notices, Vec::<String>::new());
        assert!(!diff.fails_on_new(Severity::Info));
    }

    #[test]
    fn reports_of_two_clusters_are_not_compared() {
        let report = scan("items", 1_000);
        let mut other = report.clone();
        other["cluster"]["name"] = "other".into();
        let [base, new] =
            [&report, &other].map(|report| ReadReport::read(report.to_string().as_bytes()).unwrap());
        let error = ReportDiff::between(&base, &new).unwrap_err().to_string();
        assert_eq!(
            error,
            "it is from cluster \"shop\", but this report from \"other\""
        );
    }

    #[test]
    fn unlike_times_and_a_missing_schema_are_said() {
        let report = scan("items", 1_000);
        let mut short = report.clone();
        short["window"]["seconds"] = 60.0.into();
        short["tables"] = serde_json::json!([]);
        let notices = between(&report, &short).notices.join(" ");
        assert!(
            notices.contains("different lengths of time") && notices.contains("The new report has no schema"),
            "{notices}"
        );
    }

    #[test]
    fn every_form_says_what_is_new_worse_and_gone() {
        let diff = between(&scan("items", 1_000), &scan("orders", 1_000));
        let form = |format| {
            let mut form = Vec::new();
            diff.render(format, &mut form).unwrap();
            String::from_utf8(form).unwrap()
        };
        for format in [DiffFormat::Text, DiffFormat::Md, DiffFormat::Html] {
            let form = form(format);
            for said in [
                "New findings",
                "Gone",
                "shop.orders",
                "shop.items",
                "allow-filtering",
            ] {
                assert!(form.contains(said), "{said} is missing in {form}");
            }
        }
        let json: serde_json::Value = serde_json::from_str(&form(DiffFormat::Json)).unwrap();
        assert_eq!(json["format"], "cqlens.diff.v1");
        assert_eq!(json["findings"]["new"][0]["table"], "orders");
    }

    #[test]
    fn what_names_and_statements_hold_is_inert_in_every_form() {
        let hostile = "</style><script>alert(1)</script>\u{1b}[31m\u{202e}|`x`";
        let mut after = scan("orders", 1_000);
        after["patterns"][0]["cql"] = format!("SELECT \"{hostile}\"").into();
        after["findings"][0]["title"] = hostile.into();
        after["clients"] = serde_json::json!({ hostile: 1 });
        let diff = between(&scan("items", 1_000), &after);
        for format in [DiffFormat::Text, DiffFormat::Md, DiffFormat::Html] {
            let mut form = Vec::new();
            diff.render(format, &mut form).unwrap();
            let form = String::from_utf8(form).unwrap();
            assert!(!form.contains('\u{1b}') && !form.contains('\u{202e}'), "{form}");
            assert!(format != DiffFormat::Html || !form.contains("<script>"), "{form}");
        }
    }
}
