//! Do costs stay flat as work grows? More connections, more templates, longer responses, more windows.
//!
//! `cargo bench --bench flat`: the clients, backend and processes of `wire`, on one processor; in each round
//! every size once, medians of the rounds. Costs are processor time of the proxy by the kernel's accounting,
//! per request that its report has counted, and its resident memory. Nothing is asserted: machines are noisy.
#![allow(
    clippy::print_stdout,
    clippy::cast_precision_loss,
    clippy::unwrap_used,
    reason = "a benchmark prints, and ends where something is wrong"
)]

#[path = "../wire/backend.rs"]
mod backend;
mod connections;
#[path = "../wire/figures.rs"]
mod figures;
#[path = "../wire/load.rs"]
#[allow(
    dead_code,
    reason = "`wire` measures round trips and sends other statements, too"
)]
mod load;
#[path = "../wire/process.rs"]
#[allow(dead_code, reason = "`wire` measures HAProxy, too")]
mod process;
mod responses;
mod templates;
mod windows;

use std::{path::Path, time::Duration};

use figures::median;
use process::Running;
use tokio::runtime::{Builder, Runtime};

const ROUNDS: usize = 3;

fn main() {
    if windows::is_week() {
        windows::week();
        return;
    }
    process::bind_to_one_processor();
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    connections::measure(&runtime);
    templates::measure(&runtime);
    responses::measure(&runtime);
    windows::measure();
}

/// One figure of a size in one round.
type Figures<const N: usize> = [f64; N];

/// Measures every size in every round; the medians of the figures of each size.
fn medians<S: Copy, const N: usize>(
    sizes: &[S],
    mut measure: impl FnMut(S) -> Figures<N>,
) -> Vec<Figures<N>> {
    let mut all = vec![Vec::new(); sizes.len()];
    for _ in 0..ROUNDS {
        for (&size, figures) in sizes.iter().zip(&mut all) {
            figures.push(measure(size));
        }
    }
    let middle = |rounds: Vec<Figures<N>>| {
        std::array::from_fn(|figure| median(rounds.iter().map(|figures| figures[figure])))
    };
    all.into_iter().map(middle).collect()
}

/// Processor time of a proxy while something is done, in microseconds.
fn processor_us(runtime: &Runtime, proxy: &Running, work: impl Future<Output = u64>) -> (f64, u64) {
    let before = proxy.processor_time();
    let answers = runtime.block_on(work);
    // What the audit does for it is a part of it.
    std::thread::sleep(SETTLED);
    ((proxy.processor_time() - before).as_secs_f64() * 1e6, answers)
}

/// The auditor has counted everything, and let go of what it kept only for a while.
const SETTLED: Duration = Duration::from_secs(1);

/// Ends a proxy; the share of its requests that it has audited.
fn audited(proxy: Running, folder: &Path) -> f64 {
    proxy.stop();
    process::audited_share(folder)
}

fn mebibytes(kib: u64) -> f64 {
    kib as f64 / 1024.0
}
