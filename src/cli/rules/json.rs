//! The rules for programs (`cqlens.rules.v1`): what their pages say, and the thresholds in force.

use anyhow::Context;
use serde::Serialize;

use cqlens_rules::{About, RULES, SEVERITY_THRESHOLDS, Settings, Severity, Threshold};

/// What `cqlens rules --format json` prints: the catalogue of rules. With a rule's id, it prints that rule alone.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Catalogue {
    /// `cqlens.rules.v1`.
    format: &'static str,
    /// What the severities of all rules depend on.
    severity: Vec<ThresholdInForce>,
    /// In the order of the catalogue.
    rules: Vec<RulePage>,
}

/// A rule.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct RulePage {
    /// Its name in findings and settings; never changed.
    id: &'static str,
    /// What it looks at: `read shape`, `tombstones`, …
    group: &'static str,
    /// What it finds, in one sentence.
    summary: &'static str,
    /// What coordinator and replicas do, and why that costs.
    why: &'static str,
    /// What to do instead.
    fix: &'static str,
    /// CQL that it finds.
    before: &'static str,
    /// CQL that serves the same need well.
    after: &'static str,
    /// How the severity comes about, in words.
    severity: &'static str,
    /// The severities that it gives, in ascending order.
    severities: &'static [Severity],
    /// What the settings say: `off`, or the severity that findings have at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    severity_limit: Option<String>,
    /// The numbers that the severity depends on.
    thresholds: Vec<ThresholdInForce>,
    /// What the rule must be able to see.
    needs: &'static str,
    /// The document, setting or class that it comes from.
    source: &'static str,
}

/// A number that can be set.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ThresholdInForce {
    /// Its name within the rule.
    name: &'static str,
    /// The dotted key in the settings file.
    setting: String,
    /// What it is counted in.
    unit: &'static str,
    /// What is in force: the setting, or the default.
    value: f64,
    /// The value without a setting.
    default: f64,
    /// Where the default comes from.
    origin: &'static str,
}

const FORMAT: &str = "cqlens.rules.v1";

/// All rules as one object.
///
/// # Errors
/// None that is known.
pub(super) fn catalogue(settings: &Settings) -> anyhow::Result<String> {
    text(&Catalogue {
        format: FORMAT,
        severity: in_force("severity", "severity", SEVERITY_THRESHOLDS, settings),
        rules: RULES
            .iter()
            .map(|rule| rule_page(rule.about(), settings))
            .collect(),
    })
}

/// One rule as it stands in the catalogue.
///
/// # Errors
/// None that is known.
pub(super) fn rule(about: &About, settings: &Settings) -> anyhow::Result<String> {
    text(&rule_page(about, settings))
}

fn rule_page(about: &About, settings: &Settings) -> RulePage {
    RulePage {
        id: about.id,
        group: about.group,
        summary: about.summary,
        why: about.why,
        fix: about.fix,
        before: about.before,
        after: about.after,
        severity: about.severity,
        severities: about.severities,
        severity_limit: settings.severities.get(about.id).map(ToString::to_string),
        thresholds: in_force(
            &format!("rules.{}", about.id),
            about.id,
            about.thresholds,
            settings,
        ),
        needs: about.needs,
        source: about.source,
    }
}

/// The thresholds of a rule, or of all severities, which the file of settings has in `table`.
fn in_force(table: &str, id: &str, thresholds: &[Threshold], settings: &Settings) -> Vec<ThresholdInForce> {
    let in_force = |threshold: &Threshold| ThresholdInForce {
        name: threshold.name,
        setting: format!("{table}.{}", threshold.name),
        unit: threshold.unit,
        value: settings.threshold(id, threshold),
        default: threshold.default,
        origin: threshold.origin,
    };
    thresholds.iter().map(in_force).collect()
}

fn text(value: &impl Serialize) -> anyhow::Result<String> {
    Ok(serde_json::to_string_pretty(value).context("cannot write the rules")? + "\n")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use cqlens_rules::RuleSeverity;
    use serde_json::Value;

    #[test]
    fn the_schema_is_what_the_program_writes() {
        crate::cli::contract::check_schema::<Catalogue>(FORMAT);
    }

    #[test]
    fn every_rule_has_its_thresholds_in_force() {
        let about = cqlens_rules::find("in-partition-key").unwrap().about();
        let threshold = &about.thresholds[0];
        let settings = Settings {
            thresholds: [((about.id.to_owned(), threshold.name.to_owned()), 7.5)].into(),
            severities: [(about.id.to_owned(), RuleSeverity::Off)].into(),
        };
        let json: Value = serde_json::from_str(&catalogue(&settings).unwrap()).unwrap();
        assert_eq!(json["format"], FORMAT);
        let rules = json["rules"].as_array().unwrap();
        assert_eq!(rules.len(), RULES.len());
        let set = rules.iter().find(|rule| rule["id"] == about.id).unwrap();
        assert_eq!(set["thresholds"][0]["value"], 7.5);
        assert_eq!(
            set["thresholds"][0]["setting"],
            format!("rules.{}.{}", about.id, threshold.name)
        );
        assert_eq!(
            set["severities"],
            serde_json::json!(["info", "low", "medium", "high"])
        );
        assert_eq!(json["severity"][0]["setting"], "severity.large_share");
        assert_eq!(set["thresholds"][0]["default"], threshold.default);
        assert_eq!(set["severity_limit"], "off");
        assert_eq!(rules[0].get("severity_limit"), None);
        assert_eq!(
            json["severity"].as_array().unwrap().len(),
            SEVERITY_THRESHOLDS.len()
        );
        let alone: Value = serde_json::from_str(&rule(about, &settings).unwrap()).unwrap();
        assert_eq!(&alone, set);
    }
}
