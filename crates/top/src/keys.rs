//! What keys do.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use crate::model::{Screen, View};

/// What a key does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    Quit,
    Help,
    Pause,
    Back,
    Open,
    Show(View),
    NextView,
    /// So many lines down, or up.
    Move(i16),
    NextSort,
    /// Letters go to the filter from now on.
    Filter,
    Type(char),
    Erase,
    EndFilter,
    ClearFilter,
}

/// Keys and what they do, for the help.
pub(crate) const HELP: [(&str, &str); 10] = [
    ("1 2 3 4, Tab", "statements, findings, tables, applications"),
    ("↑ ↓, k j, PgUp PgDn", "move"),
    ("Home End, g G", "first, last"),
    ("Enter", "open a row: its details, or its statements"),
    ("Esc", "back"),
    ("s", "sort by time, work, rate, p99, errors, severity"),
    ("/", "filter by text; Enter keeps the filter, Esc clears it"),
    ("Space", "pause and resume"),
    ("?", "this help"),
    ("q, Ctrl-C", "quit"),
];

const PAGE: i16 = 10;

/// What a key does now; none if it does nothing.
pub(crate) fn action(key: KeyEvent, screen: &Screen) -> Option<Action> {
    if key.kind == KeyEventKind::Release {
        return None;
    }
    let has_control = key.modifiers.contains(KeyModifiers::CONTROL);
    if has_control {
        return (key.code == KeyCode::Char('c')).then_some(Action::Quit);
    }
    match screen.is_typing {
        true => of_typing(key.code),
        false => of_list(key.code),
    }
}

fn of_typing(code: KeyCode) -> Option<Action> {
    Some(match code {
        KeyCode::Enter => Action::EndFilter,
        KeyCode::Esc => Action::ClearFilter,
        KeyCode::Backspace => Action::Erase,
        KeyCode::Char(letter) => Action::Type(letter),
        _ => return None,
    })
}

fn of_list(code: KeyCode) -> Option<Action> {
    Some(match code {
        KeyCode::Char('q') => Action::Quit,
        KeyCode::Char('?' | 'h') => Action::Help,
        KeyCode::Char(' ') => Action::Pause,
        KeyCode::Char('s') => Action::NextSort,
        KeyCode::Char('/') => Action::Filter,
        KeyCode::Char('1') => Action::Show(View::Statements),
        KeyCode::Char('2') => Action::Show(View::Findings),
        KeyCode::Char('3') => Action::Show(View::Tables),
        KeyCode::Char('4') => Action::Show(View::Applications),
        KeyCode::Tab => Action::NextView,
        KeyCode::Enter => Action::Open,
        KeyCode::Esc => Action::Back,
        KeyCode::Down | KeyCode::Char('j') => Action::Move(1),
        KeyCode::Up | KeyCode::Char('k') => Action::Move(-1),
        KeyCode::PageDown => Action::Move(PAGE),
        KeyCode::PageUp => Action::Move(-PAGE),
        KeyCode::Home | KeyCode::Char('g') => Action::Move(i16::MIN),
        KeyCode::End | KeyCode::Char('G') => Action::Move(i16::MAX),
        _ => return None,
    })
}
