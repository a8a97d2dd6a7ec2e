//! Whose requests are whose: a session is what STARTUP calls it, over all connections and addresses.

use std::net::{IpAddr, SocketAddr};

use bytes::BytesMut;
use cqlens_proto::{
    envelope::{Envelope, Header, Opcode, StreamId, Version},
    message::{
        ColumnSpec, Consistency, Dialect, Extras, Query, QueryParameters, QueryResult, Request, Response,
        ResultMetadata, Rows, RowsContent, Startup, result::ColumnSpecsBuf,
    },
    types::CqlType,
};
use serde_json::Value;

use crate::sniff::{
    sniff::Place,
    tcp::{Segment, capture},
    together::Talk,
};

const SCHEMA: &str = "
    CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};
    CREATE TABLE k.members (groupname text, user_id bigint, PRIMARY KEY (groupname, user_id));
    CREATE TABLE k.users (id bigint PRIMARY KEY, name bigint);";

const BEGIN: u64 = 1_700_000_000_000_000_000;

const MILLISECOND: u64 = 1_000_000;

const GROUPS: u64 = 40;

const MEMBERS: u64 = 10;

const DIALECT: Dialect = Dialect::new(Version::V4);

/// A group each second, and its members one after the other, in turns over connections from two addresses, whose STARTUP
/// has these options. What a report says of it.
fn sequences(startups: [(&str, &str); 2]) -> Vec<Value> {
    let mut packets: Vec<Segment> = Vec::new();
    for (connection, option) in (0_u8..).zip(startups) {
        let client = SocketAddr::new(IpAddr::from([10, 0, 0, 7 + connection]), 50_000);
        let mut talk = Talk::open(&mut packets, BEGIN, client);
        let startup = Request::Startup(Startup {
            options: vec![("CQL_VERSION", "3.0.0"), option],
        });
        talk.say(BEGIN, true, &request(&startup));
        talk.say(BEGIN, false, &answer(Opcode::READY, b""));
        for group in 0..GROUPS {
            let began = BEGIN + (1 + group) * 1_000 * MILLISECOND;
            let users: Vec<u64> = (0..MEMBERS).map(|member| group * 100 + member).collect();
            if group % 2 == u64::from(connection) {
                let list = format!("SELECT user_id FROM k.members WHERE groupname = 'group {group}'");
                talk.say(began, true, &query(&list));
                talk.say(began + MILLISECOND, false, &rows("user_id", &users));
            }
            for (user, at) in users.iter().zip(1..) {
                if user % 2 == u64::from(connection) {
                    let asked = began + at * 3 * MILLISECOND;
                    talk.say(
                        asked,
                        true,
                        &query(&format!("SELECT name FROM k.users WHERE id = {user}")),
                    );
                    talk.say(asked + MILLISECOND, false, &rows("name", &[user + 1_000_000]));
                }
            }
        }
    }
    packets.sort_by_key(|segment| segment.at);
    let place = Place::new();
    let file = place.write("sessions.pcap", &capture(&packets).plain());
    let schema = place.write("schema.cql", SCHEMA.as_bytes());
    let sniffed = place.sniff(
        &[&file],
        &["--window", "3600s", "--schema", schema.to_str().unwrap()],
    );
    sniffed.report()["sequences"].as_array().unwrap().clone()
}

fn query(text: &str) -> Vec<u8> {
    request(&Request::Query(Query {
        query: text,
        parameters: QueryParameters::new(Consistency::One),
    }))
}

fn request(request: &Request<'_>) -> Vec<u8> {
    let envelope = request.to_envelope(DIALECT, StreamId(1), &Extras::default());
    bytes_of(&envelope.unwrap())
}

fn rows(column: &str, values: &[u64]) -> Vec<u8> {
    let mut content = RowsContent::new(1);
    for value in values {
        content.push([Some(&value.to_be_bytes()[..])]).unwrap();
    }
    let columns = ColumnSpecsBuf::new(&[ColumnSpec {
        keyspace: "k",
        table: "t",
        name: column,
        column_type: CqlType::BigInt,
    }])
    .unwrap();
    let metadata = ResultMetadata::new(columns.columns());
    let rows = Response::Result(QueryResult::Rows(Rows::new(metadata, &content).unwrap()));
    let mut body = BytesMut::new();
    rows.encode(DIALECT, &mut body).unwrap();
    answer(Opcode::RESULT, &body)
}

fn answer(opcode: Opcode, body: &[u8]) -> Vec<u8> {
    let header = Header::response(Version::V4, StreamId(1), opcode);
    let body = body.to_vec().into();
    bytes_of(&Envelope { header, body })
}

fn bytes_of(envelope: &Envelope) -> Vec<u8> {
    let mut wire = BytesMut::new();
    envelope.encode(&mut wire).unwrap();
    wire.to_vec()
}

#[test]
fn a_session_is_one_over_several_addresses() {
    for key in ["CLIENT_ID", "SESSION_ID"] {
        let found = sequences([(key, "5e55-1011"), (key, "5e55-1011")]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0]["kind"], "client-join");
        assert_eq!(found[0]["fan_out"]["mean"], 10.0);
    }
}

#[test]
fn what_two_sessions_do_is_not_put_together() {
    // Each has half of the members that follow its own groups, and those of the other's.
    for options in [
        [("CLIENT_ID", "one"), ("CLIENT_ID", "other")],
        [("DRIVER_NAME", "a driver"), ("DRIVER_NAME", "a driver")],
    ] {
        for sequence in sequences(options) {
            assert_eq!(sequence["fan_out"]["mean"], 5.0, "{sequence}");
        }
    }
}
