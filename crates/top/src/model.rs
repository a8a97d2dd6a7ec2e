//! What is on the screen, and what changes it: reports that arrive, and keys.

use std::collections::HashSet;

use cqlens_rules::application_name;

use crate::{
    keys::Action,
    report::{Finding, Pattern, Report},
    rows::{self, Reports, Row, Sort},
};

/// What the screen lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum View {
    Statements,
    Findings,
    Tables,
    Applications,
}

impl View {
    pub(crate) const ALL: [Self; 4] = [Self::Statements, Self::Findings, Self::Tables, Self::Applications];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Statements => "Statements",
            Self::Findings => "Findings",
            Self::Tables => "Tables",
            Self::Applications => "Applications",
        }
    }
}

/// What statements are limited to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Scope {
    Table(String),
    Application(String),
}

/// What is opened, over the list: by its id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Detail {
    Statement(String),
    Finding(String),
}

/// Everything that is shown.
#[derive(Debug)]
pub(crate) struct Screen {
    /// Where reports come from.
    pub(crate) source: String,
    pub(crate) reports: Reports,
    /// Why there has been no report since then, if there has been none.
    pub(crate) trouble: Option<String>,
    pub(crate) view: View,
    pub(crate) sort: Sort,
    pub(crate) filter: String,
    /// Whether letters go to the filter.
    pub(crate) is_typing: bool,
    pub(crate) is_paused: bool,
    pub(crate) has_help: bool,
    pub(crate) selected: usize,
    pub(crate) scope: Option<Scope>,
    pub(crate) detail: Option<Detail>,
    /// Lines of the detail that are above the screen.
    pub(crate) scrolled: u16,
    /// Whether any report has come.
    pub(crate) has_begun: bool,
    pub(crate) is_done: bool,
    /// Findings of the first report: others are new.
    first_findings: HashSet<String>,
}

impl Screen {
    pub(crate) fn new(source: String) -> Self {
        Self {
            source,
            reports: Reports::default(),
            trouble: None,
            view: View::Statements,
            sort: Sort::Time,
            filter: String::new(),
            is_typing: false,
            is_paused: false,
            has_help: false,
            selected: 0,
            scope: None,
            detail: None,
            scrolled: 0,
            has_begun: false,
            is_done: false,
            first_findings: HashSet::new(),
        }
    }

    /// Takes what came from the source; while the screen is paused, nothing changes.
    pub(crate) fn take(&mut self, report: Result<Report, String>) {
        match report {
            Err(why) => self.trouble = Some(why),
            Ok(_) if self.is_paused => self.trouble = None,
            Ok(report) => {
                self.trouble = None;
                if !self.has_begun {
                    self.has_begun = true;
                    self.first_findings = report.findings.iter().map(|finding| finding.id.clone()).collect();
                }
                self.reports.replace(report);
                self.stay_within();
            }
        }
    }

    /// Whether a finding was not there in the first report.
    pub(crate) fn is_new(&self, finding: &Finding) -> bool {
        !self.first_findings.contains(&finding.id)
    }

    /// The lines of a view of statements, tables or applications.
    pub(crate) fn rows(&self) -> Vec<Row> {
        let rows = match self.view {
            View::Statements => rows::statements(&self.reports, |pattern| self.is_in_scope(pattern)),
            View::Tables => rows::tables(&self.reports),
            View::Applications => rows::applications(&self.reports),
            View::Findings => Vec::new(),
        };
        rows::arrange(rows, &self.filter, self.sort)
    }

    /// The lines of the view of findings, the severest first, as the report has them.
    pub(crate) fn findings(&self) -> Vec<&Finding> {
        let filter = self.filter.to_lowercase();
        let is_chosen = |finding: &&Finding| {
            let text = format!("{} {} {}", finding.table_name(), finding.title, finding.rule);
            text.to_lowercase().contains(&filter)
        };
        self.reports.now.findings.iter().filter(is_chosen).collect()
    }

    /// The pattern with this id.
    pub(crate) fn pattern(&self, id: &str) -> Option<&Pattern> {
        self.reports.now.patterns.iter().find(|pattern| pattern.id == id)
    }

    fn is_in_scope(&self, pattern: &Pattern) -> bool {
        match &self.scope {
            None => true,
            Some(Scope::Table(name)) => pattern.table_name() == *name,
            Some(Scope::Application(name)) => {
                let mut clients = pattern.clients.keys();
                clients.any(|client| application_name(client) == name)
            }
        }
    }

    fn lines(&self) -> usize {
        match self.view {
            View::Findings => self.findings().len(),
            _ => self.rows().len(),
        }
    }

    fn stay_within(&mut self) {
        self.selected = self.selected.min(self.lines().saturating_sub(1));
    }

    /// Does what a key stands for.
    pub(crate) fn apply(&mut self, action: Action) {
        match action {
            Action::Quit => self.is_done = true,
            Action::Help => self.has_help = !self.has_help,
            Action::Pause => self.is_paused = !self.is_paused,
            Action::Back => self.back(),
            Action::Open => self.open(),
            Action::Show(view) => self.show(view),
            Action::NextView => {
                let at = View::ALL
                    .iter()
                    .position(|&view| view == self.view)
                    .unwrap_or_default();
                self.show(View::ALL[(at + 1) % View::ALL.len()]);
            }
            Action::Move(lines) => self.move_by(lines),
            Action::NextSort => {
                let at = Sort::ALL
                    .iter()
                    .position(|&sort| sort == self.sort)
                    .unwrap_or_default();
                self.sort = Sort::ALL[(at + 1) % Sort::ALL.len()];
            }
            Action::Filter => self.is_typing = true,
            Action::Type(letter) => self.filter.push(letter),
            Action::Erase => drop(self.filter.pop()),
            Action::EndFilter => self.is_typing = false,
            Action::ClearFilter => {
                self.is_typing = false;
                self.filter.clear();
            }
        }
        self.stay_within();
    }

    fn show(&mut self, view: View) {
        self.view = view;
        self.detail = None;
        self.scope = None;
        self.selected = 0;
    }

    /// One step back: out of the help, the detail, the filter, the scope.
    fn back(&mut self) {
        if self.has_help {
            self.has_help = false;
        } else if self.detail.is_some() {
            self.detail = None;
        } else if !self.filter.is_empty() {
            self.filter.clear();
        } else if let Some(scope) = self.scope.take() {
            self.view = match scope {
                Scope::Table(_) => View::Tables,
                Scope::Application(_) => View::Applications,
            };
            self.selected = 0;
        }
    }

    fn open(&mut self) {
        if self.detail.is_some() {
            return;
        }
        self.scrolled = 0;
        if self.view == View::Findings {
            let id = self
                .findings()
                .get(self.selected)
                .map(|finding| finding.id.clone());
            self.detail = id.map(Detail::Finding);
            return;
        }
        let Some(key) = self.rows().get(self.selected).map(|row| row.key.clone()) else {
            return;
        };
        match self.view {
            View::Statements => self.detail = Some(Detail::Statement(key)),
            View::Tables => self.enter(Scope::Table(key)),
            View::Applications => self.enter(Scope::Application(key)),
            View::Findings => {}
        }
    }

    fn enter(&mut self, scope: Scope) {
        self.view = View::Statements;
        self.scope = Some(scope);
        self.filter.clear();
        self.selected = 0;
    }

    fn move_by(&mut self, lines: i16) {
        match self.detail {
            // Where its last line is depends on the width of the terminal.
            Some(_) if lines == i16::MAX => {}
            Some(_) => self.scrolled = self.scrolled.saturating_add_signed(lines),
            None => self.selected = self.selected.saturating_add_signed(isize::from(lines)),
        }
    }
}
