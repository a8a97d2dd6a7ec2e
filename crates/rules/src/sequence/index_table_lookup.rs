//! Tables that only lead to the key of another one.

use super::{
    About, Context, Finding, Findings, GROUP, Impact, Rule, Severity, client_join,
    join::{self, Chain},
    number, often, rounded,
};
use crate::Cause;

pub(crate) struct IndexTableLookup;

impl Rule for IndexTableLookup {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, context: &Context<'_>, found: &mut Findings<'_>) {
        for chain in join::chains(context, found) {
            if !chain.is_join(found) {
                judge(&chain, context, found);
            }
        }
    }
}

fn judge(chain: &Chain<'_>, context: &Context<'_>, found: &mut Findings<'_>) {
    let Some(first) = chain.first() else { return };
    let impact = chain
        .steps
        .iter()
        .fold(Impact::each(Severity::Low), |impact, step| impact.of(step.to.1));
    let updates = chain.updates_per_join(context);
    let is_right = client_join::is_right(updates, found);
    let at_most = if is_right { Severity::Info } else { Severity::Low };
    let severity = context.severity(found, &impact.at_most(at_most));
    let because = match is_right {
        true => format!(
            "; its row changes {} times per such read, so a copy would cost more",
            number::decimal(join::round(updates))
        ),
        false => String::new(),
    };
    let title = format!(
        "A row of `{}` is read only to find the key of a row in {}: {} each time{}{because}",
        first.from_table,
        tables(chain),
        number::plural(rounded(chain.partitions()), "partition", "partitions"),
        often(first.times(), context.watch(first.from.1))
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

/// The tables that are come to.
fn tables(chain: &Chain<'_>) -> String {
    let names = chain.steps.iter().map(|step| format!("`{}`", step.to_table));
    names.collect::<Vec<_>>().join(", ")
}

pub(super) const ABOUT: About = About {
    id: "index-table-lookup",
    group: GROUP,
    summary: "A row is read only to find the key of a row in another table, which is read next.",
    why: "The table is an index that the application maintains: each lookup reads two partitions, one after \
        the other, on different replicas, and takes about twice as long as one read. The cost is constant, \
        so it can be right if the row is large or changes often, because the row is stored only once.",
    fix: "\
        If the second row is small and seldom changes, store its columns with the first one, and write both \
        in one logged batch. Otherwise leave it as it is.",
    fix_in_short: "Copy the columns",
    before: "SELECT id FROM shop.users_by_email WHERE email = ?;\nSELECT * FROM shop.users WHERE id = ?;",
    after: "ALTER TABLE shop.users_by_email ADD (username text);\nSELECT id, username FROM shop.users_by_email WHERE email = ?;",
    severity: "\
        Low at most, by the share of time and work that the second reads take. If one row was read and \
        nearly always followed, in at least `operations` sampled operations with `values` distinct values. \
        Info if the row behind the key changes at least `updates_per_join` times per lookup. All of these \
        are settings of `client-join`.",
    severities: &[Severity::Info, Severity::Low],
    thresholds: &[],
    needs: "The same as `client-join`.",
    source: "Basic Rules of Cassandra Data Modeling, example 1: user lookup, non-goals: minimise data duplication",
    cause: Some(Cause::TWO_STEPS),
    quantity: None,
    rewrite: None,
};
