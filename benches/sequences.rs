//! How well are operations of several statements found, and what does looking for them cost?
//!
//! The traffic and its labels are those of the test of the same name. For each load: precision, recall, how far fan-outs and
//! numbers of operations are from the truth at most, and nanoseconds of the audit for each request without looking for
//! operations and with it, in turns of one run.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "a bench")]
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_possible_wrap,
    reason = "numbers of a simulation are small"
)]

#[path = "../crates/audit/tests/sequences/look_alikes.rs"]
#[allow(dead_code, reason = "the tests use the rest of it")]
mod look_alikes;
#[path = "../crates/audit/tests/sequences/operations.rs"]
mod operations;
#[path = "../crates/audit/tests/sequences/scoring.rs"]
mod scoring;
#[path = "../crates/audit/tests/sequences/simulation.rs"]
mod simulation;
#[path = "../crates/audit/tests/sequences/wire.rs"]
mod wire;

use std::time::{Duration, Instant};

use cqlens_audit::audit::SourceLimit;
use operations::SCHEMA;
use scoring::{JOINS, LOADS, Mix, Mixed, Score, TOO_MUCH, judge};
use simulation::START;

/// Each traffic passes so often, without and with looking for operations.
const ROUNDS: usize = 5;

fn main() {
    println!(
        "| load | requests a second | precision | recall | fan-out error | count error | without, ns | with, ns |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- | --- |");
    for load in 0..LOADS.len() {
        of_load(load);
    }
}

fn of_load(load: usize) {
    let mut score = Score::default();
    let (mut requests, mut seconds) = (0, 0.0);
    let mut spent = [Duration::ZERO; 2];
    for join in 0..JOINS.len() {
        let mix = match (join + load) % 2 {
            1 if load != TOO_MUCH => Mix::Together,
            _ => Mix::Apart,
        };
        let mixed = Mixed::new(join, load, mix);
        let window = mixed.window();
        score.add(&mixed, &judge(&window));
        requests += window.coverage.requests;
        seconds += (mixed.traffic.end - START) as f64 / 1e9;
        let times = cost(&mixed);
        spent = [0, 1].map(|at| spent[at] + times[at]);
    }
    let each = spent.map(|spent| spent.as_nanos() / u128::from(requests.max(1)));
    println!(
        "| {:?} | {:.0} | {:.3} | {:.3} | {:.3} | {:.3} | {} | {} |",
        LOADS[load],
        requests as f64 / seconds,
        score.precision(),
        score.recall(),
        largest(&score.fan_outs),
        largest(&score.counts),
        each[0],
        each[1]
    );
}

/// The shortest time of the audit without and with looking for operations.
fn cost(mixed: &Mixed) -> [Duration; 2] {
    let mut shortest = [Duration::MAX; 2];
    for _ in 0..ROUNDS {
        for (at, sources) in [SourceLimit::NONE, SourceLimit::default()]
            .into_iter()
            .enumerate()
        {
            let began = Instant::now();
            mixed.traffic.observe(SCHEMA, sources);
            shortest[at] = shortest[at].min(began.elapsed());
        }
    }
    shortest
}

fn largest(errors: &[(String, f64)]) -> f64 {
    errors.iter().map(|(_, error)| error.abs()).fold(0.0, f64::max)
}
