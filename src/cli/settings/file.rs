//! The file of settings, checked against the arguments that the commands have.

use std::{
    ffi::OsString,
    ops::Range,
    path::{Path, PathBuf},
};

use anyhow::Context;
use clap::{Arg, Command};
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::{
    fault::{FileFault, FileFaults, type_of},
    judging,
    kind::{SettingKind, setting_named, settings_of},
};
use crate::cli::nearest;
use cqlens_proxy::files::{self, Limit};
use cqlens_rules::Judging;

/// What the file says.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Contents {
    /// Of the commands.
    pub(super) entries: Vec<FileEntry>,
    /// Of rules and findings.
    pub(super) judging: Judging,
}

/// One line of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FileEntry {
    /// The command whose table has it; none if it stands above the tables.
    pub(super) table: Option<String>,
    pub(super) key: String,
    values: Vec<String>,
    is_switch: bool,
    is_path: bool,
    /// Of a file that was found: where it is.
    folder: PathBuf,
}

impl FileEntry {
    /// A path is below `folder`, unless it is absolute.
    pub(super) fn below(mut self, folder: &Path) -> Self {
        folder.clone_into(&mut self.folder);
        if self.is_path {
            for value in &mut self.values {
                *value = folder.join(&*value).to_string_lossy().into_owned();
            }
        }
        self
    }

    /// As they would be typed.
    pub(super) fn values(&self) -> &[String] {
        &self.values
    }

    /// The folder of a file that was found.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The same as command-line arguments.
    pub(super) fn as_arguments(&self) -> Vec<OsString> {
        if self.is_switch {
            let is_on = self.values.iter().any(|value| value == "true");
            return Vec::from_iter(is_on.then(|| format!("--{}", self.key).into()));
        }
        let typed = |value| format!("--{}={value}", self.key).into();
        self.values.iter().map(typed).collect()
    }
}

/// Acceptances included: thousands of them.
const LIMIT: Limit = Limit::new("settings", 1 << 20);

/// Reads the file at `path`; every key must be a setting of `command` or of one of its subcommands, every
/// value one that the setting takes.
///
/// # Errors
/// A file that cannot be read; [`SettingsFaults`](super::fault::SettingsFaults) with all that is no TOML or no setting.
pub(super) fn read(path: &Path, command: &Command) -> anyhow::Result<Contents> {
    let text = files::read_text(path, LIMIT)
        .with_context(|| format!("cannot read the settings in {}", path.display()))?;
    let mut faults = FileFaults::default();
    let contents = parse(&text, path, command, &mut faults);
    match faults.in_order(&text, path) {
        Some(faults) => Err(faults.into()),
        None => Ok(contents),
    }
}

fn parse(text: &str, path: &Path, command: &Command, faults: &mut FileFaults) -> Contents {
    let mut contents = Contents::default();
    let (document, errors) = DeTable::parse_recoverable(text);
    if !errors.is_empty() {
        // What is left of a file that is no TOML says little about settings.
        for error in errors {
            let at = error.span().unwrap_or_default();
            faults.add(FileFault::new(at, error.message().to_owned()));
        }
        return contents;
    }
    for (key, value) in document.get_ref() {
        let name = key.get_ref().as_ref();
        match (value.get_ref(), command.find_subcommand(name)) {
            _ if name == "accept" => {
                judging::acceptances(key, value, text, path, &mut contents.judging, faults);
            }
            (DeValue::Table(table), _) if name == "severity" => {
                judging::severity_thresholds(table, &mut contents.judging, faults);
            }
            (DeValue::Table(table), Some(subcommand)) => {
                for (key, value) in table {
                    if let ("rules", DeValue::Table(table)) = (name, value.get_ref()) {
                        judging::thresholds(key, table, &mut contents.judging, faults);
                        continue;
                    }
                    let entry = entry(command, Some(subcommand), key.span(), key.get_ref(), value);
                    contents.entries.extend(faults.keep(entry));
                }
            }
            (DeValue::Table(_), None) => faults.add(FileFault::new(key.span(), no_command(command, name))),
            _ => {
                let entry = entry(command, None, key.span(), name, value);
                contents.entries.extend(faults.keep(entry));
            }
        }
    }
    contents
}

fn no_command(command: &Command, name: &str) -> String {
    let tables = command.get_subcommands().map(Command::get_name);
    let close = nearest::names(name, tables.chain(["severity", "accept"]));
    match nearest::question(&close) {
        Some(question) => format!("[{name}]: no such command; {question}"),
        None => format!("[{name}]: no such command"),
    }
}

fn entry(
    command: &Command,
    subcommand: Option<&Command>,
    at: Range<usize>,
    key: &str,
    value: &Spanned<DeValue<'_>>,
) -> Result<FileEntry, FileFault> {
    let within = subcommand.unwrap_or(command);
    let argument = setting_named(within, key).filter(|found| subcommand.is_none() || !found.is_global_set());
    let Some(argument) = argument else {
        return Err(FileFault {
            at,
            what: unknown(command, within, key),
        });
    };
    let kind = SettingKind::from_argument(argument);
    let fault = |what: String| FileFault {
        at: value.span(),
        what: format!("{key}: {what}"),
    };
    let values = values(kind, value.get_ref()).ok_or_else(|| {
        fault(format!(
            "expected {}, found {}",
            kind.name(),
            type_of(value.get_ref())
        ))
    })?;
    for value in &values {
        check(argument, kind, value).map_err(fault)?;
    }
    Ok(FileEntry {
        table: subcommand.map(|command| command.get_name().to_owned()),
        key: key.to_owned(),
        values,
        is_switch: kind == SettingKind::Switch,
        is_path: SettingKind::is_path(argument),
        folder: PathBuf::new(),
    })
}

/// Says what may have been meant.
fn unknown(command: &Command, within: &Command, key: &str) -> String {
    let dashed = key.replace('_', "-");
    if setting_named(command, &dashed).is_some() {
        return format!("{key}: no such setting here; `{dashed}` belongs above all tables");
    }
    if setting_named(within, &dashed).is_some() {
        return format!("{key}: no such setting; did you mean `{dashed}`?");
    }
    let elsewhere = command
        .get_subcommands()
        .find(|command| setting_named(command, &dashed).is_some());
    if let Some(table) = elsewhere {
        let table = table.get_name();
        return format!("{key}: no such setting here; `{dashed}` belongs in [{table}]");
    }
    let known: Vec<_> = settings_of(within).filter_map(Arg::get_long).collect();
    format!("{key}: no such setting; {}", nearest::hint(key, &known))
}

/// The value as it would be typed; none if it has another type than the setting.
fn values(kind: SettingKind, value: &DeValue<'_>) -> Option<Vec<String>> {
    let one = match (kind, value) {
        (SettingKind::Text | SettingKind::List, DeValue::String(text)) => text.as_ref().to_owned(),
        (SettingKind::Switch, DeValue::Boolean(is_on)) => is_on.to_string(),
        (SettingKind::Integer | SettingKind::Float, DeValue::Integer(number)) => {
            i128::from_str_radix(number.as_str(), number.radix())
                .ok()?
                .to_string()
        }
        (SettingKind::Float, DeValue::Float(number)) => number.as_str().to_owned(),
        (SettingKind::List, DeValue::Array(array)) => {
            let texts = array
                .iter()
                .map(|value| value.get_ref().as_str().map(str::to_owned));
            return texts.collect();
        }
        (SettingKind::Pairs, DeValue::Table(table)) => {
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

/// Checks a value with the parser of the setting.
fn check(argument: &Arg, kind: SettingKind, value: &str) -> Result<(), String> {
    if kind == SettingKind::Switch {
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
    // The parser's own words, without the flag, which was not typed. A secret is not repeated.
    let why = std::error::Error::source(&error).map(ToString::to_string);
    let why = why.unwrap_or_else(|| possible_values(argument));
    if argument.is_hide_env_values_set() {
        return Err(format!("not a valid value: {why}"));
    }
    Err(format!("{value:?} is not a valid value: {why}"))
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
