//! The HTML form, in the dress of the report.

use std::io::{self, Write};

use askama::{Template, filters::Safe};

use super::{super::html, ChangedDefinition, ReportDiff};

/// Of each group; the JSON form has them all.
const MOST: usize = 100;

#[derive(Template)]
#[template(path = "diff.html")]
struct DiffPage<'a> {
    diff: &'a ReportDiff,
}

impl DiffPage<'_> {
    fn cluster(&self) -> &str {
        self.diff.cluster.as_deref().unwrap_or("a cluster")
    }

    fn columns(&self, change: &ChangedDefinition) -> Safe<String> {
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
    DiffPage { diff }.write_into(to)
}
