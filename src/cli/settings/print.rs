//! Settings as TOML that can be read back, each with the place that it comes from.

use std::fmt;

use toml::Value;

use super::{Setting, SettingOrigin, Settings, kind::SettingKind};
use cqlens_rules::{Acceptance, RULES, SEVERITY_THRESHOLDS, Threshold};

impl fmt::Display for Settings {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = None;
        for setting in &self.list {
            if table != setting.table.as_ref() {
                table = setting.table.as_ref();
                writeln!(formatter, "\n[{}]", table.map_or("", String::as_str))?;
            }
            writeln!(formatter, "{setting}")?;
        }
        self.thresholds("severity", "severity", SEVERITY_THRESHOLDS, formatter)?;
        for about in RULES.iter().map(|rule| rule.about()) {
            let table = format!("rules.{}", about.id);
            self.thresholds(&table, about.id, about.thresholds, formatter)?;
        }
        let origin = SettingOrigin::File(self.file.clone());
        for acceptance in &self.judging.acceptances {
            writeln!(formatter, "\n[[accept]]  # {origin}")?;
            for (key, value) in parts(acceptance) {
                writeln!(formatter, "{key} = {value}")?;
            }
        }
        Ok(())
    }
}

impl Settings {
    /// The table of a rule; nothing if there is nothing to set.
    fn thresholds(
        &self,
        table: &str,
        id: &str,
        thresholds: &[Threshold],
        formatter: &mut fmt::Formatter<'_>,
    ) -> fmt::Result {
        let settings = &self.judging.settings;
        let severity = settings.severities.get(id);
        if !thresholds.is_empty() || severity.is_some() {
            writeln!(formatter, "\n[{table}]")?;
        }
        if let Some(severity) = severity {
            let origin = SettingOrigin::File(self.file.clone());
            writeln!(formatter, "severity = \"{severity}\"  # {origin}")?;
        }
        for threshold in thresholds {
            let key = (id.to_owned(), threshold.name.to_owned());
            let (value, origin) = match settings.thresholds.get(&key) {
                Some(&value) => (value, SettingOrigin::File(self.file.clone())),
                None => (threshold.default, SettingOrigin::Default),
            };
            writeln!(formatter, "{} = {value}  # {origin}", threshold.name)?;
        }
        Ok(())
    }
}

/// Keys and values of an acceptance, as TOML.
fn parts(acceptance: &Acceptance) -> impl Iterator<Item = (&'static str, String)> {
    let text = |text: String| Value::from(text).to_string();
    let parts = [
        ("rule", acceptance.rule.map(|rule| text(rule.to_owned()))),
        (
            "table",
            acceptance.table.as_ref().map(|table| text(table.to_string())),
        ),
        ("pattern", acceptance.pattern.map(|id| text(id.to_string()))),
        ("at-most", acceptance.at_most.map(|limit| text(limit.to_string()))),
        ("owner", Some(text(acceptance.owner.clone()))),
        ("reason", Some(text(acceptance.reason.clone()))),
        ("until", Some(acceptance.until.to_string())),
    ];
    parts.into_iter().filter_map(|(key, value)| Some((key, value?)))
}

impl fmt::Display for Setting {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (key, origin) = (&self.key, &self.origin);
        if self.values.is_empty() {
            return write!(formatter, "# {key} is not set");
        }
        if self.is_secret {
            return write!(formatter, "# {key} is set and not shown  # {origin}");
        }
        write!(formatter, "{key} = {}  # {origin}", self.value())
    }
}

impl Setting {
    fn value(&self) -> Value {
        let texts = || self.values.iter().map(String::as_str);
        let text = texts().next().unwrap_or_default();
        match self.kind {
            SettingKind::List if self.values.len() == 1 => Value::from(text),
            SettingKind::Pairs => Value::Table(texts().filter_map(pair).collect()),
            SettingKind::List => Value::Array(texts().map(Value::from).collect()),
            SettingKind::Switch => Value::Boolean(text == "true"),
            SettingKind::Integer => text.parse().map_or_else(|_| Value::from(text), Value::Integer),
            SettingKind::Float => text.parse().map_or_else(|_| Value::from(text), Value::Float),
            SettingKind::Text => Value::from(text),
        }
    }
}

fn pair(text: &str) -> Option<(String, Value)> {
    let (key, value) = text.split_once('=')?;
    Some((key.trim().to_owned(), Value::from(value.trim())))
}

impl fmt::Display for SettingOrigin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag => formatter.write_str("flag"),
            Self::Environment(name) => write!(formatter, "environment: {name}"),
            // A name with a line break in it must not end the comment.
            Self::File(path) => write!(formatter, "file: {}", path.display().to_string().escape_debug()),
            Self::Default => formatter.write_str("default"),
        }
    }
}
