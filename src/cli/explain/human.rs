//! For people: a line or two on every statement; errors and findings drawn into the text.

use std::io::{self, Write};

use cqlens_cql::syntax::ast::{Body, Kind, RelationOperator, Statement, Subject};
use cqlens_cql::syntax::{self, Span, Template};
use cqlens_proto::message::Values;

use super::answer::{extension_error, is_unjudged, of_text, says_nothing};
use super::draw::{Remark, SourceText};
use super::lint::{self, Judge, LintOutcome};
use cqlens_audit::audit::Once;
use cqlens_audit::text;
use cqlens_cql::footprint::{Count, Footprint, Keys};
use cqlens_cql::plan::Plan;
use cqlens_cql::schema::Schema;
use cqlens_cql::{
    footprint::{PartitionClass, Reason},
    plan::Flag,
};

/// Explains every statement of a script.
///
/// `USE` and definitions in the script count for what follows them.
pub(super) fn explain(
    source: &SourceText<'_>,
    out: &mut impl Write,
    keyspace: Option<&str>,
    schema: Option<&Schema>,
    judge: &Judge<'_>,
) -> io::Result<LintOutcome> {
    let mut script = ScriptExplainer {
        source,
        judge,
        keyspace: keyspace.map(ToOwned::to_owned),
        schema: schema.cloned().unwrap_or_default(),
        has_schema: schema.is_some(),
        keys: Keys::new(),
        outcome: LintOutcome::default(),
    };
    for (span, statement) in syntax::statements(source.text) {
        match statement {
            Ok(statement) => script.statement(&statement, out)?,
            Err(error) => script.is_wrong(out, &Remark::from_parse_error(&error), span)?,
        }
    }
    lint::warn_of_mistakes(&script.schema);
    Ok(script.outcome)
}

/// A script that is being explained, and what its statements have changed so far.
struct ScriptExplainer<'s> {
    source: &'s SourceText<'s>,
    judge: &'s Judge<'s>,
    keyspace: Option<String>,
    schema: Schema,
    has_schema: bool,
    keys: Keys,
    outcome: LintOutcome,
}

impl ScriptExplainer<'_> {
    fn statement(&mut self, statement: &Statement<'_>, out: &mut impl Write) -> io::Result<()> {
        if let Some(error) = extension_error(statement) {
            let span = statement.extension.as_ref().map(|extension| extension.span);
            return self.is_wrong(out, &Remark::from_extension(error, span), statement.span);
        }
        if let Body::Use(using) = &statement.body {
            self.keyspace = Some(using.keyspace.as_str().to_owned());
            return Ok(());
        }
        if self.schema.apply(statement, self.keyspace.as_deref()).is_ok() {
            self.has_schema = true;
            return Ok(());
        }
        let plan = Plan::of(statement, self.keyspace.as_deref(), &self.schema);
        let touches = matches!(
            plan.facts().kind,
            Kind::Select | Kind::Insert | Kind::Update | Kind::Delete | Kind::Batch
        );
        if !touches {
            return Ok(());
        }
        let values = statement.bind_markers.is_empty().then_some(&Values::NONE);
        self.keys.clear();
        match plan.execute(values, &mut self.keys) {
            // Without a schema every table is unknown, which says nothing of the statement.
            Err(refusal) if self.has_schema || !says_nothing(&refusal) => {
                self.is_wrong(out, &Remark::from_refusal(&refusal), statement.span)
            }
            executed => {
                let footprint = executed.unwrap_or_else(|_| of_text(statement, Reason::SchemaUnknown));
                self.outcome.statements += 1;
                self.outcome.unjudged += usize::from(is_unjudged(&footprint));
                self.describe(out, statement, &plan, &footprint)?;
                self.judge(out, statement, plan, &footprint)
            }
        }
    }

    fn is_wrong(&mut self, out: &mut impl Write, remark: &Remark, statement: Span) -> io::Result<()> {
        self.outcome.wrong += 1;
        self.source.draw(out, remark, statement)
    }

    /// Draws what the rules find.
    fn judge(
        &mut self,
        out: &mut impl Write,
        statement: &Statement<'_>,
        plan: Plan,
        footprint: &Footprint,
    ) -> io::Result<()> {
        let lists = self.lists_of_keys(statement, &plan);
        let template = Template::of(statement, self.keyspace.as_deref());
        let once = Once::of(template, plan, footprint);
        let judged = self.judge.findings(&once, &self.schema);
        for finding in judged.open {
            self.outcome.worst = self.outcome.worst.max(Some(finding.severity));
            let spans = match finding.rule {
                "in-partition-key" | "in-cartesian-product" => lists.clone(),
                _ => Vec::new(),
            };
            let remark = Remark::from_finding(finding, spans);
            self.source.draw(out, &remark, statement.span)?;
        }
        for finding in judged.accepted {
            let acceptance = finding.acceptance.map(|acceptance| acceptance.to_string());
            let said = acceptance.unwrap_or_default();
            writeln!(out, "    {} {}: {said}\n", finding.severity, finding.rule)?;
        }
        Ok(())
    }

    /// Where `IN` restricts the partition key.
    fn lists_of_keys(&self, statement: &Statement<'_>, plan: &Plan) -> Vec<Span> {
        let (Body::Select(select), Some(keyspace), Some(table)) =
            (&statement.body, &plan.facts().keyspace, &plan.facts().table)
        else {
            return Vec::new();
        };
        let Some(table) = self.schema.table(keyspace, table) else {
            return Vec::new();
        };
        let relations = select.where_clause.relations.iter();
        let lists = relations.filter(|relation| match &relation.subject {
            Subject::Column(name) if relation.operator == RelationOperator::In => table
                .partition_key()
                .iter()
                .any(|column| column.name == name.as_str()),
            _ => false,
        });
        lists.map(|relation| relation.span).collect()
    }

    /// `file:line: select on shop.kv: 2 partitions`, its properties, and its template.
    fn describe(
        &self,
        out: &mut impl Write,
        statement: &Statement<'_>,
        plan: &Plan,
        footprint: &Footprint,
    ) -> io::Result<()> {
        let facts = plan.facts();
        let line = self.source.line(statement.span);
        let table = match (&facts.keyspace, &facts.table) {
            (Some(keyspace), Some(table)) => format!(" on {keyspace}.{table}"),
            (None, Some(table)) => format!(" on {table}"),
            _ => String::new(),
        };
        let (name, table) = (text::escaped(self.source.name), text::escaped(&table));
        let touched = in_words(footprint, plan);
        writeln!(out, "{name}:{line}: {}{table}: {touched}", facts.kind)?;
        let flags: Vec<String> = facts.flags().map(|flag| serde_name(&flag)).collect();
        if !flags.is_empty() {
            writeln!(out, "    {}", flags.join(", "))?;
        }
        let template = Template::of(statement, self.keyspace.as_deref());
        let cql = text::escaped(&template.text);
        writeln!(out, "    {}  {cql}", template.fingerprint)
    }
}

fn in_words(footprint: &Footprint, plan: &Plan) -> String {
    match (footprint.count, plan.class()) {
        (Count::Exact(0), _) => "no partition (nothing can match)".to_owned(),
        (Count::Exact(1), _) => "1 partition".to_owned(),
        (Count::Exact(count), _) => format!("{count} partitions"),
        (Count::AtLeast(count, reason), _) => format!("at least {count} partitions ({})", reason.name()),
        (Count::Page { named, .. }, _) => format!("some of {named} partitions"),
        (Count::Scan, _) | (_, PartitionClass::Scan) => "a scan of the whole ring".to_owned(),
        (Count::TokenRange { share }, _) => format!("{:.1} % of the ring", share * 100.0),
        (_, PartitionClass::TokenRange) => "a part of the ring".to_owned(),
        (Count::Index, _) | (_, PartitionClass::Index) => {
            "read through an index, without the partition key".to_owned()
        }
        (Count::Unknown(Reason::Unbound), PartitionClass::Single) => {
            "1 partition for each execution".to_owned()
        }
        (Count::Unknown(Reason::Unbound), PartitionClass::Multi) => match plan.foreseen_partitions() {
            Some(1) => "1 partition for each execution".to_owned(),
            Some(count) => format!("{count} partitions for each execution"),
            None => "as many partitions as distinct keys are bound".to_owned(),
        },
        (Count::Unknown(reason), _) => format!("partitions unknown ({})", reason.name()),
    }
}

/// The kebab-case name that a property has in JSON.
fn serde_name(flag: &Flag) -> String {
    serde_json::to_value(flag)
        .ok()
        .and_then(|name| name.as_str().map(ToOwned::to_owned))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use cqlens_audit::rules::{Judging, Severity};

    fn explained(text: &str) -> (String, LintOutcome) {
        let source = SourceText::new("q.cql", text, false);
        let mut out = Vec::new();
        let judging = Judging::default();
        let judge = Judge::new(&judging, jiff::civil::date(2027, 1, 1));
        let outcome = explain(&source, &mut out, None, None, &judge).unwrap();
        (String::from_utf8(out).unwrap(), outcome)
    }

    const TABLE: &str = "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy'};\nUSE shop;\n\
                         CREATE TABLE kv (k int PRIMARY KEY, v int);\n";

    #[test]
    fn what_a_comment_accepts_is_said_and_fails_nothing() {
        let script = |until| {
            format!(
                "{TABLE}CREATE TABLE t (k int PRIMARY KEY, v int) WITH comment =
                 'cqlens:accept allow-filtering owner=platform until={until} reason=admin page';
                 SELECT k FROM t WHERE v = 1 LIMIT 5 ALLOW FILTERING;"
            )
        };
        let (text, outcome) = explained(&script("2027-01-01"));
        let said =
            "allow-filtering: Accepted by platform until 1 January 2027: admin page (comment of shop.t).";
        assert!(text.contains(said), "{text}");
        assert_eq!(outcome.worst, None, "{text}");
        let (text, outcome) = explained(&script("2026-12-31"));
        assert!(
            text.contains("Was accepted by platform until 31 December 2026"),
            "{text}"
        );
        assert!(outcome.worst.is_some());
    }

    #[test]
    fn a_syntax_error_is_drawn_and_the_next_statement_is_read() {
        let (text, outcome) = explained("SELECT * FORM kv;\nSELECT * FROM kv");
        insta::assert_snapshot!(text);
        assert_eq!(outcome.wrong, 1);
    }

    #[test]
    fn a_refusal_is_drawn_where_it_belongs() {
        let (text, outcome) = explained(&format!(
            "{TABLE}SELECT * FROM kv\nWHERE é = 1;\nSELECT * FROM kv WHERE v = 1"
        ));
        insta::assert_snapshot!(text);
        assert_eq!(outcome.wrong, 2);
    }

    #[test]
    fn footprints_are_told_in_words() {
        let (text, outcome) = explained(&format!(
            "{TABLE}SELECT * FROM kv WHERE k IN (1, 2, 1);\nSELECT v FROM kv WHERE k = ?;\nSELECT v FROM kv WHERE k IN ?;\n\
             SELECT * FROM kv WHERE token(k) > 0;\nSELECT * FROM kv WHERE v = 1 ALLOW FILTERING;\nDELETE FROM kv WHERE k IN ();"
        ));
        insta::assert_snapshot!(text);
        assert_eq!(outcome.wrong, 0);
    }

    #[test]
    fn findings_are_drawn_with_what_would_help() {
        let (text, outcome) = explained(&format!(
            "{TABLE}CREATE TABLE pair (a int, b int, v int, PRIMARY KEY ((a, b)));\n\
             SELECT k FROM kv\n WHERE v = ?\n ALLOW FILTERING;\nSELECT v FROM pair WHERE a = ? AND b IN (1, 2, 3);\n\
             SELECT v FROM pair\n WHERE a IN (1, 2)\n AND b IN ?;\nSELECT v FROM kv WHERE k = 1;"
        ));
        insta::assert_snapshot!(text);
        assert_eq!((outcome.wrong, outcome.worst), (0, Some(Severity::Medium)));
    }

    #[test]
    fn errors_at_the_end_and_odd_characters_do_no_harm() {
        for text in [
            "",
            "SELECT",
            "é",
            "SELECT * FROM t WHERE k = '",
            "\u{1F600};\u{0};",
            "--",
            "BEGIN BATCH",
        ] {
            let _ = explained(text);
        }
    }
}
