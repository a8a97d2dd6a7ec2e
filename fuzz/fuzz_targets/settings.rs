//! A `cqlens.toml` that is found in the working directory, as in a checkout of others: `command [byte] · text`. It is refused, or it
//! judges, selects and shows; it names no host, no credentials, no command, and no file outside of its folder.
#![no_main]

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    sync::LazyLock,
};

use cqlens::cli::found_settings;
use tempfile::TempDir;

const COMMANDS: [&[&str]; 4] = [
    &["cqlens", "report", "a.cqlens.json"],
    &["cqlens", "diff", "a.cqlens.json", "b.cqlens.json"],
    &["cqlens", "explain", "a.cql"],
    &["cqlens", "rules"],
];

/// What such a file may set; that is said here once more.
const HARMLESS: [&str; 22] = [
    "log-format",
    "color",
    "format",
    "keyspace",
    "table",
    "client",
    "rule",
    "min-severity",
    "top",
    "by-table",
    "fail-on",
    "fail-on-new",
    "strict",
    "since",
    "until",
    "cluster",
    "json",
    "located",
    "allow-unjudged",
    "quiet",
    "verbose",
    "markdown",
];

/// A checkout with links that lead out of it, and what is beside it.
struct Checkout {
    _root: TempDir,
    folder: PathBuf,
}

static CHECKOUT: LazyLock<Checkout> = LazyLock::new(|| {
    let root = tempfile::tempdir().expect("there are temporary files");
    let folder = root.path().canonicalize().expect("it is there").join("checkout");
    fs::create_dir_all(folder.join(".git")).expect("there is room");
    fs::create_dir(folder.join("build")).expect("there is room");
    fs::write(folder.with_file_name("secret"), "").expect("there is room");
    for (name, target) in [
        ("up", ".."),
        ("link", "../secret"),
        ("new", "../none"),
        ("build/in", "."),
    ] {
        symlink(target, folder.join(name)).expect("there is room");
    }
    std::env::set_current_dir(&folder).expect("it is there");
    Checkout { _root: root, folder }
});

libfuzzer_sys::fuzz_target!(init: cqlens_fuzz::seeds::write("settings"), |input: &[u8]| {
    let Some((&command, text)) = input.split_first() else {
        return;
    };
    let folder = &CHECKOUT.folder;
    fs::write(folder.join("cqlens.toml"), text).expect("there is room");
    let arguments = COMMANDS[usize::from(command) % COMMANDS.len()];
    let Ok(settings) = found_settings(arguments) else {
        return;
    };
    for (key, values) in settings {
        match key.as_str() {
            "log" => assert!(
                values
                    .iter()
                    .all(|level| ["info", "debug", "trace"].contains(&level.as_str())),
                "{key} = {values:?}"
            ),
            "output" | "baseline" | "comparison" | "schema" => {
                let leads_out = values
                    .iter()
                    .find(|value| !is_below(Path::new(value), folder, key == "output"));
                assert_eq!(leads_out, None, "{key}");
            }
            key => assert!(HARMLESS.contains(&key), "{key} = {values:?}"),
        }
    }
});

/// Whether a path leads into the folder, whatever is there already; `openly`: to nothing that is hidden.
fn is_below(path: &Path, folder: &Path, openly: bool) -> bool {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return false;
    };
    // A link would be followed when it is written.
    let Ok(parent) = parent.canonicalize() else {
        return false;
    };
    let leads_to = parent.join(name);
    let leads_to = match leads_to.is_symlink() {
        true => leads_to.canonicalize().unwrap_or_default(),
        false => leads_to,
    };
    let below = leads_to.strip_prefix(folder);
    below.is_ok_and(|below| {
        !openly
            || !below
                .components()
                .any(|part| part.as_os_str().as_encoded_bytes()[0] == b'.')
    })
}
