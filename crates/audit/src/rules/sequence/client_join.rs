//! Joins in the client: a read, and then one for each of its rows.

use super::{
    About, Context, Finding, Findings, GROUP, Impact, Rule, Severity, Threshold,
    join::{self, Chain, OPERATIONS, VALUES, round},
    number, often,
};

pub(in crate::rules) struct ClientJoin;

impl Rule for ClientJoin {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, context: &Context<'_>, found: &mut Findings<'_>) {
        for chain in join::chains(context, found) {
            if chain.is_join(found) {
                judge(&chain, context, found);
            }
        }
    }
}

fn judge(chain: &Chain<'_>, context: &Context<'_>, found: &mut Findings<'_>) {
    let (Some(first), Some(widest)) = (chain.first(), chain.widest()) else {
        return;
    };
    let reaches = |threshold: &Threshold| widest.fan_out() >= found.threshold(&ABOUT, threshold);
    let each = if reaches(&LARGE_FAN_OUT) {
        Severity::High
    } else if reaches(&MEDIUM_FAN_OUT) {
        Severity::Medium
    } else {
        Severity::Low
    };
    let updates = chain.updates_per_join(context);
    // The exception that the literature itself makes.
    let is_right = updates >= found.threshold(&ABOUT, &UPDATES_PER_JOIN);
    let at_most = if is_right { Severity::Info } else { Severity::High };
    let impact = chain
        .steps
        .iter()
        .fold(Impact::each(each), |impact, step| impact.of(step.to.1));
    let severity = context.severity(found, &impact.at_most(at_most));
    let because = match is_right {
        true => format!(
            "; their rows change {} times for each such read, so that copies would cost more",
            number::decimal(round(updates))
        ),
        false => String::new(),
    };
    let title = format!(
        "The client joins `{}`: one read, then {}{}{because}",
        first.from_table,
        chain.words(),
        often(first.times(), context.window)
    );
    let finding = Finding::on_all(&ABOUT, severity, chain.patterns(), context)
        .of_table(&first.from_table)
        .about(first.from.0.to_string())
        .title(title);
    let finding = chain.put_evidence(finding);
    found.push(match chain.copied_columns(context).filter(|_| !is_right) {
        Some(cql) => finding.suggest([cql]),
        None => finding,
    });
}

pub(super) const FAN_OUT: Threshold = Threshold {
    name: "fan_out",
    unit: "partitions for each read, the mean",
    default: 5.0,
    origin: "cqlens default; detectors of repeated queries in other databases begin at two to five",
};

const MEDIUM_FAN_OUT: Threshold = Threshold {
    name: "medium_fan_out",
    unit: "partitions for each read, the mean",
    default: 10.0,
    origin: "cqlens default: one in ten such operations then meets the slowest of a hundred answers",
};

const LARGE_FAN_OUT: Threshold = Threshold {
    name: "large_fan_out",
    unit: "partitions for each read, the mean",
    default: 100.0,
    origin: "cqlens default: nearly every such operation then waits for the slowest of a hundred answers",
};

const UPDATES_PER_JOIN: Threshold = Threshold {
    name: "updates_per_join",
    unit: "UPDATEs of the joined tables for each join",
    default: 10.0,
    origin: "cqlens default, as that of `read-update-ratio`",
};

pub(super) const ABOUT: About = About {
    id: "client-join",
    group: GROUP,
    summary: "The client reads rows, and then something else by a value of each of them.",
    why: "\
        A page that shows twenty users of a group reads one partition for the group and one for each user. Each of these reads asks other \
        replicas, and the page is as slow as the slowest of them: what happens to one answer in a hundred happens to one page in five. Sent one after \
        the other, their times add up as well. Cassandra has no joins because data that is read together is meant to be stored together.",
    fix: "\
        Put what the rows behind the keys are read for into the table that is read first, and write both in one logged batch when it changes. \
        Where it changes much more often than it is read, keep the join: then send the reads at the same time, prepared, each by one key, and \
        not by `IN`.",
    before: "SELECT user_id FROM shop.groups WHERE groupname = ?;\nSELECT * FROM shop.users WHERE id = ?;  -- for each user_id",
    after: "ALTER TABLE shop.groups ADD (username text, email text);\n\
            SELECT user_id, username, email FROM shop.groups WHERE groupname = ?;",
    severity: "\
        By the partitions that are read for each first read, the mean: low from `fan_out`, medium from `medium_fan_out`, high from `large_fan_out`, and then \
        by the share of time and work that the reads by keys take. Info where the joined rows are updated `updates_per_join` times or more for each join: \
        then the join is the cheaper way. Only where `operations` were seen, by `values` different values.",
    thresholds: &[
        FAN_OUT,
        MEDIUM_FAN_OUT,
        LARGE_FAN_OUT,
        UPDATES_PER_JOIN,
        OPERATIONS,
        VALUES,
    ],
    needs: "\
        The rows of a sample of the reads, and the partition keys of what the same session, or application and address, asks for within \
        50 ms of an answer. Keys that come by chance are told by their order, which is not that of the rows, by the rows that they leave out, and by what was asked for just before the answer. Not seen: keys that the client \
        computes or converts, elements of collections, and answers that cannot be read.",
    source: "Basic Rules of Cassandra Data Modeling, example 2: user groups without duplication; rule 2: minimise the number of partitions read",
};
