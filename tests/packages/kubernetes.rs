//! The examples for Kubernetes, as far as that can be told without a cluster: its schemas know every field of them, cqlens
//! the arguments, and no container has more rights than it needs.

use std::{
    fs,
    os::unix::{fs::PermissionsExt, process::CommandExt},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use cqlens_testing::available;
use serde_json::Value;

use crate::{checkout, deploy, documents, kubernetes_agrees, printed, understood};

const SOON: Duration = Duration::from_secs(60);

fn manifests() -> Vec<PathBuf> {
    let folder = fs::read_dir(deploy("")).unwrap();
    let files = folder.map(|file| file.unwrap().path());
    let mut manifests: Vec<PathBuf> = files
        .filter(|file| file.extension().is_some_and(|extension| extension == "yaml"))
        .filter(|file| {
            file.file_name()
                .unwrap()
                .to_str()
                .unwrap()
                .starts_with("kubernetes-")
        })
        .collect();
    manifests.sort();
    assert!(manifests.len() >= 4, "{manifests:?}");
    manifests
}

/// What runs pods in a manifest.
fn workload(name: &str) -> Option<Value> {
    let documents = available("a manifest for Kubernetes", documents(&deploy(name)))?;
    let mut workloads = documents.into_iter();
    workloads.find(|document| document["spec"]["template"].is_object())
}

/// The arguments of a container; `$(NAME)` is what Kubernetes replaces.
pub(crate) fn arguments(container: &Value) -> Vec<String> {
    let arguments = container["args"].as_array().unwrap().iter();
    arguments
        .map(|argument| {
            let argument = argument.as_str().unwrap();
            argument
                .replace("$(POD_IP)", "10.0.0.1")
                .replace("$(POD_NAME)", "cqlens-0")
        })
        .collect()
}

pub(crate) fn container<'pod>(workload: &'pod Value, name: &str) -> &'pod Value {
    let containers = workload["spec"]["template"]["spec"]["containers"]
        .as_array()
        .unwrap();
    containers
        .iter()
        .find(|container| container["name"] == name)
        .unwrap()
}

/// The settings that cqlens understands of a container of a workload.
pub(crate) fn settings(workload: &Value) -> String {
    let arguments = arguments(container(workload, "cqlens"));
    understood(arguments.iter().map(String::as_str))
}

/// A container can write nothing but its volumes, gain no rights, and has a bound of memory.
pub(crate) fn assert_confined(container: &Value) {
    let name = container["name"].as_str().unwrap();
    let security = &container["securityContext"];
    assert_eq!(security["allowPrivilegeEscalation"], false, "{name}");
    assert_eq!(security["readOnlyRootFilesystem"], true, "{name}");
    assert_eq!(security["capabilities"]["drop"][0], "ALL", "{name}");
    assert!(container["resources"]["limits"]["memory"].is_string(), "{name}");
    let text = container.to_string();
    for installs in ["apt", "apk", "pip", "curl", "wget", ":latest"] {
        assert!(!text.contains(installs), "{name}: {installs}");
    }
}

/// What a probe asks is what the admin listener has, at the port where it listens.
pub(crate) fn assert_probed(container: &Value) {
    for (probe, path) in [("livenessProbe", "/livez"), ("readinessProbe", "/readyz")] {
        let asks = &container[probe]["httpGet"];
        assert_eq!(asks["path"], path);
        assert_eq!(asks["port"], "admin");
    }
    let ports = container["ports"].as_array().unwrap();
    let admin = ports.iter().find(|port| port["name"] == "admin").unwrap();
    assert_eq!(admin["containerPort"], 9143);
}

#[test]
fn kubernetes_knows_every_field_of_the_manifests() {
    for file in manifests() {
        let Some(said) = available("the schemas of Kubernetes", kubernetes_agrees(&file)) else {
            return;
        };
        assert!(said.status.success(), "{}: {said:?}", file.display());
    }
    let folder = tempfile::tempdir().unwrap();
    let wrong = folder.path().join("wrong.yaml");
    let text = fs::read_to_string(deploy("kubernetes-deployment.yaml")).unwrap();
    fs::write(
        &wrong,
        text.replace("readOnlyRootFilesystem", "readOnlyRootFileSystem"),
    )
    .unwrap();
    let said = kubernetes_agrees(&wrong).unwrap();
    assert!(!said.status.success(), "{said:?}");
}

#[test]
fn the_sidecar_takes_over_the_port_of_its_pod() {
    let Some(workload) = workload("kubernetes-sidecar.yaml") else {
        return;
    };
    let settings = settings(&workload);
    for line in [
        "keep-bytes = \"512MiB\"",
        "hash-key-file = \"/etc/cqlens/hash.key\"",
        "transparent = true",
        r#"listen = "[::]:9142""#,
        r#"upstream = "10.0.0.1:9042""#,
    ] {
        assert!(settings.contains(line), "{line}\n{settings}");
    }
}

/// Neither what runs beside Cassandra nor what it writes can cost Cassandra its pod.
#[test]
fn the_sidecar_is_confined_and_its_snapshots_evict_nothing() {
    let Some(workload) = workload("kubernetes-sidecar.yaml") else {
        return;
    };
    let pod = &workload["spec"]["template"]["spec"];
    let ours = [&pod["initContainers"][0], container(&workload, "cqlens")];
    for container in ours {
        assert_confined(container);
        assert_eq!(
            container["securityContext"]["seccompProfile"]["type"],
            "RuntimeDefault"
        );
        // The kubelet evicts the whole pod for it.
        let storage = &container["resources"]["limits"]["ephemeral-storage"];
        assert!(storage.is_null(), "{storage}");
    }
    assert_eq!(ours[0]["name"], "redirect");
    assert_eq!(ours[1]["securityContext"]["runAsNonRoot"], true);

    let volumes = pod["volumes"].as_array().unwrap();
    let emptied = volumes.iter().find(|volume| !volume["emptyDir"].is_null());
    assert!(emptied.is_none(), "{emptied:?}");
    let claim = &volumes[0]["ephemeral"]["volumeClaimTemplate"]["spec"];
    // Twice what `--keep-bytes` says.
    assert_eq!(claim["resources"]["requests"]["storage"], "1Gi");
}

#[test]
fn the_deployment_writes_to_the_store_and_lets_connections_end() {
    let Some(workload) = workload("kubernetes-deployment.yaml") else {
        return;
    };
    let settings = settings(&workload);
    for line in [
        r#"name = "cqlens-0""#,
        r#"sink = "s3://reviews/cqlens""#,
        r#"sink-spool = "/var/lib/cqlens/spool""#,
        r#"drain-delay = "5s""#,
        r#"grace = "20s""#,
    ] {
        assert!(settings.contains(line), "{line}\n{settings}");
    }
    let pod = &workload["spec"]["template"]["spec"];
    // More than drain-delay and grace together.
    assert!(pod["terminationGracePeriodSeconds"].as_u64().unwrap() > 25);
    assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
    assert_eq!(pod["securityContext"]["seccompProfile"]["type"], "RuntimeDefault");
    let container = container(&workload, "cqlens");
    assert_confined(container);
    assert_probed(container);
}

/// All rights but the one to see packets are dropped.
#[test]
fn captures_on_every_node_see_packets_and_nothing_else() {
    let Some(workload) = workload("kubernetes-daemonset.yaml") else {
        return;
    };
    assert_eq!(workload["kind"], "DaemonSet");
    assert_eq!(workload["spec"]["template"]["spec"]["hostNetwork"], true);
    let container = container(&workload, "cqlens");
    assert_confined(container);
    let security = &container["securityContext"];
    assert_eq!(security["capabilities"]["add"], serde_json::json!(["NET_RAW"]));
    assert_eq!(security["seccompProfile"]["type"], "RuntimeDefault");
}

/// A pod that has to go writes its last window: the shell hands the order on, which it would not do by itself.
#[cfg(feature = "fleet")]
#[test]
fn captures_write_their_last_window_when_the_pod_goes() {
    let Some(workload) = workload("kubernetes-daemonset.yaml") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let here = folder.path().display().to_string();
    let script = container(&workload, "cqlens")["command"][2]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(script.contains("-w - \"tcp port 9042\""), "{script}");
    let script = script
        .replace("s3://reviews", &format!("file://{here}"))
        .replace("/var/lib/cqlens", &here)
        .replace("/etc/cqlens/hash.key", &format!("{here}/hash.key"));
    fs::write(path("hash.key"), "0123456789abcdef0123456789abcdef").unwrap();

    // Packets of a driver, and then nothing for a long time.
    let capture = checkout().join("tests/sniff/captures/python-v4-none.pcap");
    let tcpdump = format!(
        "#!/bin/sh\ncat '{}'\n: >'{here}/seen'\nexec sleep 300\n",
        capture.display()
    );
    fs::write(path("tcpdump"), tcpdump).unwrap();
    fs::set_permissions(path("tcpdump"), fs::Permissions::from_mode(0o755)).unwrap();
    let programs = Path::new(env!("CARGO_BIN_EXE_cqlens"))
        .parent()
        .unwrap()
        .display();
    let mut shell = Command::new("sh")
        .args(["-c", &script])
        .env("PATH", format!("{here}:{programs}:{}", std::env::var("PATH").unwrap()))
        .env("NODE_NAME", "node-1")
        // In a container, the shell and its children are a group of their own.
        .process_group(0)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    while !path("seen").exists() {
        assert!(begun.elapsed() < SOON, "no packet was read");
        std::thread::sleep(Duration::from_millis(20));
    }
    let id = shell.id().to_string();
    printed(Command::new("kill").args(["-TERM", &id]));
    let begun = Instant::now();
    while shell.try_wait().unwrap().is_none() {
        if begun.elapsed() > SOON {
            printed(Command::new("kill").args(["-KILL", "--", &format!("-{id}")]));
            panic!("the order to stop was not passed on");
        }
        std::thread::sleep(Duration::from_millis(20));
    }

    let store = format!("file://{here}/cqlens");
    let mut report = Command::new(env!("CARGO_BIN_EXE_cqlens"));
    report.args([
        "report",
        "--from",
        &store,
        "--since",
        "2000-01-01",
        "--format",
        "json",
    ]);
    let report: Value = serde_json::from_str(&printed(&mut report)).unwrap();
    assert!(
        report["coverage"]["audited"].as_u64().unwrap() > 0,
        "{}",
        report["coverage"]
    );
}
