//! What is wrong with the statements that a finding suggests, by the same rules that found what is wrong now.

use cqlens_audit::audit::Once;
use cqlens_cql::{
    footprint::Keys,
    plan::Plan,
    schema::Schema,
    syntax::{self, Template, ast::Body},
};
use cqlens_rules::{Context, Finding, Settings, Severity};
use cqlens_window::Cluster;

/// Rules on how many rows a client takes at once: a table changes nothing of that.
const OF_CLIENTS: [&str; 6] = [
    "large-pages",
    "large-result",
    "select-star",
    "small-pages",
    "unbounded-read",
    "unpaged-read",
];

/// What a suggestion leaves as it is. How rows are compacted that expire: which way is right depends on what else is
/// deleted. And how collections are written: an INSERT stands for the application's own writes of a row. Nor is the old table given a bucket.
const KEPT: [&str; 3] = ["ttl-without-windows", "collection-overwrite", "endless-partition"];

/// What the rules say of a statement under a schema, in a window that is changed before.
///
/// # Errors
///
/// Why Cassandra would refuse it.
pub(crate) fn judged(
    cql: &str,
    schema: &Schema,
    seen: impl FnOnce(&mut Once),
) -> Result<Vec<Finding>, String> {
    let statement = syntax::parse(cql).map_err(|error| format!("{error:?}"))?;
    let plan = Plan::of(&statement, None, schema);
    let footprint = plan
        .execute(None, &mut Keys::new())
        .map_err(|refusal| refusal.to_string())?;
    let mut once = Once::of(&statement, Template::of(&statement, None), plan, &footprint);
    seen(&mut once);
    let cluster = Cluster::default();
    let context = Context::new(&once.window, schema, &cluster);
    Ok(cqlens_rules::check(&context, &Settings::whatever_the_load()).findings)
}

/// What is wrong with a finding's suggestion under the schema for which it was made, beside others on the same table.
/// `seen` puts the traffic that was judged into the window of a suggested statement.
pub(crate) fn wrong(
    finding: &Finding,
    beside: &[Finding],
    before: &str,
    seen: &dyn Fn(&mut Once, &str),
) -> Result<(), String> {
    let script = finding.suggested_cql.join("\n");
    let mut after = before.to_owned();
    let mut others = Vec::new();
    for (span, statement) in syntax::statements(&script) {
        let text = &script[span.range()];
        let statement = statement.map_err(|error| format!("{error:?}: {text}"))?;
        match statement.body {
            Body::Select(_) | Body::Insert(_) | Body::Update(_) | Body::Delete(_) | Body::Batch(_) => {
                others.push(text);
            }
            _ if is_drop(text) => return Err(format!("drops without being asked: {text}")),
            _ => after += &format!("\n{text};"),
        }
    }
    let creates = after.len() > before.len();
    let schema = Schema::from_cql(&after).map_err(|error| format!("{error:?}: {after}"))?;
    for text in others {
        let found = judged(text, &schema, |once| seen(once, &script));
        let found = found.map_err(|refusal| format!("refused, {refusal}: {after}\n{text}"))?;
        // How a statement is sent, not what it says.
        if is_of(finding.rule, "client habits") {
            continue;
        }
        let bad = found.iter().find(|found| {
            let is_of_clients = OF_CLIENTS.contains(&found.rule) && found.rule != finding.rule;
            // While statements go to the old table as well, they have its faults, and what else is wrong with it is
            // another finding's; tombstones come of how rows are deleted, and a key without a row has none, whatever the table.
            let is_beside = beside.iter().any(|other| {
                let is_of_data = is_of(other.rule, "tombstones") || other.rule == "empty-read";
                let is_same = other.table == found.table || is_of_data;
                let is_others = other.rule != finding.rule || creates;
                is_others && other.rule == found.rule && is_same
            });
            let is_above = found.severity > Severity::Info;
            is_above && !is_of_clients && !is_beside && !KEPT.contains(&found.rule)
        });
        if let Some(bad) = bad {
            return Err(format!(
                "{} ({:?}): {after}\n{text}\n{script}",
                bad.title, bad.severity
            ));
        }
    }
    definitions(finding.rule, &schema, before)
}

fn is_of(rule: &str, group: &str) -> bool {
    cqlens_rules::find(rule).is_some_and(|rule| rule.about().group == group)
}

/// Whether it removes something, outside of a comment.
fn is_drop(text: &str) -> bool {
    let mut lines = text.lines().filter(|line| !line.trim_start().starts_with("--"));
    lines.any(|line| line.trim_start().starts_with("DROP"))
}

/// What is wrong with the definitions that was not before: a new table has what the old one has.
fn definitions(rule: &str, schema: &Schema, before: &str) -> Result<(), String> {
    let lint = |schema: &Schema| cqlens_rules::lint(schema, &Settings::default()).findings;
    let old = lint(&Schema::from_cql(before).map_err(|error| format!("{error:?}"))?);
    let mut grave = lint(schema)
        .into_iter()
        .filter(|finding| finding.severity > Severity::Info && !KEPT.contains(&finding.rule));
    let is_old = |found: &Finding| {
        let mut same = old.iter().filter(|old| old.rule == found.rule);
        same.any(|old| old.table == found.table || found.rule != rule)
    };
    match grave.find(|found| !is_old(found)) {
        Some(new) => Err(new.title),
        None => Ok(()),
    }
}
