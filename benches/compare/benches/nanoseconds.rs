//! What does each library take for the same work? Nanoseconds, on one thread.

use bytes::Bytes;
use cqlens_compare::cqlens_audits::Audit;
use cqlens_compare::{cassandra_protocol_does, cqlens_does, inputs, scylla_cql_does};
use divan::{Bencher, black_box, counter::ItemsCount};

fn main() {
    divan::main();
}

/// One function of a library over its input.
fn run<I, T>(bencher: Bencher<'_, '_>, input: Option<I>, work: fn(&I) -> T) {
    let input = input.expect("every library reads the input");
    bencher.bench_local(|| work(black_box(&input)));
}

/// The same for a chunk of 32 envelopes.
fn run_chunk(bencher: Bencher<'_, '_>, work: fn(&Bytes) -> usize) {
    let chunk = inputs::chunk_of_responses();
    bencher
        .counter(ItemsCount::new(inputs::DEPTH))
        .bench_local(|| work(black_box(&chunk)));
}

#[divan::bench_group]
mod cut_32_envelopes {
    use super::*;

    #[divan::bench(sample_size = 100)]
    fn cqlens_cut(bencher: Bencher<'_, '_>) {
        run_chunk(bencher, cqlens_does::cut);
    }

    #[divan::bench(sample_size = 100)]
    fn cqlens_split(bencher: Bencher<'_, '_>) {
        run_chunk(bencher, cqlens_does::split);
    }

    #[divan::bench(sample_size = 100)]
    fn cassandra_protocol_measure(bencher: Bencher<'_, '_>) {
        run_chunk(bencher, cassandra_protocol_does::measure);
    }

    #[divan::bench(sample_size = 100)]
    fn cassandra_protocol_split(bencher: Bencher<'_, '_>) {
        run_chunk(bencher, cassandra_protocol_does::split);
    }

    #[divan::bench(sample_size = 100)]
    fn scylla_cql_split(bencher: Bencher<'_, '_>) {
        run_chunk(bencher, scylla_cql_does::split);
    }
}

#[divan::bench_group]
mod execute {
    use super::*;

    #[divan::bench(sample_size = 100)]
    fn cqlens(bencher: Bencher<'_, '_>) {
        run(
            bencher,
            cqlens_does::envelope(&inputs::execute()),
            cqlens_does::execute,
        );
    }

    #[divan::bench(sample_size = 100)]
    fn cassandra_protocol(bencher: Bencher<'_, '_>) {
        run(
            bencher,
            cassandra_protocol_does::envelope(&inputs::execute()),
            cassandra_protocol_does::execute,
        );
    }

    #[divan::bench(sample_size = 100)]
    fn scylla_cql(bencher: Bencher<'_, '_>) {
        run(
            bencher,
            scylla_cql_does::request_body(&inputs::execute()),
            scylla_cql_does::execute,
        );
    }
}

#[divan::bench_group]
mod rows_one_column {
    use super::*;

    #[divan::bench(sample_size = 100)]
    fn cqlens(bencher: Bencher<'_, '_>) {
        run(bencher, cqlens_does::envelope(&inputs::rows()), cqlens_does::page);
    }

    #[divan::bench(sample_size = 100)]
    fn cassandra_protocol(bencher: Bencher<'_, '_>) {
        run(
            bencher,
            cassandra_protocol_does::envelope(&inputs::rows()),
            cassandra_protocol_does::page,
        );
    }

    #[divan::bench(sample_size = 100)]
    fn scylla_cql(bencher: Bencher<'_, '_>) {
        run(
            bencher,
            scylla_cql_does::first_response(&inputs::rows()),
            scylla_cql_does::page,
        );
    }
}

#[divan::bench_group]
mod rows_every_value {
    use super::*;

    #[divan::bench(sample_size = 100)]
    fn cqlens(bencher: Bencher<'_, '_>) {
        run(
            bencher,
            cqlens_does::envelope(&inputs::rows()),
            cqlens_does::every_value,
        );
    }

    #[divan::bench(sample_size = 100)]
    fn cassandra_protocol(bencher: Bencher<'_, '_>) {
        run(
            bencher,
            cassandra_protocol_does::envelope(&inputs::rows()),
            cassandra_protocol_does::every_value,
        );
    }

    #[divan::bench(sample_size = 100)]
    fn scylla_cql(bencher: Bencher<'_, '_>) {
        run(
            bencher,
            scylla_cql_does::first_response(&inputs::rows()),
            scylla_cql_does::every_value,
        );
    }
}

/// What the other two cannot do.
#[divan::bench_group]
mod cqlens_only {
    use super::*;

    #[divan::bench(sample_size = 100)]
    fn parse_and_fingerprint(bencher: Bencher<'_, '_>) {
        bencher.bench_local(|| cqlens_does::fingerprint(black_box(inputs::LITERALS)));
    }

    #[divan::bench(sample_size = 100)]
    fn point_read_to_footprint(bencher: Bencher<'_, '_>) {
        let mut audit = Audit::of(&inputs::point_read());
        bencher.bench_local(|| audit.footprint());
    }

    #[divan::bench(sample_size = 100)]
    fn slice_read_to_footprint(bencher: Bencher<'_, '_>) {
        let mut audit = Audit::of(&inputs::slice_read());
        bencher.bench_local(|| audit.footprint());
    }
}
