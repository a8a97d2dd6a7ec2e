//! Programs that tests check their files with, each built or installed once into the cache.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use super::{Missing, cache};

/// The program of a Go module, such as `example.com/tool/cmd/tool@v1.2.3`.
///
/// # Errors
/// [`Missing`] where there is no `go`, or no network.
pub fn of_go(module: &str) -> Result<PathBuf, Missing> {
    let (path, _version) = module.split_once('@').unwrap();
    let name = path.rsplit('/').next().unwrap();
    let folder = cache::folder(&format!("tool-{name}"), module, |folder| {
        let mut install = Command::new("go");
        install.args(["install", module]).env("GOBIN", folder);
        cache::download(&mut install).map(drop)
    })?;
    Ok(folder.join(name))
}

/// A program out of a folder of a Go module in the checkout, with the files for a build tag. `name` is that of its folder in the cache.
///
/// # Errors
/// [`Missing`] where there is no `go`, or no network.
pub fn of_go_source(name: &str, module: &Path, folder: &str, tag: &str) -> Result<PathBuf, Missing> {
    let built = cache::folder(name, &(go_recipe(module, folder) + tag), |built| {
        let mut modules = Command::new("go");
        cache::download(modules.args(["mod", "download"]).current_dir(module))?;
        let mut build = Command::new("go");
        build
            .args(["build", "-tags", tag, "-o"])
            .arg(built.join("program"))
            .arg(format!("./{folder}"))
            .current_dir(module);
        cache::run(&mut build).map(drop)
    })?;
    Ok(built.join("program"))
}

/// All that the program is built from.
fn go_recipe(source: &Path, program: &str) -> String {
    let folder = std::fs::read_dir(source.join(program)).unwrap();
    let mut files: Vec<PathBuf> = folder.map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "go"));
    files.sort();
    let modules = ["go.mod", "go.sum"].map(|file| source.join(file));
    let read = |file: &PathBuf| std::fs::read_to_string(file).unwrap();
    modules.iter().chain(&files).map(read).collect()
}

/// A program of a package on PyPI, such as `tool` of `tool==1.2.3`.
///
/// # Errors
/// [`Missing`] where there is no `python3`, or no network.
pub fn of_python(package: &str, program: &str) -> Result<PathBuf, Missing> {
    let (name, _version) = package.split_once("==").unwrap();
    let folder = cache::folder(&format!("tool-{name}"), package, |folder| {
        cache::run(Command::new("python3").args(["-m", "venv"]).arg(folder))?;
        let mut pip = Command::new(folder.join("bin/pip"));
        pip.args(["install", "--no-input", "--quiet", package]);
        cache::download(&mut pip).map(drop)
    })?;
    Ok(folder.join("bin").join(program))
}

/// A program of cargo out of its package, such as `cargo-tool@1.2.3`: as a debug build, which takes half the time.
///
/// # Errors
/// [`Missing`] where there is no network.
pub fn of_cargo(package: &str) -> Result<PathBuf, Missing> {
    let (name, _version) = package.split_once('@').unwrap();
    let folder = cache::folder(&format!("tool-{name}"), package, |folder| {
        let mut install = Command::new("cargo");
        install
            .args(["install", package, "--locked", "--quiet", "--debug", "--root"])
            .arg(folder);
        // What this build is built with is none of its business.
        install
            .env("CARGO_PROFILE_DEV_DEBUG", "0")
            .env("CARGO_TARGET_DIR", folder.join("build"));
        cache::download(&mut install).map(drop)?;
        std::fs::remove_dir_all(folder.join("build")).unwrap();
        Ok(())
    })?;
    Ok(folder.join("bin").join(name))
}

/// A program of a package on npm, such as `tool` of `tool@1.2.3`.
///
/// # Errors
/// [`Missing`] where there is no `npm`, or no network.
pub fn of_npm(package: &str, program: &str) -> Result<PathBuf, Missing> {
    let (name, _version) = package.split_once('@').unwrap();
    let folder = cache::folder(&format!("tool-{name}"), package, |folder| {
        let mut install = Command::new("npm");
        install.args(["install", "--no-audit", "--no-fund", "--silent", "--prefix"]);
        cache::download(install.arg(folder).arg(package)).map(drop)
    })?;
    Ok(folder.join("node_modules/.bin").join(program))
}
