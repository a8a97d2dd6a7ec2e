//! What manifests cannot say of the structure: which modules may name which, inside the crates, and that no name
//! stands for two types of one crate, and that one build serves the tests of the workspace and those of one package.
//!
//! Manifests keep the crates apart; this reads the paths in the source (`use` trees and paths in code) and
//! compares them with the tables below. Paths inside the arguments of macros escape it.
use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use syn::visit::{self, Visit};

/// What the modules of a crate's root may name: other modules of their root, or parts of other crates of the
/// workspace.
struct Arrows {
    /// Where the crate's source is.
    root: &'static str,
    /// What every module may name.
    all: &'static [&'static str],
    /// A module, and what it may name besides.
    modules: &'static [(&'static str, &'static [&'static str])],
    /// What the modules that are not named above may name of those that are. None: they have no place in the picture
    /// yet.
    rest: Option<&'static [&'static str]>,
}

const ARROWS: &[Arrows] = &[
    Arrows {
        root: "src",
        all: &[],
        modules: &[
            (
                "cli",
                &[
                    "control",
                    "in_process",
                    "metrics",
                    "sink",
                    "cqlens_proto",
                    "cqlens_cql",
                    "cqlens_audit",
                    "cqlens_capture",
                    "cqlens_window",
                    "cqlens_rules",
                    "cqlens_report",
                    "cqlens_admin",
                    "cqlens_client",
                    "cqlens_fleet",
                    "cqlens_node",
                    "cqlens_otlp",
                    "cqlens_parquet",
                    "cqlens_proxy",
                    "cqlens_rehearse",
                    "cqlens_sniff",
                    "cqlens_top",
                ],
            ),
            (
                "control",
                &[
                    "cqlens_proxy::throttle",
                    "cqlens_audit",
                    // Of captures nothing but their clock: how long nodes disagree.
                    "cqlens_capture",
                    "cqlens_client",
                    "cqlens_cql::Product",
                    "cqlens_cql::schema",
                    "cqlens_proto",
                ],
            ),
            (
                "in_process",
                &[
                    "control",
                    "cqlens_audit",
                    "cqlens_capture",
                    "cqlens_window",
                    "cqlens_rules",
                    "cqlens_report",
                    "cqlens_client",
                    "cqlens_cql",
                    "cqlens_proxy",
                ],
            ),
            (
                "metrics",
                &[
                    "cqlens_admin",
                    // Another form of the same numbers.
                    "cqlens_otlp",
                    // How much waits for a sink.
                    "sink",
                    // Of captures nothing but names and counts.
                    "cqlens_capture",
                    "cqlens_cql::plan",
                    "cqlens_rules",
                    "cqlens_report::text",
                    "cqlens_window",
                ],
            ),
            (
                "sink",
                &[
                    "cqlens_capture::memory",
                    "cqlens_report",
                    "cqlens_rules",
                    "cqlens_window",
                    "cqlens_cql",
                    // Where windows go that leave this machine.
                    "cqlens_fleet",
                ],
            ),
        ],
        rest: None,
    },
    // Cut, don't decode: the data path knows where envelopes end and nothing of what they say.
    Arrows {
        root: "crates/proxy/src",
        all: &[
            "cqlens_capture",
            "cqlens_proto::cutter",
            "cqlens_proto::envelope",
            "cqlens_proto::segment",
        ],
        modules: &[
            // The one place in the data path that reads what envelopes say, where the operator asks for other
            // addresses.
            (
                "topology",
                &["timers", "throttle", "cqlens_proto", "cqlens_cql::syntax"],
            ),
            // The client leaves TLS to the owner of the certificates.
            ("tls", &["timers", "files", "cqlens_client"]),
            ("throttle", &["timers"]),
            ("timers", &[]),
            ("files", &[]),
        ],
        rest: Some(&["topology", "tls", "throttle", "timers"]),
    },
    Arrows {
        root: "crates/audit/src",
        all: &["cqlens_cql", "cqlens_proto"],
        modules: &[
            ("catalog", &["cqlens_capture::memory"]),
            ("audit", &["catalog", "cqlens_capture", "cqlens_window"]),
        ],
        rest: None,
    },
    // The two do not know each other.
    Arrows {
        root: "crates/cql/src",
        all: &["cqlens_proto"],
        modules: &[
            ("syntax", &[]),
            ("murmur3", &[]),
            ("product", &[]),
            ("server_version", &[]),
            ("schema", &["syntax"]),
            ("footprint", &["murmur3", "schema"]),
            ("cells", &["schema"]),
            ("plan", &["syntax", "schema", "footprint", "cells", "murmur3"]),
        ],
        rest: None,
    },
];

/// Time is a parameter for all others.
const MAY_ASK_THE_CLOCK: &[&str] = &[
    "src/cli",
    "src/in_process",
    // It waits for the end of an hour, and after failures.
    "src/sink/spool",
    "crates/proxy/src",
    "crates/capture/src",
    "crates/node/src",
    "crates/rehearse/src/rehearsal",
    "crates/rehearse/src/recording/recorder.rs",
    "crates/rehearse/src/replay",
    "crates/rehearse/src/shadow.rs",
    "crates/rehearse/src/target",
    "crates/testing/src",
];

/// The roots of crates that touch neither sockets nor files nor processes.
const WITHOUT_IO: &[&str] = &[
    "proto/src",
    "crates/cql/src",
    "crates/capture/src",
    "crates/window/src",
    "crates/audit/src",
    "crates/rules/src",
    "crates/report/src",
];
const IO: &[&str] = &[
    "std::net::TcpStream",
    "std::net::TcpListener",
    "std::net::UdpSocket",
    "std::fs",
    "std::env",
    "std::process",
    "std::os",
    "tokio::net",
    "tokio::fs",
    "tokio::process",
];

#[test]
fn arrows_between_modules_go_one_way() {
    let mut violations = Vec::new();
    for arrows in ARROWS {
        for (file, module) in sources(arrows.root) {
            let Some(top) = module.first() else { continue };
            if top == "main" {
                continue;
            }
            let allowed = arrows.of(&module);
            let Some(allowed) = allowed else {
                violations.push(format!(
                    "{file}: `{top}` has no place in the picture: give it arrows here"
                ));
                continue;
            };
            let paths = paths_in(&file).into_iter();
            let strange = paths.filter(|path| arrows.is_forbidden(&module, &allowed, path));
            violations.extend(strange.map(|path| format!("{file}: {top} -> {}", path.join("::"))));
        }
    }
    assert!(violations.is_empty(), "\n{}", violations.join("\n"));
}

#[test]
fn time_is_a_parameter() {
    let roots = ["src", "proto/src", "crates"];
    let files = roots.iter().flat_map(|root| sources(root)).map(|(file, _)| file);
    let files = files.filter(|file| !MAY_ASK_THE_CLOCK.iter().any(|may| file.contains(may)));
    let asking: Vec<String> = files
        .filter(|file| paths_in(file).iter().any(|path| asks_the_clock(path)))
        .collect();
    assert!(asking.is_empty(), "{asking:#?}");
}

#[test]
fn what_only_computes_has_no_sockets_files_or_processes() {
    let files = WITHOUT_IO.iter().flat_map(|root| sources(root));
    let violations: Vec<String> = files
        .flat_map(|(file, _)| {
            let paths = paths_in(&file).into_iter().map(|path| path.join("::"));
            let io = paths.filter(|path| {
                IO.iter()
                    .any(|io| path == io || path.starts_with(&format!("{io}::")))
            });
            io.map(|path| format!("{file}: {path}")).collect::<Vec<_>>()
        })
        .collect();
    assert!(violations.is_empty(), "\n{}", violations.join("\n"));
}

/// The arguments of each command are its module's `Args`, and always named with it: `report::Args`.
const SHARED_NAMES: &[&str] = &["Args"];

#[test]
fn no_two_types_of_a_crate_share_a_name() {
    let mut shared = Vec::new();
    for root in crate_roots() {
        let files: Vec<(String, Vec<String>, Declared)> = sources(&root)
            .into_iter()
            .map(|(file, module)| {
                let declared = types_in(&std::fs::read_to_string(&file).unwrap());
                (file, module, declared)
            })
            .collect();
        let of_file = |(_, module, declared): &(String, Vec<String>, Declared)| -> Vec<Vec<String>> {
            let names = declared.test_modules.iter();
            names
                .map(|name| [module.as_slice(), std::slice::from_ref(name)].concat())
                .collect()
        };
        let tests: Vec<Vec<String>> = files.iter().flat_map(of_file).collect();
        let is_test = |module: &[String]| tests.iter().any(|tests| module.starts_with(tests));
        let mut types: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (file, _, declared) in files.iter().filter(|(_, module, _)| !is_test(module)) {
            for name in &declared.types {
                types.entry(name).or_default().push(file);
            }
        }
        types.retain(|name, of| of.len() > 1 && !SHARED_NAMES.contains(name));
        shared.extend(types.iter().map(|(name, of)| format!("{root}: {name} in {of:?}")));
    }
    assert!(shared.is_empty(), "\n{}", shared.join("\n"));
}

/// Cargo joins the features of all packages that it builds. Where a crate's tests ask for features that the root's tests do not
/// ask for, `cargo test --workspace` and `cargo test --test cassandra` build that crate twice, and all that depend on it.
#[test]
fn tests_of_the_root_have_the_features_that_tests_of_crates_ask_for() {
    let of_root = features_for_tests("Cargo.toml");
    let folders = crate_roots()
        .into_iter()
        .filter_map(|root| Some(root.strip_suffix("/src")?.to_owned()));
    let missing: Vec<String> = folders
        .map(|folder| format!("{folder}/Cargo.toml"))
        .flat_map(|manifest| {
            let missing = &features_for_tests(&manifest) - &of_root;
            missing
                .into_iter()
                .map(move |feature| format!("{manifest}: {feature}"))
        })
        .collect();
    assert!(
        missing.is_empty(),
        "not in the root's dev-dependencies:\n{}",
        missing.join("\n")
    );
}

/// The features of our own crates, such as `cqlens-rules/testing`, among the dev-dependencies of a manifest.
fn features_for_tests(manifest: &str) -> BTreeSet<String> {
    let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(manifest)).unwrap();
    let manifest: toml::Table = text.parse().unwrap();
    let dependencies = manifest.get("dev-dependencies").and_then(toml::Value::as_table);
    let ours = dependencies
        .into_iter()
        .flatten()
        .filter(|(name, _)| name.starts_with("cqlens-"));
    ours.flat_map(|(name, dependency)| {
        let features = dependency.get("features").and_then(toml::Value::as_array);
        let features = features.into_iter().flatten().filter_map(toml::Value::as_str);
        features.map(move |feature| format!("{name}/{feature}"))
    })
    .collect()
}

/// The sources of all crates, such as `crates/audit/src`.
fn crate_roots() -> Vec<String> {
    let crates = std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("crates")).unwrap();
    let mut roots: Vec<String> = crates
        .map(|entry| format!("crates/{}/src", entry.unwrap().file_name().to_string_lossy()))
        .collect();
    roots.extend(["src", "proto/src"].map(str::to_owned));
    roots
}

/// The types that a file declares but for its tests, and the modules of tests that are files of their own.
#[derive(Default)]
struct Declared {
    types: Vec<String>,
    test_modules: Vec<String>,
}

fn types_in(source: &str) -> Declared {
    let mut found = Declared::default();
    found.visit_file(&syn::parse_file(source).unwrap());
    found
}

fn is_for_tests(attributes: &[syn::Attribute]) -> bool {
    let is_test = |attribute: &syn::Attribute| {
        attribute.path().is_ident("cfg")
            && attribute
                .parse_args::<syn::Path>()
                .is_ok_and(|path| path.is_ident("test"))
    };
    attributes.iter().any(is_test)
}

impl<'ast> Visit<'ast> for Declared {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        match (is_for_tests(&item.attrs), &item.content) {
            (true, None) => self.test_modules.push(item.ident.to_string()),
            (true, Some(_)) => {}
            (false, _) => visit::visit_item_mod(self, item),
        }
    }

    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        self.types.push(item.ident.to_string());
    }

    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        self.types.push(item.ident.to_string());
    }

    fn visit_item_union(&mut self, item: &'ast syn::ItemUnion) {
        self.types.push(item.ident.to_string());
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        self.types.push(item.ident.to_string());
    }

    fn visit_item_type(&mut self, item: &'ast syn::ItemType) {
        self.types.push(item.ident.to_string());
    }
}

impl Arrows {
    /// What a module may name, if it has a place in the picture.
    fn of(&self, module: &[String]) -> Option<Vec<&'static str>> {
        let below = |name: &str| {
            let parts: Vec<&str> = name.split("::").collect();
            parts.len() <= module.len() && parts.iter().zip(module).all(|(part, own)| part == own)
        };
        let mut places = self.modules.iter().filter(|(name, _)| below(name)).peekable();
        let rest = match places.peek() {
            Some(_) => &[],
            None => self.rest?,
        };
        let more = places.flat_map(|(_, allowed)| allowed.iter()).chain(rest);
        Some(self.all.iter().chain(more).copied().collect())
    }

    fn is_forbidden(&self, module: &[String], allowed: &[&str], path: &[String]) -> bool {
        let supers = path.iter().take_while(|segment| *segment == "super").count();
        let target = match path[0].as_str() {
            "crate" | "cqlens" => path[1..].to_vec(),
            // A module inside the file needs one `super` more: what is not a module of the root is inside.
            "super" if supers >= module.len() => path[supers..].to_vec(),
            crate_name if crate_name.starts_with("cqlens_") => path.to_vec(),
            _ => return false,
        };
        let Some(first) = target.first() else { return false };
        let is_foreign = first.starts_with("cqlens_");
        if !is_foreign && (*first == module[0] || !self.modules.iter().any(|(name, _)| name == first)) {
            return false;
        }
        let two = format!("{first}::{}", target.get(1).map_or("", String::as_str));
        !allowed.contains(&first.as_str()) && !allowed.contains(&two.as_str())
    }
}

fn asks_the_clock(path: &[String]) -> bool {
    let [.., clock, call] = path else { return false };
    call == "now" && ["Instant", "SystemTime", "Timestamp", "Zoned"].contains(&clock.as_str())
}

/// The source files below a folder of the workspace, with where they stand in their crate, such as `[audit,
/// exchange]`.
fn sources(root: &str) -> Vec<(String, Vec<String>)> {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    rust_files(&workspace.join(root), &mut files);
    assert!(files.len() > 1, "there is source below {root}");
    let module = |file: &Path| {
        let relative = file
            .strip_prefix(workspace.join(root))
            .unwrap()
            .with_extension("");
        let mut path: Vec<String> = relative
            .iter()
            .map(|part| part.to_string_lossy().into_owned())
            .collect();
        if path.last().is_some_and(|last| last == "mod" || last == "lib") {
            path.pop();
        }
        path
    };
    let all = files
        .iter()
        .map(|file| (file.display().to_string(), module(file)));
    all.collect()
}

fn rust_files(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && path.file_name().is_some_and(|name| name != "tests") {
            rust_files(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files.sort();
}

/// Every path of two or more segments in a file, the branches of `use` trees one by one.
fn paths_in(file: &str) -> Vec<Vec<String>> {
    paths(&std::fs::read_to_string(file).unwrap())
}

fn paths(source: &str) -> Vec<Vec<String>> {
    let mut found = Paths(Vec::new());
    found.visit_file(&syn::parse_file(source).unwrap());
    found.0.retain(|path| path.len() > 1);
    found.0
}

struct Paths(Vec<Vec<String>>);

impl<'ast> Visit<'ast> for Paths {
    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.0.push(
            path.segments
                .iter()
                .map(|segment| segment.ident.to_string())
                .collect(),
        );
        visit::visit_path(self, path);
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.tree(&item.tree, &[]);
    }
}

impl Paths {
    fn tree(&mut self, tree: &syn::UseTree, prefix: &[String]) {
        let with = |name: &syn::Ident| [prefix, &[name.to_string()]].concat();
        match tree {
            syn::UseTree::Path(path) => self.tree(&path.tree, &with(&path.ident)),
            syn::UseTree::Name(name) => self.0.push(with(&name.ident)),
            syn::UseTree::Rename(renamed) => self.0.push(with(&renamed.ident)),
            syn::UseTree::Glob(_) => self.0.push(prefix.to_vec()),
            syn::UseTree::Group(group) => group.items.iter().for_each(|tree| self.tree(tree, prefix)),
        }
    }
}

mod the_checker {
    use super::{ARROWS, Arrows, asks_the_clock, paths, types_in};

    fn violations(root: &str, module: &str, source: &str) -> usize {
        let is_root = |arrows: &&Arrows| arrows.root == root;
        let arrows = ARROWS.iter().find(is_root).unwrap();
        let module: Vec<String> = module.split("::").map(str::to_owned).collect();
        let allowed = arrows.of(&module).unwrap();
        let paths = paths(source);
        paths
            .iter()
            .filter(|path| arrows.is_forbidden(&module, &allowed, path))
            .count()
    }

    #[test]
    fn reads_use_trees_and_paths_in_code() {
        let found = paths("use crate::{a::B, c::{self, d as e}}; fn f() -> x::Y { crate::g::h::<u8>() }");
        let written: Vec<String> = found.iter().map(|path| path.join("::")).collect();
        let expected = [
            "crate::a::B",
            "crate::c::self",
            "crate::c::d",
            "x::Y",
            "crate::g::h",
        ];
        assert_eq!(written, expected);
    }

    #[test]
    fn forbids_arrows_against_the_flow() {
        assert_eq!(
            violations("crates/proxy/src", "pump", "use cqlens_audit::audit::Exchange;"),
            1
        );
        assert_eq!(
            violations(
                "crates/proxy/src",
                "accept",
                "use cqlens_proto::message::Request;"
            ),
            1
        );
        assert_eq!(
            violations("crates/proxy/src", "topology", "use cqlens_audit::audit::Audit;"),
            1
        );
        assert_eq!(violations("src", "sink", "use cqlens_proxy::Proxy;"), 1);
        assert_eq!(
            violations("crates/proxy/src", "tls", "use crate::topology::Addresses;"),
            1
        );
        let audit = "crates/audit/src";
        assert_eq!(
            violations(audit, "catalog", "use crate::{audit, catalog::Live};"),
            1
        );
        assert_eq!(
            violations(audit, "catalog", "fn f(window: &cqlens_window::Window) {}"),
            1
        );
        assert_eq!(
            violations(audit, "catalog::live", "use super::super::{audit, catalog};"),
            1
        );
        assert_eq!(
            violations("crates/cql/src", "syntax", "use crate::schema::Schema;"),
            1
        );
    }

    #[test]
    fn allows_arrows_with_the_flow() {
        let pump = "use cqlens_capture::Tap; use cqlens_proto::cutter::Cutter; use super::connection::Half;";
        assert_eq!(violations("crates/proxy/src", "pump", pump), 0);
        assert_eq!(
            violations(
                "crates/proxy/src",
                "topology",
                "use cqlens_proto::message::Request;"
            ),
            0
        );
        let count = "use super::super::Audit; use cqlens_window::Window; use crate::catalog::Live;";
        assert_eq!(violations("crates/audit/src", "audit::count", count), 0);
    }

    #[test]
    fn knows_who_asks_the_clock() {
        let asks = |source: &str| paths(source).iter().any(|path| asks_the_clock(path));
        assert!(asks("fn f() { let t = std::time::Instant::now(); }"));
        assert!(!asks("use std::time::Instant; fn f(at: Instant) {}"));
    }

    #[test]
    fn a_module_without_a_place_has_no_arrows() {
        assert!(ARROWS[0].of(&["utils".to_owned()]).is_none());
    }
    #[test]
    fn types_are_seen_and_those_of_tests_are_not() {
        let source = "
            struct One; enum Two {} trait Three { type Item; } type Four = One;
            fn five() { struct Five; }
            #[cfg(test)] mod tests { struct Six; }
            #[cfg(test)] mod seven;
            #[cfg(feature = \"demo\")] mod eight { struct Eight; }";
        let declared = types_in(source);
        assert_eq!(declared.types, ["One", "Two", "Three", "Four", "Five", "Eight"]);
        assert_eq!(declared.test_modules, ["seven"]);
    }
}
