//! The session of the Rust driver that is recorded: what its API can make it say. It speaks version 4 only.
//!
//! usage: session HOST PORT 4 none|lz4|snappy FOLDER
//!
//! Each line of FOLDER/tables.cql is sent as it is, refused ones too; without compression those of
//! FOLDER/more.cql follow.

use std::error::Error;
use std::fmt::Display;
use std::num::NonZeroUsize;
use std::time::Duration;

use futures_util::TryStreamExt;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::client::{Compression, PoolSize};
use scylla::response::query_result::QueryResult;
use scylla::statement::batch::{Batch, BatchType};
use scylla::statement::unprepared::Statement;
use scylla::statement::{Consistency, SerialConsistency};
use scylla::value::{MaybeUnset, Row};

type Outcome = Result<(), Box<dyn Error>>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Outcome {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [host, port, _version, compression, folder] = &arguments[..] else {
        return Err("five arguments".into());
    };
    let tables = std::fs::read_to_string(format!("{folder}/tables.cql"))?;
    let (creation, rest): (Vec<_>, Vec<_>) = tables.lines().enumerate().partition(|(line, _)| *line < 2);
    let one = NonZeroUsize::new(1).ok_or("one is not zero")?;
    let session = SessionBuilder::new()
        .known_node(format!("{host}:{port}"))
        .compression(match compression.as_str() {
            "lz4" => Some(Compression::Lz4),
            "snappy" => Some(Compression::Snappy),
            _ => None,
        })
        .pool_size(PoolSize::PerHost(one))
        .fetch_schema_metadata(false)
        .connection_timeout(Duration::from_secs(60))
        .build()
        .await?;
    for (_, statement) in creation {
        ask(&session, statement).await;
    }
    session.use_keyspace("golden", false).await?;
    for (_, statement) in rest {
        ask(&session, statement).await;
    }
    bound(&session).await?;
    if compression == "none" {
        for statement in std::fs::read_to_string(format!("{folder}/more.cql"))?.lines() {
            ask(&session, statement).await;
        }
        batches(&session).await?;
        options(&session).await;
    }
    if compression == "lz4" {
        let long = "long ".repeat(30_000);
        session
            .query_unpaged("INSERT INTO queue (k, t, v) VALUES ('long', 9, ?)", (long,))
            .await?;
        ask(&session, "SELECT v FROM queue WHERE k = 'long'").await;
    }
    ask(&session, "DROP KEYSPACE golden").await;
    Ok(())
}

async fn bound(session: &Session) -> Outcome {
    let insert = session
        .prepare("INSERT INTO bound (a, b, c, v, s) VALUES (?, ?, ?, ?, ?)")
        .await?;
    for c in 0..12_i32 {
        let written = "v".repeat(usize::try_from(c)?);
        let shared = (c % 2 == 0).then_some(c);
        session
            .execute_unpaged(&insert, (2, "paged", c, written, shared))
            .await?;
    }
    let unset: (MaybeUnset<&str>, MaybeUnset<i32>) = (MaybeUnset::Unset, MaybeUnset::Unset);
    session
        .execute_unpaged(&insert, (2, "unset", 1, unset.0, unset.1))
        .await?;
    let mut select = session
        .prepare("SELECT a, b, c, v FROM bound WHERE a = ? AND b = ?")
        .await?;
    select.set_page_size(5);
    read(session.execute_iter(select.clone(), (2, "paged")).await?).await?;
    let mut listed = session
        .prepare("SELECT * FROM bound WHERE a IN ? AND b = :b")
        .await?;
    listed.set_consistency(Consistency::LocalQuorum);
    session.execute_unpaged(&listed, (vec![1, 2, 2], "first")).await?;
    let typed = session.prepare("SELECT * FROM every_type WHERE k = ?").await?;
    session.execute_unpaged(&typed, (1,)).await?;
    // The node forgets what the change concerns: version 4 and later hear UNPREPARED.
    ask(session, "ALTER TABLE bound ADD extra int").await;
    session.execute_unpaged(&select, (2, "paged")).await?;
    session.execute_unpaged(&listed, (vec![1], "first")).await?;
    Ok(())
}

async fn read(pager: scylla::client::pager::QueryPager) -> Outcome {
    let mut rows = pager.rows_stream::<Row>()?;
    while rows.try_next().await?.is_some() {}
    Ok(())
}

async fn batches(session: &Session) -> Outcome {
    let insert = session
        .prepare("INSERT INTO bound (a, b, c, v) VALUES (?, ?, ?, ?)")
        .await?;
    let mut unlogged = Batch::new(BatchType::Unlogged);
    let values: Vec<(i32, &str, i32, &str)> = (0..11).map(|a| (a, "batch", a, "v")).collect();
    values
        .iter()
        .for_each(|_| unlogged.append_statement(insert.clone()));
    session.batch(&unlogged, values).await?;
    let mut logged = Batch::new(BatchType::Logged);
    logged.set_serial_consistency(Some(SerialConsistency::LocalSerial));
    logged.append_statement("DELETE FROM queue WHERE k = 'a'");
    logged.append_statement("DELETE FROM bound WHERE a = 0 AND b = 'batch'");
    session.batch(&logged, ((), ())).await?;
    let mut counters = Batch::new(BatchType::Counter);
    counters.append_statement("UPDATE counted SET n = n - 1 WHERE k = 1");
    session.batch(&counters, ((),)).await?;
    Ok(())
}

async fn options(session: &Session) {
    let mut two = Statement::new("SELECT * FROM bound");
    two.set_consistency(Consistency::Two);
    report(session.query_unpaged(two, ()).await);
    let mut traced = Statement::new("SELECT n FROM counted");
    traced.set_tracing(true);
    report(session.query_unpaged(traced, ()).await);
}

/// What the node refuses is part of the recording.
async fn ask(session: &Session, statement: &str) {
    report(session.query_unpaged(statement, ()).await);
}

fn report<E: Display>(outcome: Result<QueryResult, E>) {
    if let Err(refused) = outcome {
        println!("{refused}");
    }
}
