//! Loads of applications through a proxy, and what its report and they themselves say of them.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;

use super::labels::{self, Label};
use super::shop::{Application, Drivers, Language, data};
use cqlens_testing::process::Supervised;
use cqlens_testing::proxy::Proxy;

/// Far beyond what a load takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(180);

/// What is said of a load: by a report, and by who has sent it.
pub(crate) struct Outcome {
    pub(crate) load: &'static str,
    pub(crate) report: Value,
    pub(crate) labels: Vec<Label>,
}

impl Drivers {
    /// Runs applications at the same time, through a proxy that is started with `arguments`.
    pub(crate) fn run(
        &self,
        load: &'static str,
        arguments: &[&str],
        applications: &[Application],
    ) -> Outcome {
        let folder = tempfile::tempdir().unwrap();
        let report_file = folder.path().join("report.json");
        let report = report_file.to_str().unwrap();
        let options = ["--window", "3600s", "--report", report];
        let proxy = Proxy::launch(
            env!("CARGO_BIN_EXE_cqlens"),
            &[arguments, &options].concat(),
            &[],
            None,
        );
        let file = |application: &Application| folder.path().join(application.name);
        let running: Vec<Supervised> = applications
            .iter()
            .map(|application| self.start(application, proxy.address, &file(application)))
            .collect();
        for mut program in running {
            let ended = program.wait(LIMIT);
            let is_done = ended.is_some_and(|status| status.success());
            assert!(is_done, "{load}: {ended:?}\n{}\n{}", program.log(), proxy.log());
        }
        let ended = proxy.stop(LIMIT);
        assert_eq!(ended.code, 0, "{}", ended.log);
        let report: Value = serde_json::from_slice(&std::fs::read(&report_file).unwrap()).unwrap();
        check_names(&report, applications);
        let mut outcome = Outcome {
            load,
            report,
            labels: Vec::new(),
        };
        for application in applications {
            let (labels, sent) = labels::read(&file(application));
            outcome.labels.extend(labels);
            application.say(load, &sent);
        }
        outcome
    }
}

/// The report knows applications by the names that they give themselves.
fn check_names(report: &Value, applications: &[Application]) {
    let clients = report["clients"].as_object().unwrap();
    let of_python = applications
        .iter()
        .filter(|application| application.language == Language::Python);
    for application in of_python {
        let is_known = clients.keys().any(|name| name.contains(application.name));
        assert!(is_known, "{clients:?}");
    }
}

/// Puts the data of both applications into a node.
pub(crate) async fn fill(node: SocketAddr) {
    data::fill(node, "python_shop").await;
    data::fill(node, "go_shop").await;
}
