//! The chart: Helm's own linter, Kubernetes' schemas and cqlens judge what it renders.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use cqlens_testing::{available, tools};
use serde_json::Value;

use crate::packages::{
    checkout, documents,
    kubernetes::{assert_confined, assert_probed, container},
    kubernetes_agrees, understood,
};

const MODULE: &str = "helm.sh/helm/v3/cmd/helm@v3.19.2";

struct Helm {
    program: PathBuf,
    folder: tempfile::TempDir,
}

impl Helm {
    fn new() -> Option<Self> {
        let program = available("Helm", tools::of_go(MODULE))?;
        let folder = tempfile::tempdir().unwrap();
        Some(Self { program, folder })
    }

    fn run(&self, command: &[&str], values: &str) -> Output {
        let file = self.folder.path().join("values.yaml");
        fs::write(&file, values).unwrap();
        let mut helm = Command::new(&self.program);
        // What it keeps between runs is nobody's here.
        helm.env("HOME", self.folder.path());
        let chart = checkout().join("packaging/helm/cqlens");
        helm.args(command)
            .arg(chart)
            .arg("--values")
            .arg(&file)
            .output()
            .unwrap()
    }

    /// The file of what the chart renders for these values.
    fn rendered(&self, values: &str) -> PathBuf {
        let output = self.run(&["template", "--kube-version", "1.30.0", "audit"], values);
        assert!(output.status.success(), "{output:?}");
        let file = self.folder.path().join("rendered.yaml");
        fs::write(&file, output.stdout).unwrap();
        file
    }
}

fn of_kind<'documents>(documents: &'documents [Value], kind: &str) -> Vec<&'documents Value> {
    documents
        .iter()
        .filter(|document| document["kind"] == kind)
        .collect()
}

/// The settings that cqlens understands of a pod, with the file that the chart has written for it.
fn settings(documents: &[Value], folder: &Path) -> String {
    let file = folder.join("cqlens.toml");
    let written = &of_kind(documents, "ConfigMap")[0]["data"]["cqlens.toml"];
    fs::write(&file, written.as_str().unwrap()).unwrap();
    let workload = of_kind(documents, "StatefulSet")[0];
    let arguments = crate::packages::kubernetes::arguments(container(workload, "cqlens"));
    let file = file.display().to_string();
    let arguments: Vec<String> = arguments
        .into_iter()
        .map(|argument| argument.replace("/etc/cqlens/settings/cqlens.toml", &file))
        .collect();
    understood(arguments.iter().map(String::as_str))
}

const SMALLEST: &str = "settings: {upstream: [10.0.0.1]}";
/// All that can be set.
const ALL: &str = "
replicas: 3
image: {repository: registry.example/cqlens, tag: v1, pullPolicy: Always}
imagePullSecrets: [{name: registry}]
settings:
  upstream: [10.0.0.1, 10.0.0.2]
  listen: 0.0.0.0:19142
  sink: s3://reviews/cqlens
  sink-spool: /var/lib/cqlens/spool
  max-connections: 4096
  upstream-tls-ca: /etc/cqlens/tls/nodes/ca.crt
loginSecret: login
adminSecret: admin
environmentSecret: store
tlsSecrets: [nodes]
storage: {size: 2Gi, className: fast}
service: {type: LoadBalancer, port: 9142, annotations: {a.example/b: c}}
podAnnotations: {a.example/d: e}
podLabels: {team: data}
nodeSelector: {zone: a}
tolerations: [{key: proxies, operator: Exists}]
affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {a: b}}}]}}
";

#[test]
fn helm_and_kubernetes_find_nothing_wrong_with_the_chart() {
    let Some(helm) = Helm::new() else { return };
    for values in [SMALLEST, ALL] {
        let linted = helm.run(&["lint", "--strict"], values);
        assert!(linted.status.success(), "{linted:?}");
        let file = helm.rendered(values);
        let Some(said) = available("the schemas of Kubernetes", kubernetes_agrees(&file)) else {
            return;
        };
        assert!(said.status.success(), "{said:?}");
    }
}

#[test]
fn what_it_renders_is_confined_and_cqlens_understands_it() {
    let Some(helm) = Helm::new() else { return };
    let Some(smallest) = available("kubectl", documents(&helm.rendered(SMALLEST))) else {
        return;
    };
    let understood = settings(&smallest, helm.folder.path());
    for line in [
        r#"upstream = "10.0.0.1""#,
        r#"listen = "0.0.0.0:9142""#,
        r#"name = "cqlens-0""#,
        r#"snapshot-dir = "/var/lib/cqlens/snapshots""#,
        r#"keep-bytes = "245MB""#,
    ] {
        assert!(understood.contains(line), "{line}\n{understood}");
    }
    let workload = of_kind(&smallest, "StatefulSet")[0];
    let pod = &workload["spec"]["template"]["spec"];
    assert_confined(container(workload, "cqlens"));
    assert_probed(container(workload, "cqlens"));
    assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
    assert_eq!(pod["securityContext"]["seccompProfile"]["type"], "RuntimeDefault");
    // drain-delay, grace, and time for the last window.
    assert!(pod["terminationGracePeriodSeconds"].as_u64().unwrap() > 25);
    // One replica cannot be drained one at a time.
    assert!(of_kind(&smallest, "PodDisruptionBudget").is_empty());

    let all = documents(&helm.rendered(ALL)).unwrap();
    let understood = settings(&all, helm.folder.path());
    for line in [
        "max-connections = 4096",
        r#"sink = "s3://reviews/cqlens""#,
        r#"admin-token-file = "/etc/cqlens/admin/token""#,
        r#"upstream-tls-ca = "/etc/cqlens/tls/nodes/ca.crt""#,
    ] {
        assert!(understood.contains(line), "{line}\n{understood}");
    }
    let workload = of_kind(&all, "StatefulSet")[0];
    let container = container(workload, "cqlens");
    assert_eq!(container["image"], "registry.example/cqlens:v1");
    assert_eq!(container["readinessProbe"]["httpGet"]["scheme"], "HTTPS");
    assert_eq!(container["ports"][0]["containerPort"], 19142);
    assert_eq!(of_kind(&all, "PodDisruptionBudget").len(), 1);
    let volumes = workload["spec"]["template"]["spec"]["volumes"]
        .as_array()
        .unwrap();
    let mounts = container["volumeMounts"].as_array().unwrap();
    // The volume of the claim is in no list.
    assert_eq!(mounts.len(), volumes.len() + 1, "{mounts:?} {volumes:?}");
}

#[test]
fn values_that_cannot_work_are_refused_by_name() {
    let Some(helm) = Helm::new() else { return };
    for (values, name) in [
        ("", "upstream"),
        ("settings: {upstream: 10.0.0.1}", "upstream"),
        ("settings: {upstream: [a]}\nreplicas: 0", "replicas"),
        ("settings: {upstream: [a]}\nservice: {type: Public}", "type"),
        ("settings: {upstream: [a], window: {seconds: 10}}", "window"),
    ] {
        let refused = helm.run(&["template", "audit"], values);
        let said = String::from_utf8_lossy(&refused.stderr);
        assert!(
            !refused.status.success() && said.contains(name),
            "{values}: {said}"
        );
    }
}

#[test]
fn the_chart_is_of_the_same_version_as_the_program() {
    let chart = fs::read_to_string(checkout().join("packaging/helm/cqlens/Chart.yaml")).unwrap();
    let version = format!("appVersion: {}", env!("CARGO_PKG_VERSION"));
    assert!(chart.lines().any(|line| line == version), "{chart}");
}
