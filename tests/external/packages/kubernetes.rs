//! The examples for Kubernetes, as far as that can be told without a cluster: its schemas know every field of them, cqlens
//! the arguments, and no container has more rights than it needs.

use std::{fs, path::PathBuf};

use cqlens_testing::available;
use serde_json::Value;

use crate::packages::{deploy, documents, kubernetes_agrees, understood};

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
pub(crate) fn workload(name: &str) -> Option<Value> {
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
