//! The example for Kubernetes, as far as that can be told without a cluster: `kubectl` knows every field and
//! type of it, and cqlens the arguments.

use std::{fs, process::Command};

use serde_json::Value;

use crate::{
    settings::printed,
    support::{Missing, available},
};

const SIDECAR: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/examples/deploy/kubernetes-sidecar.yaml"
);

/// The manifest as `kubectl` understands it.
fn manifest() -> Result<Value, Missing> {
    // Something has to be changed for it to say anything.
    let understood = Command::new("kubectl")
        .args(["set", "image", "--local", "--dry-run=client", "--output=json"])
        .args(["--filename", SIDECAR, "cassandra=another"])
        .output();
    let output = understood.map_err(|error| Missing(format!("`kubectl`: {error}")))?;
    assert!(output.status.success(), "{output:?}");
    Ok(serde_json::from_slice(&output.stdout).unwrap())
}

/// The names of all fields in a text of YAML.
fn fields(text: &str) -> Vec<&str> {
    let lines = text.lines().filter(|line| !line.trim_start().starts_with('#'));
    lines
        .flat_map(|line| line.split([' ', '{', ',']))
        .filter_map(|word| word.strip_suffix(':'))
        .filter(|name| !name.is_empty() && name.chars().all(char::is_alphanumeric))
        .collect()
}

#[test]
fn the_sidecar_is_understood_by_kubernetes_and_by_cqlens() {
    let Some(manifest) = available("a manifest for Kubernetes", manifest()) else {
        return;
    };
    let understood = manifest.to_string();
    let text = fs::read_to_string(SIDECAR).unwrap();
    let fields = fields(&text);
    assert!(fields.len() > 50, "{fields:?}");
    for field in &fields {
        // What it does not know where it is it leaves out.
        let written = fields.iter().filter(|other| *other == field).count();
        let kept = understood.matches(&format!("\"{field}\":")).count();
        assert!(
            kept >= written,
            "Kubernetes knows no {field} somewhere\n{manifest:#}"
        );
    }

    let mut containers = manifest["spec"]["template"]["spec"]["containers"]
        .as_array()
        .unwrap()
        .iter();
    let sidecar = containers
        .find(|container| container["name"] == "cqlens")
        .unwrap();
    let mut arguments: Vec<String> = sidecar["args"]
        .as_array()
        .unwrap()
        .iter()
        .map(|argument| argument.as_str().unwrap().replace("$(POD_IP)", "10.0.0.1"))
        .collect();
    arguments.push("--print-config".to_owned());
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let settings = printed(&arguments, &[]);
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
    let Some(manifest) = available("a manifest for Kubernetes", manifest()) else {
        return;
    };
    let pod = &manifest["spec"]["template"]["spec"];
    let containers = ["initContainers", "containers"].map(|kind| pod[kind].as_array().unwrap());
    let ours = containers
        .into_iter()
        .flatten()
        .filter(|container| container["name"] != "cassandra");
    let mut names = Vec::new();
    for container in ours {
        let name = container["name"].as_str().unwrap();
        names.push(name);
        let security = &container["securityContext"];
        assert_eq!(security["allowPrivilegeEscalation"], false, "{name}");
        assert_eq!(security["readOnlyRootFilesystem"], true, "{name}");
        assert_eq!(security["capabilities"]["drop"][0], "ALL", "{name}");
        assert_eq!(security["seccompProfile"]["type"], "RuntimeDefault", "{name}");
        assert!(container["resources"]["limits"]["memory"].is_string(), "{name}");
        // The kubelet evicts the whole pod for it.
        assert!(
            container["resources"]["limits"]["ephemeral-storage"].is_null(),
            "{name}"
        );
        let does = container.to_string();
        for installs in ["apt", "apk", "pip", "curl", "wget", ":latest"] {
            assert!(!does.contains(installs), "{name}: {installs}");
        }
    }
    assert_eq!(names, ["redirect", "cqlens"]);
    let sidecar = containers[1]
        .iter()
        .find(|container| container["name"] == "cqlens");
    assert_eq!(sidecar.unwrap()["securityContext"]["runAsNonRoot"], true);

    let volumes = pod["volumes"].as_array().unwrap();
    assert!(
        volumes.iter().all(|volume| volume["emptyDir"].is_null()),
        "{volumes:?}"
    );
    let claim = &volumes[0]["ephemeral"]["volumeClaimTemplate"]["spec"];
    // Twice what `--keep-bytes` says.
    assert_eq!(claim["resources"]["requests"]["storage"], "1Gi");
}
