//! The sections of the page, each a template with a function of its own: what askama includes becomes part of the
//! function that includes it, and a page in one function takes longer to compile than all rules together.

use std::ops::Deref;

use askama::{Template, filters::HtmlSafe};

use super::{ReportPage, chart, comparison, evidence, html, index, load, words};
use crate::{
    Comparison, PatternReport, TableReport, TimelineReport, coverage_notes, errors::ErrorLine,
    ranking::Ranking,
};
use cqlens_rules::Severity;
use cqlens_window::number;

/// A section: what it is about, and through `Deref` all that the page has.
macro_rules! section {
    ($name:ident, $path:literal, $method:ident($($about:ident: $type:ty),*)) => {
        #[derive(Template)]
        #[template(path = $path)]
        pub(super) struct $name<'s, 'a> {
            page: &'s ReportPage<'a>,
            $($about: $type,)*
        }

        impl<'a> Deref for $name<'_, 'a> {
            type Target = ReportPage<'a>;

            fn deref(&self) -> &ReportPage<'a> {
                self.page
            }
        }

        // A template escapes what it shows.
        impl HtmlSafe for $name<'_, '_> {}

        impl<'a> ReportPage<'a> {
            pub(super) fn $method<'s>(&'s self, $($about: $type),*) -> $name<'s, 'a> {
                $name { page: self, $($about),* }
            }
        }
    };
}

section!(List, "list.html", list_section());
section!(Ranked, "ranking.html", ranking_section(ranking: &'s Ranking<'s>));
section!(Errors, "errors.html", errors_section(lines: &'s [ErrorLine<'s>]));
section!(Slowest, "slowest.html", slowest_section(slowest: &'s [&'s PatternReport]));
section!(ByTable, "by_table.html", by_table_section());
section!(Chapters, "chapters.html", chapters_section());
section!(Compared, "comparison.html", comparison_section(comparison: &'s Comparison));
section!(Tables, "tables.html", tables_section());
section!(Table, "table.html", table_section(table: &'s TableReport, is_open: bool));
section!(Pattern, "pattern.html", pattern_section(pattern: &'s PatternReport));
section!(Problems, "problems.html", problems_section());
section!(Problem, "problem.html", problem_section(ranked: &'s index::Ranked<'a>));
section!(Accepted, "accepted.html", accepted_section());
section!(OverTime, "timeline.html", timeline_section(timeline: &'s TimelineReport));
section!(Model, "model.html", model_section());
section!(Operations, "operations.html", operations_section());
section!(Applications, "applications.html", applications_section());
section!(Nodes, "nodes.html", nodes_section());
section!(Unseen, "unseen.html", unseen_section());
