//! The commands in the documentation. Those that need nothing but files are run; the settings of all others are read by the
//! program itself.

use std::{collections::BTreeSet, fs};

use crate::docs::{
    page::{Block, Page},
    session::{PLACE, Place},
};

/// What the shell has instead of the programs that pages name besides: nothing on this machine is changed. A page that needs
/// another one adds it here.
const STAND_INS: &str = "
    fqltool() { while IFS= read -r line; do printf '%s\\n' \"$line\"; done <fqltool-dump.txt; }
    for name in cargo curl docker gzip helm jq kubectl openssl sh sudo systemctl tar tcpdump zcat; do
        eval \"$name() { :; }\"
    done";

/// A command whose files are here is run; a finding is no failure. A proxy shows its settings, which it has checked; anything
/// else reads its arguments, and prints its help.
const RUN: &str = "
    cqlens() {
        case \"$*\" in
        proxy*--print-config*) command cqlens \"$@\" ;;
        proxy*) command cqlens \"$@\" --print-config ;;
        'sniff -'* | *--contact* | *--follow* | demo* | replay* | top* | report*--from*) command cqlens \"$@\" --help ;;
        *) command cqlens \"$@\" || [ $? -eq 1 ] ;;
        esac >>\"$printed\" 2>&1 || echo \"cqlens $*\" >>\"$printed\".failed
    }";

/// Nothing but arguments is read.
const READ: &str = "
    cqlens() {
        command cqlens \"$@\" --help >>\"$printed\" 2>&1 || echo \"cqlens $*\" >>\"$printed\".failed
    }";

/// What is wrong with a script, if something is.
fn fault(place: &Place, cqlens: &str, script: &str) -> Option<String> {
    let results = tempfile::tempdir().unwrap();
    let printed = results.path().join("printed");
    let script = format!(
        "printed='{}'\n{STAND_INS}\n{cqlens}\n{script}\nwait",
        printed.display()
    );
    let output = place.sh(&script);
    let failed = fs::read_to_string(printed.with_extension("failed"));
    if output.status.success() && failed.is_err() {
        return None;
    }
    let printed = fs::read_to_string(printed).unwrap_or_default();
    let complaint = String::from_utf8_lossy(&output.stderr);
    Some([&failed.unwrap_or_default(), &*printed, &complaint].concat())
}

#[test]
fn every_command_is_one_that_the_program_has() {
    let place = &*PLACE;
    let mut faults = Vec::new();
    let mut commands = 0;
    for page in Page::guides() {
        let mut check = |line: usize, cqlens: &str, script: &str| {
            commands += script.matches("cqlens ").count();
            faults.extend(
                fault(place, cqlens, script).map(|fault| format!("{}:{line}: {fault}", page.path.display())),
            );
        };
        for block in page.blocks().iter().filter(|block| block.language == "sh") {
            check(block.line, RUN, &block.lines.join("\n"));
        }
        for (line, span) in page.spans() {
            // As tables write it.
            let span = span.replace("\\|", "|");
            if is_command(&span) {
                check(line, READ, &span);
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(commands > 30, "{commands}");
    for written in ["week.html", "changes.md", "statements.csv", "model.svg"] {
        assert!(place.path().join(written).exists(), "{written}");
    }
}

fn is_command(span: &str) -> bool {
    span.starts_with("cqlens ") || span.contains("| cqlens ")
}

/// How the commands of pages begin. A block with one of them is a script, which is run with [`STAND_INS`] for what it cannot do here.
const OF_SHELL: [&str; 6] = ["cqlens ", "cargo ", "curl ", "docker ", "systemctl ", "tcpdump "];

#[test]
fn commands_are_in_blocks_that_are_tried() {
    let is_command = |line: &str| OF_SHELL.iter().any(|command| line.starts_with(command));
    // What these print begins with their names.
    let is_output = |line: &str| {
        ["cqlens demo: ", "cqlens top  "]
            .iter()
            .any(|name| line.starts_with(name))
    };
    let is_hidden = |block: &Block<'_>| {
        let mut lines = block.lines.iter().map(|line| line.trim_start());
        block.language != "sh" && lines.any(|line| is_command(line) && !is_output(line))
    };
    for page in Page::guides() {
        let blocks = page.blocks();
        let hidden: Vec<_> = blocks.iter().filter(|block| is_hidden(block)).collect();
        assert!(hidden.is_empty(), "{}: {hidden:?}", page.path.display());
    }
}

/// Options of other programs that pages name.
const OTHERS: [&str; 2] = ["--features", "--release"];

#[test]
fn every_option_that_a_page_names_is_one_of_the_program() {
    let help: Vec<_> = [
        "", "proxy", "sniff", "record", "replay", "report", "diff", "explain", "rules", "demo",
    ]
    .into_iter()
    .chain(cfg!(feature = "top").then_some("top"))
    .map(|command| PLACE.sh(&format!("cqlens {command} --help")))
    .map(|output| String::from_utf8(output.stdout).unwrap())
    .collect();
    let known: BTreeSet<_> = help.iter().flat_map(|help| options(help)).chain(OTHERS).collect();
    assert!(known.contains("--sequence-budget"), "{known:?}");
    let unknown: Vec<_> = Page::guides()
        .iter()
        .flat_map(|page| {
            let spans = page
                .spans()
                .into_iter()
                .filter(|(_, span)| span.starts_with("--"));
            let unknown =
                spans.filter(|(_, span)| !options(span).iter().all(|option| known.contains(option)));
            let path = page.path.display().to_string();
            unknown
                .map(move |(line, span)| format!("{path}:{line}: {span}"))
                .collect::<Vec<_>>()
        })
        .collect();
    assert!(unknown.is_empty(), "{unknown:#?}");
}

/// The long options in a text.
fn options(text: &str) -> Vec<&str> {
    let words = text.split(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '-'));
    words
        .filter(|word| word.starts_with("--") && word.len() > 2)
        .collect()
}

#[test]
fn what_the_program_does_not_have_is_named() {
    let said = |cqlens, script| fault(&PLACE, cqlens, script).unwrap_or_default();
    assert!(said(RUN, "cqlens proxy --upstream a --no-such-option").contains("--no-such-option"));
    assert!(said(RUN, "cqlens proxy").contains("--upstream"));
    assert!(said(RUN, "tcpdump -w - | cqlens sniff - --port x").contains("--port"));
    assert!(said(RUN, "cqlens report missing/").contains("missing"));
    assert!(said(RUN, "no-such-program").contains("no-such-program"));
    assert!(said(READ, "cqlens rules --json").contains("--json"));
    assert_eq!(
        said(RUN, "cqlens rules # all\ncqlens rules \\\n    full-scan"),
        ""
    );
}
