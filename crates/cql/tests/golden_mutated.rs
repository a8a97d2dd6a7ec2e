//! The fuzz targets without a fuzzer: their functions run what real drivers said, changed here and there.
//! Which changes is the same in every run, so that a failure can be run again.
#![allow(dead_code, unreachable_pub, missing_docs, clippy::unwrap_used)]

#[path = "../../../fuzz/src/lib.rs"]
mod fuzz;

use fuzz::Target;

/// For each target; a few seconds altogether.
const RUNS: usize = 4_000;

#[test]
fn a_mutated_envelope_does_no_harm() {
    run("envelope");
}

#[test]
fn a_mutated_segment_does_no_harm() {
    run("segment");
}

#[test]
fn however_mutated_bytes_are_split_the_same_is_found() {
    run("split");
}

#[test]
fn a_mutated_request_does_no_harm() {
    run("request");
}

#[test]
fn a_mutated_response_does_no_harm() {
    run("response");
}

#[test]
fn a_mutated_value_does_no_harm() {
    run("value");
}

#[test]
fn a_mutated_statement_does_no_harm() {
    run("cql");
}

#[test]
fn a_mutated_statements_template_is_its_own() {
    run("template");
}

#[test]
fn a_mutated_statement_shares_the_plan_of_its_shape() {
    run("shape");
}

#[test]
fn a_mutated_statement_costs_no_more_than_its_length() {
    run("work");
}

fn run(name: &str) {
    let (_, target): Target = fuzz::TARGETS
        .into_iter()
        .find(|(target, _)| *target == name)
        .unwrap();
    let seeds = fuzz::seeds::of(name);
    assert!(seeds.len() > 50, "{} seeds", seeds.len());
    seeds.iter().for_each(|seed| target(seed));
    let mut dice = Dice(0x5eed);
    for _ in 0..RUNS {
        let mut input = seeds[dice.below(seeds.len())].clone();
        for _ in 0..=dice.below(4) {
            let other = &seeds[dice.below(seeds.len())];
            dice.mutate(&mut input, other);
        }
        let on_failure = Show(&input);
        target(&input);
        std::mem::forget(on_failure);
    }
}

/// Dropped when a target panics: shows what with.
struct Show<'a>(&'a [u8]);

impl Drop for Show<'_> {
    fn drop(&mut self) {
        let input = self.0.escape_ascii();
        // The test runner shows it with the failing test.
        #[allow(clippy::print_stdout, reason = "the input is the report")]
        {
            println!("the input was b\"{input}\"");
        }
    }
}

/// SplitMix64: small, and the same everywhere.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// 0 where there is nothing to choose from.
    fn below(&mut self, end: usize) -> usize {
        let end = u64::try_from(end).unwrap().max(1);
        usize::try_from(self.next() % end).unwrap()
    }

    /// What fuzzers do: interesting bytes, flipped bits, cuts, repetitions, and the end of another input.
    fn mutate(&mut self, input: &mut Vec<u8>, other: &[u8]) {
        const INTERESTING: [u8; 12] = [0, 1, 2, 0x0d, 0x20, 0x27, 0x28, 0x3f, 0x40, 0x7f, 0x80, 0xff];
        let at = self.below(input.len());
        let end = (at + 1 + self.below(16)).min(input.len());
        match self.below(7) {
            _ if input.is_empty() => input.extend_from_slice(other),
            0 => input[at] = INTERESTING[self.below(INTERESTING.len())],
            1 => input[at] ^= 1 << self.below(8),
            2 => input[at..end].fill(INTERESTING[self.below(INTERESTING.len())]),
            3 => drop(input.drain(at..end)),
            4 => input.extend_from_within(at..end),
            5 => {
                input.truncate(at);
                input.extend_from_slice(&other[self.below(other.len())..]);
            }
            _ => input.truncate(at),
        }
    }
}
