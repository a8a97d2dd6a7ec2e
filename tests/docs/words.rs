//! The words of the pages that are written by hand.

use crate::docs::{avoided::complaints, page::Page};

#[test]
fn the_pages_are_in_the_fields_own_words() {
    let complaints: Vec<_> = Page::guides()
        .iter()
        .flat_map(|page| {
            let path = page.path.display().to_string();
            let prose = page.prose();
            let lines = prose
                .into_iter()
                .map(move |(line, text)| (format!("{path}:{line}"), text));
            lines
                .flat_map(|(place, text)| complaints(&place, text))
                .collect::<Vec<_>>()
        })
        .collect();
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}
