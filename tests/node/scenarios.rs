//! What the format of scenarios promises, on the embedded node.

use cqlens_node::scenario::{RunError, Scenario};

use super::*;

fn scenario(steps: &str) -> Scenario {
    let schema = format!("{KEYSPACE} CREATE TABLE k.t (id int PRIMARY KEY, v text);");
    let traffic = format!("title = 't'\nsource = 's'\nabout = 'a'\n{steps}");
    Scenario::parse("k", &schema, &traffic).unwrap()
}

#[tokio::test]
async fn rows_of_a_step_are_there_for_the_next_one_and_random_numbers_repeat() {
    let node = node().await;
    let scenario = scenario(
        r#"
        [[phase]]
        repeat = 10
        clients = 3
        [[phase.step]]
        cql = "INSERT INTO k.t (id, v) VALUES (?, ?)"
        values = ["${i}", "${random(1000)}"]
        [[phase]]
        [[phase.step]]
        name = "some"
        cql = "SELECT id FROM k.t WHERE id IN ?"
        values = [["1", "3", "99"]]
        [[phase.step]]
        for-each = "some"
        together = true
        times = 2
        cql = "UPDATE k.t SET v = ? WHERE id = ?"
        values = ["${some.id} ${j}", "${some.id}"]
        "#,
    );
    let totals = scenario
        .run(node.address(), &ClientOptions::default())
        .await
        .unwrap();
    assert_eq!((totals.requests, totals.refused, totals.rows), (10 + 1 + 4, 0, 2));
    let mut client = connect(&node).await;
    assert_eq!(
        rows(&mut client, "SELECT v FROM k.t WHERE id IN (1, 3)").await,
        ["1 1", "3 1"]
    );
    let random = rows(&mut client, "SELECT v FROM k.t").await;
    client.query("DROP TABLE k.t").await.unwrap();
    scenario
        .run(node.address(), &ClientOptions::default())
        .await
        .unwrap();
    assert_eq!(rows(&mut client, "SELECT v FROM k.t").await, random);
}

#[tokio::test]
async fn a_phase_may_begin_where_another_one_ended() {
    let node = node().await;
    let step = "[[phase.step]]\ncql = 'INSERT INTO k.t (id) VALUES (?)'\nvalues = ['${i}']\n";
    let scenario = scenario(&format!("[[phase]]\nfirst = 5\nrepeat = 3\nclients = 2\n{step}"));
    let ran = scenario.run(node.address(), &ClientOptions::default()).await;
    assert_eq!(ran.unwrap().requests, 3);
    let mut client = connect(&node).await;
    let mut ids = rows(&mut client, "SELECT id FROM k.t").await;
    ids.sort_unstable();
    assert_eq!(ids, ["5", "6", "7"]);
}

#[tokio::test]
async fn a_statement_that_the_node_has_forgotten_is_prepared_again() {
    let node = node().await;
    // Every change of a table makes the node forget the statements on it.
    let scenario = scenario(
        r#"
        [[phase]]
        repeat = 3
        [[phase.step]]
        cql = "SELECT * FROM k.t WHERE id = ?"
        values = ["${j}"]
        times = 2
        together = true
        [[phase.step]]
        cql = "INSERT INTO k.t (id) VALUES (?)"
        values = [1]
        [[phase.step]]
        prepared = false
        cql = "ALTER TABLE k.t ADD column_${i} int"
        "#,
    );
    let totals = scenario
        .run(node.address(), &ClientOptions::default())
        .await
        .unwrap();
    assert_eq!((totals.requests, totals.refused), (3 * 4, 0));
}

#[tokio::test]
async fn a_refusal_ends_a_scenario_unless_it_is_part_of_the_story() {
    let node = node().await;
    let step = "[[phase]]\n[[phase.step]]\nprepared = false\ncql = 'SELECT * FROM k.t WHERE v = 1'\n";
    let error = scenario(step)
        .run(node.address(), &ClientOptions::default())
        .await
        .unwrap_err();
    assert!(matches!(error, RunError::Step { .. }), "{error}");
    assert!(
        error.to_string().contains("SELECT * FROM k.t WHERE v = 1"),
        "{error}"
    );
    let mut client = connect(&node).await;
    client.query("DROP TABLE k.t").await.unwrap();
    let allowed = scenario(&format!("{step}may-fail = true\n"));
    let totals = allowed
        .run(node.address(), &ClientOptions::default())
        .await
        .unwrap();
    assert_eq!((totals.requests, totals.refused), (1, 1));
}
