//! Where settings come from: the command line, the environment, one file, in this order of precedence.
//!
//! A setting is defined once, as an argument of its command. The file names it by its long flag, in the table
//! of the command (`[proxy]`), or above all tables if it is one of all commands. What the file says and
//! neither the command line nor the environment does is parsed as if it had been typed first: so the same
//! parser checks it, and what needs or excludes something else does so from wherever it comes.
//!
//! A file that was not named is looked for by the commands that judge ([`found`]); paths in it are relative to it.
//!
//! Thresholds of rules and accepted findings ([`judging`]) stand in the file only: they are
//! said once for all commands.

mod fault;
mod file;
mod found;
mod judging;
mod kind;
mod print;

use std::{
    collections::BTreeSet,
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
};

use anyhow::anyhow;
use clap::{Arg, ArgMatches, Command, CommandFactory, FromArgMatches, error::ErrorKind, parser::ValueSource};
pub(super) use fault::SettingsFaults;
use file::{Contents, FileEntry};
use kind::{SettingKind, setting_named, settings_of};

use super::help;
use cqlens_admin::SettingChanges;
use cqlens_rules::{Judging, RULES, SEVERITY_THRESHOLDS};

/// What this process was started with; the file is read anew each time.
#[derive(Debug, Clone)]
pub(super) struct Sources {
    arguments: Vec<OsString>,
}

/// All settings of the chosen command, as they are in force.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Settings {
    list: Vec<Setting>,
    judging: Judging,
    /// The file that `judging` comes from.
    file: PathBuf,
    /// Whether it was found, and not named.
    is_found: bool,
    /// Files above the working directory that belong to others.
    passed_over: Vec<PathBuf>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Setting {
    /// The command whose table has it; none if it stands above the tables.
    table: Option<String>,
    key: String,
    kind: SettingKind,
    values: Vec<String>,
    origin: SettingOrigin,
    is_secret: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum SettingOrigin {
    Flag,
    /// The name of the variable.
    Environment(String),
    File(PathBuf),
    Default,
}

impl Sources {
    /// The arguments that the process was started with.
    pub(super) fn from_process() -> Self {
        Self {
            arguments: std::env::args_os().collect(),
        }
    }

    /// These arguments, as if they had been typed.
    pub(super) fn typed(arguments: &[&str]) -> Self {
        Self {
            arguments: arguments.iter().map(Into::into).collect(),
        }
    }

    /// Puts together what the sources say now.
    ///
    /// # Errors
    /// A file that cannot be used, with the place; or what clap says of arguments, the
    /// wish for help included.
    pub(super) fn read<C: CommandFactory + FromArgMatches>(&self) -> anyhow::Result<(C, Settings)> {
        let mut command = help::shown(C::command(), !self.wants_long_help());
        command.build();
        let named = self.file();
        let mut passed_over = Vec::new();
        let found = match named {
            None => self.found_file(&command, |file| passed_over.push(file.to_owned())),
            Some(_) => None,
        };
        let folder = found.as_deref().and_then(Path::parent).map(Path::to_owned);
        let path = named.or(found);
        let Contents { entries, judging } =
            match path.as_deref().map(|path| file::read(path, &command)).transpose() {
                Ok(contents) => contents.unwrap_or_default(),
                // Help is wanted most where something is wrong.
                Err(error) => return Err(self.wish_for_help(&command).map_or(error, Into::into)),
            };
        let from_file: Vec<_> = entries
            .into_iter()
            .filter(|entry| self.is_open(&command, entry))
            .map(|entry| match &folder {
                Some(folder) => entry.below(folder),
                None => entry,
            })
            .collect();
        let origin_file = path.unwrap_or_default();
        if folder.is_some() {
            self.check_found(&command, &from_file, &origin_file)?;
        }
        let matches = command
            .clone()
            .try_get_matches_from(self.with(&command, &from_file))
            .map_err(|error| told(error, &from_file, &origin_file))?;
        let typed = C::from_arg_matches(&matches)?;
        let list = settings_in_force(&command, &matches, &from_file, &origin_file);
        let settings = Settings {
            list,
            judging,
            file: origin_file,
            is_found: folder.is_some(),
            passed_over,
        };
        Ok((typed, settings))
    }

    /// The file: `--config`, else `CQLENS_CONFIG`.
    ///
    /// It must be known before anything is parsed, and can be, since no option takes a value
    /// that looks like an option.
    fn file(&self) -> Option<PathBuf> {
        let found = self
            .typed_value("--config")
            .or_else(|| std::env::var_os(CONFIG_VARIABLE));
        found.filter(|path| !path.is_empty()).map(PathBuf::from)
    }

    /// The file above the working directory, for commands that look for it.
    fn found_file(&self, command: &Command, passed_over: impl FnMut(&Path)) -> Option<PathBuf> {
        let name = self.arguments.get(self.place_of_command(command)?)?.to_str()?;
        if !found::COMMANDS.contains(&name) {
            return None;
        }
        let home = std::env::home_dir();
        found::upwards(&std::env::current_dir().ok()?, home.as_deref(), passed_over)
    }

    /// Whether a file that was found may set what would be in force.
    fn check_found(&self, command: &Command, entries: &[FileEntry], file: &Path) -> anyhow::Result<()> {
        let chosen = self
            .place_of_command(command)
            .and_then(|at| self.arguments.get(at));
        let is_in_force = |entry: &&FileEntry| {
            let table = entry.table.as_deref();
            table.is_none() || table == chosen.and_then(|name| name.to_str())
        };
        let checked = entries
            .iter()
            .filter(is_in_force)
            .map(|entry| found::check(entry, file));
        let refused: Vec<_> = checked.filter_map(Result::err).collect();
        if refused.is_empty() {
            return Ok(());
        }
        let error = || SettingsFaults::of_lines(refused).into();
        Err(self.wish_for_help(command).map_or_else(error, Into::into))
    }

    /// The value that was typed last for a flag, as far as can be said before anything is parsed.
    pub(super) fn typed_value(&self, flag: &str) -> Option<OsString> {
        let mut found = None;
        let mut arguments = self.options();
        while let Some(argument) = arguments.next() {
            let attached = argument.to_str().and_then(|text| text.strip_prefix(flag));
            if argument == flag {
                found = arguments.next().cloned();
            } else if let Some(value) = attached.and_then(|rest| rest.strip_prefix('=')) {
                found = Some(value.into());
            }
        }
        found
    }

    /// The arguments that can be options.
    fn options(&self) -> impl Iterator<Item = &OsString> {
        self.arguments
            .iter()
            .skip(1)
            .take_while(|argument| *argument != "--")
    }

    /// Whether `--help` or `help` was typed, rather than `-h` or nothing.
    fn wants_long_help(&self) -> bool {
        self.options()
            .any(|argument| argument == "--help" || argument == "help")
    }

    fn wish_for_help(&self, command: &Command) -> Option<clap::Error> {
        let error = command.clone().try_get_matches_from(&self.arguments).err()?;
        is_wish(&error).then_some(error)
    }

    /// Whether neither the command line nor the environment says what `entry` says.
    fn is_open(&self, command: &Command, entry: &FileEntry) -> bool {
        let within = entry
            .table
            .as_deref()
            .map_or(Some(command), |table| command.find_subcommand(table));
        let Some(argument) = within.and_then(|command| setting_named(command, &entry.key)) else {
            return false;
        };
        let in_environment = argument
            .get_env()
            .is_some_and(|name| std::env::var_os(name).is_some());
        !in_environment && !self.is_typed(argument)
    }

    fn is_typed(&self, argument: &Arg) -> bool {
        let long = format!("--{}", argument.get_long().unwrap_or_default());
        let short = argument.get_short().map(|short| format!("-{short}"));
        self.options().any(|typed| {
            let Some(typed) = typed.to_str() else { return false };
            typed
                .strip_prefix(&long)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
                || short
                    .as_deref()
                    .is_some_and(|short| typed.starts_with(short) && !typed.starts_with("--"))
        })
    }

    /// The arguments with those of the file between them: before the command what is for all
    /// commands, after it what is for it.
    fn with(&self, command: &Command, entries: &[FileEntry]) -> Vec<OsString> {
        let at = self.place_of_command(command).unwrap_or(self.arguments.len());
        let chosen = self.arguments.get(at).and_then(|name| name.to_str());
        let of_table = |table: Option<&str>| {
            let of_table = entries
                .iter()
                .filter(move |entry| entry.table.as_deref() == table);
            of_table.flat_map(FileEntry::as_arguments).collect::<Vec<_>>()
        };
        let (before, after) = self.arguments.split_at(at);
        let mut all = before.to_vec();
        all.extend(of_table(None));
        if let Some((name, rest)) = after.split_first() {
            all.push(name.clone());
            all.extend(of_table(chosen));
            all.extend(rest.iter().cloned());
        }
        all
    }

    /// Where the name of the command stands: the first argument that is neither an
    /// option nor the value of one.
    fn place_of_command(&self, command: &Command) -> Option<usize> {
        let takes_value = |typed: &OsStr| {
            command.get_arguments().any(|argument| {
                let long = argument.get_long().map(|long| format!("--{long}"));
                argument.get_action().takes_values() && long.is_some_and(|long| typed == long.as_str())
            })
        };
        let mut at = 1;
        loop {
            let typed = self.arguments.get(at)?;
            if !typed.as_encoded_bytes().starts_with(b"-") {
                return Some(at);
            }
            at += if takes_value(typed) { 2 } else { 1 };
        }
    }
}

/// Whether this is no error, but the help or version that the operator wants.
fn is_wish(error: &clap::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::DisplayHelp
            | ErrorKind::DisplayVersion
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
    )
}

/// The message of clap for arguments that may come from the file, with that place.
fn told(error: clap::Error, from_file: &[FileEntry], file: &Path) -> anyhow::Error {
    if from_file.is_empty() || is_wish(&error) {
        return error.into();
    }
    let keys: Vec<_> = from_file.iter().map(|entry| entry.key.as_str()).collect();
    anyhow!(
        "{} ({} says {})",
        in_one_line(&error),
        file.display(),
        keys.join(", ")
    )
}

/// What clap says, without colours, tips and usage.
pub(super) fn in_one_line(error: &clap::Error) -> String {
    let text = error.to_string();
    let lines = text
        .lines()
        .take_while(|line| !line.trim().is_empty())
        .map(str::trim);
    let line = lines.collect::<Vec<_>>().join(" ");
    line.strip_prefix("error: ").unwrap_or(&line).to_owned()
}

const CONFIG_VARIABLE: &str = "CQLENS_CONFIG";

impl Settings {
    /// The changes from these settings to `newer`, by key: those that take effect, and those in `fixed`,
    /// which are undone in `newer`, since they are settled when the process starts.
    pub(super) fn compare(&self, newer: &mut Self, fixed: &[&str]) -> SettingChanges {
        let mut changes = SettingChanges::default();
        for setting in &mut newer.list {
            let same = |old: &&Setting| old.table == setting.table && old.key == setting.key;
            let Some(old) = self.list.iter().find(same) else {
                continue;
            };
            if old.values == setting.values {
                continue;
            }
            if fixed.contains(&setting.key.as_str()) {
                changes.need_restart.push(setting.key.clone());
                *setting = old.clone();
            } else {
                changes.applied.push(setting.key.clone());
            }
        }
        changes.applied.extend(self.judging_changes(newer));
        changes
    }

    /// Logs which file they come from, if there is one. One that nobody named is named here, with what it changes.
    pub(super) fn log_file(&self) {
        if let Some(notice) = self.notice() {
            tracing::info!("{notice}");
        } else if self.file != Path::new("") {
            tracing::debug!(file = %self.file.display(), "settings read");
        }
    }

    /// Names a file that was found, if it changes anything, and what it changes; and those of others, which change nothing.
    pub(super) fn notice(&self) -> Option<String> {
        let name = |file: &Path| file.display().to_string().escape_debug().to_string();
        let changed = self.changed_by_file();
        let in_force = (self.is_found && !changed.is_empty()).then(|| {
            let changed = changed.join(", ");
            format!("Settings of {} are in force: {changed}.", name(&self.file))
        });
        let passed_over = self.passed_over.iter().map(|file| {
            format!(
                "{} belongs to another user and was not read: name it with --config if you trust it.",
                name(file)
            )
        });
        let notices: Vec<_> = in_force.into_iter().chain(passed_over).collect();
        (!notices.is_empty()).then(|| notices.join(" "))
    }

    /// What the file has changed.
    fn changed_by_file(&self) -> Vec<String> {
        let Judging {
            settings,
            acceptances,
        } = &self.judging;
        let mut changed: Vec<_> = self.of_file().map(|(key, _)| key.to_owned()).collect();
        let thresholds = settings
            .thresholds
            .keys()
            .map(|(rule, name)| format!("{rule}.{name}"));
        changed.extend(thresholds);
        let severities = settings.severities.iter();
        changed.extend(severities.map(|(rule, severity)| format!("{rule} = {severity}")));
        if !acceptances.is_empty() {
            changed.push(format!("accept ({})", acceptances.len()));
        }
        changed
    }

    /// What the file has set, and how.
    pub(super) fn of_file(&self) -> impl Iterator<Item = (&str, &[String])> {
        let settings = self.list.iter();
        let of_file = settings.filter(|setting| matches!(setting.origin, SettingOrigin::File(_)));
        of_file.map(|setting| (setting.key.as_str(), &*setting.values))
    }

    /// How windows are judged.
    pub(super) fn judging(&self) -> &Judging {
        &self.judging
    }

    /// Thresholds by their keys, and `accept` for all that is accepted.
    fn judging_changes(&self, newer: &Self) -> Vec<String> {
        let mut changed = Vec::new();
        let (old, new) = (&self.judging.settings, &newer.judging.settings);
        let of_rules = RULES
            .iter()
            .map(|rule| (rule.about().id, rule.about().thresholds));
        for (id, thresholds) in of_rules.chain([("severity", SEVERITY_THRESHOLDS)]) {
            for threshold in thresholds {
                let (old, new) = (old.threshold(id, threshold), new.threshold(id, threshold));
                if old.total_cmp(&new).is_ne() {
                    changed.push(judging::threshold_key(id, threshold));
                }
            }
        }
        let rules: BTreeSet<_> = old.severities.keys().chain(new.severities.keys()).collect();
        for rule in rules {
            if old.severities.get(rule) != new.severities.get(rule) {
                changed.push(format!("rules.{rule}.severity"));
            }
        }
        if self.judging.acceptances != newer.judging.acceptances {
            changed.push("accept".to_owned());
        }
        changed
    }
}

/// All settings of the command that was chosen, each with the place that it comes from.
fn settings_in_force(
    command: &Command,
    matches: &ArgMatches,
    from_file: &[FileEntry],
    file: &Path,
) -> Vec<Setting> {
    let read = |table: Option<&str>, argument: &Arg, matches: &ArgMatches| {
        let key = argument.get_long()?.to_owned();
        let in_file = |entry: &&FileEntry| entry.table.as_deref() == table && entry.key == key;
        let origin = match matches.value_source(argument.get_id().as_str()) {
            Some(ValueSource::EnvVariable) => SettingOrigin::Environment(
                argument
                    .get_env()
                    .unwrap_or_default()
                    .to_string_lossy()
                    .into_owned(),
            ),
            Some(ValueSource::CommandLine) if !from_file.iter().any(|entry| in_file(&entry)) => {
                SettingOrigin::Flag
            }
            _ if from_file.iter().any(|entry| in_file(&entry)) => SettingOrigin::File(file.to_owned()),
            _ => SettingOrigin::Default,
        };
        Some(Setting {
            table: table.map(str::to_owned),
            kind: SettingKind::from_argument(argument),
            values: values(argument, matches),
            origin,
            is_secret: argument.is_hide_env_values_set(),
            key,
        })
    };
    let (chosen, of_chosen) = matches.subcommand().unzip();
    // What is for all commands is known best to the one that was chosen: it may have
    // been typed after its name.
    let for_all = of_chosen.unwrap_or(matches);
    let mut list: Vec<_> = settings_of(command)
        .filter_map(|argument| read(None, argument, for_all))
        .collect();
    if let (Some(name), Some(matches)) = (chosen, of_chosen)
        && let Some(command) = command.find_subcommand(name)
    {
        let own = settings_of(command).filter(|argument| !argument.is_global_set());
        list.extend(own.filter_map(|argument| read(Some(name), argument, matches)));
    }
    list
}

fn values(argument: &Arg, matches: &ArgMatches) -> Vec<String> {
    let id = argument.get_id().as_str();
    if SettingKind::from_argument(argument) == SettingKind::Switch {
        return vec![matches.get_flag(id).to_string()];
    }
    let raw = matches.get_raw(id).into_iter().flatten();
    raw.map(|value| value.to_string_lossy().into_owned()).collect()
}

#[cfg(test)]
mod tests;
