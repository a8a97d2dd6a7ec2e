//! Audits CQL from standard input: what each statement touches, and what the rules say of its shape.
//!
//! `cargo run --example audit_stdin -- schema.cql < queries.cql`
#![allow(clippy::print_stdout, reason = "the findings are what this prints")]

use std::io::Read;

use anyhow::Context;
use cqlens_audit::audit::Once;
use cqlens_cql::{
    footprint::Keys,
    plan::Plan,
    schema::Schema,
    syntax::{self, Template},
};
use cqlens_proto::message::Values;
use cqlens_rules::Settings;
use cqlens_window::Cluster;

fn main() -> anyhow::Result<()> {
    let path = std::env::args()
        .nth(1)
        .context("which schema? audit_stdin SCHEMA < CQL")?;
    let definitions = std::fs::read_to_string(&path).with_context(|| path)?;
    let (schema, errors) = Schema::read_cql(&definitions);
    errors.first.iter().for_each(|error| println!("{error}"));
    let mut script = String::new();
    std::io::stdin().read_to_string(&mut script)?;
    let mut keys = Keys::default();
    for (span, statement) in syntax::statements(&script) {
        let text = span.of(&script).trim();
        let statement = statement.with_context(|| text.to_owned())?;
        let plan = Plan::of(&statement, None, &schema);
        keys.clear();
        let footprint = plan.footprint(&Values::NONE, &mut keys);
        println!("{}\n  {:?}", text, footprint.count);
        let once = Once::of(&statement, Template::of(&statement, None), plan, &footprint);
        let cluster = Cluster::default();
        let context = cqlens_rules::Context::new(&once.window, &schema, &cluster);
        for finding in cqlens_rules::check(&context, &Settings::default()).findings {
            if finding.patterns.contains(&once.id) {
                println!("  {:?} {}: {}", finding.severity, finding.rule, finding.title);
            }
        }
    }
    Ok(())
}
