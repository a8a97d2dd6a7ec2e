//! Which definitions the server refuses, and which cqlens does: the statements of `crates/cql/tests/definitions`, and valid
//! ones of which one word is another.
//!
//! `CQLENS_DIFFERENTIAL_SEED=7` changes other words.

use std::net::SocketAddr;
use std::time::Duration;

use cqlens_client::{Client, ClientError, ClientOptions, Run, RunOptions};
use cqlens_cql::schema::{Schema, SchemaErrorKind};
use cqlens_cql::syntax::ast::Body;
use cqlens_cql::{ServerVersion, syntax};

use crate::differential::random::Random;
use crate::differential::setting;
use crate::node;
use crate::support::with_everything;

const SCHEMA: &str = include_str!("../../crates/cql/tests/definitions/schema.cql");
const ACCEPTED: &str = include_str!("../../crates/cql/tests/definitions/accepted.cql");
const REFUSED: &str = include_str!("../../crates/cql/tests/definitions/refused.cql");
const UNFORESEEN: &str = include_str!("../../crates/cql/tests/definitions/unforeseen.cql");

/// The keyspaces of the schema, and the one that statements create.
const KEYSPACES: [&str; 3] = ["d", "e1", "e2"];
const SEED: u64 = 5_009;

/// What a server says for its settings, for its cluster, or by mistake.
const OF_THE_SERVER: &[&str] = &[
    "AssertionError",
    "Configuration for at least one datacenter",
    "Memtable configuration",
    "NullPointerException",
    "SAI_VECTOR_ALLOW_CUSTOM_PARAMETERS",
    "Transient replication",
    "dynamic data masking",
    "passed to NetworkTopologyStrategy",
    "unsafe_aggressive_sstable_expiration is requested",
];

#[tokio::test]
async fn definitions_are_refused_as_the_server_refuses_them() {
    let Some(node) = node() else { return };
    let all = with_everything("most of the definitions that a server is asked");
    let (listed, changed) = if all { (1, 2_000) } else { (24, 120) };
    let mut server = Server::connect(node.address()).await;
    let statements = |file: &'static str| file.lines().filter(|line| !line.starts_with("--"));
    // What is refused changes nothing, and takes no time.
    for text in statements(REFUSED).chain(statements(UNFORESEEN)) {
        let said = server.refusal(text).await;
        assert!(said.is_some(), "the server carries out {text}");
    }
    for text in statements(ACCEPTED).step_by(listed) {
        let said = server.refusal(text).await;
        assert_eq!(said, None, "{text}");
    }
    let seed = setting("CQLENS_DIFFERENTIAL_SEED").unwrap_or(SEED);
    let mut changes = Changes::new(seed);
    let mut disagreements = Vec::new();
    let (mut accepted, mut refused) = (0, 0);
    for _ in 0..changed {
        let text = changes.next();
        let said = server.refusal(&text).await;
        let of_the_server = |said: &String| OF_THE_SERVER.iter().any(|words| said.contains(words));
        if said.as_ref().is_some_and(of_the_server) {
            continue;
        }
        let foreseen = server.foreseen(&text);
        match said {
            None => accepted += 1,
            Some(_) => refused += 1,
        }
        if said.is_some() != foreseen.is_some() {
            disagreements.push(format!("{text}\n  the server: {said:?}\n  cqlens: {foreseen:?}"));
        }
    }
    println!(
        "seed {seed}: {accepted} accepted, {refused} refused, {} disagreements\n{}",
        disagreements.len(),
        disagreements.join("\n")
    );
    assert!(accepted * 20 > changed && refused * 3 > changed);
    assert!(disagreements.len() * 200 <= changed, "see above");
    server.drop_keyspaces().await;
}

#[tokio::test]
async fn statements_are_refused_as_the_server_refuses_them() {
    const SCHEMA: &str = include_str!("../../crates/cql/tests/statements/schema.cql");
    let accepted = include_str!("../../crates/cql/tests/statements/accepted.cql");
    let refused = include_str!("../../crates/cql/tests/statements/refused.cql");
    let Some(node) = node() else { return };
    let mut client = Client::connect(node.address(), &ClientOptions::default())
        .await
        .unwrap();
    client.query("DROP KEYSPACE IF EXISTS validated").await.unwrap();
    client.script(&SCHEMA.replace("shop", "validated")).await.unwrap();
    // As drivers do: some is refused only where results come in pages.
    let paged = RunOptions {
        page_size: Some(5_000),
        ..RunOptions::default()
    };
    for (file, is_refused) in [(accepted, false), (refused, true)] {
        for text in file.lines().filter(|line| !line.starts_with("--")) {
            let text = text.replace("shop.", "validated.");
            let answer = client.run(Run::Text(&text, &[]), &paged).await;
            assert_eq!(answer.is_err(), is_refused, "{text}: {answer:?}");
        }
    }
    client.query("DROP KEYSPACE validated").await.unwrap();
}

struct Server {
    client: Client,
    schema: Schema,
}

impl Server {
    async fn connect(address: SocketAddr) -> Self {
        let options = ClientOptions {
            timeout: Duration::from_secs(300),
            ..ClientOptions::default()
        };
        let client = Client::connect(address, &options).await.unwrap();
        let schema = Schema::from_cql(SCHEMA).unwrap();
        let mut server = Self { client, schema };
        server.begin_anew().await;
        server
    }

    async fn drop_keyspaces(&mut self) {
        for keyspace in KEYSPACES {
            let text = format!("DROP KEYSPACE IF EXISTS {keyspace}");
            self.client.query(&text).await.unwrap();
        }
    }

    async fn begin_anew(&mut self) {
        self.drop_keyspaces().await;
        self.client.script(SCHEMA).await.unwrap();
    }

    /// What the server says against a definition; one that it carries out is undone.
    async fn refusal(&mut self, text: &str) -> Option<String> {
        match self.client.query(text).await {
            Err(ClientError::Server { message, .. }) => return Some(message),
            Err(other) => panic!("{text}: {other}"),
            Ok(_) => {}
        }
        let words: Vec<&str> = text.split(' ').collect();
        let undo = match words.as_slice() {
            [_, _, "IF", ..] => None,
            ["CREATE", what @ ("TABLE" | "TYPE" | "KEYSPACE"), name, ..] => {
                Some(format!("DROP {what} {name}"))
            }
            ["CREATE", "MATERIALIZED", "VIEW", name, ..] if *name != "IF" => {
                Some(format!("DROP MATERIALIZED VIEW {name}"))
            }
            _ => None,
        };
        let is_undone = match undo.or_else(|| self.without_index(text)) {
            Some(undo) => self.client.query(&undo).await.is_ok(),
            None => false,
        };
        if !is_undone {
            self.begin_anew().await;
        }
        None
    }

    /// What drops the index that a statement creates, named or not.
    fn without_index(&self, text: &str) -> Option<String> {
        let statement = syntax::parse(text).ok()?;
        let Body::CreateIndex(create) = &statement.body else {
            return None;
        };
        let mut after = self.schema.clone();
        after.apply(&statement, None).ok()?;
        let (keyspace, table) = (
            create.table.keyspace.as_ref()?.as_str(),
            create.table.name.as_str(),
        );
        let before = &self.schema.table(keyspace, table)?.indexes;
        let mut names = after.table(keyspace, table)?.indexes.keys();
        let new = names.find(|name| !before.contains_key(*name))?;
        Some(format!("DROP INDEX {keyspace}.{new}"))
    }

    /// What cqlens says against it.
    fn foreseen(&self, text: &str) -> Option<String> {
        let statement = match syntax::parse(text) {
            Ok(statement) => statement,
            Err(error) => return Some(error.to_string()),
        };
        let validated = self.schema.validate(&statement, None, ServerVersion::V5_0);
        let applied = validated.and_then(|()| self.schema.clone().apply(&statement, None));
        let error = applied.err()?;
        (!matches!(error.kind, SchemaErrorKind::NotADefinition(_))).then(|| error.to_string())
    }
}

/// Statements that are accepted, of which one word is replaced by one of another statement of that kind.
struct Changes {
    random: Random,
    statements: Vec<Vec<&'static str>>,
    /// The words of all of them.
    words: Vec<&'static str>,
}

impl Changes {
    fn new(seed: u64) -> Self {
        let statements: Vec<Vec<&str>> = ACCEPTED
            .lines()
            .filter(|line| line.starts_with("CREATE") && !line.contains("IF NOT EXISTS"))
            .map(words)
            .collect();
        let words = statements.iter().flatten().copied();
        let is_worth = |word: &&str| word.starts_with(|first: char| first.is_alphanumeric() || first == '\'');
        Self {
            random: Random::new(seed),
            words: words.filter(is_worth).collect(),
            statements,
        }
    }

    fn next(&mut self) -> String {
        let mut statement = self.random.element(&self.statements).clone();
        // What is created, and in which keyspace, stays: it is dropped again.
        let first = 1 + statement
            .iter()
            .position(|word| *word == "(" || *word == "WITH")
            .unwrap();
        let place = self.random.between(first, statement.len() - 2);
        match self.random.below(8) {
            0 => drop(statement.remove(place)),
            1 => statement.insert(place, statement[place]),
            2 => statement[place] = *self.random.element(&self.words),
            _ => {
                let same = |word: &&&str| Kind::of(word) == Kind::of(statement[place]);
                let choices: Vec<&str> = self.words.iter().filter(same).copied().collect();
                if !choices.is_empty() {
                    statement[place] = *self.random.element(&choices);
                }
            }
        }
        statement.join(" ")
    }
}

/// What stands for what in most statements.
#[derive(PartialEq, Eq)]
enum Kind {
    Number,
    String,
    Type,
    Keyword,
    Name,
}

impl Kind {
    fn of(word: &str) -> Self {
        match word.chars().next() {
            Some('\'') => Self::String,
            Some(first) if first.is_ascii_digit() || first == '-' => Self::Number,
            Some(first) if first.is_ascii_uppercase() => Self::Keyword,
            _ if TYPES.contains(&word) => Self::Type,
            _ => Self::Name,
        }
    }
}

const TYPES: &[&str] = &[
    "blob", "counter", "duration", "float", "frozen", "int", "list", "map", "set", "text", "tuple", "vector",
];

/// A statement cut at spaces and signs; strings stay whole.
fn words(text: &'static str) -> Vec<&'static str> {
    let mut words = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let is_of_word = |letter: char| letter.is_alphanumeric() || "_.-\"".contains(letter);
        let length = match first {
            ' ' => {
                rest = &rest[1..];
                continue;
            }
            '\'' => rest[1..].find('\'').map_or(rest.len(), |end| end + 2),
            first if is_of_word(first) => rest.find(|letter| !is_of_word(letter)).unwrap_or(rest.len()),
            first => first.len_utf8(),
        };
        words.push(&rest[..length]);
        rest = &rest[length..];
    }
    words
}
