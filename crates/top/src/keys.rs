//! Which key orders what.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use crate::model::{Screen, View};

/// What a key orders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
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

/// What a key means now; none if it means nothing.
pub(crate) fn order(key: KeyEvent, screen: &Screen) -> Option<Order> {
    if key.kind == KeyEventKind::Release {
        return None;
    }
    let has_control = key.modifiers.contains(KeyModifiers::CONTROL);
    if has_control {
        return (key.code == KeyCode::Char('c')).then_some(Order::Quit);
    }
    match screen.is_typing {
        true => of_typing(key.code),
        false => of_list(key.code),
    }
}

fn of_typing(code: KeyCode) -> Option<Order> {
    Some(match code {
        KeyCode::Enter => Order::EndFilter,
        KeyCode::Esc => Order::ClearFilter,
        KeyCode::Backspace => Order::Erase,
        KeyCode::Char(letter) => Order::Type(letter),
        _ => return None,
    })
}

fn of_list(code: KeyCode) -> Option<Order> {
    Some(match code {
        KeyCode::Char('q') => Order::Quit,
        KeyCode::Char('?' | 'h') => Order::Help,
        KeyCode::Char(' ') => Order::Pause,
        KeyCode::Char('s') => Order::NextSort,
        KeyCode::Char('/') => Order::Filter,
        KeyCode::Char('1') => Order::Show(View::Statements),
        KeyCode::Char('2') => Order::Show(View::Findings),
        KeyCode::Char('3') => Order::Show(View::Tables),
        KeyCode::Char('4') => Order::Show(View::Applications),
        KeyCode::Tab => Order::NextView,
        KeyCode::Enter => Order::Open,
        KeyCode::Esc => Order::Back,
        KeyCode::Down | KeyCode::Char('j') => Order::Move(1),
        KeyCode::Up | KeyCode::Char('k') => Order::Move(-1),
        KeyCode::PageDown => Order::Move(PAGE),
        KeyCode::PageUp => Order::Move(-PAGE),
        KeyCode::Home | KeyCode::Char('g') => Order::Move(i16::MIN),
        KeyCode::End | KeyCode::Char('G') => Order::Move(i16::MAX),
        _ => return None,
    })
}
