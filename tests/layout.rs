//! The picture holds: dependencies between modules point one way, as in the flow from bytes to report.
//!
//! Reads the paths in `src/` and `proto/src/` (`use` trees and paths inside code, tests included; not comments, not strings) and
//! compares them with the tables below. A module that is in no table has no place in the picture yet, which fails too.
//! Deliberately not a parser of Rust: macros that build paths out of pieces would escape it.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::path::{Path, PathBuf};

/// What each module of `src/` may name: other modules, `proto` as a whole, or single modules of it.
const ARROWS: &[(&str, &[&str])] = &[
    ("main", &["cli"]),
    (
        "cli",
        &[
            "proxy", "sniff", "tls", "capture", "catalog", "client", "control", "audit", "window", "rules",
            "report", "sink", "node", "number", "pulse", "memory", "files", "text", "proto",
        ],
    ),
    // Cut, don't decode: the data path knows where envelopes end and nothing of what they say.
    (
        "proxy",
        &[
            "tls",
            "timers",
            "pulse",
            "throttle",
            "capture",
            "proto::cutter",
            "proto::envelope",
            "proto::segment",
        ],
    ),
    // A capture's reader tells from whole messages where it is, where bytes are missing.
    ("sniff", &["capture", "memory", "proto"]),
    // The client leaves TLS to who has the certificates.
    ("tls", &["timers", "files", "client"]),
    ("client", &["proto"]),
    (
        "control",
        &["client", "catalog", "audit", "memory", "throttle", "proto"],
    ),
    ("timers", &[]),
    ("files", &[]),
    ("pulse", &[]),
    // Counters of bytes, for whoever keeps any.
    ("memory", &[]),
    ("capture", &["memory", "proto"]),
    ("throttle", &["timers"]),
    ("catalog", &["memory", "proto"]),
    (
        "audit",
        &["window", "catalog", "capture", "pulse", "memory", "proto"],
    ),
    ("window", &[]),
    // Rules see windows, never traffic.
    // They read a template again only to write the CQL that would serve it.
    ("rules", &["window", "catalog", "number", "proto::cql"]),
    ("report", &["rules", "window", "catalog", "number", "text"]),
    (
        "sink",
        &[
            "throttle", "report", "rules", "window", "catalog", "number", "memory",
        ],
    ),
    // The stand-in server owns partitions by the same tokens as a real one.
    ("node", &["proto", "catalog", "client"]),
    ("number", &[]),
    ("text", &[]),
];

/// What a module below another may name besides that.
const MORE_ARROWS: &[(&str, &[&str])] = &[
    // The one place in the data path that reads what envelopes say, where the operator asks for other addresses.
    ("proxy::topology", &["proto"]),
];

/// Time is a parameter for everybody else.
const MAY_ASK_THE_CLOCK: &[&str] = &["main", "cli", "proxy", "capture", "node"];

/// Pure functions of what they are given.
const WITHOUT_RUNTIME: &[&str] = &["window", "rules", "report", "number", "text"];

/// What `proto` never names: sockets, clock, async, logging, files.
const NOT_IN_PROTO: &[&[&str]] = &[
    &["tokio"],
    &["tracing"],
    &["log"],
    &["futures"],
    &["std", "net", "TcpStream"],
    &["std", "net", "TcpListener"],
    &["std", "net", "UdpSocket"],
    &["std", "os"],
    &["std", "fs"],
    &["std", "env"],
    &["std", "process"],
    &["std", "thread"],
    &["std", "time", "Instant"],
    &["std", "time", "SystemTime"],
];

/// Modules of `proto` that do not know each other, in either direction.
const STRANGERS: [&str; 2] = ["message", "cql"];

#[test]
fn arrows_in_src_go_one_way() {
    let violations = check_tree("src", src_violations);
    assert!(violations.is_empty(), "\n{}", violations.join("\n"));
}

#[test]
fn proto_has_no_sockets_clock_async_or_logging() {
    let violations = check_tree("proto/src", proto_violations);
    assert!(violations.is_empty(), "\n{}", violations.join("\n"));
}

fn check_tree(root: &str, check: fn(&Module, &str) -> Vec<String>) -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(root);
    let files = rust_files(&root);
    assert!(files.len() > 1, "there is source below {}", root.display());
    let violations = files.iter().flat_map(|file| {
        let relative = file.strip_prefix(&root).unwrap();
        let source = std::fs::read_to_string(file).unwrap();
        let found = check(&Module::of_file(relative), &source);
        found
            .into_iter()
            .map(|violation| format!("{}: {violation}", file.display()))
            .collect::<Vec<_>>()
    });
    violations.collect()
}

fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files.sort();
    files
}

/// Where a file stands in its crate, such as `audit::exchange`; `lib.rs` is the empty path, `main.rs` is `main`.
struct Module(Vec<String>);

impl Module {
    fn of_file(relative: &Path) -> Self {
        let without_extension = relative.with_extension("");
        let mut path: Vec<String> = without_extension
            .iter()
            .map(|part| part.to_string_lossy().into_owned())
            .collect();
        if path.last().is_some_and(|last| last == "mod" || last == "lib") {
            path.pop();
        }
        Self(path)
    }

    /// The module of the crate's root in which it is.
    fn top(&self) -> &str {
        self.0.first().map_or("lib", String::as_str)
    }

    /// What it may name besides what the module of the root may.
    fn more_arrows(&self) -> Vec<&'static str> {
        let below = |name: &str| {
            let parts: Vec<&str> = name.split("::").collect();
            parts.len() <= self.0.len() && parts.iter().zip(&self.0).all(|(part, own)| part == own)
        };
        let more = MORE_ARROWS.iter().filter(|(name, _)| below(name));
        more.flat_map(|(_, allowed)| allowed.iter().copied()).collect()
    }

    /// The path from the crate's root, if `path` is one into the crate: by `crate`, or by enough `super`s.
    ///
    /// A module inside the file needs one `super` more; taking both for the root is right as long as nobody names
    /// a module like one of the root's.
    fn within_crate<'a>(&self, path: &'a [String]) -> Option<&'a [String]> {
        let supers = path.iter().take_while(|segment| *segment == "super").count();
        match path.first()?.as_str() {
            "crate" | "cqlens" => Some(&path[1..]),
            "super" if supers >= self.0.len() => Some(&path[supers..]),
            _ => None,
        }
    }
}

fn src_violations(module: &Module, source: &str) -> Vec<String> {
    let own = module.top();
    if own == "lib" {
        return Vec::new();
    }
    let Some((_, allowed)) = ARROWS.iter().find(|(name, _)| *name == own) else {
        return vec![format!(
            "`{own}` has no place in the picture: give it arrows here"
        )];
    };
    let allowed = [allowed, &module.more_arrows()[..]].concat();
    paths(source)
        .iter()
        .filter_map(|path| src_violation(module, &allowed, path))
        .collect()
}

fn src_violation(module: &Module, allowed: &[&str], path: &[String]) -> Option<String> {
    let own = module.top();
    let written = path.join("::");
    if path[0] == "cqlens_proto" {
        let part = format!("proto::{}", path.get(1)?);
        let fine = allowed.contains(&"proto") || allowed.contains(&part.as_str());
        return (!fine).then(|| format!("{own} -> {part} (`{written}`)"));
    }
    if path[0] == "tokio" && WITHOUT_RUNTIME.contains(&own) {
        return Some(format!("{own} -> tokio (`{written}`)"));
    }
    if asks_the_clock(path) && !MAY_ASK_THE_CLOCK.contains(&own) {
        return Some(format!("{own} asks the clock (`{written}`)"));
    }
    let target = module.within_crate(path)?.first()?;
    let by_super = path[0] == "super";
    let known = ARROWS.iter().any(|(name, _)| name == target);
    if target == own || allowed.contains(&target.as_str()) || (by_super && !known) {
        return None;
    }
    Some(format!("{own} -> {target} (`{written}`)"))
}

fn asks_the_clock(path: &[String]) -> bool {
    let [.., clock, call] = path else { return false };
    call == "now" && ["Instant", "SystemTime", "Timestamp", "Zoned"].contains(&clock.as_str())
}

fn proto_violations(module: &Module, source: &str) -> Vec<String> {
    paths(source)
        .iter()
        .filter_map(|path| proto_violation(module, path))
        .collect()
}

fn proto_violation(module: &Module, path: &[String]) -> Option<String> {
    let written = path.join("::");
    let forbidden =
        |prefix: &&&[&str]| path.len() >= prefix.len() && path.iter().zip(**prefix).all(|(a, b)| a == b);
    if path.len() > 1 && NOT_IN_PROTO.iter().any(|prefix| forbidden(&prefix)) {
        return Some(format!("proto -> `{written}`"));
    }
    let target = module.within_crate(path)?.first()?.as_str();
    let strangers =
        STRANGERS.contains(&module.top()) && STRANGERS.contains(&target) && module.top() != target;
    strangers.then(|| format!("{} -> {target} (`{written}`)", module.top()))
}

/// Every path of two or more segments in the source, the branches of `use` trees one by one.
fn paths(source: &str) -> Vec<Vec<String>> {
    let tokens = tokens(source);
    let mut found = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        match &tokens[at] {
            Token::Word(_) => at = read_path(&tokens, at, &[], &mut found),
            _ => at += 1,
        }
    }
    found.retain(|path| path.len() > 1);
    found
}

/// Reads `a::b::{c, d::e}` from the word at `at` on; returns the place after it.
fn read_path(tokens: &[Token], mut at: usize, prefix: &[String], found: &mut Vec<Vec<String>>) -> usize {
    let mut path = prefix.to_vec();
    while let Some(Token::Word(word)) = tokens.get(at) {
        path.push(word.clone());
        at += 1;
        if tokens.get(at) != Some(&Token::Separator) {
            break;
        }
        at += 1;
        if tokens.get(at) == Some(&Token::Sign('{')) {
            return read_branches(tokens, at + 1, &path, found);
        }
    }
    found.push(path);
    at
}

fn read_branches(tokens: &[Token], mut at: usize, prefix: &[String], found: &mut Vec<Vec<String>>) -> usize {
    loop {
        match tokens.get(at) {
            None | Some(Token::Sign('}')) => return at + 1,
            Some(Token::Word(word)) if word == "as" => at += 2,
            Some(Token::Word(_)) => at = read_path(tokens, at, prefix, found),
            Some(_) => at += 1,
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Token {
    Word(String),
    /// `::`
    Separator,
    Sign(char),
}

/// The source without white space, comments and literals.
fn tokens(source: &str) -> Vec<Token> {
    let mut found = Vec::new();
    let mut rest = source;
    while let Some(first) = rest.chars().next() {
        let length = if let Some(length) = comment_or_literal(rest) {
            length
        } else if first.is_alphanumeric() || first == '_' {
            let length = rest
                .find(|c: char| !c.is_alphanumeric() && c != '_')
                .unwrap_or(rest.len());
            found.push(Token::Word(rest[..length].to_owned()));
            length
        } else if rest.starts_with("::") {
            found.push(Token::Separator);
            2
        } else {
            if !first.is_whitespace() {
                found.push(Token::Sign(first));
            }
            first.len_utf8()
        };
        rest = &rest[length..];
    }
    found
}

/// The length of the comment or literal that `rest` begins with.
fn comment_or_literal(rest: &str) -> Option<usize> {
    match rest.chars().next()? {
        '/' if rest.starts_with("//") => Some(rest.find('\n').unwrap_or(rest.len())),
        '/' if rest.starts_with("/*") => Some(block_comment(rest)),
        '"' => Some(quoted(rest, '"')),
        '\'' => Some(character_or_lifetime(rest)),
        'r' | 'b' | 'c' => raw_literal(rest),
        _ => None,
    }
}

/// `r"…"`, `br#"…"#` and the like: nothing is escaped in them. Other prefixed literals are a word and a literal.
fn raw_literal(rest: &str) -> Option<usize> {
    let prefix = ["r", "br", "cr"].into_iter().find(|prefix| {
        rest.strip_prefix(prefix)
            .is_some_and(|rest| rest.trim_start_matches('#').starts_with('"'))
    })?;
    let hashes = rest[prefix.len()..].chars().take_while(|&c| c == '#').count();
    let body = prefix.len() + hashes + 1;
    let end = format!("\"{}", "#".repeat(hashes));
    Some(
        rest[body..]
            .find(&end)
            .map_or(rest.len(), |at| body + at + end.len()),
    )
}

/// Block comments nest.
fn block_comment(rest: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < rest.len() {
        if rest[at..].starts_with("/*") {
            (depth, at) = (depth + 1, at + 2);
        } else if rest[at..].starts_with("*/") {
            (depth, at) = (depth - 1, at + 2);
            if depth == 0 {
                break;
            }
        } else {
            at += rest[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    at
}

fn quoted(rest: &str, quote: char) -> usize {
    let mut characters = rest.char_indices().skip(1);
    while let Some((at, character)) = characters.next() {
        if character == '\\' {
            characters.next();
        } else if character == quote {
            return at + 1;
        }
    }
    rest.len()
}

/// `'a'` and `'\n'` are literals, `'a` is a lifetime, whose name does not matter here.
fn character_or_lifetime(rest: &str) -> usize {
    let mut characters = rest.chars().skip(1);
    let (first, second) = (characters.next(), characters.next());
    if first == Some('\\') || second == Some('\'') {
        quoted(rest, '\'')
    } else {
        1
    }
}

mod the_checker {
    use super::{Module, paths, proto_violations, src_violations};
    use std::path::Path;

    fn in_src(file: &str, source: &str) -> usize {
        src_violations(&Module::of_file(Path::new(file)), source).len()
    }

    fn in_proto(file: &str, source: &str) -> usize {
        proto_violations(&Module::of_file(Path::new(file)), source).len()
    }

    #[test]
    fn reads_use_trees_and_paths_in_code() {
        let found = paths("use crate::{a::B, c::{self, d as e}}; fn f() -> x::Y { crate::g::h::<u8>() }");
        let written: Vec<String> = found.iter().map(|path| path.join("::")).collect();
        assert_eq!(
            written,
            [
                "crate::a::B",
                "crate::c::self",
                "crate::c::d",
                "x::Y",
                "crate::g::h"
            ]
        );
    }

    #[test]
    fn does_not_read_comments_and_literals() {
        let source = r##"
            // crate::audit::a
            /* crate::audit /* nested */ ::b */
            const A: &str = "crate::audit::c \" crate::audit::d";
            const B: &str = r#"crate::audit::e " crate::audit::f"#;
            const C: &[u8] = br"\"; const D: &str = "crate::audit::g";
            fn f<'a>(c: char) -> bool { c == '"' || c == '\'' || c == 'x' }
        "##;
        assert_eq!(paths(source), Vec::<Vec<String>>::new());
    }

    #[test]
    fn forbids_arrows_against_the_flow() {
        assert_eq!(in_src("proxy/pump.rs", "use crate::audit::Exchange;"), 1);
        assert_eq!(in_src("rules/mod.rs", "use crate::{audit, window::Window};"), 1);
        assert_eq!(
            in_src("window/pattern.rs", "fn f(schema: &crate::catalog::Schema) {}"),
            1
        );
        assert_eq!(in_src("window/mod.rs", "use super::catalog::Schema;"), 1);
        assert_eq!(
            in_src("window/pattern.rs", "use super::super::{catalog, window};"),
            1
        );
        assert_eq!(in_src("proxy/mod.rs", "use cqlens_proto::message::Request;"), 1);
        assert_eq!(in_src("proxy/topology/mod.rs", "use crate::audit::Exchange;"), 1);
        assert_eq!(in_src("rules/mod.rs", "use cqlens_proto::message::Request;"), 1);
        assert_eq!(in_src("main.rs", "fn main() { cqlens::proxy::run() }"), 1);
        assert_eq!(in_src("report/mod.rs", "use tokio::fs;"), 1);
    }

    #[test]
    fn allows_arrows_with_the_flow() {
        assert_eq!(
            in_src(
                "proxy/pump.rs",
                "use crate::capture::Tap; use cqlens_proto::cutter::Cutter;"
            ),
            0
        );
        assert_eq!(
            in_src(
                "proxy/pump.rs",
                "use super::connection::Half; use tokio::net::TcpStream;"
            ),
            0
        );
        assert_eq!(
            in_src(
                "audit/mod.rs",
                "use crate::{capture, catalog, window}; use cqlens_proto::cql;"
            ),
            0
        );
        let rewriting = "use cqlens_proto::message::Request; use crate::capture::Queue;";
        assert_eq!(in_src("proxy/topology/rewriter.rs", rewriting), 0);
        assert_eq!(
            in_src(
                "rules/read/full_scan.rs",
                "use super::super::About; use crate::window::Window;"
            ),
            0
        );
        assert_eq!(
            in_src("cli/proxy.rs", "use crate::{audit, proxy, report, rules, sink};"),
            0
        );
        assert_eq!(in_src("main.rs", "fn main() { cqlens::cli::run() }"), 0);
    }

    #[test]
    fn forbids_asking_the_clock_downstream_of_the_data_path() {
        assert_eq!(in_src("window/mod.rs", "let t = std::time::Instant::now();"), 1);
        assert_eq!(in_src("audit/mod.rs", "let t = jiff::Timestamp::now();"), 1);
        assert_eq!(
            in_src("window/mod.rs", "use std::time::Instant; fn f(at: Instant) {}"),
            0
        );
        assert_eq!(in_src("proxy/pump.rs", "let t = Instant::now();"), 0);
    }

    #[test]
    fn forbids_a_module_without_a_place() {
        assert_eq!(in_src("utils.rs", ""), 1);
        assert_eq!(in_src("rules/mod.rs", "use crate::utils::f;"), 1);
    }

    #[test]
    fn forbids_what_proto_must_not_know() {
        assert_eq!(in_proto("cutter.rs", "use tokio::io::AsyncRead;"), 1);
        assert_eq!(
            in_proto("cutter.rs", "use std::{net::TcpStream, time::Instant};"),
            2
        );
        assert_eq!(in_proto("cutter.rs", "tracing::debug!(\"cut\");"), 1);
        assert_eq!(in_proto("message/query.rs", "use crate::cql::Statement;"), 1);
        assert_eq!(in_proto("cql/mod.rs", "use super::message::Request;"), 1);
        assert_eq!(
            in_proto("cql/parse/select.rs", "use super::super::super::message;"),
            1
        );
    }

    #[test]
    fn allows_what_proto_may_know() {
        assert_eq!(in_proto("notation.rs", "use std::net::{IpAddr, Ipv4Addr};"), 0);
        assert_eq!(
            in_proto("message/query.rs", "use crate::{cursor::Cursor, types::Value};"),
            0
        );
        assert_eq!(in_proto("message/extras.rs", "if flags.tracing { tracing }"), 0);
        assert_eq!(in_proto("cql/mod.rs", "use super::error::Error;"), 0);
    }
}
