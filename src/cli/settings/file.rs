//! The file of settings, checked against the arguments that the commands have.

use std::{ffi::OsString, ops::Range, path::Path};

use anyhow::{Context, anyhow};
use clap::{Arg, Command};
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::{Kind, judging, setting_named, settings_of};
use crate::files::{self, Limit};
use cqlens_audit::rules::Judging;

/// What the file says.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Contents {
    /// Of the commands.
    pub(super) entries: Vec<Entry>,
    /// Of rules and findings.
    pub(super) judging: Judging,
}

/// One line of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    /// The command whose table it stands in; none if it stands above the tables.
    pub(super) table: Option<String>,
    pub(super) key: String,
    values: Vec<String>,
    is_switch: bool,
}

impl Entry {
    /// What one would type instead.
    pub(super) fn as_arguments(&self) -> Vec<OsString> {
        if self.is_switch {
            let is_on = self.values.iter().any(|value| value == "true");
            return Vec::from_iter(is_on.then(|| format!("--{}", self.key).into()));
        }
        let typed = |value| format!("--{}={value}", self.key).into();
        self.values.iter().map(typed).collect()
    }
}

/// Reads the file at `path`; every key must be a setting of `command` or of one of its subcommands, every value one that the
/// setting takes.
///
/// # Errors
/// A file that cannot be read, is no TOML, or says something that is no setting; with the line and the key.
pub(super) fn read(path: &Path, command: &Command) -> anyhow::Result<Contents> {
    let text = files::read_text(path, Limit::SETTINGS)
        .with_context(|| format!("cannot read the settings in {}", path.display()))?;
    parse(&text, path, command).map_err(|Fault { at, what }| {
        let line = line(&text, at.start);
        anyhow!("{}:{line}: {what}", path.display())
    })
}

/// The number of the line in which that byte is.
pub(super) fn line(text: &str, byte: usize) -> usize {
    text.get(..byte)
        .map_or(1, |before| before.matches('\n').count() + 1)
}

/// What is wrong, and where (bytes).
pub(super) struct Fault {
    at: Range<usize>,
    what: String,
}

impl Fault {
    pub(super) fn new(at: Range<usize>, what: String) -> Self {
        Self { at, what }
    }
}

fn parse(text: &str, path: &Path, command: &Command) -> Result<Contents, Fault> {
    let document = DeTable::parse(text).map_err(|error| Fault {
        at: error.span().unwrap_or_default(),
        what: error.message().to_owned(),
    })?;
    let mut contents = Contents::default();
    for (key, value) in document.get_ref() {
        let name = key.get_ref().as_ref();
        match (value.get_ref(), command.find_subcommand(name)) {
            _ if name == "accept" => judging::acceptances(key, value, text, path, &mut contents.judging)?,
            (DeValue::Table(table), Some(subcommand)) => {
                for (key, value) in table {
                    if let ("rules", DeValue::Table(table)) = (name, value.get_ref()) {
                        judging::thresholds(key, table, &mut contents.judging)?;
                        continue;
                    }
                    contents.entries.push(entry(
                        command,
                        Some(subcommand),
                        key.span(),
                        key.get_ref(),
                        value,
                    )?);
                }
            }
            (DeValue::Table(_), None) => {
                return Err(Fault {
                    at: key.span(),
                    what: format!("[{name}]: no command is called so"),
                });
            }
            _ => contents
                .entries
                .push(entry(command, None, key.span(), name, value)?),
        }
    }
    Ok(contents)
}

fn entry(
    command: &Command,
    subcommand: Option<&Command>,
    at: Range<usize>,
    key: &str,
    value: &Spanned<DeValue<'_>>,
) -> Result<Entry, Fault> {
    let within = subcommand.unwrap_or(command);
    let argument = setting_named(within, key).filter(|found| subcommand.is_none() || !found.is_global_set());
    let Some(argument) = argument else {
        return Err(Fault {
            at,
            what: unknown(command, within, key),
        });
    };
    let kind = Kind::of(argument);
    let fault = |what: String| Fault {
        at: value.span(),
        what: format!("{key}: {what}"),
    };
    let values = values(kind, value.get_ref()).ok_or_else(|| {
        fault(format!(
            "{} is wanted, this is {}",
            kind.name(),
            type_of(value.get_ref())
        ))
    })?;
    for value in &values {
        check(argument, kind, value).map_err(fault)?;
    }
    Ok(Entry {
        table: subcommand.map(|command| command.get_name().to_owned()),
        key: key.to_owned(),
        values,
        is_switch: kind == Kind::Switch,
    })
}

/// Says what may have been meant.
fn unknown(command: &Command, within: &Command, key: &str) -> String {
    let dashed = key.replace('_', "-");
    if setting_named(command, &dashed).is_some() {
        return format!("{key}: no such setting here; `{dashed}` stands above all tables");
    }
    if setting_named(within, &dashed).is_some() {
        return format!("{key}: no such setting; it is called `{dashed}`");
    }
    let elsewhere = command
        .get_subcommands()
        .find(|command| setting_named(command, &dashed).is_some());
    if let Some(table) = elsewhere {
        let table = table.get_name();
        return format!("{key}: no such setting here; `{dashed}` belongs below [{table}]");
    }
    let known: Vec<_> = settings_of(within).filter_map(Arg::get_long).collect();
    format!("{key}: no such setting; there are {}", known.join(", "))
}

/// The value as one would type it; none if it is of another type than the setting's.
fn values(kind: Kind, value: &DeValue<'_>) -> Option<Vec<String>> {
    let one = match (kind, value) {
        (Kind::Text | Kind::List, DeValue::String(text)) => text.as_ref().to_owned(),
        (Kind::Switch, DeValue::Boolean(is_on)) => is_on.to_string(),
        (Kind::Integer | Kind::Float, DeValue::Integer(number)) => {
            i128::from_str_radix(number.as_str(), number.radix())
                .ok()?
                .to_string()
        }
        (Kind::Float, DeValue::Float(number)) => number.as_str().to_owned(),
        (Kind::List, DeValue::Array(array)) => {
            let texts = array
                .iter()
                .map(|value| value.get_ref().as_str().map(str::to_owned));
            return texts.collect();
        }
        (Kind::Pairs, DeValue::Table(table)) => {
            let pairs = table.iter().map(|(key, value)| {
                let value = value.get_ref().as_str()?;
                Some(format!("{}={value}", key.get_ref()))
            });
            return pairs.collect();
        }
        _ => return None,
    };
    Some(vec![one])
}

/// Asks the parser of the setting.
fn check(argument: &Arg, kind: Kind, value: &str) -> Result<(), String> {
    if kind == Kind::Switch {
        return Ok(());
    }
    let alone = Arg::new("value")
        .long("value")
        .value_parser(argument.get_value_parser().clone());
    let parsed = Command::new("check")
        .no_binary_name(true)
        .arg(alone)
        .try_get_matches_from([format!("--value={value}")]);
    let Err(error) = parsed else { return Ok(()) };
    // The parser's own words, without the flag that nobody typed. A secret is not repeated.
    let why = std::error::Error::source(&error).map(ToString::to_string);
    let why = why.unwrap_or_else(|| possible_values(argument));
    if argument.is_hide_env_values_set() {
        return Err(format!("not a value for it: {why}"));
    }
    Err(format!("{value:?} is not a value for it: {why}"))
}

fn possible_values(argument: &Arg) -> String {
    let possible: Vec<_> = argument
        .get_possible_values()
        .iter()
        .map(|value| value.get_name().to_owned())
        .collect();
    if possible.is_empty() {
        "it must not be empty".to_owned()
    } else {
        format!("it is one of {}", possible.join(", "))
    }
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Text => "a string in quotes",
            Self::Integer => "an integer",
            Self::Float => "a number",
            Self::Switch => "true or false",
            Self::List => "an array of strings",
            Self::Pairs => "a table of strings",
        }
    }
}

pub(super) fn type_of(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "an integer",
        DeValue::Float(_) => "a number with a fraction",
        DeValue::Boolean(_) => "a boolean",
        DeValue::Datetime(_) => "a date or time",
        DeValue::Array(_) => "an array",
        DeValue::Table(_) => "a table",
    }
}
