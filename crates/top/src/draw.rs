//! How the screen looks. Severities are words; colours only repeat them.

use std::borrow::Cow;

use cqlens_report::text;
use cqlens_rules::Severity;
use cqlens_window::number;
use ratatui::{
    Frame,
    layout::{Constraint, Layout, Rect},
    style::{Color, Modifier, Style},
    text::{Line, Span},
    widgets::{Cell, Paragraph, Row as TableRow, Table, TableState, Wrap},
};

use crate::{
    keys,
    model::{Detail, Scope, Screen, View},
    report::{Finding, Pattern},
    rows::Row,
};

/// The smallest screen that holds a line of each view.
const SMALLEST: (u16, u16) = (60, 10);

const UNKNOWN: &str = "–";

/// Draws everything.
pub(crate) fn screen(frame: &mut Frame<'_>, screen: &Screen, has_colours: bool) {
    let area = frame.area();
    if area.width < SMALLEST.0 || area.height < SMALLEST.1 {
        let (width, height) = SMALLEST;
        frame.render_widget(format!("needs {width} x {height}"), area);
        return;
    }
    let [head, tabs, body, foot] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Fill(1),
        Constraint::Length(1),
    ])
    .areas(area);
    frame.render_widget(header(screen), head);
    frame.render_widget(tab_line(screen), tabs);
    let style = Style::new().add_modifier(Modifier::DIM);
    frame.render_widget(Line::styled(keys_line(screen), style), foot);
    let painter = Painter { has_colours };
    match (&screen.detail, screen.has_help) {
        (_, true) => frame.render_widget(help(), body),
        (Some(detail), false) => painter.detail(frame, screen, detail, body),
        (None, false) => painter.list(frame, screen, body),
    }
}

fn header(screen: &Screen) -> Line<'static> {
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let mut parts = vec![
        Span::styled("cqlens top  ", bold),
        shown(&screen.source).into_owned().into(),
    ];
    if let Some(name) = &screen.reports.now.cluster.name {
        parts.push(format!("  {}", shown(name)).into());
    }
    if let Some(trouble) = &screen.trouble {
        parts.push(Span::styled(format!("  no report: {}", shown(trouble)), bold));
    } else if !screen.has_begun {
        parts.push("  waiting for the first report".into());
    } else {
        parts.push(format!("  {}", number::rate(screen.reports.total_rate())).into());
        parts.push(format!("  {}", covered(screen)).into());
    }
    if screen.is_paused {
        parts.push(Span::styled("  PAUSED", bold));
    }
    Line::from(parts)
}

/// Which time rates are of.
fn covered(screen: &Screen) -> String {
    let seconds = number::seconds(screen.reports.now.window.seconds);
    match screen.reports.are_recent() {
        true => format!("since the last report, of {seconds}"),
        false => format!("in {seconds}"),
    }
}

fn tab_line(screen: &Screen) -> Line<'static> {
    let mut parts = Vec::new();
    for (place, view) in (1..).zip(View::ALL) {
        let style = match view == screen.view {
            true => Style::new().add_modifier(Modifier::REVERSED),
            false => Style::new(),
        };
        let count = match view {
            View::Findings => format!(" {}", screen.reports.now.findings.len()),
            _ => String::new(),
        };
        parts.push(Span::styled(format!("{place} {}{count}", view.name()), style));
        parts.push("  ".into());
    }
    match &screen.scope {
        None => {}
        Some(Scope::Table(name)) => parts.push(format!("of table {}  ", shown(name)).into()),
        Some(Scope::Application(name)) => parts.push(format!("of application {}  ", shown(name)).into()),
    }
    if screen.view != View::Findings {
        parts.push(format!("by {}  ", screen.sort.name()).into());
    }
    if screen.is_typing || !screen.filter.is_empty() {
        let cursor = if screen.is_typing { "_" } else { "" };
        parts.push(format!("/{}{cursor}", shown(&screen.filter)).into());
    }
    Line::from(parts)
}

fn keys_line(screen: &Screen) -> &'static str {
    match (screen.is_typing, &screen.detail) {
        (true, _) => "Enter keep filter  Esc clear filter",
        (false, Some(_)) => "Esc back  ↑↓ scroll  q quit",
        (false, None) => "Enter open  s sort  / filter  Space pause  Tab view  ? help  q quit",
    }
}

fn help() -> Table<'static> {
    let rows = keys::HELP.map(|(key, what)| TableRow::new([key, what]));
    Table::new(rows, [Constraint::Length(20), Constraint::Fill(1)])
}

struct Painter {
    has_colours: bool,
}

impl Painter {
    fn severity(&self, severity: Severity) -> Style {
        let style = match severity {
            Severity::High => Style::new().add_modifier(Modifier::BOLD),
            _ => Style::new(),
        };
        match (self.has_colours, severity) {
            // Light and dark ones; none differ as red and green do.
            (true, Severity::High) => style.fg(Color::LightRed),
            (true, Severity::Medium) => style.fg(Color::Yellow),
            (true, Severity::Low) => style.fg(Color::LightBlue),
            (true, Severity::Info) => style.fg(Color::Cyan),
            (false, _) => style,
        }
    }

    fn list(&self, frame: &mut Frame<'_>, screen: &Screen, area: Rect) {
        let mut state = TableState::new().with_selected(Some(screen.selected));
        let table = match screen.view {
            View::Findings => self.findings(screen),
            _ => self.rows(&screen.rows(), screen.view),
        };
        let table = table
            .column_spacing(1)
            .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
        frame.render_stateful_widget(table, area, &mut state);
    }

    fn rows(&self, rows: &[Row], view: View) -> Table<'static> {
        let last = match view {
            View::Tables => "table",
            View::Applications => "application",
            View::Statements | View::Findings => "statement",
        };
        let heads = ["per s", "time", "work", "p99", "parts", "errors", "worst", last];
        let lines = rows.iter().map(|row| {
            let share = |share: Option<f64>| share.map_or_else(|| UNKNOWN.to_owned(), number::percent);
            TableRow::new([
                right(number::decimal(row.rate)),
                right(share(row.time_share)),
                right(share(row.work_share)),
                right(row.p99_us.map_or_else(|| UNKNOWN.to_owned(), number::micros)),
                right(row.partitions.map_or_else(|| UNKNOWN.to_owned(), number::count)),
                right(number::count(row.errors)),
                match row.severity {
                    None => Cell::from(UNKNOWN),
                    Some(severity) => Cell::from(Span::styled(severity.to_string(), self.severity(severity))),
                },
                Cell::from(one_line(&row.text)),
            ])
        });
        let widths = [7, 7, 7, 9, 6, 7, 6].map(Constraint::Length).into_iter();
        Table::new(lines, widths.chain([Constraint::Fill(1)])).header(heading(heads, 6))
    }

    fn findings(&self, screen: &Screen) -> Table<'static> {
        let lines = screen.findings().into_iter().map(|finding| {
            TableRow::new([
                Cell::from(Span::styled(
                    finding.severity.to_string(),
                    self.severity(finding.severity),
                )),
                Cell::from(if screen.is_new(finding) { "new" } else { "" }),
                right(
                    finding
                        .time_share
                        .map_or_else(|| UNKNOWN.to_owned(), number::percent),
                ),
                Cell::from(one_line(&finding.title.replace('`', ""))),
            ])
        });
        let widths = [8, 3, 7].map(Constraint::Length).into_iter();
        Table::new(lines, widths.chain([Constraint::Fill(1)]))
            .header(heading(["severity", "", "time", "finding"], 0))
    }

    fn detail(&self, frame: &mut Frame<'_>, screen: &Screen, detail: &Detail, area: Rect) {
        let lines = match detail {
            Detail::Statement(id) => screen.pattern(id).map(|pattern| self.statement(screen, pattern)),
            Detail::Finding(id) => {
                let found = screen
                    .reports
                    .now
                    .findings
                    .iter()
                    .find(|finding| finding.id == *id);
                found.map(|finding| self.finding(screen, finding))
            }
        };
        let lines = lines.unwrap_or_else(|| vec![Line::from("It is not in the latest report.")]);
        let paragraph = Paragraph::new(lines).wrap(Wrap { trim: false });
        frame.render_widget(paragraph.scroll((screen.scrolled, 0)), area);
    }

    fn statement(&self, screen: &Screen, pattern: &Pattern) -> Vec<Line<'static>> {
        let latency = match pattern.latency_us.count {
            0 => UNKNOWN.to_owned(),
            _ => format!(
                "{} median, {} p99",
                number::micros(pattern.latency_us.p50),
                number::micros(pattern.latency_us.p99)
            ),
        };
        let mut lines = blocks(&pattern.cql);
        lines.push(Line::default());
        lines.push(fact("Table", shown(&pattern.table_name()).into_owned()));
        let executions = format!(
            "{}, {} errors",
            number::exact(pattern.count),
            number::exact(pattern.errors)
        );
        lines.push(fact("Executions", executions));
        let share = |share: Option<f64>| share.map_or_else(|| UNKNOWN.to_owned(), number::percent);
        let shares = format!(
            "{} of time, {} of work",
            share(pattern.time_share),
            share(Some(pattern.work_share))
        );
        lines.push(fact("Shares", shares));
        lines.push(fact("Latency", latency));
        let partitions = format!(
            "{} (p99), {}",
            number::count(pattern.partitions.p99),
            shown(&pattern.partitions.class)
        );
        lines.push(fact("Partitions", partitions));
        let rows = format!(
            "{} median, {} p99",
            number::count(pattern.rows.p50),
            number::count(pattern.rows.p99)
        );
        lines.push(fact("Rows", rows));
        let clients: Vec<_> = pattern
            .clients
            .keys()
            .map(|client| shown(client).into_owned())
            .collect();
        lines.push(fact("Clients", clients.join(", ")));
        let findings = screen.reports.now.findings.iter();
        for finding in findings.filter(|finding| finding.patterns.contains(&pattern.id)) {
            lines.push(Line::default());
            lines.extend(self.finding(screen, finding));
        }
        lines
    }

    fn finding(&self, screen: &Screen, finding: &Finding) -> Vec<Line<'static>> {
        let style = self.severity(finding.severity);
        let head = format!("{}: {}", finding.severity, shown(&finding.title));
        let mut lines = vec![Line::styled(head, style.add_modifier(Modifier::BOLD))];
        lines.extend(blocks(&finding.advice));
        for cql in &finding.suggested_cql {
            lines.push(Line::default());
            lines.extend(blocks(cql));
        }
        lines.push(Line::default());
        lines.extend(blocks(&finding.why));
        if screen.view == View::Findings {
            for pattern in finding.patterns.iter().filter_map(|id| screen.pattern(id)) {
                lines.push(Line::default());
                lines.extend(blocks(&pattern.cql));
            }
        }
        lines
    }
}

fn heading<const COLUMNS: usize>(heads: [&'static str; COLUMNS], numbers: usize) -> TableRow<'static> {
    let cells = heads.iter().enumerate().map(|(at, &head)| match at < numbers {
        true => right(head.to_owned()),
        false => Cell::from(head),
    });
    TableRow::new(cells.collect::<Vec<_>>()).style(Style::new().add_modifier(Modifier::UNDERLINED))
}

fn right(text: String) -> Cell<'static> {
    Cell::from(Line::from(text).right_aligned())
}

fn fact(name: &str, value: String) -> Line<'static> {
    let bold = Style::new().add_modifier(Modifier::BOLD);
    Line::from(vec![Span::styled(format!("{name:<12}"), bold), value.into()])
}

/// Text from outside of this process.
fn shown(text: &str) -> Cow<'_, str> {
    text::escaped(text)
}

fn one_line(text: &str) -> String {
    shown(&text.split_whitespace().collect::<Vec<_>>().join(" ")).into_owned()
}

/// The lines of a text.
fn blocks(text: &str) -> Vec<Line<'static>> {
    text.lines()
        .map(|line| Line::from(shown(line).into_owned()))
        .collect()
}
