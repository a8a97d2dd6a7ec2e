//! Scripts: what each statement touches, what is wrong with it, and what the rules find in it.

use std::io::{self, Write};
use std::rc::Rc;

use cqlens_cql::syntax::ast::{Body, Kind, RelationOperator, Statement, Subject};
use cqlens_cql::syntax::{self, ParseError, ScriptPart, Span, Template};
use cqlens_proto::message::Values;

use super::answer::{extension_error, is_unjudged, of_text, says_nothing};
use super::definitions::{Applied, Definitions};
use super::fault;
use super::lint::{self, Judge, LintOutcome};
use super::nearest;
use super::print::Printer;
use super::remark::{Remark, RemarkLevel};
use super::source::{PlacedStatement, SourceText};
use super::together::RunWrites;
use super::transaction;
use cqlens_audit::audit::Once;
use cqlens_cql::footprint::{Count, Footprint, Keys};
use cqlens_cql::plan::Plan;
use cqlens_cql::{
    footprint::{PartitionClass, Reason},
    plan::Flag,
};
use cqlens_report::text;

/// Explains scripts, one after the other: definitions count for what follows them, in later scripts too; a `USE` counts up
/// to the end of its file.
pub(super) struct ScriptExplainer<'s, W> {
    judge: &'s Judge<'s>,
    /// That of names without one, until a USE says another.
    default_keyspace: Option<String>,
    keyspace: Option<String>,
    definitions: Definitions,
    printer: Printer<W>,
    keys: Keys,
    writes: RunWrites,
    outcome: LintOutcome,
}

impl<'s, W: Write> ScriptExplainer<'s, W> {
    pub(super) fn new(
        judge: &'s Judge<'s>,
        keyspace: Option<&str>,
        definitions: Definitions,
        printer: Printer<W>,
    ) -> Self {
        Self {
            judge,
            default_keyspace: keyspace.map(ToOwned::to_owned),
            keyspace: None,
            definitions,
            printer,
            keys: Keys::new(),
            writes: RunWrites::default(),
            outcome: LintOutcome::default(),
        }
    }

    /// Counts an input, of which each part is explained by itself.
    pub(super) fn begin_input(&mut self) {
        self.outcome.inputs += 1;
    }

    pub(super) fn printer(&mut self) -> &mut Printer<W> {
        &mut self.printer
    }

    /// Explains every statement of a script. Those that define something are passed over where they are `in_force` already.
    pub(super) fn explain(&mut self, source: &Rc<SourceText>, in_force: bool) -> io::Result<()> {
        if !source.goes_on {
            self.keyspace.clone_from(&self.default_keyspace);
        }
        self.printer.input(&source.name)?;
        for (span, part) in syntax::script(source.cql()) {
            let place = source.statement(span);
            match part {
                ScriptPart::Command(word) => {
                    let what = format!("skipped {word}, which is a cqlsh command");
                    self.printer.passed_over(&place, &what)?;
                }
                ScriptPart::Statement(Err(error)) => self.unparsed(&error, &place)?,
                ScriptPart::Statement(Ok(statement)) if in_force && defines(&statement) => {}
                ScriptPart::Statement(Ok(statement)) => self.statement(&statement, &place)?,
            }
        }
        Ok(())
    }

    /// Says what the rules find in definitions, and hands back what became of all.
    pub(super) fn finish(mut self) -> io::Result<(LintOutcome, Printer<W>)> {
        self.judge_together()?;
        let judged = self.definitions.findings(self.judge);
        for (remark, place) in judged.open {
            self.say(remark, &place)?;
        }
        for finding in judged.accepted {
            self.outcome.accepted += 1;
            self.printer.accepted(&finding)?;
        }
        lint::warn_of_mistakes(&self.definitions.schema);
        Ok((self.outcome, self.printer))
    }

    /// Says what the statements have to do with each other.
    fn judge_together(&mut self) -> io::Result<()> {
        let writes = std::mem::take(&mut self.writes);
        let judged = self.judge.together(&writes.window, &self.definitions.schema);
        for finding in judged.open {
            if let Some(place) = writes.place(&finding) {
                self.say(Remark::from_finding(finding, Vec::new()), place)?;
            }
        }
        for finding in judged.accepted {
            self.outcome.accepted += 1;
            self.printer.accepted(&finding)?;
        }
        Ok(())
    }

    fn unparsed(&mut self, error: &ParseError, place: &PlacedStatement) -> io::Result<()> {
        self.definitions.leave_out(self.keyspace.as_deref(), place);
        let (text, statement) = (&place.source.text, place.place.span);
        let hint = fault::hint(error, text, statement)
            .or_else(|| nearest::for_parse_error(error, place.source.cql(), statement));
        let error = ParseError {
            span: fault::begins_at(error, text, statement),
            ..error.clone()
        };
        self.say(Remark::from_parse_error(&error).hint(hint), place)
    }

    fn statement(&mut self, statement: &Statement<'_>, place: &PlacedStatement) -> io::Result<()> {
        if let Some(error) = extension_error(statement, self.judge.server) {
            let span = statement.extension.as_ref().map(|extension| extension.span);
            self.definitions.leave_out(self.keyspace.as_deref(), place);
            return self.say(Remark::from_extension(error, span), place);
        }
        if let Body::Use(using) = &statement.body {
            self.keyspace = Some(using.keyspace.as_str().to_owned());
            return Ok(());
        }
        let keyspace = self.keyspace.as_deref();
        match self
            .definitions
            .define(statement, keyspace, place, self.judge.server)
        {
            Applied::NoDefinition => self.request(statement, place),
            Applied::Done => {
                self.outcome.statements += 1;
                Ok(())
            }
            Applied::Unjudged(_) => {
                self.count_unjudged(keyspace.is_none());
                self.printer.passed_over(
                    place,
                    "not judged: the statement's effect on the schema is not known",
                )
            }
            Applied::Refused(error) => {
                let schema = &self.definitions.schema;
                let hint = nearest::for_schema_error(&error, statement, keyspace, schema);
                self.outcome.statements += 1;
                self.say(Remark::from_schema_error(&error).hint(hint), place)
            }
        }
    }

    fn count_unjudged(&mut self, without_keyspace: bool) {
        self.outcome.statements += 1;
        self.outcome.unjudged += 1;
        self.outcome.without_keyspace += usize::from(without_keyspace);
    }

    /// Explains a statement that reads or writes.
    fn request(&mut self, statement: &Statement<'_>, place: &PlacedStatement) -> io::Result<()> {
        let plan = Plan::of(statement, self.keyspace.as_deref(), &self.definitions.schema);
        let plan = plan.on(self.judge.server.language());
        let touches = matches!(
            plan.facts().kind,
            Kind::Select | Kind::Insert | Kind::Update | Kind::Delete | Kind::Batch | Kind::Transaction
        );
        if !touches {
            return Ok(());
        }
        let values = statement.bind_markers.is_empty().then_some(&Values::NONE);
        self.keys.clear();
        let keyspace = plan.facts().keyspace.as_deref();
        let executed = plan.execute(values, &mut self.keys);
        let is_undefined = executed.is_err() && self.is_undefined(statement);
        if executed.is_ok()
            && let Some(error) =
                self.definitions
                    .refuses(statement, self.keyspace.as_deref(), self.judge.server)
        {
            self.outcome.statements += 1;
            return self.say(
                Remark::error("prepare", error.to_string(), Some(error.span)),
                place,
            );
        }
        match executed {
            // What is not known may be defined elsewhere, which says nothing of the statement.
            Err(refusal)
                if !is_undefined && (self.definitions.knows_all_of(keyspace) || !says_nothing(&refusal)) =>
            {
                let schema = &self.definitions.schema;
                let hint = nearest::for_refusal(&refusal, statement, plan.facts(), schema);
                self.outcome.statements += 1;
                self.say(Remark::from_refusal(&refusal).hint(hint), place)
            }
            executed => {
                let footprint = executed.unwrap_or_else(|_| of_text(statement, Reason::SchemaUnknown));
                match is_unjudged(&footprint) {
                    true => self.count_unjudged(keyspace.is_none()),
                    false => self.outcome.statements += 1,
                }
                self.outcome.undefined += usize::from(is_undefined && is_unjudged(&footprint));
                self.describe(statement, place, &plan, &footprint)?;
                self.judge(statement, place, plan, &footprint)
            }
        }
    }

    /// Whether a table of the statement has a definition that is not understood.
    fn is_undefined(&self, statement: &Statement<'_>) -> bool {
        let keyspace = self.keyspace.as_deref();
        let tables = nearest::tables_of(statement).into_iter();
        tables.into_iter().any(|table| {
            let name = table.name.as_str();
            self.definitions.is_undefined(table.keyspace_or(keyspace), name)
        })
    }

    fn say(&mut self, remark: Remark, place: &PlacedStatement) -> io::Result<()> {
        match remark.level {
            RemarkLevel::Error => self.outcome.wrong += 1,
            RemarkLevel::Finding(severity) => self.outcome.found(severity),
        }
        self.printer.remark(remark, place)
    }

    /// Says what the rules find.
    fn judge(
        &mut self,
        statement: &Statement<'_>,
        place: &PlacedStatement,
        plan: Plan,
        footprint: &Footprint,
    ) -> io::Result<()> {
        let lists = self.lists_of_keys(statement, &plan);
        let template = Template::of(statement, self.keyspace.as_deref());
        let once = Once::of(statement, template, plan, footprint);
        let judged = self
            .judge
            .findings(&once, Some(statement), &self.definitions.schema);
        for finding in judged.open {
            let spans = match finding.rule {
                "in-partition-key" | "in-cartesian-product" => lists.clone(),
                _ => Vec::new(),
            };
            self.say(Remark::from_finding(finding, spans), place)?;
        }
        for finding in judged.accepted {
            self.outcome.accepted += 1;
            self.printer.accepted(&finding)?;
        }
        self.writes.note(once, place);
        Ok(())
    }

    /// Where `IN` restricts the partition key.
    fn lists_of_keys(&self, statement: &Statement<'_>, plan: &Plan) -> Vec<Span> {
        let (Body::Select(select), Some(keyspace), Some(table)) =
            (&statement.body, &plan.facts().keyspace, &plan.facts().table)
        else {
            return Vec::new();
        };
        let Some(table) = self.definitions.schema.table(keyspace, table) else {
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
        &mut self,
        statement: &Statement<'_>,
        place: &PlacedStatement,
        plan: &Plan,
        footprint: &Footprint,
    ) -> io::Result<()> {
        let keyspace = self.keyspace.as_deref();
        self.printer.describe(|out| {
            let facts = plan.facts();
            let line = place.place.start.line;
            let table = match (&facts.keyspace, &facts.table) {
                (Some(keyspace), Some(table)) => format!(" on {keyspace}.{table}"),
                (None, Some(table)) => format!(" on {table}"),
                _ => String::new(),
            };
            let (name, table) = (text::escaped(&place.source.name), text::escaped(&table));
            let touched = in_words(footprint, plan);
            writeln!(out, "{name}:{line}: {}{table}: {touched}", facts.kind)?;
            if let Some(transaction) = transaction::in_words(plan) {
                writeln!(out, "    {}", text::escaped(&transaction))?;
            }
            let flags: Vec<String> = facts.flags().map(|flag| serde_name(&flag)).collect();
            if !flags.is_empty() {
                writeln!(out, "    {}", flags.join(", "))?;
            }
            let template = Template::of(statement, keyspace);
            let cql = text::escaped(&template.text);
            writeln!(out, "    {}  {cql}", template.fingerprint)
        })
    }
}

/// Whether a statement changes the schema.
fn defines(statement: &Statement<'_>) -> bool {
    matches!(
        statement.body,
        Body::CreateKeyspace(_)
            | Body::AlterKeyspace(_)
            | Body::CreateTable(_)
            | Body::AlterTable(_)
            | Body::CreateType(_)
            | Body::AlterType(_)
            | Body::CreateIndex(_)
            | Body::CreateView(_)
            | Body::AlterView(_)
            | Body::Drop(_)
            | Body::CopyTable(_)
            | Body::Annotate(_)
    )
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
        (_, PartitionClass::TokenRange) => "part of the ring".to_owned(),
        (Count::Index, _) | (_, PartitionClass::Index) => {
            "read through an index, without the partition key".to_owned()
        }
        (Count::Unknown(Reason::Unbound), PartitionClass::Single) => "1 partition per execution".to_owned(),
        (Count::Unknown(Reason::Unbound), PartitionClass::Multi) => match plan.foreseen_partitions() {
            Some(1) => "1 partition per execution".to_owned(),
            Some(count) => format!("{count} partitions per execution"),
            None => plan.most_partitions().map_or_else(
                || "as many partitions as distinct keys are bound".to_owned(),
                |most| format!("up to {most} partitions per execution"),
            ),
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
    use super::super::{form::Form, print::Detail};
    use super::*;
    use cqlens_rules::{Judging, Severity};

    fn explained(text: &str) -> (String, LintOutcome) {
        let source = Rc::new(SourceText::new("q.cql", text));
        let mut out = Vec::new();
        let judging = Judging::default();
        let judge = Judge::new(&judging, jiff::civil::date(2027, 1, 1));
        let printer = Printer::new(&mut out, Form::Text, false, Detail::Usual);
        let mut script = ScriptExplainer::new(&judge, None, Definitions::default(), printer);
        script.explain(&source, false).unwrap();
        let (outcome, _) = script.finish().unwrap();
        (String::from_utf8(out).unwrap(), outcome)
    }

    const TABLE: &str = "CREATE KEYSPACE shop WITH replication = {'class': 'NetworkTopologyStrategy', 'dc1': 3};\nUSE shop;\n\
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
        assert_eq!(outcome.worst(), None, "{text}");
        let (text, outcome) = explained(&script("2026-12-31"));
        assert!(
            text.contains("Was accepted by platform until 31 December 2026"),
            "{text}"
        );
        assert!(outcome.worst().is_some());
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
        assert_eq!((outcome.wrong, outcome.worst()), (0, Some(Severity::Medium)));
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
