//! What does each library take for the same work? Instructions, counted by valgrind's callgrind: the same on
//! a busy machine as on an idle one.
//!
//! Needs `valgrind` and `gungraun-runner`; says so where one is missing, and counts nothing.

use std::process::{Command, Stdio};

fn main() {
    let runner = std::env::var_os("GUNGRAUN_RUNNER").unwrap_or_else(|| "gungraun-runner".into());
    // Valgrind itself has started this process if it is a single measurement, and found what it needs.
    let is_measurement = std::env::args().any(|argument| argument == "--gungraun-run");
    if is_measurement || (is_there("valgrind".as_ref()) && is_there(&runner)) {
        counted::run();
    } else {
        println!(
            "instructions are not counted: that takes valgrind, and gungraun-runner of the version that Cargo.toml \
             names (cargo install gungraun-runner --version 0.20.0 --locked)"
        );
    }
}

fn is_there(program: &std::ffi::OsStr) -> bool {
    let mut command = Command::new(program);
    command
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.status().is_ok()
}

mod counted {
    use std::hint::black_box;

    use bytes::Bytes;
    use cqlens_compare::cqlens_audits::Audit;
    use cqlens_compare::{Execution, Page, cassandra_protocol_does, cqlens_does, inputs, scylla_cql_does};
    use gungraun::prelude::*;

    pub fn run() {
        main();
    }

    /// A library's way to do the work, and what it does it on.
    struct Case<I, T> {
        work: fn(&I) -> T,
        input: I,
    }

    /// The work done once before it is counted: what happens the first time only (the loader's doings, a
    /// buffer that becomes shared) is nobody's cost.
    fn warm<I, T>(input: Option<I>, work: fn(&I) -> T) -> Case<I, T> {
        let input = input.expect("every library reads the input");
        black_box(work(&input));
        Case { work, input }
    }

    fn chunk<T>(work: fn(&Bytes) -> T) -> Case<Bytes, T> {
        warm(Some(inputs::chunk_of_responses()), work)
    }

    /// Gives the input back, so that freeing it is not counted.
    fn count<I, T>(case: Case<I, T>) -> (T, Case<I, T>) {
        ((case.work)(black_box(&case.input)), case)
    }

    type Counted<I, T> = (T, Case<I, T>);

    #[library_benchmark]
    #[bench::cqlens_cut(chunk(cqlens_does::cut))]
    #[bench::cqlens_split(chunk(cqlens_does::split))]
    #[bench::cassandra_protocol_measure(chunk(cassandra_protocol_does::measure))]
    #[bench::cassandra_protocol_split(chunk(cassandra_protocol_does::split))]
    #[bench::scylla_cql_split(chunk(scylla_cql_does::split))]
    fn cut_32_envelopes(case: Case<Bytes, usize>) -> Counted<Bytes, usize> {
        count(case)
    }

    #[library_benchmark]
    #[bench::cqlens(warm(cqlens_does::envelope(&inputs::execute()), cqlens_does::execute))]
    #[bench::cassandra_protocol(warm(
        cassandra_protocol_does::envelope(&inputs::execute()),
        cassandra_protocol_does::execute
    ))]
    #[bench::scylla_cql(warm(scylla_cql_does::request_body(&inputs::execute()), scylla_cql_does::execute))]
    fn execute<I>(case: Case<I, Option<Execution>>) -> Counted<I, Option<Execution>> {
        count(case)
    }

    #[library_benchmark]
    #[bench::cqlens(warm(cqlens_does::envelope(&inputs::rows()), cqlens_does::page))]
    #[bench::cassandra_protocol(warm(
        cassandra_protocol_does::envelope(&inputs::rows()),
        cassandra_protocol_does::page
    ))]
    #[bench::scylla_cql(warm(scylla_cql_does::first_response(&inputs::rows()), scylla_cql_does::page))]
    fn rows_one_column<I>(case: Case<I, Option<Page>>) -> Counted<I, Option<Page>> {
        count(case)
    }

    #[library_benchmark]
    #[bench::cqlens(warm(cqlens_does::envelope(&inputs::rows()), cqlens_does::every_value))]
    #[bench::cassandra_protocol(warm(
        cassandra_protocol_does::envelope(&inputs::rows()),
        cassandra_protocol_does::every_value
    ))]
    #[bench::scylla_cql(warm(scylla_cql_does::first_response(&inputs::rows()), scylla_cql_does::every_value))]
    fn rows_every_value<I>(case: Case<I, Option<usize>>) -> Counted<I, Option<usize>> {
        count(case)
    }

    fn statement() -> &'static str {
        black_box(cqlens_does::fingerprint(inputs::LITERALS));
        inputs::LITERALS
    }

    #[library_benchmark]
    #[bench::cqlens(statement())]
    fn parse_and_fingerprint(text: &'static str) -> Option<u64> {
        cqlens_does::fingerprint(black_box(text))
    }

    #[library_benchmark]
    #[bench::point_read(Audit::of(&inputs::point_read()))]
    #[bench::slice_read(Audit::of(&inputs::slice_read()))]
    fn execute_to_footprint(mut audit: Audit) -> (Option<u64>, Audit) {
        (audit.footprint(), audit)
    }

    library_benchmark_group!(
        name = work,
        benchmarks = [
            cut_32_envelopes,
            execute,
            rows_one_column,
            rows_every_value,
            parse_and_fingerprint,
            execute_to_footprint
        ]
    );

    main!(library_benchmark_groups = work);
}
