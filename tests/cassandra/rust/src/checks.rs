//! The checks but those of outages.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::ops::ControlFlow;

use futures::future::try_join_all;
use scylla::observability::tracing::TracingInfo;
use scylla::response::PagingState;
use scylla::response::query_result::QueryResult;
use scylla::statement::batch::{Batch, BatchType};
use scylla::statement::{Consistency, SerialConsistency, Statement};
use scylla::value::{Counter, CqlDecimal, CqlVarint, MaybeUnset, Row};
use scylla::{DeserializeValue, SerializeValue};
use serde_json::json;

use crate::{Application, Found, Reason, Wish, eventually, failure, open, outage, plain};

pub(crate) const NAMES: &[&str] = &[
    "connect",
    "ddl",
    "simple",
    "prepared",
    "named",
    "batch",
    "paging",
    "in",
    "lwt",
    "types",
    "vector",
    "blob",
    "null",
    "unset",
    "tracing",
    "warnings",
    "error-syntax",
    "error-invalid",
    "error-configuration",
    "error-exists",
    "error-unavailable",
    "error-function",
    "error-read-failure",
    "error-unauthorized",
    "password",
    "use",
    "keyspace-of-request",
    "prepared-again",
    "schema-events",
    "token-aware",
    "in-flight",
    "connections",
    "outage",
    "reconnect",
];

pub(crate) async fn perform(name: &str, app: &Application) -> Found {
    match name {
        "connect" => connect(app).await,
        "ddl" => ddl(app).await,
        "simple" => simple(app).await,
        "prepared" => prepared(app).await,
        "named" => named(app).await,
        "batch" => batch(app).await,
        "paging" => paging(app).await,
        "in" => in_list(app).await,
        "lwt" => lwt(app).await,
        "types" => types(app).await,
        "vector" => vector(app).await,
        "blob" => blob(app).await,
        "null" => null(app).await,
        "unset" => unset(app).await,
        "tracing" => tracing(app).await,
        "warnings" => warnings(app).await,
        "error-syntax" => fails(app, "SELEC name FROM t").await,
        "error-invalid" => fails(app, "SELECT name FROM no_such_table").await,
        "error-configuration" => {
            fails(
                app,
                "CREATE KEYSPACE wrong WITH replication = {'class': 'NoSuchStrategy'}",
            )
            .await
        }
        "error-exists" => fails(app, "CREATE TABLE t (id int PRIMARY KEY)").await,
        "error-unavailable" => {
            let mut three = Statement::new("SELECT name FROM t WHERE id = 1");
            three.set_consistency(Consistency::Three);
            fails(app, three).await
        }
        "error-function" => fails(app, "SELECT broken(id) FROM t WHERE id = 1").await,
        "error-read-failure" => error_read_failure(app).await,
        "error-unauthorized" => error_unauthorized(app).await,
        "password" => password(app).await,
        "use" => use_keyspace(app).await,
        "keyspace-of-request" => Err(Reason::Absent("before version 5 requests have no keyspace")),
        "prepared-again" => prepared_again(app).await,
        "schema-events" => schema_events(app).await,
        "token-aware" => token_aware(app).await,
        "in-flight" => in_flight(app).await,
        "connections" => connections(app).await,
        "outage" => outage::outage(app).await,
        "reconnect" => outage::reconnect(app).await,
        _ => Err(Reason::Failed(format!("no check {name}"))),
    }
}

async fn connect(app: &Application) -> Found {
    app.all_are_connected().await?;
    Ok(json!([
        app.session.get_cluster_state().cluster_name(),
        app.nodes(true)
    ]))
}

async fn ddl(app: &Application) -> Found {
    let replication = format!(
        "{{'class': 'SimpleStrategy', 'replication_factor': {}}}",
        app.given["replication"]
    );
    let own = format!("{}_own", app.keyspace);
    app.run(format!("CREATE KEYSPACE {own} WITH replication = {replication}"))
        .await?;
    app.session.use_keyspace(&app.keyspace, false).await?;
    app.run("CREATE TABLE t (id int PRIMARY KEY, name text, note text)")
        .await?;
    // Not a look at this moment: others change their schemas at any.
    let agreed = app.session.await_schema_agreement().await.is_ok();
    app.session.refresh_metadata().await?;
    let state = app.session.get_cluster_state();
    let keyspace = state
        .get_keyspace(&app.keyspace)
        .ok_or(Reason::Absent("the keyspace is unknown"))?;
    let columns: BTreeSet<&String> = keyspace.tables["t"].columns.keys().collect();
    Ok(json!([agreed, state.get_keyspace(&own).is_some(), columns]))
}

async fn simple(app: &Application) -> Found {
    app.run("INSERT INTO t (id, name, note) VALUES (1, 'it''s', 'me')")
        .await?;
    app.rows("SELECT id, name, note FROM t WHERE id = 1").await
}

async fn prepared(app: &Application) -> Found {
    let insert = app
        .session
        .prepare("INSERT INTO t (id, name, note) VALUES (?, ?, ?)")
        .await?;
    let select = app
        .session
        .prepare("SELECT id, name, note FROM t WHERE id = ?")
        .await?;
    let mut found = Vec::new();
    for id in 0..10 {
        let note = "x".repeat(usize::try_from(id)?);
        app.session
            .execute_unpaged(&insert, (id, format!("n{id}"), note))
            .await?;
        found.push(plain(app.session.execute_unpaged(&select, (id,)).await?)?);
    }
    Ok(found.into())
}

async fn named(app: &Application) -> Found {
    let select = app.session.prepare("SELECT name FROM t WHERE id = :id").await?;
    let values = HashMap::from([("id", 4)]);
    plain(app.session.execute_unpaged(&select, &values).await?)
}

async fn batch(app: &Application) -> Found {
    let insert = app
        .session
        .prepare("INSERT INTO t (id, name) VALUES (?, ?)")
        .await?;
    for (kind, id) in [(BatchType::Logged, 21), (BatchType::Unlogged, 22)] {
        let mut batch = Batch::new(kind);
        batch.append_statement(insert.clone());
        batch.append_statement("INSERT INTO t (id, name) VALUES (23, 'literal')");
        app.session.batch(&batch, ((id, "bound"), ())).await?;
    }
    let mut counter = Batch::new(BatchType::Counter);
    let add = app
        .session
        .prepare("UPDATE counts SET n = n + ? WHERE id = ?")
        .await?;
    let ids = [1, 2, 1];
    ids.iter().for_each(|_| counter.append_statement(add.clone()));
    app.session
        .batch(&counter, ids.map(|id| (Counter(5), id)).to_vec())
        .await?;
    Ok(json!([
        app.rows("SELECT id, name FROM t WHERE id IN (21, 22, 23)")
            .await?,
        app.rows("SELECT id, n FROM counts WHERE id IN (1, 2)").await?,
    ]))
}

async fn paging(app: &Application) -> Found {
    let insert = app
        .session
        .prepare("INSERT INTO paged (part, seq) VALUES (1, ?)")
        .await?;
    try_join_all((0..1050).map(|seq| app.session.execute_unpaged(&insert, (seq,)))).await?;
    let mut select = app
        .session
        .prepare("SELECT seq FROM paged WHERE part = 1")
        .await?;
    select.set_page_size(100);
    let (mut pages, mut total) = (Vec::new(), 0);
    let mut state = PagingState::start();
    loop {
        let (result, next) = app.session.execute_single_page(&select, (), state).await?;
        let result = result.into_rows_result()?;
        pages.push(result.rows_num());
        for row in result.rows::<(i32,)>()? {
            total += row?.0;
        }
        match next.into_paging_control_flow() {
            ControlFlow::Break(()) => return Ok(json!([pages, total])),
            ControlFlow::Continue(next) => state = next,
        }
    }
}

async fn in_list(app: &Application) -> Found {
    let select = app
        .session
        .prepare("SELECT id, name FROM t WHERE id IN ?")
        .await?;
    let found = app.session.execute_unpaged(&select, (vec![1, 2, 2, 3],)).await?;
    Ok(json!([
        plain(found)?,
        app.rows("SELECT id FROM t WHERE id IN (4, 5)").await?
    ]))
}

async fn lwt(app: &Application) -> Found {
    let insert = app
        .session
        .prepare("INSERT INTO t (id, name) VALUES (?, ?) IF NOT EXISTS")
        .await?;
    let mut found = Vec::new();
    for name in ["first", "second"] {
        found.push(plain(app.session.execute_unpaged(&insert, (100, name)).await?)?);
    }
    let mut update = Statement::new("UPDATE t SET name = 'third' WHERE id = 100 IF name = 'first'");
    update.set_serial_consistency(Some(SerialConsistency::LocalSerial));
    found.push(app.rows(update).await?);
    found.push(app.rows("SELECT name FROM t WHERE id = 100").await?);
    Ok(found.into())
}

#[derive(Debug, Clone, SerializeValue, DeserializeValue)]
struct Place {
    street: String,
    number: i32,
}

async fn types(app: &Application) -> Found {
    let insert = app
        .session
        .prepare("INSERT INTO kinds (id, l, s, m, n, t, u, d, v, i) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")
        .await?;
    let place = Place {
        street: "Main".to_owned(),
        number: 1,
    };
    let values = (
        1,
        vec!["b", "a"],
        BTreeSet::from([3, 1]),
        HashMap::from([("one", 1i64)]),
        HashMap::from([(1, vec![2, 3])]),
        (1, "two"),
        place,
        CqlDecimal::from_signed_be_bytes_and_exponent(vec![0xff, 0x6a], 2),
        CqlVarint::from_signed_bytes_be(vec![0x40, 0, 0, 0, 0, 0, 0, 0, 0]),
        std::net::IpAddr::from(std::net::Ipv6Addr::LOCALHOST),
    );
    app.session.execute_unpaged(&insert, values).await?;
    app.rows("SELECT id, l, s, m, n, t, u, d, v, i FROM kinds WHERE id = 1")
        .await
}

async fn vector(app: &Application) -> Found {
    let insert = app
        .session
        .prepare("INSERT INTO vectors (id, v) VALUES (1, ?)")
        .await?;
    app.session
        .execute_unpaged(&insert, (vec![1f32, 2.5, -3.],))
        .await?;
    app.rows("SELECT v FROM vectors WHERE id = 1").await
}

async fn blob(app: &Application) -> Found {
    let large: Vec<u8> = (0..=255).cycle().take(1 << 20).collect();
    let insert = app
        .session
        .prepare("INSERT INTO blobs (id, b) VALUES (1, ?)")
        .await?;
    app.session.execute_unpaged(&insert, (&large,)).await?;
    let found = app
        .session
        .query_unpaged("SELECT b FROM blobs WHERE id = 1", ())
        .await?;
    let (returned,): (Vec<u8>,) = found.into_rows_result()?.single_row()?;
    if returned != large {
        return Err(Reason::Failed(format!("{} other bytes", returned.len())));
    }
    Ok(returned.len().into())
}

async fn null(app: &Application) -> Found {
    let insert = app
        .session
        .prepare("INSERT INTO t (id, name, note) VALUES (?, ?, ?)")
        .await?;
    for note in [Some("gone"), None] {
        app.session.execute_unpaged(&insert, (30, "kept", note)).await?;
    }
    app.rows("SELECT name, note FROM t WHERE id = 30").await
}

async fn unset(app: &Application) -> Found {
    let insert = app
        .session
        .prepare("INSERT INTO t (id, name, note) VALUES (?, ?, ?)")
        .await?;
    for (name, note) in [("first", MaybeUnset::Set("kept")), ("second", MaybeUnset::Unset)] {
        app.session.execute_unpaged(&insert, (31, name, note)).await?;
    }
    app.rows("SELECT name, note FROM t WHERE id = 31").await
}

/// The trace of a read, and the node that has read the data. Nodes write its parts one by one, in no order,
/// and some after the end: it is asked for until all are there.
async fn traced(app: &Application, result: &QueryResult) -> Result<(TracingInfo, IpAddr), Reason> {
    let id = result.tracing_id().ok_or(Reason::Absent("no id of a trace"))?;
    let is_read = |activity: &String| activity.starts_with("Executing single-partition query");
    let mut found = None;
    let is_complete = async || {
        let Ok(trace) = app.session.get_tracing_info(&id).await else {
            return false;
        };
        let mut events = trace.events.iter();
        let read = events.find(|event| event.activity.as_ref().is_some_and(is_read));
        let has_begun = trace.coordinator.is_some() && trace.request.is_some();
        let has_ended = trace.duration.is_some() && trace.events.len() > 2;
        found = read
            .and_then(|event| event.source)
            .filter(|_| has_begun && has_ended)
            .map(|reader| (trace, reader));
        found.is_some()
    };
    eventually("a trace", is_complete).await?;
    found.ok_or(Reason::Absent("no trace"))
}

async fn tracing(app: &Application) -> Found {
    let mut select = Statement::new("SELECT name FROM t WHERE id = 1");
    select.set_tracing(true);
    let result = app.session.query_unpaged(select, ()).await?;
    let (trace, _) = traced(app, &result).await?;
    let query = trace.parameters.unwrap_or_default().get("query").cloned();
    Ok(json!([trace.request, query, trace.events.len() > 2]))
}

async fn warnings(app: &Application) -> Found {
    let insert = |id| format!("INSERT INTO t (id, note) VALUES ({id}, '{}');", "x".repeat(4000));
    let text = format!("BEGIN UNLOGGED BATCH {} {} APPLY BATCH", insert(40), insert(41));
    let result = app.session.query_unpaged(text, ()).await?;
    Ok(result.warnings().collect::<Vec<_>>().into())
}

async fn fails(app: &Application, statement: impl Into<Statement>) -> Found {
    failure(app.session.query_unpaged(statement, ()).await)
}

/// More tombstones than the node puts up with.
async fn error_read_failure(app: &Application) -> Found {
    let delete = app
        .session
        .prepare("DELETE FROM graves WHERE id = 1 AND seq = ?")
        .await?;
    try_join_all((0..110).map(|seq| app.session.execute_unpaged(&delete, (seq,)))).await?;
    fails(app, "SELECT seq FROM graves WHERE id = 1").await
}

fn need_passwords(app: &Application) -> Result<(), Reason> {
    match app.given.get("user") {
        Some(_) => Ok(()),
        None => Err(Reason::Absent("the cluster asks for no password")),
    }
}

async fn error_unauthorized(app: &Application) -> Found {
    need_passwords(app)?;
    let role = format!("{}_limited", app.keyspace);
    app.run(format!(
        "CREATE ROLE IF NOT EXISTS {role} WITH PASSWORD = 'limited' AND LOGIN = true"
    ))
    .await?;
    let wish = Wish {
        user: Some((&role, "limited")),
        ..Wish::default()
    };
    let limited = open(&app.given, wish).await?;
    let select = format!("SELECT name FROM {}.t WHERE id = 1", app.keyspace);
    failure(limited.query_unpaged(select, ()).await)
}

async fn password(app: &Application) -> Found {
    need_passwords(app)?;
    let wish = Wish {
        user: Some((&app.given["user"], "wrong")),
        ..Wish::default()
    };
    match open(&app.given, wish).await {
        Err(Reason::Failed(why)) => Ok(why.into()),
        _ => Err(Reason::Failed("a wrong password was taken".to_owned())),
    }
}

async fn use_keyspace(app: &Application) -> Found {
    let other = format!("{}_2", app.keyspace);
    app.session.use_keyspace(&other, false).await?;
    app.run("INSERT INTO moved (id, v) VALUES (1, 7)").await?;
    let found = app.rows("SELECT v FROM moved WHERE id = 1").await?;
    app.session.use_keyspace(&app.keyspace, false).await?;
    Ok(json!([found, app.rows("SELECT name FROM t WHERE id = 1").await?]))
}

async fn prepared_again(app: &Application) -> Found {
    app.run("INSERT INTO altered (id, v) VALUES (1, 1)").await?;
    let select = app
        .session
        .prepare("SELECT id, v FROM altered WHERE id = ?")
        .await?;
    let mut found = vec![plain(app.session.execute_unpaged(&select, (1,)).await?)?];
    app.run("ALTER TABLE altered ADD w text").await?;
    for _ in 0..2 * app.nodes {
        found.push(plain(app.session.execute_unpaged(&select, (1,)).await?)?);
    }
    Ok(found.into())
}

async fn schema_events(app: &Application) -> Found {
    let other = open(&app.given, Wish::default()).await?;
    let is_known = async || {
        let state = app.session.get_cluster_state();
        state
            .get_keyspace(&app.keyspace)
            .is_some_and(|keyspace| keyspace.tables.contains_key("told"))
    };
    other
        .query_unpaged(
            format!("CREATE TABLE {}.told (id int PRIMARY KEY)", app.keyspace),
            (),
        )
        .await?;
    eventually("the new table is told of", is_known).await?;
    other
        .query_unpaged(format!("DROP TABLE {}.told", app.keyspace), ())
        .await?;
    eventually("its end is told of", async || !is_known().await).await?;
    Ok("told".into())
}

/// Reads of keys that one node has: how many that node was asked for, as their traces say.
async fn token_aware(app: &Application) -> Found {
    let insert = app
        .session
        .prepare("INSERT INTO keyed (k, n) VALUES (?, ?)")
        .await?;
    let mut select = app
        .session
        .prepare("SELECT k FROM keyed WHERE k = ? AND n = ?")
        .await?;
    select.set_tracing(true);
    let mut of_replicas = 0;
    for n in 0..30 {
        let key = (format!("key {n}"), n);
        app.session.execute_unpaged(&insert, &key).await?;
        let result = app.session.execute_unpaged(&select, &key).await?;
        let (trace, reader) = traced(app, &result).await?;
        of_replicas += u32::from(trace.coordinator == Some(reader));
    }
    Ok(format!("{of_replicas} of 30").into())
}

/// 500 requests on one connection, none waiting for another's answer.
async fn in_flight(app: &Application) -> Found {
    let wish = Wish {
        only: app.contact(),
        in_keyspace: Some(&app.keyspace),
        ..Wish::default()
    };
    let crowded = open(&app.given, wish).await?;
    let insert = crowded
        .prepare("INSERT INTO crowded (id, v) VALUES (?, ?)")
        .await?;
    let select = crowded.prepare("SELECT v FROM crowded WHERE id = ?").await?;
    try_join_all((0..500).map(|id: i32| crowded.execute_unpaged(&insert, (id, -id)))).await?;
    let found = try_join_all((0..500).map(|id: i32| crowded.execute_unpaged(&select, (id,)))).await?;
    let mut total = 0;
    for result in found {
        let (v,): (i32,) = result.into_rows_result()?.single_row()?;
        total += v;
    }
    Ok(total.into())
}

/// 200 connections to all nodes together, each used.
async fn connections(app: &Application) -> Found {
    let each = 200 / app.nodes;
    let wish = Wish {
        connections: each,
        in_keyspace: Some(&app.keyspace),
        ..Wish::default()
    };
    let many = open(&app.given, wish).await?;
    let select = || many.query_unpaged("SELECT name FROM t WHERE id = 1", ());
    try_join_all((0..600).map(|_| select())).await?;
    Ok(each.into())
}

/// Whether the rows are there.
pub(crate) async fn reads(session: &scylla::client::session::Session, statement: Statement) -> bool {
    let Ok(result) = session.query_unpaged(statement, ()).await else {
        return false;
    };
    result
        .into_rows_result()
        .is_ok_and(|rows| rows.maybe_first_row::<Row>().is_ok_and(|row| row.is_some()))
}
