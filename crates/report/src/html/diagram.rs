//! Operations of several statements as small pictures: tables, and arrows with the partitions that each step leads to.
//!
//! Names of tables are escaped; all else is numbers and our own words, with colours from the style sheet.

use std::fmt::Write;

use askama::filters::Safe;

use super::{super::SequenceReport, escaped};
use cqlens_window::number;

/// A letter of the font that names are written in.
const LETTER: f64 = 7.0;
/// A table's box.
const BOX: f64 = 26.0;
/// From row to row.
const ROW: f64 = 46.0;
/// From a box to the next one, so that an arrow holds its words.
const ARROW: f64 = 132.0;
/// Above the first box, for the number on its arrow.
const TOP: f64 = 14.0;
/// Letters of a name that are shown.
const LONGEST_NAME: usize = 26;
/// Tables of one picture; an operation of more is told in words.
const MOST_TABLES: usize = 12;

/// A table in the picture.
struct DrawnTable<'o> {
    name: &'o str,
    column: usize,
    row: usize,
    /// Where the arrow to it begins; none where the client begins with it.
    from: Option<usize>,
    /// Partitions for each time, and how they are asked for; none where that says nothing.
    arrow: Option<(f64, &'static str)>,
}

/// The operation as a picture, with the same in words for those who cannot see it.
pub(super) fn operation(operation: &SequenceReport) -> Safe<String> {
    let places = places(operation);
    let begins_with_client = places
        .iter()
        .any(|place| place.column > 0 && place.from.is_none());
    let columns = columns(&places, if begins_with_client { CLIENT } else { 1.0 });
    let rows = places.iter().map(|place| place.row).max().unwrap_or(0);
    let height = middle(rows) + BOX / 2.0 + 4.0;
    let width = columns.last().map_or(0.0, Layer::right) + 1.0;
    let label = format!(
        "{}, {}",
        operation.path.replace('`', ""),
        operation.words(operation.sent)
    );
    let mut svg = format!(
        "<svg class=\"operation\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" role=\"img\" aria-label=\"{}\">",
        escaped(&label.replace('`', ""))
    );
    if begins_with_client {
        let _ = write!(
            svg,
            "<rect class=\"client\" x=\"1\" y=\"{:.0}\" width=\"10\" height=\"10\" rx=\"5\"><title>the client</title></rect>",
            middle(0) - 5.0
        );
    }
    for place in &places {
        draw(&mut svg, place, &places, &columns);
    }
    svg.push_str("</svg>");
    Safe(svg)
}

/// What the client takes up that an operation begins with.
const CLIENT: f64 = 12.0;

/// Tables that are reached in as many steps.
#[derive(Clone, Copy, Default)]
struct Layer {
    left: f64,
    width: f64,
}

impl Layer {
    fn right(&self) -> f64 {
        self.left + self.width
    }
}

/// The tables of an operation: each step leads one column to the right. Copies, and buckets of one table, have no
/// table that they come from.
fn places(operation: &SequenceReport) -> Vec<DrawnTable<'_>> {
    let words = operation.words(operation.sent);
    let from_client = |row: usize, name, partitions| DrawnTable {
        name,
        column: 1,
        row,
        from: None,
        arrow: Some((partitions, words)),
    };
    if operation.kind == "dual-write" {
        let tables = operation.tables.iter().take(MOST_TABLES).enumerate();
        return tables
            .map(|(row, table)| from_client(row, &**table, 1.0))
            .collect();
    }
    let mut places: Vec<DrawnTable<'_>> = Vec::new();
    for step in operation.steps.iter().take(MOST_TABLES) {
        if step.from == step.to {
            places.push(from_client(places.len(), &step.to, step.fan_out.mean));
            continue;
        }
        let known = places.iter().rposition(|place| place.name == step.from);
        let from = known.unwrap_or_else(|| {
            places.push(DrawnTable {
                name: &step.from,
                column: 0,
                row: next_row(&places, 0),
                from: None,
                arrow: None,
            });
            places.len() - 1
        });
        let (column, least) = places
            .get(from)
            .map_or((1, 0), |place| (place.column + 1, place.row));
        places.push(DrawnTable {
            name: &step.to,
            column,
            row: next_row(&places, column).max(least),
            from: Some(from),
            arrow: Some((step.fan_out.mean, operation.words(step.sent))),
        });
    }
    places
}

fn next_row(places: &[DrawnTable<'_>], column: usize) -> usize {
    let rows = places.iter().filter(|place| place.column == column);
    rows.map(|place| place.row + 1).max().unwrap_or(0)
}

/// The columns from left to right, as wide as their longest names.
fn columns(places: &[DrawnTable<'_>], left: f64) -> Vec<Layer> {
    let count = places.iter().map(|place| place.column + 1).max().unwrap_or(0);
    let mut columns: Vec<Layer> = Vec::new();
    for column in 0..count {
        let of_column = places.iter().filter(|place| place.column == column);
        let letters = of_column.map(|place| shown(place.name).chars().count()).max();
        columns.push(Layer {
            left: columns.last().map_or(left, |before| before.right() + ARROW),
            width: letters.map_or(0.0, |letters| letters as f64 * LETTER + 18.0),
        });
    }
    columns
}

/// A name as it is shown: the end of a long one, which tells it from others.
fn shown(name: &str) -> String {
    let letters = name.chars().count();
    match letters > LONGEST_NAME {
        true => format!(
            "…{}",
            name.chars().skip(letters + 1 - LONGEST_NAME).collect::<String>()
        ),
        false => name.to_owned(),
    }
}

fn middle(row: usize) -> f64 {
    TOP + row as f64 * ROW + BOX / 2.0
}

fn draw(svg: &mut String, place: &DrawnTable<'_>, places: &[DrawnTable<'_>], columns: &[Layer]) {
    let column = |place: &DrawnTable<'_>| columns.get(place.column).copied().unwrap_or_default();
    let (Layer { left: x, width }, y) = (column(place), middle(place.row));
    let from = place.from.and_then(|at| places.get(at));
    if let Some((partitions, words)) = place.arrow {
        let start = from.map_or((CLIENT, middle(0)), |from| {
            (column(from).right(), middle(from.row))
        });
        arrow(svg, start, (x, y), partitions);
        let _ = write!(
            svg,
            "<text class=\"times\" x=\"{centre:.0}\" y=\"{:.0}\">{}×</text>\
             <text x=\"{centre:.0}\" y=\"{:.0}\">{}</text>",
            y - 6.0,
            number::decimal((partitions * 10.0).round() / 10.0),
            y + 14.0,
            words.replace('`', ""),
            centre = x - ARROW / 2.0 + 4.0,
        );
    }
    let name = shown(place.name);
    // What is cut stands whole where a mouse rests on it.
    let title = match name == place.name {
        true => String::new(),
        false => format!("<title>{}</title>", escaped(place.name)),
    };
    let _ = write!(
        svg,
        "<g>{title}<rect x=\"{x:.0}\" y=\"{:.0}\" width=\"{width:.0}\" height=\"{BOX}\" rx=\"5\"/>\
         <text class=\"name\" x=\"{:.0}\" y=\"{:.0}\">{}</text></g>",
        y - BOX / 2.0,
        x + width / 2.0,
        y + 4.0,
        escaped(&name),
    );
}

/// An arrow, the thicker the more partitions it leads to.
fn arrow(svg: &mut String, (x, y): (f64, f64), (to_x, to_y): (f64, f64), partitions: f64) {
    let weight = (1.0 + partitions.max(1.0).log2() / 2.0).min(5.0);
    let head = 4.0 + weight;
    let _ = write!(
        svg,
        "<path class=\"arrow\" d=\"M{x:.0} {y:.0}H{:.0}V{to_y:.0}H{:.0}\" stroke-width=\"{weight:.1}\"/>\
         <path class=\"head\" d=\"M{to_x:.0} {to_y:.0}l-{head:.0} -{head:.0}v{:.0}z\"/>",
        x + 8.0,
        to_x - head,
        head * 2.0,
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Quantiles, StepReport};
    use cqlens_rules::Sent;

    fn step(from: &str, to: &str, partitions: f64) -> StepReport {
        StepReport {
            from: from.to_owned(),
            to: to.to_owned(),
            fan_out: Quantiles {
                mean: partitions,
                ..Quantiles::default()
            },
            sent: Sent::AtTheSameTime,
        }
    }

    fn drawn(kind: &'static str, steps: Vec<StepReport>) -> String {
        let mut tables: Vec<String> = Vec::new();
        for name in steps.iter().flat_map(|step| [&step.from, &step.to]) {
            if !tables.contains(name) {
                tables.push(name.clone());
            }
        }
        operation(&SequenceReport {
            kind,
            path: format!("`{}`", tables.join("` → `")),
            sent: Sent::AtTheSameTime,
            tables,
            steps,
            ..SequenceReport::default()
        })
        .0
    }

    #[test]
    fn a_chain_goes_from_left_to_right_with_its_numbers() {
        let svg = drawn(
            "client-join",
            vec![
                step("shop.groups", "shop.users", 20.0),
                step("shop.users", "shop.letters", 1.0),
            ],
        );
        assert!(
            svg.contains("aria-label=\"shop.groups → shop.users → shop.letters, in parallel\""),
            "{svg}"
        );
        assert_eq!(svg.matches("class=\"name\"").count(), 3);
        assert_eq!(svg.matches("class=\"arrow\"").count(), 2);
        assert!(svg.contains(">20×</text>") && svg.contains(">1×</text>"), "{svg}");
        assert!(!svg.contains("class=\"client\""), "{svg}");
        let wide = svg.split("stroke-width=\"").nth(1).unwrap_or_default();
        assert!(wide.starts_with("3.2"), "{svg}");
    }

    #[test]
    fn buckets_and_copies_begin_with_the_client() {
        let buckets = drawn("bucket-fan-out", vec![step("shop.groups", "shop.groups", 4.0)]);
        assert_eq!(buckets.matches("class=\"name\"").count(), 1);
        assert!(
            buckets.contains("class=\"client\"") && buckets.contains(">4×</text>"),
            "{buckets}"
        );
        let copies = drawn(
            "dual-write",
            vec![step("shop.a", "shop.b", 1.0), step("shop.a", "shop.c", 1.0)],
        );
        assert_eq!(copies.matches("class=\"arrow\"").count(), 3);
    }

    #[test]
    fn hostile_and_long_names_stay_text_in_their_boxes() {
        let long = "k.".to_owned() + &"x".repeat(60);
        let svg = drawn("client-join", vec![step("k.\"<b>&", &long, 6.0)]);
        assert!(!svg.contains("<b>"), "{svg}");
        assert!(svg.contains("k.&#34;&#60;b&#62;&#38;"), "{svg}");
        assert!(svg.contains(&format!("<title>{long}</title>")), "{svg}");
        assert!(
            svg.contains(&format!(">…{}</text>", "x".repeat(LONGEST_NAME - 1))),
            "{svg}"
        );
        let many = (0..40).map(|at| step("k.a", &format!("k.t{at}"), 6.0)).collect();
        assert_eq!(
            drawn("client-join", many).matches("class=\"arrow\"").count(),
            MOST_TABLES
        );
    }
}
