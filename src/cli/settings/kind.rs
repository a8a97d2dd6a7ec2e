//! Which arguments are settings, and what each looks like in the file.

use clap::{Arg, Command};

/// What a setting looks like in TOML.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SettingKind {
    Text,
    Integer,
    Float,
    Switch,
    /// An array of texts, or one text alone.
    List,
    /// A table of texts; typed as `key=value`, as often as there are keys.
    Pairs,
}

impl SettingKind {
    /// The kind of an argument, by its action and the type of its value.
    pub(super) fn from_argument(argument: &Arg) -> Self {
        use std::any::TypeId;
        let action = argument.get_action();
        if !action.takes_values() {
            return Self::Switch;
        }
        if matches!(action, clap::ArgAction::Append) {
            let names = argument.get_value_names().unwrap_or_default();
            let is_pair = names.iter().any(|name| name.contains('='));
            return if is_pair { Self::Pairs } else { Self::List };
        }
        let of_value = argument.get_value_parser().type_id();
        let integers = [
            TypeId::of::<u8>(),
            TypeId::of::<u16>(),
            TypeId::of::<u32>(),
            TypeId::of::<u64>(),
            TypeId::of::<usize>(),
            TypeId::of::<std::num::NonZeroUsize>(),
            TypeId::of::<std::num::NonZeroU32>(),
            TypeId::of::<i32>(),
            TypeId::of::<i64>(),
        ];
        if integers.iter().any(|integer| of_value == *integer) {
            return Self::Integer;
        }
        let floats = [TypeId::of::<f32>(), TypeId::of::<f64>()];
        if floats.iter().any(|float| of_value == *float) {
            return Self::Float;
        }
        Self::Text
    }

    /// Whether the value of an argument is the path of a file or folder.
    pub(super) fn is_path(argument: &Arg) -> bool {
        argument.get_value_parser().type_id() == std::any::TypeId::of::<std::path::PathBuf>()
    }

    /// The kind, in words for a message.
    pub(super) fn name(self) -> &'static str {
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

/// Arguments that are no settings: they name the file, or say what to do with settings.
const NO_SETTINGS: &[&str] = &["config", "print-config", "check", "help", "version"];

/// The arguments of a command that can stand in the file.
pub(super) fn settings_of(command: &Command) -> impl Iterator<Item = &Arg> {
    command.get_arguments().filter(|argument| {
        argument
            .get_long()
            .is_some_and(|long| !NO_SETTINGS.contains(&long))
    })
}

/// The argument of a command whose long flag is `key`.
pub(super) fn setting_named<'a>(command: &'a Command, key: &str) -> Option<&'a Arg> {
    settings_of(command).find(|argument| argument.get_long() == Some(key))
}
