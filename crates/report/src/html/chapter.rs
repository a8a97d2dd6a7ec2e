//! Models beside each other.

use askama::filters::Safe;

use super::ReportPage;
use crate::ModelReport;
use cqlens_rules::Severity;

impl ReportPage<'_> {
    /// The worst problems of a model; a note where there is nothing else to say.
    pub(super) fn model_problems(&self, model: &ModelReport) -> Safe<String> {
        let problems = self.report.problems.iter();
        let of_model = problems.filter(|problem| model.problems.contains(&problem.id));
        let mut words = Vec::new();
        for problem in of_model.take(MOST_PROBLEMS) {
            if !words.is_empty() && problem.severity == Severity::Info {
                break;
            }
            let rule = problem.rules.first().copied().unwrap_or_default();
            let mut ranked = self.index.problems.iter();
            words.push(match ranked.find(|ranked| ranked.problem.id == problem.id) {
                Some(ranked) => format!(
                    "<a href=\"#{}\">{}</a> {rule}",
                    self.problem_anchor(ranked),
                    problem.severity
                ),
                None => format!("{} {rule}", problem.severity),
            });
        }
        Safe(match words.is_empty() {
            true => "none".to_owned(),
            false => words.join(", "),
        })
    }
}

const MOST_PROBLEMS: usize = 2;
