//! Where remarks go: drawn at once for people, or kept until the end for the forms that programs read.

use std::io::{self, Write};
use std::rc::Rc;

use cqlens_report::text::{self, Lines};
use cqlens_rules::Finding;

use super::draw::draw;
use super::form::{self, Form};
use super::lint::LintOutcome;
use super::remark::{Remark, RemarkLevel};
use super::source::{PlacedStatement, Position};

/// Takes what is said of statements, in their order.
pub(super) struct Printer<W> {
    out: W,
    pub(super) form: Form,
    pub(super) colour: bool,
    pub(super) detail: Detail,
    kept: KeptRemarks,
}

/// How much is said to people.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Detail {
    /// Remarks alone.
    Quiet,
    /// Remarks, and what each statement touches.
    Usual,
    /// Also what was passed over, and why a finding matters.
    Verbose,
}

/// Remarks that are written at the end.
#[derive(Debug, Default)]
pub(super) struct KeptRemarks {
    pub(super) remarks: Vec<PlacedRemark>,
    /// How many more there were.
    pub(super) left_out: usize,
    /// All inputs, in their order.
    pub(super) inputs: Vec<Rc<str>>,
}

/// What GitHub takes of one SARIF run; more would fill the memory.
const MAX_KEPT: usize = 25_000;

/// A remark and where it is to be shown.
#[derive(Debug)]
pub(super) struct PlacedRemark {
    pub(super) file: Rc<str>,
    pub(super) start: Position,
    pub(super) end: Position,
    /// The statement, of a long one the beginning.
    pub(super) cql: String,
    pub(super) remark: Remark,
}

/// As much of a statement as is kept.
const MAX_CQL: usize = 2_000;

impl<W: Write> Printer<W> {
    pub(super) fn new(out: W, form: Form, colour: bool, detail: Detail) -> Self {
        Self {
            out,
            form,
            colour,
            detail,
            kept: KeptRemarks::default(),
        }
    }

    /// Begins an input, or a part of it.
    pub(super) fn input(&mut self, name: &Rc<str>) -> io::Result<()> {
        if self.form == Form::Text && self.detail == Detail::Verbose {
            return writeln!(self.lines(), "reading {}", text::escaped(name));
        }
        if self.form != Form::Text
            && self.kept.inputs.last() != Some(name)
            && self.kept.inputs.len() < MAX_KEPT
        {
            self.kept.inputs.push(Rc::clone(name));
        }
        Ok(())
    }

    /// Text for people that is neither a remark nor left out of `--quiet`.
    pub(super) fn describe(
        &mut self,
        say: impl FnOnce(&mut Lines<&mut W>) -> io::Result<()>,
    ) -> io::Result<()> {
        match self.form == Form::Text && self.detail >= Detail::Usual {
            true => say(&mut self.lines()),
            false => Ok(()),
        }
    }

    /// Says what was passed over.
    pub(super) fn passed_over(&mut self, place: &PlacedStatement, what: &str) -> io::Result<()> {
        if self.form != Form::Text || self.detail < Detail::Verbose {
            return Ok(());
        }
        let (name, line) = (text::escaped(&place.source.name), place.place.start.line);
        writeln!(self.lines(), "{name}:{line}: {what}")
    }

    pub(super) fn remark(&mut self, remark: Remark, statement: &PlacedStatement) -> io::Result<()> {
        if self.form != Form::Text {
            self.kept.keep(remark, statement);
            return Ok(());
        }
        let (colour, why) = (self.colour, self.why(&remark));
        draw(&mut self.lines(), &remark, statement, colour)?;
        why.map_or(Ok(()), |why| writeln!(self.lines(), "{why}\n"))
    }

    fn why(&self, remark: &Remark) -> Option<String> {
        let about = cqlens_rules::find(remark.id)
            .filter(|_| self.detail == Detail::Verbose)?
            .about();
        Some(format!("    Why: {}\n    Source: {}", about.why, about.source))
    }

    /// Says what is accepted, and by whom.
    pub(super) fn accepted(&mut self, finding: &Finding) -> io::Result<()> {
        let acceptance = finding.acceptance.as_ref().map(ToString::to_string);
        let said = acceptance.unwrap_or_default();
        let (severity, rule) = (finding.severity, finding.rule);
        self.describe(|out| writeln!(out, "    {severity} {rule}: {said}\n"))
    }

    /// Writes what was kept, and the summary where the form has no other place for it.
    pub(super) fn finish(
        mut self,
        outcome: &LintOutcome,
        fails: impl Fn(RemarkLevel) -> bool,
    ) -> io::Result<()> {
        if self.form == Form::Text {
            writeln!(self.out, "{outcome}")?;
        } else {
            form::write(self.form, &self.kept, outcome, &fails, &mut self.out)?;
        }
        self.out.flush()
    }

    /// How many remarks there were beyond those that are written.
    pub(super) fn left_out(&self) -> usize {
        self.kept.left_out
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// The output as it is, for answers of another form.
    pub(super) fn output(&mut self) -> &mut W {
        &mut self.out
    }

    fn lines(&mut self) -> Lines<&mut W> {
        Lines::with_colours(&mut self.out, self.colour)
    }
}

impl KeptRemarks {
    fn keep(&mut self, remark: Remark, statement: &PlacedStatement) {
        if self.remarks.len() >= MAX_KEPT {
            self.left_out += 1;
            return;
        }
        let place = match remark.spans.as_slice() {
            [first, ..] => statement.part(*first),
            [] => statement.place,
        };
        let cql = statement.text();
        let cut = cql.floor_char_boundary(MAX_CQL.min(cql.len()));
        self.remarks.push(PlacedRemark {
            file: Rc::clone(&statement.source.name),
            start: place.start,
            end: place.end,
            cql: if cut < cql.len() {
                format!("{}…", &cql[..cut])
            } else {
                cql.to_owned()
            },
            remark,
        });
    }
}
