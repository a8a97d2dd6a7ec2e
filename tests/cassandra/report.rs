//! Holds a JSON report (`cqlens.report.v1`) against a driver program's own account of what it asked for.

use serde::Deserialize;
use serde_json::Value;

use crate::support::driver::Session;

/// One `{"asked": …}` line of a driver program.
#[derive(Debug, Deserialize)]
struct Asked {
    /// As in the report's patterns; `scan` for selects that name no partition.
    kind: String,
    table: String,
    requests: u64,
    /// `null` for scans: only the server knows.
    partitions: Option<u64>,
    /// Requests refused as not prepared, which touch nothing and may or may not be in the report's count.
    repeated: u64,
}

/// Checks coverage, and for every kind of request and table the number of requests and partitions.
///
/// # Panics
/// With every disagreement, not only the first.
pub(crate) fn assert_agrees(report: &Value, session: &Session, output: &[String]) {
    assert_eq!(report["format"], "cqlens.report.v1");
    assert_eq!(report["coverage"]["dropped"], 0, "{}", report["coverage"]);
    assert_eq!(report["coverage"]["undecoded"], 0, "{}", report["coverage"]);
    assert_eq!(
        report["coverage"]["audited"], report["coverage"]["requests"],
        "{}",
        report["coverage"]
    );
    assert_eq!(report["coverage"]["responses_lost"], 0, "{}", report["coverage"]);
    assert_eq!(
        report["coverage"]["opaque_connections"],
        serde_json::json!({}),
        "{}",
        report["coverage"]
    );
    let asked = asked(output);
    assert!(
        asked.len() > 20,
        "a driver program gives account of what it asked for"
    );
    let disagreements: Vec<String> = asked
        .iter()
        .filter_map(|asked| disagreement(report, session, asked).err())
        .collect();
    assert!(
        disagreements.is_empty(),
        "{session:?}\n{}\n{}",
        disagreements.join("\n"),
        serde_json::to_string_pretty(&report["patterns"]).unwrap()
    );
    assert_read_in_pages(report, session);
    assert_found(report, session, "allow-filtering", "scanned");
    // Version 3 has no warnings.
    if session.version != Some(3) {
        assert_found(report, session, "tombstone-heavy-read", "graves");
    }
}

fn asked(output: &[String]) -> Vec<Asked> {
    let values = output
        .iter()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    values
        .filter_map(|mut value| value.get_mut("asked").map(Value::take))
        .map(|asked| serde_json::from_value(asked).unwrap())
        .collect()
}

fn disagreement(report: &Value, session: &Session, asked: &Asked) -> Result<(), String> {
    let patterns: Vec<&Value> = patterns(report, session, asked).collect();
    let total = |field: fn(&Value) -> &Value| -> u64 {
        patterns
            .iter()
            .map(|pattern| field(pattern).as_u64().unwrap_or_default())
            .sum()
    };
    let requests = total(|pattern| &pattern["count"]);
    if !(asked.requests..=asked.requests + asked.repeated).contains(&requests) {
        return Err(format!("{asked:?}: the report has {requests} requests"));
    }
    let Some(expected) = asked.partitions else {
        let named = patterns.iter().find(|pattern| {
            !["scan", "token-range", "index"]
                .map(Value::from)
                .contains(&pattern["partitions"]["class"])
        });
        return named.map_or(Ok(()), |pattern| {
            Err(format!("{asked:?}: not a scan in the report: {pattern}"))
        });
    };
    let partitions = total(|pattern| &pattern["partitions"]["total"]);
    if partitions == expected {
        Ok(())
    } else {
        Err(format!("{asked:?}: the report has {partitions} partitions"))
    }
}

/// The patterns of the kind of request on the table, in the session's keyspace or its second one. A batch
/// over several tables may have no table of its own; its text names them.
fn patterns<'a>(
    report: &'a Value,
    session: &'a Session,
    asked: &'a Asked,
) -> impl Iterator<Item = &'a Value> {
    let kind = if asked.kind == "scan" {
        "select"
    } else {
        asked.kind.as_str()
    };
    report["patterns"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(move |pattern| {
            let text = |field: &str| pattern[field].as_str().unwrap_or_default();
            let names = |cql: &str| {
                cql.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
                    .any(|word| word == asked.table)
            };
            let of_table = text("table") == asked.table || (text("table").is_empty() && names(text("cql")));
            let of_session = text("keyspace").is_empty() || text("keyspace").starts_with(&session.keyspace);
            text("kind") == kind && of_table && of_session
        })
}

/// 5,000 rows in pages of 100 are 51 requests, the last with an empty page, and one logical read.
fn assert_read_in_pages(report: &Value, session: &Session) {
    let asked = Asked {
        kind: "select".into(),
        table: "paged".into(),
        requests: 51,
        partitions: Some(51),
        repeated: 0,
    };
    let paged: Vec<&Value> = patterns(report, session, &asked).collect();
    assert_eq!(paged.len(), 1, "{paged:?}");
    assert_eq!(paged[0]["rows"]["total"], 5000, "{}", paged[0]);
    assert_eq!(paged[0]["logical_reads"], 1, "{}", paged[0]);
    assert_eq!(paged[0]["partitions"]["max"], 1, "{}", paged[0]);
}

fn assert_found(report: &Value, session: &Session, rule: &str, table: &str) {
    let findings = report["findings"].as_array().cloned().unwrap_or_default();
    let found = findings.iter().any(|finding| {
        finding["rule"] == rule
            && finding["table"] == table
            && finding["keyspace"] == session.keyspace.as_str()
    });
    assert!(found, "{session:?}: no {rule} on {table} among {findings:#?}");
}
