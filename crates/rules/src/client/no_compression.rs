//! Large answers that are sent without compression.

use std::collections::BTreeMap;

use super::{About, Findings, Patterns, Severity, Threshold, application, by_application, user_statements};
use crate::{Context, Finding, Rule, figures::bytes};

pub(crate) struct NoCompression;

impl Rule for NoCompression {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, context: &Context<'_>, found: &mut Findings<'_>) {
        let mut applications: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
        for (client, connections) in &context.window.connections {
            let (opened, uncompressed) = applications.entry(application::name(client)).or_default();
            *opened += connections.opened;
            *uncompressed += connections.uncompressed;
        }
        for (name, patterns) in by_application(user_statements(context)) {
            let (opened, uncompressed) = applications.get(&*name).copied().unwrap_or_default();
            let is_uncompressed = opened > 0 && uncompressed == opened;
            let total = application::sum(&patterns, |pattern| pattern.response_bytes.total());
            let each = total / application::sum(&patterns, |pattern| pattern.count).max(1);
            let rate = total as f64 / context.watch_application(&name).seconds().max(1.0);
            let is_much = each as f64 >= found.threshold(&ABOUT, &LARGE)
                && rate >= found.threshold(&ABOUT, &PER_SECOND);
            if is_uncompressed && is_much {
                found.push(finding((each, rate), (&name, patterns), context));
            }
        }
    }
}

fn finding(
    (each, rate): (u64, f64),
    (application, patterns): (&str, Patterns<'_>),
    context: &Context<'_>,
) -> Finding {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "shown rounded; a rate is not negative"
    )]
    let whole = rate as u64;
    let title = format!(
        "{} receives {} a second without compression, {} per response",
        application::subject(application, context),
        bytes(whole),
        bytes(each)
    );
    application::finding(&ABOUT, Severity::Info, (application, patterns), context)
        .title(title)
        .first("response_mean_bytes", each)
        .first("responses_bytes_per_second", rate)
}

const LARGE: Threshold = Threshold {
    name: "large_bytes",
    unit: "bytes per response",
    default: 4_096.0,
    origin: "drivers' manuals: below a few kilobytes compression costs more than it saves",
};

const PER_SECOND: Threshold = Threshold {
    name: "bytes_per_second",
    unit: "bytes per second",
    default: 1_048_576.0,
    origin: "cqlens default: below a megabyte per second no network is busy",
};

const ABOUT: About = About {
    id: "no-compression",
    group: "client habits",
    summary: "An application receives large responses without compression.",
    why: "\
        Rows have much in common: LZ4 shrinks them to a half or a quarter, for a few percent of a processor. \
        Without it, nodes and clients send several times as much, which shows on the bill where traffic \
        between zones is charged.",
    fix: "\
        Enable LZ4 in the driver; most drivers need a separate library for it and silently go without if it \
        is missing.",
    fix_in_short: "Turn on LZ4",
    before: "-- compression: none\nSELECT * FROM shop.events WHERE sensor = ?;",
    after: "-- compression: lz4\nSELECT * FROM shop.events WHERE sensor = ?;",
    severity: "Info, if responses reach `large_bytes` and `bytes_per_second`.",
    severities: &[Severity::Info],
    thresholds: &[LARGE, PER_SECOND],
    needs: "The STARTUP requests of all the application's connections, and the sizes of responses.",
    source: "Native protocol v4 §5, compression; drivers' manuals",
    cause: None,
    quantity: None,
    rewrite: None,
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{read, run, window};
    use cqlens_cql::footprint::PartitionClass;

    const CLIENT: &str = "export 1.2 (gocql) 10.0.0.1";

    fn found(is_compressed: bool, bytes: u64) -> Vec<String> {
        let cql = "SELECT * FROM shop.events WHERE sensor = ?";
        let mut pattern = read(cql, &[], PartitionClass::Single, 720_000);
        pattern.response_bytes.record_n(bytes, 720_000);
        pattern.count_client(CLIENT, 720_000);
        let mut window = window([pattern]);
        window.connections_mut(CLIENT).open(4, is_compressed);
        let findings = run(&NoCompression, &window).findings.into_iter();
        findings.map(|finding| finding.title).collect()
    }

    #[test]
    fn megabytes_without_compression_are_worth_knowing() {
        let told = found(false, 16_384);
        assert!(
            told[0].starts_with("`export` receives 3.1")
                && told[0].contains("MiB a second without compression"),
            "{told:?}"
        );
    }

    #[test]
    fn compressed_and_small_answers_are_fine() {
        assert_eq!(found(true, 16_384), Vec::<String>::new());
        assert_eq!(found(false, 1_024), Vec::<String>::new());
        assert_eq!(found(false, 100), Vec::<String>::new());
    }
}
