//! What is in the traffic, and how much of it is found.

use std::collections::BTreeSet;

use cqlens_audit::audit::SourceLimit;
use cqlens_cql::schema::Schema;
use cqlens_rules::{Context, Finding, Judgement, Sent, Sequence, Settings};
use cqlens_window::{Cluster, Window};

use crate::{
    look_alikes,
    operations::{self, SCHEMA},
    simulation::{Application, MILLISECOND, Operation, Time, Traffic, Truth},
    wire::Wire,
};

/// An operation, what it is called, and how it is to be found.
pub(crate) struct Known {
    pub(crate) name: &'static str,
    operation: Operation,
    found: Option<Expected>,
}

/// The rule and the tables, and how the requests of the last step are sent.
struct Expected {
    rule: &'static str,
    tables: &'static [&'static str],
    sent: Sent,
}

const fn guilty(
    name: &'static str,
    operation: Operation,
    rule: &'static str,
    tables: &'static [&'static str],
    sent: Sent,
) -> Known {
    Known {
        name,
        operation,
        found: Some(Expected { rule, tables, sent }),
    }
}

const fn join(name: &'static str, operation: Operation, sent: Sent) -> Known {
    guilty(name, operation, "client-join", &["s.groups", "s.users"], sent)
}

const fn walk(name: &'static str, operation: Operation) -> Known {
    guilty(
        name,
        operation,
        "time-bucket-walk",
        &["s.daily"],
        Sent::OneAfterTheOther,
    )
}

const fn innocent(name: &'static str, operation: Operation) -> Known {
    Known {
        name,
        operation,
        found: None,
    }
}

/// One of them in each mix: they are joins of the same tables.
pub(crate) const JOINS: [Known; 9] = [
    join("joins", operations::join_one_by_one, Sent::OneAfterTheOther),
    join(
        "joins in no order",
        operations::join_in_no_order,
        Sent::OneAfterTheOther,
    ),
    join("joins at once", operations::join_at_once, Sent::AtTheSameTime),
    join(
        "joins with a cache",
        operations::join_with_cache,
        Sent::OneAfterTheOther,
    ),
    join(
        "joins with a warm cache",
        operations::join_with_warm_cache,
        Sent::OneAfterTheOther,
    ),
    join("joins by IN", operations::join_by_in, Sent::InOneRequest),
    join("joins of pages", operations::join_of_pages, Sent::AtTheSameTime),
    guilty(
        "joins of a set",
        operations::join_of_a_set,
        "client-join",
        &["s.teams", "s.users"],
        Sent::OneAfterTheOther,
    ),
    guilty(
        "joins with the key",
        operations::join_with_the_key,
        "client-join",
        &["s.groups", "s.memberships"],
        Sent::OneAfterTheOther,
    ),
];

/// One of them in each mix.
const WALKS: [Known; 3] = [
    walk("days", operations::days_back),
    walk("days with retries", operations::days_back_with_retries),
    walk("days with speculation", operations::days_back_with_speculation),
];

/// All of them in each mix.
const OTHERS: [Known; 18] = [
    guilty(
        "lookups",
        operations::lookup,
        "index-table-lookup",
        &["s.emails", "s.accounts"],
        Sent::OneAfterTheOther,
    ),
    guilty(
        "chains",
        operations::chain,
        "client-join",
        &["s.words", "s.documents", "s.parts"],
        Sent::OneAfterTheOther,
    ),
    guilty(
        "buckets",
        operations::buckets,
        "bucket-fan-out",
        &["s.bucketed"],
        Sent::AtTheSameTime,
    ),
    guilty(
        COPIES,
        operations::two_tables,
        "dual-write-without-batch",
        &["s.by_name", "s.by_phone"],
        Sent::OneAfterTheOther,
    ),
    guilty(
        "balances",
        operations::change_a_balance,
        "read-before-write",
        &["s.balances"],
        Sent::OneAfterTheOther,
    ),
    guilty(
        "settings",
        operations::settings,
        "redundant-reads",
        &["s.settings"],
        Sent::OneAfterTheOther,
    ),
    innocent("profiles", look_alikes::profiles),
    innocent("jobs", look_alikes::jobs),
    innocent("pages", look_alikes::page_of_an_item),
    innocent("clicks", look_alikes::click),
    innocent("news", look_alikes::news),
    innocent("categories", look_alikes::categories),
    innocent("sweeps", look_alikes::sweeps),
    innocent("sensors", look_alikes::sensors),
    innocent("orders", look_alikes::orders),
    innocent("history", look_alikes::history),
    innocent("front pages", look_alikes::front_page),
    innocent("once more", look_alikes::once_more),
];

/// Their fan-out is the number of tables, whatever is written.
const COPIES: &str = "copies";

/// How much is going on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    /// Of each application.
    users: u64,
    /// That they share.
    connections: u64,
    /// Between two operations of one user.
    pause: Time,
}

const fn load(users: u64, connections: u64, pause: Time) -> Load {
    Load {
        users,
        connections,
        pause: pause * MILLISECOND,
    }
}

pub(crate) const LOADS: [Load; 5] = [
    load(1, 1, 1_000),
    load(4, 2, 200),
    load(16, 4, 200),
    load(64, 1, 600),
    load(24, 4, 15),
];

/// Of the loads the one with so many requests that they are not all looked at.
pub(crate) const TOO_MUCH: usize = 4;

/// Whether each kind of operation has an application of its own, or one does all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mix {
    Apart,
    Together,
}

/// Traffic of which it is known what is in it.
pub(crate) struct Mixed {
    pub(crate) name: String,
    known: Vec<&'static Known>,
    mix: Mix,
    pub(crate) traffic: Traffic,
}

impl Mixed {
    /// With one of the joins, at one of the loads.
    pub(crate) fn new(join: usize, load: usize, mix: Mix) -> Self {
        let Load {
            users,
            connections,
            pause,
        } = LOADS[load];
        let known: Vec<&Known> = [&JOINS[join], &WALKS[(join + load) % WALKS.len()]]
            .into_iter()
            .chain(&OTHERS)
            .collect();
        let (wire, session) = [
            (Wire::Texts, None),
            (Wire::Prepared, None),
            // Drivers name the one or the other.
            (Wire::Prepared, Some(["SESSION_ID", "CLIENT_ID"][join % 2])),
        ][(join + load) % 3];
        let all = |name, operations, pause| Application {
            name,
            session: session.map(|key| (key, "5e55-1011")),
            wire,
            users,
            connections,
            pause,
            operations,
        };
        let operations = known.iter().map(|known| known.operation).collect();
        let applications: Vec<Application> = match mix {
            Mix::Apart => known
                .iter()
                .map(|known| Application {
                    // Of sessions that say who they are the name is no part of who they are.
                    session: session.map(|key| (key, known.name)),
                    ..all(known.name, vec![known.operation], pause)
                })
                .collect(),
            Mix::Together => vec![all("everything", operations, pause / known.len() as Time)],
        };
        // As long as it takes to have seen a hundred of each. One user does all of them one after the other, or one.
        let takes = match mix {
            Mix::Together => 1_500 * MILLISECOND,
            Mix::Apart => 0,
        };
        let duration = match load {
            TOO_MUCH => 3_000 * MILLISECOND,
            _ => 240 * (pause + takes) / users as Time + 5_000 * MILLISECOND,
        };
        Self {
            name: format!("{}, load {load}, {mix:?}, {wire:?}", JOINS[join].name),
            traffic: Traffic::of(SCHEMA, &applications, duration, load as u64 + 1),
            known,
            mix,
        }
    }

    pub(crate) fn window(&self) -> Window {
        self.traffic.observe(SCHEMA, SourceLimit::default())
    }

    /// What was sent of the operation at this place.
    fn truth(&self, at: usize) -> Truth {
        match self.mix {
            Mix::Apart => self.traffic.truth[at][0],
            Mix::Together => self.traffic.truth[0][at],
        }
    }

    /// What has to be found, and what was sent of it.
    fn expected(&self) -> impl Iterator<Item = (&'static Known, &'static Expected, Truth)> {
        let known = self.known.iter().enumerate();
        known.filter_map(|(at, known)| Some((*known, known.found.as_ref()?, self.truth(at))))
    }
}

pub(crate) fn judge(window: &Window) -> Judgement {
    judge_with(SCHEMA, window)
}

pub(crate) fn judge_with(schema: &str, window: &Window) -> Judgement {
    let (schema, cluster) = (Schema::from_cql(schema).unwrap(), Cluster::default());
    cqlens_rules::check(&Context::new(window, &schema, &cluster), &Settings::default())
}

/// Rules on operations that are no sequence of tables.
const OF_ONE_TABLE: [&str; 2] = ["read-before-write", "redundant-reads"];

/// What was found right, what was found that is not there, and what was missed.
#[derive(Debug, Default)]
pub(crate) struct Score {
    pub(crate) right: Vec<String>,
    pub(crate) wrong: Vec<String>,
    pub(crate) missed: Vec<String>,
    /// How far from the truth fan-outs are, as a part of it.
    pub(crate) fan_outs: Vec<(String, f64)>,
    /// The same of the numbers of operations.
    pub(crate) counts: Vec<(String, f64)>,
    /// What is said to be sent otherwise than it is.
    pub(crate) sent_otherwise: Vec<String>,
}

impl FromIterator<Score> for Score {
    fn from_iter<I: IntoIterator<Item = Score>>(scores: I) -> Self {
        let mut all = Self::default();
        for score in scores {
            all.right.extend(score.right);
            all.wrong.extend(score.wrong);
            all.missed.extend(score.missed);
            all.fan_outs.extend(score.fan_outs);
            all.counts.extend(score.counts);
            all.sent_otherwise.extend(score.sent_otherwise);
        }
        all
    }
}

impl Score {
    pub(crate) fn precision(&self) -> f64 {
        self.right.len() as f64 / (self.right.len() + self.wrong.len()) as f64
    }

    pub(crate) fn recall(&self) -> f64 {
        self.right.len() as f64 / (self.right.len() + self.missed.len()) as f64
    }

    /// Compares what was found in a mix with what is in it.
    pub(crate) fn add(&mut self, mixed: &Mixed, found: &Judgement) {
        let mut left: Vec<&Sequence> = found.sequences.iter().collect();
        let findings = found.findings.iter();
        let mut findings: Vec<&Finding> = findings
            .filter(|finding| OF_ONE_TABLE.contains(&finding.rule))
            .collect();
        for (known, expected, truth) in mixed.expected() {
            let name = format!("{} in {}", known.name, mixed.name);
            if OF_ONE_TABLE.contains(&expected.rule) {
                match findings.iter().position(|finding| expected.is_told_by(finding)) {
                    Some(at) => {
                        findings.remove(at);
                        self.right.push(name);
                    }
                    None => self.missed.push(name),
                }
                continue;
            }
            let place = left.iter().position(|sequence| expected.is(sequence));
            let Some(found) = place.map(|at| left.remove(at)) else {
                self.missed.push(name);
                continue;
            };
            if known.name != COPIES {
                let error = found.fan_out.mean() / truth.fan_out() - 1.0;
                self.fan_outs.push((name.clone(), error));
            }
            let error = found.count as f64 / truth.operations as f64 - 1.0;
            self.counts.push((name.clone(), error));
            if found.sent != expected.sent {
                self.sent_otherwise.push(format!("{name}: {:?}", found.sent));
            }
            self.right.push(name);
        }
        let wrong = |sequence: &&Sequence| format!("{} {} in {}", sequence.kind, sequence.path, mixed.name);
        self.wrong.extend(left.iter().map(wrong));
        let wrong = |finding: &&Finding| format!("{} in {}", finding.title, mixed.name);
        self.wrong.extend(findings.iter().map(wrong));
    }
}

impl Expected {
    /// The rule, and the tables in whatever order.
    fn is(&self, sequence: &Sequence) -> bool {
        let found: BTreeSet<String> = sequence.tables.iter().map(ToString::to_string).collect();
        let tables = self.tables.iter().map(ToString::to_string).collect();
        sequence.kind == self.rule && found == tables
    }

    fn is_told_by(&self, finding: &Finding) -> bool {
        let table = finding.table.as_ref().map(|table| format!("s.{table}"));
        finding.rule == self.rule && table.as_deref() == self.tables.first().copied()
    }
}
