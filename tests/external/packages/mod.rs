//! What is installed with: the archive, the packages of distributions, the list of what is linked in, the container,
//! Compose and Kubernetes. Each is judged by the ecosystem's own tools, and the command lines in them by cqlens.

mod archive;
mod compose;
mod container;
mod distributions;
mod helm;
mod kubernetes;
mod kubernetes_stop;
mod linked;

use std::{
    path::{Path, PathBuf},
    process::{Command, Output},
};

use cqlens_testing::{Missing, cache, tools};

fn checkout() -> PathBuf {
    cqlens_testing::workspace()
}

fn deploy(name: &str) -> PathBuf {
    checkout().join("examples/deploy").join(name)
}

/// What a command prints that must end well.
fn printed(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The settings that cqlens understands of the arguments of a container, with which every other flag agrees.
fn understood<'argument>(arguments: impl IntoIterator<Item = &'argument str>) -> String {
    let command = &mut Command::new(env!("CARGO_BIN_EXE_cqlens"));
    printed(command.args(arguments).arg("--print-config"))
}

/// Judges files with a program of PyPI.
fn judged(package: &str, program: &str, arguments: &[&str], file: &Path) -> Result<Output, Missing> {
    let program = tools::of_python(package, program)?;
    Ok(Command::new(program).args(arguments).arg(file).output().unwrap())
}

/// What Kubernetes' own schemas say of manifests, fields that they do not have included.
fn kubernetes_agrees(file: &Path) -> Result<Output, Missing> {
    judged(
        "kubernetes-validate==1.37.0",
        "kubernetes-validate",
        &["--strict"],
        file,
    )
}

/// The documents of a file of YAML, as `kubectl` reads them.
fn documents(file: &Path) -> Result<Vec<serde_json::Value>, Missing> {
    // Something has to be changed for it to say anything.
    let mut kubectl = Command::new("kubectl");
    kubectl
        .args([
            "annotate",
            "--local",
            "--dry-run=client",
            "--output=json",
            "--filename",
        ])
        .arg(file)
        .arg("read-by=test");
    let printed = cache::run(&mut kubectl)?;
    let documents = serde_json::Deserializer::from_str(&printed).into_iter();
    Ok(documents.map(|document| document.unwrap()).collect())
}
