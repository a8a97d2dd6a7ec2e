//! What a node's absence looks like; the harness brings it about when all programs have said that they are
//! ready.

use scylla::statement::{Consistency, Statement};
use serde_json::{Value, json};

use crate::checks::reads;
use crate::{
    Application, Found, PATIENCE, Reason, Wish, eventually, eventually_within, failure, open, passed, say,
};

fn reached(stage: &str) {
    say(json!({ "reached": stage }));
}

/// Waits until the harness has come to this stage.
async fn stage(app: &Application, name: &str) -> Result<(), Reason> {
    let has_come = async || {
        let text = std::fs::read_to_string(&app.given["stage"]).unwrap_or_default();
        text.split_whitespace().any(|stage| stage == name)
    };
    eventually_within(3 * PATIENCE, name, has_come).await
}

fn by_all(cql: &str) -> Statement {
    let mut statement = Statement::new(cql);
    statement.set_consistency(Consistency::All);
    statement
}

pub(crate) async fn outage(app: &Application) -> Found {
    let wish = Wish {
        only: app.contact(),
        in_keyspace: Some(&app.keyspace),
        ..Wish::default()
    };
    let contact = open(&app.given, wish).await?;
    let read = || by_all("SELECT v FROM held WHERE id = 1");
    let write = || by_all("INSERT INTO held (id, v) VALUES (1, 1)");
    contact.query_unpaged(write(), ()).await?;
    reached("ready");
    stage(app, "paused").await?;
    passed("timeout-read", failure(contact.query_unpaged(read(), ()).await)?);
    passed(
        "timeout-write",
        failure(contact.query_unpaged(write(), ()).await)?,
    );
    reached("paused");
    stage(app, "killed").await?;
    eventually("a node is lost", async || app.nodes(false).len() == 1).await?;
    passed("event-down", json!(app.nodes(false)));
    let knows = async || matches!(contact.query_unpaged(read(), ()).await, Err(error) if error.to_string().contains("Not enough nodes"));
    eventually("the coordinator knows", knows).await?;
    passed("unavailable", failure(contact.query_unpaged(read(), ()).await)?);
    reached("killed");
    stage(app, "restarted").await?;
    app.all_are_connected().await?;
    passed("event-up", json!(app.nodes(true)));
    eventually("reads of all replicas", async || reads(&contact, read()).await).await?;
    passed(
        "after-restart",
        app.rows("SELECT v FROM held WHERE id = 1").await?,
    );
    reached("restarted");
    Ok(Value::Null)
}

pub(crate) async fn reconnect(app: &Application) -> Found {
    app.run("INSERT INTO t (id, name) VALUES (1, 'kept')").await?;
    reached("ready");
    stage(app, "restarted").await?;
    let select = || Statement::new("SELECT name FROM t WHERE id = 1");
    eventually("reads", async || reads(&app.session, select()).await).await?;
    passed("reconnected", app.rows(select()).await?);
    reached("restarted");
    Ok(Value::Null)
}
