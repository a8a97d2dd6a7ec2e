//! How it is drawn: SVG whose colours come from the style sheet around it.
//!
//! Names are escaped and cut; all else is numbers and our own words.

use std::{
    fmt::Write as _,
    io::{self, Write},
};

use super::{
    super::html::escaped,
    layout::{Curve, FIRST_ARROW, LINE, Layout, LayoutColumn, QUERY, TABLE, TableBox, WIDTH},
    model::{ArrowVerdict, Model, Query, Table},
};
use crate::text;
use cqlens_window::number;

/// Above each keyspace of a page, for its name.
pub(super) const HEADING: f64 = 34.0;

/// What the classes of a diagram look like; the page of a report has them, too.
const STYLE: &str = include_str!("../html/chebotko.css");

/// From words above an arrow to words below it.
const BELOW: f64 = 42.0;

/// Letters that fit into a name, a type, a table's heading, a label beside a table and one between the columns.
const NAME_LETTERS: usize = 18;
const TYPE_LETTERS: usize = 16;
const HEADING_LETTERS: usize = 36;
const SIDE_LETTERS: usize = 24;
const JOIN_LETTERS: usize = 24;

/// A picture of its own.
pub(super) fn draw(model: &Model, layout: &Layout) -> String {
    let mut svg = String::new();
    let label = escaped(&label(model));
    let height = layout.height;
    let _ = write!(
        svg,
        "<svg class=\"chebotko\" viewBox=\"0 0 {WIDTH:.0} {height:.0}\" width=\"{WIDTH:.0}\" role=\"img\" aria-label=\"{label}\">"
    );
    draw_inside(model, layout, &mut svg);
    svg += "</svg>";
    svg
}

/// Pictures one below the other, as a file.
pub(super) fn page(pictures: &[(&str, String)], height: f64, to: &mut dyn Write) -> io::Result<()> {
    let height = height.max(HEADING) + KEY;
    write!(
        to,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"chebotko\" viewBox=\"0 0 {WIDTH:.0} {height:.0}\" width=\"{WIDTH:.0}\" role=\"img\" \
         aria-label=\"Chebotko diagrams\"><style>{STYLE}</style>"
    )?;
    if pictures.is_empty() {
        write!(
            to,
            "<text x=\"14\" y=\"22\">No table definitions are known.</text>"
        )?;
    }
    let mut pictures = pictures.iter();
    pictures.try_for_each(|(_, picture)| write!(to, "{picture}"))?;
    write!(to, "{}", key(height - KEY / 2.0))?;
    writeln!(to, "</svg>")
}

/// Below all pictures, for what arrows and frames mean.
const KEY: f64 = 36.0;

fn key(y: f64) -> String {
    let arrows = [
        (ArrowVerdict::Fine, "served by its key"),
        (ArrowVerdict::Low, "low"),
        (ArrowVerdict::Medium, "medium"),
        (ArrowVerdict::High, "high"),
        (
            ArrowVerdict::Unserved,
            "not served by any key: filtered or refused",
        ),
    ];
    let mut key = String::new();
    for ((verdict, words), x) in arrows.into_iter().zip([14.0, 190.0, 290.0, 420.0, 530.0]) {
        let _ = write!(
            key,
            "<g class=\"{}\"><path class=\"arrow\" stroke-width=\"4\" d=\"M{x} {:.0}h40\"/></g><text class=\"soft\" x=\"{}\" y=\"{y:.0}\">{words}</text>",
            class(verdict),
            y - 4.0,
            x + 46.0
        );
    }
    let _ = write!(
        key,
        "<text class=\"soft end\" x=\"{}\" y=\"{y:.0}\">width: below 10, 100, 1,000 per minute</text>",
        WIDTH - 14.0
    );
    key
}

/// What is inside of the picture.
pub(super) fn draw_inside(model: &Model, layout: &Layout, svg: &mut String) {
    for (table, place) in model.tables.iter().zip(&layout.places) {
        draw_table(table, *place, svg);
        for (at, query) in table.queries.iter().enumerate() {
            let y = place.top + FIRST_ARROW + at as f64 * QUERY;
            draw_query(query, place.side, y, svg);
        }
    }
    for (join, curve) in model.joins.iter().zip(&layout.curves) {
        let _ = write!(svg, "<g class=\"{}\">", class(join.verdict));
        draw_join(*curve, width(join.per_minute), svg);
        let (x, y) = curve.from;
        let leads_right = curve.from.0 <= curve.to.0;
        let (x, side) = match leads_right {
            true => (x + 12.0, ""),
            false => (x - 12.0, " end"),
        };
        // An arrow that leads up has its words below.
        let y = if curve.to.1 < y - 1.0 { y + BELOW } else { y };
        words(&join.label, &join.figures, JOIN_LETTERS, (x, y), side, svg);
        *svg += "</g>";
    }
}

/// The name of the keyspace above what is drawn of it.
pub(super) fn heading(model: &Model, svg: &mut String) {
    let name = shown(&format!("keyspace {}", model.keyspace), HEADING_LETTERS);
    let _ = write!(svg, "<text class=\"soft\" x=\"14\" y=\"-10\">{name}</text>");
}

/// The picture in words.
fn label(model: &Model) -> String {
    let queries = model
        .tables
        .iter()
        .map(|table| table.queries.len())
        .sum::<usize>();
    let unread = model.tables.iter().filter(|table| table.is_unread).count();
    format!(
        "Chebotko diagram of keyspace {}: {}, {}, {}, {unread} of the tables not read",
        text::escaped(&model.keyspace),
        number::plural(model.tables.len() as u64, "table", "tables"),
        number::plural(queries as u64, "query", "queries"),
        number::plural(
            model.joins.len() as u64,
            "join in the client",
            "joins in the client"
        ),
    )
}

fn draw_table(table: &Table, place: TableBox, svg: &mut String) {
    let unread = if table.is_unread { " unread" } else { "" };
    let _ = write!(
        svg,
        "<g transform=\"translate({} {:.0})\"><rect class=\"table{unread}\" width=\"{TABLE}\" height=\"{:.0}\" rx=\"4\"/>\
         <path class=\"rule\" d=\"M0 26h{TABLE}\"/><text class=\"name mono\" x=\"10\" y=\"18\">{}</text>",
        place.side.left(),
        place.top,
        place.height,
        shown(&table.name, HEADING_LETTERS),
    );
    let mut y = 26.0 + 16.0;
    for column in &table.columns {
        let marks = match column.marks.is_empty() {
            true => String::new(),
            false => format!(
                "<tspan class=\"end\" x=\"{}\">{}</tspan>",
                TABLE - 8.0,
                column.marks
            ),
        };
        let _ = write!(
            svg,
            "<text class=\"mono\" x=\"10\" y=\"{y:.0}\">{}<tspan class=\"soft\" x=\"146\">{}</tspan>{marks}</text>",
            shown(&column.name, NAME_LETTERS),
            shown(&column.data_type, TYPE_LETTERS),
        );
        y += LINE;
    }
    if !table.footer.is_empty() {
        let footer = shown(&table.footer, HEADING_LETTERS + 8);
        let _ = write!(svg, "<text class=\"soft\" x=\"10\" y=\"{y:.0}\">{footer}</text>");
    }
    *svg += "</g>";
}

/// An arrow from the picture's edge into the table; it stops before one that does not serve it.
fn draw_query(query: &Query, side: LayoutColumn, y: f64, svg: &mut String) {
    let is_served = query.verdict != ArrowVerdict::Unserved;
    let (edge, outer, way) = match side {
        LayoutColumn::Left => (14.0, side.left(), 1.0),
        LayoutColumn::Right => (WIDTH - 14.0, side.left() + TABLE, -1.0),
    };
    let end = match is_served {
        true => outer - way * 16.0,
        false => outer - way * 30.0,
    };
    let width = width(query.per_minute);
    if let Some(id) = query.link {
        let _ = write!(svg, "<a href=\"#p-{id}\">");
    }
    let _ = write!(
        svg,
        "<g class=\"{}\"><path class=\"arrow\" stroke-width=\"{width}\" d=\"M{edge} {y:.0}H{end}\"/>",
        class(query.verdict)
    );
    match is_served {
        true => head(outer - way * 3.0, y, way, svg),
        false => {
            let x = outer - way * 18.0;
            let _ = write!(
                svg,
                "<path class=\"arrow\" stroke-width=\"2.5\" style=\"stroke-dasharray:none\" d=\"M{} {}l12 12m0-12l-12 12\"/>",
                x - 6.0,
                y - 6.0
            );
        }
    }
    let side = if way > 0.0 { "" } else { " end" };
    words(&query.label, &query.figures, SIDE_LETTERS, (edge, y), side, svg);
    *svg += match query.link {
        Some(_) => "</g></a>",
        None => "</g>",
    };
}

/// A curve from table to table; in one column it leads out and back.
fn draw_join(curve: Curve, width: f64, svg: &mut String) {
    let ((from_x, from_y), (to_x, to_y)) = (curve.from, curve.to);
    // The table at the arrow's head is to its right, or to its left.
    let leaves_right = from_x < WIDTH / 2.0;
    let enters_right = to_x > WIDTH / 2.0;
    let start = from_x + if leaves_right { 2.0 } else { -2.0 };
    let way = if enters_right { 1.0 } else { -1.0 };
    let end = to_x - way * 16.0;
    let (first, second) = match leaves_right == enters_right {
        true => ((start + end) / 2.0, (start + end) / 2.0),
        false => (start + if leaves_right { 70.0 } else { -70.0 }, end - way * 70.0),
    };
    let _ = write!(
        svg,
        "<path class=\"arrow\" stroke-width=\"{width}\" d=\"M{start:.0} {from_y:.0}C{first:.0} {from_y:.0} {second:.0} {to_y:.0} {end:.0} {to_y:.0}\"/>"
    );
    head(to_x - way * 3.0, to_y, way, svg);
}

/// An arrow's head with its point at `x`, pointing right where `way` is 1, left where it is −1.
fn head(x: f64, y: f64, way: f64, svg: &mut String) {
    let _ = write!(
        svg,
        "<path class=\"head\" d=\"M{x:.0} {y:.0}l{:.0} -8v16z\"/>",
        -13.0 * way
    );
}

/// Two lines above an arrow, which begin at `x`, or end there.
fn words(label: &str, figures: &str, letters: usize, (x, y): (f64, f64), side: &str, svg: &mut String) {
    let _ = write!(
        svg,
        "<text class=\"name{side}\" x=\"{x:.0}\" y=\"{:.0}\">{}</text>\
         <text class=\"soft{side}\" x=\"{x:.0}\" y=\"{:.0}\">{}</text>",
        y - 24.0,
        shown(label, letters),
        y - 9.0,
        shown(figures, letters),
    );
}

/// Text that fits, escaped; the whole of it is its title.
fn shown(whole: &str, letters: usize) -> String {
    let whole = text::escaped(whole);
    if whole.chars().count() <= letters {
        return escaped(&whole);
    }
    let cut: String = whole.chars().take(letters.saturating_sub(1)).collect();
    format!("{}…<title>{}</title>", escaped(&cut), escaped(&whole))
}

fn class(verdict: ArrowVerdict) -> &'static str {
    match verdict {
        ArrowVerdict::Fine => "fine",
        ArrowVerdict::Low => "low",
        ArrowVerdict::Medium => "medium",
        ArrowVerdict::High => "high",
        ArrowVerdict::Unserved => "unserved",
    }
}

/// By executions a minute: below 10, 100, 1,000, and more.
fn width(per_minute: f64) -> f64 {
    match per_minute {
        rate if rate < 10.0 => 2.5,
        rate if rate < 100.0 => 4.0,
        rate if rate < 1_000.0 => 5.5,
        _ => 7.5,
    }
}
