//! The HTML form, in the dress of the report.

use std::io::{self, Write};

use askama::{Template, filters::Safe};

use super::{super::html, ReportDiff, SchemaChange};

/// Of each group; the JSON form has them all.
const MOST: usize = 100;

#[derive(Template)]
#[template(path = "diff.html")]
struct Page<'a> {
    diff: &'a ReportDiff,
}

impl Page<'_> {
    fn cluster(&self) -> &str {
        self.diff.cluster.as_deref().unwrap_or("a cluster")
    }

    fn columns(&self, change: &SchemaChange) -> Safe<String> {
        html::prose(&change.sentence())
    }

    /// The lists of names below the statements.
    fn clients(&self) -> [(&'static str, &[String]); 2] {
        let clients = &self.diff.clients;
        [
            ("New clients", &clients.new),
            ("Clients not seen again", &clients.gone),
        ]
    }
}

pub(super) fn render(diff: &ReportDiff, to: &mut dyn Write) -> io::Result<()> {
    Page { diff }.write_into(to)
}
