//! A node that falls silent, is killed and comes back, while all programs look on at once.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::support::cassandra::Cassandra;

use super::certificates::Certificates;
use super::fixtures;
use super::mode::Front;
use super::place::Place;
use super::run::{DONE_WITHIN, Job, Order, Running, Seen};

/// Runs the jobs together and does to the last node of `cluster` what they are to notice.
pub(super) fn run<'a>(
    place: Place,
    cluster: &mut Cassandra,
    certificates: &Certificates,
    jobs: &[(Job<'a>, &Front)],
) -> Vec<Seen<'a>> {
    if jobs.is_empty() {
        return Vec::new();
    }
    let folder = tempfile::tempdir().unwrap();
    let stages = Stages(folder.path());
    stages.announce("started");
    let orders = jobs.iter().map(|&(job, _)| Order::of_outage(job, cluster));
    let orders: Vec<Order<'a>> = orders.collect();
    fixtures::create_for(&orders);
    let mut running: Vec<Running<'a, '_>> = orders
        .iter()
        .zip(jobs)
        .map(|(order, (_, front))| {
            let started = Running::start(order, front, certificates, Some(&stages.file()));
            // Many at once that compile themselves would starve the nodes.
            std::thread::sleep(Duration::from_millis(500));
            started
        })
        .collect();
    let last = cluster.nodes().len() - 1;
    wait_for("ready", &mut running);
    if place == Place::Ring {
        cluster.signal_node(last, "STOP");
        stages.announce("paused");
        wait_for("paused", &mut running);
        cluster.signal_node(last, "CONT");
    }
    cluster.kill(last);
    stages.announce("killed");
    if place == Place::Ring {
        wait_for("killed", &mut running);
    }
    cluster
        .start_again(last, &place.options(certificates, true))
        .unwrap_or_else(|missing| panic!("{missing:?}"));
    stages.announce("restarted");
    running.into_iter().map(Running::finish).collect()
}

/// The file that programs look at: one word for each stage that has come.
struct Stages<'a>(&'a Path);

impl Stages<'_> {
    fn file(&self) -> std::path::PathBuf {
        self.0.join("stages")
    }

    fn announce(&self, stage: &str) {
        let so_far = std::fs::read_to_string(self.file()).unwrap_or_default();
        std::fs::write(self.file(), format!("{so_far}{stage}\n")).unwrap();
    }
}

/// A program that does not come that far fails by itself; the others go on.
fn wait_for(stage: &str, running: &mut [Running<'_, '_>]) {
    let deadline = Instant::now() + DONE_WITHIN;
    while Instant::now() < deadline && !running.iter_mut().all(|running| running.has_reached(stage)) {
        std::thread::sleep(Duration::from_millis(100));
    }
}
