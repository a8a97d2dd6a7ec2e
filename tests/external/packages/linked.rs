//! The list of what is linked in (SBOM), made by a tool of cargo.

use std::fs;

use cqlens_testing::{available, tools};
use serde_json::Value;

use crate::packages::archive::script;

#[test]
fn it_names_every_library_with_version_and_licence_and_no_path() {
    let tool = tools::of_cargo("cargo-cyclonedx@0.5.9");
    let Some(tool) = available("the list of what is linked in", tool) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let path = format!(
        "{}:{}",
        tool.parent().unwrap().display(),
        std::env::var("PATH").unwrap()
    );
    let made = script("sbom.sh", &[], folder.path(), &path);
    let text = fs::read_to_string(made.trim()).unwrap();
    let checkout = crate::packages::checkout().display().to_string();
    assert!(!text.contains(&checkout), "it names a folder of this machine");
    let list: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(list["bomFormat"], "CycloneDX");
    assert_eq!(
        list["metadata"]["component"]["version"],
        env!("CARGO_PKG_VERSION")
    );
    let components = list["components"].as_array().unwrap();
    assert!(components.len() > 200, "{}", components.len());
    for component in components {
        let name = &component["name"];
        assert!(
            component["version"].is_string() && component["licenses"].is_array(),
            "{name}"
        );
    }
    for linked in ["tokio", "rustls", "object_store", "ratatui"] {
        assert!(
            components.iter().any(|component| component["name"] == linked),
            "{linked}"
        );
    }
    for unlinked in ["insta", "criterion", "windows-sys"] {
        assert!(
            !components.iter().any(|component| component["name"] == unlinked),
            "{unlinked}"
        );
    }
}
