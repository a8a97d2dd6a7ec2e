//! Settings as TOML that can be read back, each with the place that it comes from.

use std::fmt;

use toml::Value;

use super::{Kind, Origin, Setting, Settings};
use cqlens_audit::rules::{About, Acceptance, RULES};

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
        for about in RULES.iter().map(|rule| rule.about()) {
            self.thresholds(about, formatter)?;
        }
        let origin = Origin::File(self.file.clone());
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
    /// The table of a rule; nothing if it has no thresholds.
    fn thresholds(&self, about: &About, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !about.thresholds.is_empty() {
            writeln!(formatter, "\n[rules.{}]", about.id)?;
        }
        for threshold in about.thresholds {
            let key = (about.id.to_owned(), threshold.name.to_owned());
            let (value, origin) = match self.judging.thresholds.get(&key) {
                Some(&value) => (value, Origin::File(self.file.clone())),
                None => (threshold.default, Origin::Default),
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
            Kind::List if self.values.len() == 1 => Value::from(text),
            Kind::Pairs => Value::Table(texts().filter_map(pair).collect()),
            Kind::List => Value::Array(texts().map(Value::from).collect()),
            Kind::Switch => Value::Boolean(text == "true"),
            Kind::Integer => text.parse().map_or_else(|_| Value::from(text), Value::Integer),
            Kind::Float => text.parse().map_or_else(|_| Value::from(text), Value::Float),
            Kind::Text => Value::from(text),
        }
    }
}

fn pair(text: &str) -> Option<(String, Value)> {
    let (key, value) = text.split_once('=')?;
    Some((key.trim().to_owned(), Value::from(value.trim())))
}

impl fmt::Display for Origin {
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
