//! Requests that drivers do not send, or not on purpose: values of wrong lengths, missing and surplus ones,
//! names on the wire, keyspaces in the request, ids that nobody has prepared.
//!
//! Each is traced: the test says what it touches, the server's trace confirms it, and the report has to agree
//! with both.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use cqlens_client::{Bind, Client, ClientOptions, Prepared, Run, RunOptions};
use cqlens_proto::envelope::Version;
use cqlens_proto::message::{
    Batch, BatchKind, BatchQuery, BatchStatement, Consistency, Execute, Extensions, Extras, PreparedId,
    Query, QueryParameters, Request, Response, ResultMetadataId, Value, Values, ValuesBuf,
};
use cqlens_proto::types::Uuid;

use super::{Asked, assert_covered, disagreements};
use crate::node;
use crate::support::{cassandra::Release, proxy::Proxy, say};

const LIMIT: Duration = Duration::from_secs(300);

/// What the server makes of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// It touches so many partitions.
    Touches(u64),
    /// It is an error, and touches nothing.
    Refused,
}
use Fate::{Refused, Touches};

#[tokio::test(flavor = "multi_thread")]
async fn what_no_driver_sends_is_counted_as_the_server_does() {
    let Some(node) = node() else { return };
    for version in [Version::V3, Version::V4, Version::V5] {
        let folder = tempfile::tempdir().unwrap();
        let report_file = folder.path().join("report.json");
        let options = ["--window", "3600s", "--report", report_file.to_str().unwrap()];
        let proxy = Proxy::start(env!("CARGO_BIN_EXE_cqlens"), node.address(), &options);
        let options = ClientOptions {
            version,
            timeout: LIMIT,
            ..ClientOptions::default()
        };
        let keyspace = format!("counting_raw_{}", version.number());
        let mut application = Application {
            client: Client::connect(proxy.address, &options).await.unwrap(),
            direct: Client::connect(node.address(), &options).await.unwrap(),
            keyspace,
            cases: BTreeMap::new(),
            disagreements: Vec::new(),
        };
        application.run().await;
        let Application {
            keyspace,
            cases,
            disagreements: mut found,
            ..
        } = application;
        let ended = proxy.stop(LIMIT);
        assert_eq!(ended.code, 0, "{}", ended.log);
        let report = serde_json::from_slice(&std::fs::read(report_file).unwrap()).unwrap();
        let asked: Vec<Asked> = cases.into_iter().map(asked).collect();
        let asked: Vec<&Asked> = asked.iter().collect();
        found.extend(disagreements(&report, &keyspace, &asked));
        assert!(found.is_empty(), "version {version:?}:\n{}", found.join("\n"));
        assert_covered(&report, &asked);
    }
}

struct Application {
    /// Through the proxy.
    client: Client,
    /// Past it.
    direct: Client,
    keyspace: String,
    /// What became of the requests of each case.
    cases: BTreeMap<String, Vec<Fate>>,
    /// Between what is expected here and the server.
    disagreements: Vec<String>,
}

impl Application {
    async fn run(&mut self) {
        self.define().await;
        self.values_of_wrong_lengths().await;
        self.values_that_are_missing().await;
        // 6.0-alpha2 takes values by their place, whatever their names: see docs/reading-a-report.md.
        if Release::default() == Release::V6_0 {
            say("left out: values by name, which Cassandra 6.0-alpha2 does not read\n");
        } else {
            self.values_by_name().await;
        }
        self.equal_by_type_and_by_bytes().await;
        self.keyspaces().await;
        self.odd_messages().await;
    }

    async fn define(&mut self) {
        let name = &self.keyspace;
        let script = format!(
            "DROP KEYSPACE IF EXISTS {name};
             DROP KEYSPACE IF EXISTS {name}_other;
             CREATE KEYSPACE {name} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}};
             CREATE KEYSPACE {name}_other WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}};
             USE {name};
             CREATE TABLE one (k int PRIMARY KEY, v int);
             CREATE TABLE two (a int, b text, v int, PRIMARY KEY ((a, b)));
             CREATE TABLE words (k text PRIMARY KEY, v int);
             CREATE TABLE numbers (k varint PRIMARY KEY, v int, w_numbers int);
             CREATE TABLE sets (k frozen<set<int>> PRIMARY KEY, v int);
             CREATE TABLE same (a int, b int, v int, w_same int, PRIMARY KEY (a, b));
             CREATE TABLE {name}_other.same (a int, b int, v int, w_same int, PRIMARY KEY ((a, b)));"
        );
        self.client.script(&script).await.unwrap();
        self.direct.query(&format!("USE {name}")).await.unwrap();
    }

    async fn values_of_wrong_lengths(&mut self) {
        let one = self.prepare("SELECT v AS r_length FROM one WHERE k = ?").await;
        for (bytes, fate) in [
            (&[0, 0, 0, 1][..], Touches(1)),
            (&[0, 0, 1], Refused),
            (&[0, 0, 0, 0, 1], Refused),
            // An int may be empty, a key may not.
            (&[], Refused),
        ] {
            self.execute("r_length", fate, &one, &[Value::Bytes(bytes)]).await;
        }
        let two = self
            .prepare("SELECT v AS r_lengths FROM two WHERE a = ? AND b = ?")
            .await;
        let word = Value::Bytes(b"x");
        self.execute("r_lengths", Touches(1), &two, &[Value::Bytes(&[]), word])
            .await;
        self.execute("r_lengths", Refused, &two, &[Value::Bytes(&[1]), word])
            .await;
        let list = self
            .prepare("SELECT v AS r_length_in FROM one WHERE k IN ?")
            .await;
        for (elements, fate) in [
            (&[Some(&[0, 0, 0, 1][..]), Some(&[0, 0, 0, 1])][..], Touches(1)),
            (&[Some(&[0, 0, 0, 1]), Some(&[1])], Refused),
            (&[Some(&[0, 0, 0, 1]), None], Refused),
            (&[Some(&[0, 0, 0, 1]), Some(&[])], Refused),
        ] {
            let bytes = list_of(elements);
            self.execute("r_length_in", fate, &list, &[Value::Bytes(&bytes)])
                .await;
        }
        let words = self
            .prepare("SELECT v AS r_words FROM words WHERE k IN (?, ?)")
            .await;
        for (first, fate) in [
            (&b"a"[..], Touches(2)),
            (b"b", Touches(1)),
            (b"", Refused),
            (b"\xff", Refused),
            (&[b'a'; 1 << 16], Refused),
        ] {
            self.execute(
                "r_words",
                fate,
                &words,
                &[Value::Bytes(first), Value::Bytes(b"b")],
            )
            .await;
        }
        // Values of other types that have the right length are values all the same.
        self.query(
            "r_length_text",
            Touches(1),
            "SELECT v AS r_length_text FROM words WHERE k = ?",
            &[Value::Bytes(&[0, 0, 0, 1])],
        )
        .await;
    }

    async fn values_that_are_missing(&mut self) {
        let number = Value::Bytes(&[0, 0, 0, 1]);
        let list = self.prepare("SELECT v AS r_null_in FROM one WHERE k IN ?").await;
        self.execute("r_null_in", Refused, &list, &[Value::Null]).await;
        let two = self
            .prepare("UPDATE two SET v = 1 WHERE a = ? AND b = ? IF v = ?")
            .await;
        let word = Value::Bytes(b"x");
        // With a key and without the value of its condition the server fails, by an index of its own: that is
        // unknown.
        for values in [&[number, word, number, number][..], &[]] {
            self.execute("two", Refused, &two, values).await;
        }
        self.execute("two", Refused, &two, &[Value::Null, word, number])
            .await;
        if self.client.version() == Version::V3 {
            return;
        }
        self.execute("two", Refused, &two, &[number, Value::NotSet, number])
            .await;
        self.execute("r_null_in", Refused, &list, &[Value::NotSet]).await;
        let mut unset = 1_i32.to_be_bytes().to_vec();
        unset.extend((-2_i32).to_be_bytes());
        self.execute("r_null_in", Refused, &list, &[Value::Bytes(&unset)])
            .await;
        let limited = self
            .prepare("SELECT v AS r_unset FROM same WHERE a IN ? AND b > ? PER PARTITION LIMIT ?")
            .await;
        let keys = list_of(&[Some(&[0, 0, 0, 1]), Some(&[0, 0, 0, 2])]);
        let keys = Value::Bytes(&keys);
        self.execute("r_unset", Touches(2), &limited, &[keys, number, Value::NotSet])
            .await;
        self.execute("r_unset", Refused, &limited, &[keys, Value::NotSet, number])
            .await;
    }

    async fn values_by_name(&mut self) {
        let (one, two) = (Value::Bytes(&[0, 0, 0, 1]), Value::Bytes(&[0, 0, 0, 2]));
        let word = Value::Bytes(b"x");
        let text = "SELECT v AS r_names FROM two WHERE a = :first AND b = :second";
        for (values, fate) in [
            (&[("second", word), ("first", one)][..], Touches(1)),
            (&[("first", one), ("second", word), ("third", two)], Touches(1)),
            (&[("first", one)], Refused),
            (&[("First", one), ("second", word)], Refused),
        ] {
            let values = ValuesBuf::by_name(values.iter().copied()).unwrap();
            self.query_with("r_names", fate, text, &values, None).await;
        }
        // Markers without a name have that of their column.
        let prepared = self
            .prepare("SELECT v AS r_columns FROM same WHERE b = ? AND a IN ? LIMIT ?")
            .await;
        let keys = list_of(&[Some(&[0, 0, 0, 1]), Some(&[0, 0, 0, 2]), Some(&[0, 0, 0, 1])]);
        let values = [("in(a)", Value::Bytes(&keys)), ("[limit]", two), ("b", one)];
        let values = ValuesBuf::by_name(values).unwrap();
        self.execute_with("r_columns", Touches(2), &prepared, &values)
            .await;
        let twice = "SELECT v AS r_twice FROM same WHERE a IN (:x, :y) AND b = :x";
        let values = ValuesBuf::by_name([("y", one), ("x", one)]).unwrap();
        self.query_with("r_twice", Touches(1), twice, &values, None).await;
        let values = ValuesBuf::by_name([("x", one), ("y", two)]).unwrap();
        self.query_with("r_twice", Touches(2), twice, &values, None).await;
    }

    async fn equal_by_type_and_by_bytes(&mut self) {
        let list = self
            .prepare("SELECT v AS r_equal FROM numbers WHERE k IN ?")
            .await;
        let keys = list_of(&[Some(&[1]), Some(&[0, 0, 1]), Some(&[2])]);
        self.execute("r_equal", Touches(2), &list, &[Value::Bytes(&keys)])
            .await;
        let write = self.prepare("UPDATE numbers SET w_numbers = 1 WHERE k = ?").await;
        let keys: [&[Value<'_>]; 3] = [
            &[Value::Bytes(&[1])],
            &[Value::Bytes(&[0, 0, 1])],
            &[Value::Bytes(&[1])],
        ];
        self.batch(
            "w_numbers",
            Touches(2),
            keys.map(|values| (&write, values)).as_slice(),
        )
        .await;
        // A set is sorted before it is a key.
        let (one, two) = ([0, 0, 0, 1], [0, 0, 0, 2]);
        let sets = [[&one[..], &two], [&two, &one]].map(|elements| list_of(&elements.map(Some)));
        let keys = list_of(&[Some(&sets[0]), Some(&sets[1])]);
        let list = self.prepare("SELECT v AS r_sets FROM sets WHERE k IN ?").await;
        self.execute("r_sets", Touches(1), &list, &[Value::Bytes(&keys)])
            .await;
    }

    /// One statement over two tables of one name, which differ in their partition keys.
    async fn keyspaces(&mut self) {
        let (here, other) = (self.keyspace.clone(), format!("{}_other", self.keyspace));
        let numbers = list_of(&[Some(&[0, 0, 0, 1]), Some(&[0, 0, 0, 2])]);
        let values = [Value::Bytes(&numbers), Value::Bytes(&numbers)];
        let text = |case: &str| format!("SELECT v AS {case} FROM same WHERE a IN ? AND b IN ?");
        let before_use = self.prepare(&text("r_before_use")).await;
        self.query("r_here", Touches(2), &text("r_here"), &values).await;
        self.client.query(&format!("USE {other}")).await.unwrap();
        self.query("r_other", Touches(4), &text("r_other"), &values).await;
        self.execute("r_before_use", Touches(2), &before_use, &values)
            .await;
        let after_use = self.prepare(&text("r_after_use")).await;
        self.execute("r_after_use", Touches(4), &after_use, &values).await;
        if self.client.version() == Version::V5 {
            let positional = ValuesBuf::positional(values).unwrap();
            let flagged = text("r_flagged");
            self.query_with("r_flagged", Touches(2), &flagged, &positional, Some(&here))
                .await;
            let prepared = self
                .client
                .prepare_in(&text("r_prepared_in"), Some(&here))
                .await
                .unwrap();
            self.execute("r_prepared_in", Touches(2), &prepared, &values)
                .await;
            // Two rows of one partition here, two partitions there.
            let write = "INSERT INTO same (a, b, w_same) VALUES (1, 1, 1)";
            let again = "INSERT INTO same (a, b, w_same) VALUES (1, 2, 1)";
            let request = Request::Batch(Batch {
                kind: BatchKind::Unlogged,
                statements: [write, again]
                    .map(|text| BatchStatement {
                        query: BatchQuery::Text(text),
                        values: Values::NONE,
                    })
                    .to_vec(),
                consistency: Consistency::One,
                serial_consistency: None,
                timestamp: None,
                keyspace: Some(&here),
                now_in_seconds: None,
                other_flags: 0,
            });
            self.ask("w_same", Touches(1), &request).await;
        }
        self.client.query(&format!("USE {here}")).await.unwrap();
    }

    async fn odd_messages(&mut self) {
        self.batch("BEGIN BATCH APPLY BATCH", Touches(0), &[]).await;
        let select = self.prepare("SELECT v AS r_in_batch FROM one WHERE k = ?").await;
        let number = [Value::Bytes(&[0, 0, 0, 1])];
        self.batch("r_in_batch", Refused, &[(&select, &number)]).await;
        let unknown = Prepared {
            id: vec![7; 16],
            ..select
        };
        self.execute("seen", Refused, &unknown, &number).await;
        self.query("r_nowhere", Refused, "SELECT v AS r_nowhere FROM nowhere", &[])
            .await;
        self.query(
            "r_no_key",
            Refused,
            "SELECT v AS r_no_key FROM one WHERE v = 1",
            &[],
        )
        .await;
    }

    async fn prepare(&mut self, cql: &str) -> Prepared {
        self.client.prepare(cql).await.unwrap()
    }

    async fn execute(&mut self, case: &str, fate: Fate, prepared: &Prepared, values: &[Value<'_>]) {
        let values = ValuesBuf::positional(values.iter().copied()).unwrap();
        self.execute_with(case, fate, prepared, &values).await;
    }

    async fn execute_with(&mut self, case: &str, fate: Fate, prepared: &Prepared, values: &ValuesBuf) {
        let request = Request::Execute(Execute {
            id: PreparedId(&prepared.id),
            result_metadata_id: prepared.result_metadata_id.as_deref().map(ResultMetadataId),
            parameters: QueryParameters {
                values: values.values(),
                ..QueryParameters::new(Consistency::One)
            },
        });
        self.ask(case, fate, &request).await;
    }

    async fn query(&mut self, case: &str, fate: Fate, text: &str, values: &[Value<'_>]) {
        let values = ValuesBuf::positional(values.iter().copied()).unwrap();
        self.query_with(case, fate, text, &values, None).await;
    }

    async fn query_with(
        &mut self,
        case: &str,
        fate: Fate,
        query: &str,
        values: &ValuesBuf,
        keyspace: Option<&str>,
    ) {
        let parameters = QueryParameters {
            values: values.values(),
            keyspace,
            ..QueryParameters::new(Consistency::One)
        };
        self.ask(case, fate, &Request::Query(Query { query, parameters }))
            .await;
    }

    async fn batch(&mut self, case: &str, fate: Fate, statements: &[(&Prepared, &[Value<'_>])]) {
        let values: Vec<ValuesBuf> = statements
            .iter()
            .map(|(_, values)| ValuesBuf::positional(values.iter().copied()).unwrap())
            .collect();
        let statements = statements.iter().zip(&values);
        let request = Request::Batch(Batch::new(
            BatchKind::Logged,
            statements
                .map(|((prepared, _), values)| BatchStatement {
                    query: BatchQuery::Prepared(PreparedId(&prepared.id)),
                    values: values.values(),
                })
                .collect(),
            Consistency::One,
        ));
        self.ask(case, fate, &request).await;
    }

    /// Sends a request, holds what is expected against the answer and its trace, and puts it to the account
    /// of the case.
    async fn ask(&mut self, case: &str, fate: Fate, request: &Request<'_>) {
        let extras = Extras {
            tracing: true,
            ..Extras::default()
        };
        let envelope = self.client.request_with(request, &extras).await.unwrap();
        let decoded = Response::decode(&envelope, Extensions::NONE).unwrap();
        let error = match decoded.message {
            Response::Error(error) => Some(error.message.to_owned()),
            _ => None,
        };
        let touched = match decoded.extras.tracing_id {
            Some(trace_id) => self.touched(trace_id).await,
            None => 0,
        };
        let seen = match error {
            None => Touches(touched),
            Some(_) => Refused,
        };
        if seen != fate || (fate == Refused && touched > 0) {
            self.disagreements.push(format!(
                "{case}: {fate:?} expected, the server: {seen:?}, {touched} traced, {error:?}"
            ));
        }
        self.cases.entry(case.to_owned()).or_default().push(seen);
    }

    /// Partitions read by their keys and partitions written, as Cassandra 5.0's trace names them.
    async fn touched(&mut self, trace_id: Uuid) -> u64 {
        const ENDED: &str = "SELECT duration FROM system_traces.sessions WHERE session_id = ?";
        const EVENTS: &str = "SELECT activity FROM system_traces.events WHERE session_id = ?";
        let id = [Bind::Bytes(trace_id.0.to_vec().into())];
        let deadline = Instant::now() + LIMIT;
        let options = RunOptions::default();
        // The duration is written last.
        loop {
            let answer = self.direct.run(Run::Text(ENDED, &id), &options).await.unwrap();
            if answer.rows.iter().flatten().any(Option::is_some) {
                break;
            }
            assert!(Instant::now() < deadline, "no trace within {LIMIT:?}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let answer = self.direct.run(Run::Text(EVENTS, &id), &options).await.unwrap();
        let activities = answer.rows.iter().flatten().flatten();
        let touching = activities.filter(|activity| {
            activity.starts_with(b"Executing single-partition query on ")
                || (activity.starts_with(b"Adding to ")
                    && activity.ends_with(b" memtable")
                    && **activity != b"Adding to batches memtable"[..])
        });
        touching.count() as u64
    }
}

/// What the requests of a case are together.
fn asked((case, fates): (String, Vec<Fate>)) -> Asked {
    let executed = fates.iter().filter_map(|fate| match fate {
        Touches(count) => Some(*count),
        Refused => None,
    });
    let counts: Vec<u64> = executed.collect();
    let several = counts.iter().filter(|&&count| count > 1).count();
    // Of equally many executions the worse class is the pattern's.
    let class = match counts.len() {
        0 => "unknown",
        all if several * 2 >= all => "multi",
        _ => "single",
    };
    Asked {
        proxy: String::new(),
        case,
        requests: counts.len() as u64,
        refused: (fates.len() - counts.len()) as u64,
        partitions: counts.iter().sum(),
        min: counts.iter().copied().min().unwrap_or_default(),
        max: counts.iter().copied().max().unwrap_or_default(),
        class: class.to_owned(),
        coverage: BTreeMap::from([("exact".to_owned(), counts.len() as u64)]),
        in_flight: 0,
        errors: 0,
        reads: None,
    }
}

/// A list or set: the number of its elements, and each with its length; none is null.
fn list_of(elements: &[Option<&[u8]>]) -> Vec<u8> {
    let mut bytes = i32::try_from(elements.len()).unwrap().to_be_bytes().to_vec();
    for element in elements {
        let length = element.map_or(-1, |bytes| i32::try_from(bytes.len()).unwrap());
        bytes.extend(length.to_be_bytes());
        bytes.extend(element.unwrap_or_default());
    }
    bytes
}
