//! Settings as TOML that can be read back, each with the place that it comes from.

use std::fmt;

use toml::Value;

use super::{Kind, Origin, Setting, Settings};

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
        Ok(())
    }
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
