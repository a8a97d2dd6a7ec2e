//! `docs/export.md` says what every column is. `CQLENS_WRITE_DOCS=1 cargo test --test hermetic export::page` writes the tables anew.

use std::{env, fmt::Write, fs};

use cqlens_parquet::{TABLES, columns};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/export.md");

fn written() -> String {
    let mut text = String::new();
    for (place, table) in TABLES.iter().enumerate() {
        writeln!(text, "\n### {table}\n\n| column | type | |\n| --- | --- | --- |").unwrap();
        for column in columns(place) {
            writeln!(text, "| `{}` | {} | {} |", column.name, column.kind, column.about).unwrap();
        }
    }
    text
}

#[test]
fn every_column_is_on_the_page() {
    let page = fs::read_to_string(PAGE).unwrap();
    let (before, rest) = page.split_once("<!-- columns -->\n").unwrap();
    let (_, after) = rest.split_once("\n<!-- end of columns -->").unwrap();
    let right = format!(
        "{before}<!-- columns -->\n{}\n<!-- end of columns -->{after}",
        written()
    );
    if env::var_os("CQLENS_WRITE_DOCS").is_some() {
        fs::write(PAGE, &right).unwrap();
        return;
    }
    assert_eq!(page, right, "write it anew, see the top of this file");
}
