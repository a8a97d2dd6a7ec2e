//! What a second cluster has answered: statements lead to their own places on the page.

use askama::filters::Safe;

use super::{ReportPage, escaped, statement};
use crate::ComparedPattern;
use cqlens_window::PatternId;

pub(super) use crate::comparison::MEANING;

impl ReportPage<'_> {
    /// The beginning of a statement, as a link to where all of it is.
    pub(super) fn compared_statement(&self, pattern: &ComparedPattern) -> Safe<String> {
        let code = format!("<code>{}</code>", escaped(&statement::line(&pattern.cql)));
        let id = pattern.id.as_deref().and_then(PatternId::of_name);
        Safe(match id.filter(|id| self.index.is_shown(*id)) {
            Some(id) => format!("<a href=\"#p-{id}\">{code}</a>"),
            None => code,
        })
    }
}
