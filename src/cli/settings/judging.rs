//! What the file says of rules and findings: thresholds in `[rules.RULE-ID]`, what is
//! accepted in `[[accept]]`.
//!
//! ```toml
//! [severity]
//! large_share = 0.1
//!
//! [rules.allow-filtering]
//! severity = "medium"           # at most; or "off"
//! few_rows = 20
//!
//! [[accept]]
//! rule = "allow-filtering"     # at least one of rule, table and pattern
//! table = "shop.settings"
//! pattern = "6f1d0f5e0c5e0b7a"
//! at-most = "medium"           # may be left out
//! owner = "platform"
//! reason = "admin page only"
//! until = 2027-03-01
//! ```

use std::path::Path;

use jiff::civil::Date;
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::fault::{FileFault, FileFaults, line, type_of};
use crate::cli::{nearest, rules::unknown};
use cqlens_cql::schema::TableName;
use cqlens_rules::{Acceptance, Judging, RuleSeverity, SEVERITY_THRESHOLDS, Severity, Threshold, day};
use cqlens_window::PatternId;

/// The table below `[rules]` that is named after a rule.
pub(super) fn thresholds(
    id: &Spanned<std::borrow::Cow<'_, str>>,
    table: &DeTable<'_>,
    judging: &mut Judging,
    faults: &mut FileFaults,
) {
    let Some(rule) = cqlens_rules::find(id.get_ref()) else {
        return faults.add(FileFault::new(
            id.span(),
            format!("[rules.{}]: {}", id.get_ref(), unknown(id.get_ref())),
        ));
    };
    let about = rule.about();
    for (key, value) in table {
        if key.get_ref() == "severity" {
            let severity = rule_severity(value.get_ref())
                .map_err(|what| FileFault::new(value.span(), format!("severity: {what}")));
            let severity = faults
                .keep(severity)
                .map(|severity| (about.id.to_owned(), severity));
            judging.settings.severities.extend(severity);
        } else {
            let read = threshold(about.id, about.thresholds, (key, value));
            judging.settings.thresholds.extend(faults.keep(read));
        }
    }
}

/// The table `[severity]`: what the severities of all rules depend on.
pub(super) fn severity_thresholds(table: &DeTable<'_>, judging: &mut Judging, faults: &mut FileFaults) {
    for entry in table {
        let read = threshold("severity", SEVERITY_THRESHOLDS, entry);
        judging.settings.thresholds.extend(faults.keep(read));
    }
}

type Entry<'e, 'd> = (&'e Spanned<std::borrow::Cow<'d, str>>, &'e Spanned<DeValue<'d>>);

/// The rule and the name of a threshold, with its value.
type NamedThreshold = ((String, String), f64);

fn threshold(
    id: &str,
    thresholds: &[Threshold],
    (key, value): Entry<'_, '_>,
) -> Result<NamedThreshold, FileFault> {
    let name = key.get_ref().as_ref();
    let Some(threshold) = thresholds.iter().find(|threshold| threshold.name == name) else {
        let known: Vec<_> = thresholds.iter().map(|threshold| threshold.name).collect();
        let known = match known.is_empty() {
            true => "the rule has none".to_owned(),
            false => nearest::hint(name, &known),
        };
        return Err(FileFault::new(
            key.span(),
            format!("{name}: no such threshold of {id}; {known}"),
        ));
    };
    let number = number(threshold, value.get_ref())
        .map_err(|what| FileFault::new(value.span(), format!("{name}: {what}")))?;
    Ok(((id.to_owned(), threshold.name.to_owned()), number))
}

/// Where the file of settings has the threshold of a rule, or of all severities.
pub(super) fn threshold_key(id: &str, threshold: &Threshold) -> String {
    match id {
        "severity" => format!("severity.{}", threshold.name),
        rule => format!("rules.{rule}.{}", threshold.name),
    }
}

/// `"off"`, or the severity that findings of a rule have at most.
fn rule_severity(value: &DeValue<'_>) -> Result<RuleSeverity, String> {
    match value {
        DeValue::String(text) if text.as_ref() == "off" => Ok(RuleSeverity::Off),
        DeValue::String(text) => match severity(text) {
            Ok(limit) => Ok(RuleSeverity::AtMost(limit)),
            Err(_) => Err(format!("{text:?} is not one of off, info, low, medium, high")),
        },
        other => Err(format!("expected a string in quotes, found {}", type_of(other))),
    }
}

fn number(threshold: &Threshold, value: &DeValue<'_>) -> Result<f64, String> {
    let number: Option<f64> = match value {
        DeValue::Integer(number) => i128::from_str_radix(number.as_str(), number.radix())
            .ok()
            .map(|number| number as f64),
        DeValue::Float(number) => number.as_str().parse().ok(),
        _ => None,
    };
    let number = number.ok_or_else(|| format!("expected a number, found {}", type_of(value)))?;
    if !number.is_finite() || number < 0.0 {
        return Err("expected a number that is not negative".to_owned());
    }
    if threshold.is_share() && number > 1.0 {
        return Err(format!("a share {} is at most 1", threshold.unit));
    }
    Ok(number)
}

/// The list of `[[accept]]`.
pub(super) fn acceptances(
    key: &Spanned<std::borrow::Cow<'_, str>>,
    value: &Spanned<DeValue<'_>>,
    text: &str,
    path: &Path,
    judging: &mut Judging,
    faults: &mut FileFaults,
) {
    let not_a_list = |at| FileFault::new(at, "accept: write it as [[accept]]".to_owned());
    let DeValue::Array(array) = value.get_ref() else {
        return faults.add(not_a_list(key.span()));
    };
    for one in array.iter() {
        let DeValue::Table(table) = one.get_ref() else {
            faults.add(not_a_list(one.span()));
            continue;
        };
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
        let place = format!("{name}:{}", line(text, one.span().start));
        judging.acceptances.extend(acceptance(one, table, place, faults));
    }
}

/// One of them; none where something is wrong with it.
fn acceptance(
    whole: &Spanned<DeValue<'_>>,
    table: &DeTable<'_>,
    place: String,
    faults: &mut FileFaults,
) -> Option<Acceptance> {
    for key in table.keys().filter(|key| !KEYS.contains(&key.get_ref().as_ref())) {
        let name = key.get_ref();
        let hint = nearest::hint(name, &KEYS);
        faults.add(FileFault::new(
            key.span(),
            format!("{name}: not a field of an acceptance; {hint}"),
        ));
    }
    let keys = AcceptanceKeys { whole, table };
    let rule = keys.read("rule", |text| {
        let rule = cqlens_rules::find(text).ok_or_else(|| unknown(text))?;
        Ok(rule.about().id)
    });
    let rule = faults.keep(rule);
    let of_table = faults.keep(keys.read("table", table_name));
    let pattern = faults.keep(keys.read("pattern", fingerprint));
    let at_most = faults.keep(keys.read("at-most", severity));
    let text = |key| keys.needed(key, keys.read(key, not_empty)?);
    let owner = faults.keep(text("owner"));
    let reason = faults.keep(text("reason"));
    let until = keys.date("until").and_then(|date| keys.needed("until", date));
    let until = faults.keep(until);
    if let (Some(None), Some(None), Some(None)) = (&rule, &of_table, &pattern) {
        faults.add(keys.missing("rule, table or pattern"));
    }
    Some(Acceptance {
        rule: rule?,
        table: of_table?,
        pattern: pattern?,
        at_most: at_most?,
        owner: owner?,
        reason: reason?,
        until: until?,
        place,
    })
}

const KEYS: [&str; 7] = ["rule", "table", "pattern", "at-most", "owner", "reason", "until"];

/// One `[[accept]]`.
struct AcceptanceKeys<'k, 'd> {
    whole: &'k Spanned<DeValue<'d>>,
    table: &'k DeTable<'d>,
}

impl AcceptanceKeys<'_, '_> {
    /// A text, as `read` reads it.
    fn read<T>(
        &self,
        key: &str,
        read: impl FnOnce(&str) -> Result<T, String>,
    ) -> Result<Option<T>, FileFault> {
        let Some(value) = self.table.get(key) else {
            return Ok(None);
        };
        let read = match value.get_ref() {
            DeValue::String(text) => read(text),
            other => Err(format!("expected a string in quotes, found {}", type_of(other))),
        };
        let fault = |what| FileFault::new(value.span(), format!("{key}: {what}"));
        read.map(Some).map_err(fault)
    }

    /// A day, with quotes or without.
    fn date(&self, key: &str) -> Result<Option<Date>, FileFault> {
        match self.table.get(key).map(|value| (value.get_ref(), value.span())) {
            Some((DeValue::Datetime(date), at)) => day(&date.to_string())
                .map(Some)
                .map_err(|what| FileFault::new(at, format!("{key}: {what}"))),
            _ => self.read(key, day),
        }
    }

    fn needed<T>(&self, key: &str, value: Option<T>) -> Result<T, FileFault> {
        value.ok_or_else(|| self.missing(key))
    }

    fn missing(&self, what: &str) -> FileFault {
        FileFault::new(self.whole.span(), format!("[[accept]]: {what} is missing"))
    }
}

fn table_name(text: &str) -> Result<TableName, String> {
    let (keyspace, table) = text
        .split_once('.')
        .filter(|(keyspace, table)| !keyspace.is_empty() && !table.is_empty())
        .ok_or_else(|| format!("{text:?} is not keyspace.table"))?;
    Ok(TableName {
        keyspace: keyspace.to_owned(),
        table: table.to_owned(),
    })
}

fn fingerprint(text: &str) -> Result<PatternId, String> {
    let is_hex = text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let id = is_hex.then(|| u64::from_str_radix(text, 16).ok()).flatten();
    id.map(PatternId)
        .ok_or_else(|| format!("{text:?} is not a fingerprint of 16 hex digits, as reports show them"))
}

fn severity(text: &str) -> Result<Severity, String> {
    clap::ValueEnum::from_str(text, false)
        .map_err(|_| format!("{text:?} is not a severity (info, low, medium, high)"))
}

fn not_empty(text: &str) -> Result<String, String> {
    match text.trim() {
        "" => Err("it must not be empty".to_owned()),
        text => Ok(text.to_owned()),
    }
}
