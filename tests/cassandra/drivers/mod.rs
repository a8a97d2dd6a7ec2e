//! Every driver that is to be had, directly and through `cqlens`: what each sees must not differ, and where
//! `cqlens` shows the nodes itself none may get past it. README.md beside this file tells how to run it.

mod again;
pub(crate) mod certificates;
pub(crate) mod fixtures;
pub(crate) mod mode;
mod outage;
pub(crate) mod place;
mod programs;
mod redirected;
pub(crate) mod run;
mod sockets;
mod table;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Instant;

use crate::shared;
use crate::support::cassandra::Cassandra;
use crate::support::driver::Compression;
use crate::support::{available, cache, everything, with_everything};

use certificates::Certificates;
use mode::{Front, Mode};
use place::Place;
use programs::{Dialect, Program};
use run::{Job, Order, Running, Seen};
use table::Table;

/// Programs that run at a time: most of what they do is wait for the nodes to agree on a schema. More of them only make each other
/// wait: each definition begins it anew for all.
const AT_A_TIME: usize = 4;

/// Runs whose keyspaces are there at a time. All drivers and proxies read all of them.
const KEYSPACES_AT_ONCE: usize = 32;

/// Drivers, each in one dialect, that look on at an outage together, in all modes.
const LOOK_ON: usize = 3;

/// Runs that may be done again, on a machine that has other work: so many at least, and of many runs one in
/// so many.
const AGAIN: (usize, usize) = (3, 20);

/// Ways of which a driver in [`Scope::Bounded`] goes one; that for Rust is without TLS there, whose libraries take long to build.
const OTHER_WAYS: [(Place, Mode); 6] = [
    (Place::Ring, Mode::Ports),
    (Place::Ring, Mode::Shared),
    (Place::Ring, Mode::Routes),
    (Place::MutualTls, Mode::Cluster),
    (Place::MutualTls, Mode::Passthrough),
    (Place::OneNode, Mode::Passthrough),
];

/// How much is run.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Scope {
    /// Each driver in its first dialect, where there is no `CQLENS_DRIVERS`.
    Bounded,
    /// Each in all of them: `CQLENS_DRIVERS=all`, or all tests in their largest sizes; or some drivers in all of theirs:
    /// `CQLENS_DRIVERS=all:python,gocql2`.
    All(Vec<Choice>),
    /// Some drivers in their first dialect: `CQLENS_DRIVERS=python,gocql2`.
    Some(Vec<Choice>),
    /// Some drivers in all of theirs, only while nodes are down and come back:
    /// `CQLENS_DRIVERS=outages:python,gocql2`.
    Outages(Vec<Choice>),
}

/// A driver, or what it has of one version: `python@4`; what it negotiates itself is `python@auto`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Choice {
    name: String,
    version: Option<String>,
}

impl Choice {
    fn of(text: &str) -> Self {
        let (name, version) = match text.split_once('@') {
            Some((name, version)) => (name, Some(version.to_owned())),
            None => (text, None),
        };
        Self {
            name: name.to_owned(),
            version,
        }
    }

    fn has(&self, dialect: Dialect) -> bool {
        self.version
            .as_ref()
            .is_none_or(|version| *version == dialect.version_name())
    }
}

impl Scope {
    fn from_environment() -> Self {
        let choices = |text: &str| text.split(',').map(Choice::of).collect();
        match std::env::var("CQLENS_DRIVERS").as_deref() {
            Err(_) | Ok("") if everything() => Self::All(Vec::new()),
            Err(_) | Ok("") => Self::Bounded,
            Ok("all") => Self::All(Vec::new()),
            Ok(text) => match text.split_once(':') {
                Some(("all", text)) => Self::All(choices(text)),
                Some(("outages", text)) => Self::Outages(choices(text)),
                _ => Self::Some(choices(text)),
            },
        }
    }

    /// # Panics
    /// If the scope has a name that no driver has, or a version that the driver does not have.
    fn programs(&self) -> Vec<Program> {
        let choices: &[Choice] = match self {
            Self::Bounded => &[],
            Self::All(choices) | Self::Some(choices) | Self::Outages(choices) => choices,
        };
        let known = |choice: &Choice| programs::ALL.iter().any(|(known, _)| *known == choice.name);
        assert!(
            choices.iter().all(known),
            "CQLENS_DRIVERS names other drivers: {choices:?}"
        );
        let wanted = |name: &str| choices.is_empty() || choices.iter().any(|choice| choice.name == name);
        let mut programs: Vec<Program> = programs::ALL
            .iter()
            .filter(|(name, _)| wanted(name))
            .filter_map(|(name, prepare)| available(format!("the driver {name}"), prepare()))
            .collect();
        for program in programs.iter_mut().filter(|_| !choices.is_empty()) {
            let mut of_it = choices.iter().filter(|choice| choice.name == program.name);
            program
                .dialects
                .retain(|&dialect| of_it.clone().any(|choice| choice.has(dialect)));
            let lacks = of_it.find(|choice| !program.dialects.iter().any(|&dialect| choice.has(dialect)));
            assert!(lacks.is_none(), "{} does not have {lacks:?}", program.name);
        }
        programs
    }

    /// In all dialects and all places.
    fn is_all(&self) -> bool {
        matches!(self, Self::All(_) | Self::Outages(_))
    }

    /// Whether there is such a thing, and it is worth the time: mutual TLS is TLS, who has three nodes to go to has no
    /// need of a proxy that does not change their addresses, and a cluster of one node is one of three, and less.
    fn has(&self, place: Place, mode: Mode) -> bool {
        let is_there = !mode.is_redirected() && (place == Place::Ring || !mode.is_other_form());
        let is_worth_it = place != Place::Tls
            && ![(Place::Ring, Mode::Passthrough), (Place::OneNode, Mode::Cluster)].contains(&(place, mode));
        is_there && (self.is_all() || is_worth_it)
    }

    /// Whether the driver of this number in [`programs::ALL`] is sent that way. Each goes to the ring directly and through
    /// cluster mode, where drivers differ; what is the same code for all of them is shared out.
    fn sends(&self, driver: usize, place: Place, mode: Mode) -> bool {
        if *self != Self::Bounded {
            return true;
        }
        let (other_place, other_mode) = OTHER_WAYS[driver % OTHER_WAYS.len()];
        match (place, mode) {
            (Place::Ring, Mode::Direct | Mode::Cluster) => true,
            (_, Mode::Direct) => place == other_place,
            way => way == (other_place, other_mode),
        }
    }

    /// Whether nodes are ended and started again: half of the time that all the rest takes. No other test shares those nodes.
    fn has_outages(&self) -> bool {
        *self != Self::Bounded
    }

    fn has_sessions(&self) -> bool {
        !matches!(self, Self::Outages(_))
    }

    fn spoken<'a>(&self, programs: &'a [Program]) -> Vec<Spoken<'a>> {
        let of = |program: &'a Program| {
            let count = if self.is_all() { program.dialects.len() } else { 1 };
            program.dialects[..count]
                .iter()
                .map(move |&dialect| (program, dialect))
        };
        programs.iter().flat_map(of).collect()
    }

    /// Those that can look on while a node is down.
    fn lookers<'a>(&self, programs: &'a [Program]) -> Vec<Spoken<'a>> {
        let mut lookers = self.spoken(programs);
        lookers.retain(|(program, _)| !program.is_short_lived);
        lookers
    }
}

/// A driver in one of its dialects.
type Spoken<'a> = (&'a Program, Dialect);

fn jobs<'a>(scope: &Scope, spoken: &[Spoken<'a>], place: Place, mode: Mode) -> Vec<Job<'a>> {
    let job = |&(program, dialect): &Spoken<'a>| Job {
        program,
        dialect,
        place,
        mode,
    };
    // The other forms are the same code for all dialects.
    let is_worth_it = |job: &Job<'_>| !mode.is_other_form() || job.dialect == job.program.dialects[0];
    let is_sent = |(program, _): &&Spoken<'a>| {
        let number = programs::ALL.iter().position(|(name, _)| *name == program.name);
        number.is_none_or(|number| scope.sends(number, place, mode))
    };
    let jobs = spoken.iter().filter(is_sent).map(job);
    jobs.filter(|job| !job.is_pointless() && is_worth_it(job))
        .collect()
}

#[test]
fn no_driver_notices_the_proxy() {
    let scope = Scope::from_environment();
    let programs = scope.programs();
    let mut table = Table::default();
    if scope == Scope::Bounded {
        with_everything("drivers in their other versions and compressions, and while nodes are down");
        let (Some(one), Some(ring)) = (shared::with_password(), shared::ring()) else {
            return;
        };
        let clusters = Clusters { one, ring: &ring };
        all_sessions(&mut table, &scope, &programs, clusters);
        judge(&table);
        return;
    }
    let start = |place: Place| Cassandra::start(&place.options(shared::certificates(), scope.has_outages()));
    let Some(mut one) = available("drivers on a real node", start(Place::OneNode)) else {
        return;
    };
    let Some(mut ring) = available("drivers on a ring", start(Place::Ring)) else {
        return;
    };
    if scope.has_sessions() {
        let clusters = Clusters {
            one: &one,
            ring: &ring,
        };
        all_sessions(&mut table, &scope, &programs, clusters);
    }
    if scope.has_outages() {
        // Whatever comes of the outages, this is known.
        write(&table);
        let placed = fronts(&scope, &one, &ring);
        for lookers in scope.lookers(&programs).chunks(LOOK_ON) {
            table.add(outages(&scope, lookers, &placed, &mut one, &mut ring));
            write(&table);
        }
        let fronts = placed.into_iter().flat_map(|(_, fronts)| fronts);
        fronts.for_each(Front::stop);
    }
    judge(&table);
}

/// The nodes of all places.
#[derive(Clone, Copy)]
struct Clusters<'c> {
    one: &'c Cassandra,
    ring: &'c Cassandra,
}

impl<'c> Clusters<'c> {
    fn at(self, place: Place) -> &'c Cassandra {
        match place {
            Place::Ring => self.ring,
            Place::OneNode | Place::Tls | Place::MutualTls => self.one,
        }
    }
}

/// All ways in a place.
fn modes(scope: &Scope, place: Place) -> impl Iterator<Item = Mode> {
    let modes = Mode::ALL.into_iter();
    modes.filter(move |&mode| place.is_chosen() && scope.has(place, mode))
}

/// What stands in front of nodes in the places where there are outages.
type Placed = (Place, Vec<Front>);

fn fronts(scope: &Scope, one: &Cassandra, ring: &Cassandra) -> Vec<Placed> {
    let of = |(place, cluster): (Place, &Cassandra)| -> Placed {
        let start = |mode| Front::start(mode, place, cluster, shared::certificates());
        (place, modes(scope, place).map(start).collect())
    };
    [(Place::OneNode, one), (Place::Ring, ring)].map(of).into()
}

/// All that needs no outage; what differs is done again.
fn all_sessions<'a>(table: &mut Table<'a>, scope: &Scope, programs: &'a [Program], clusters: Clusters<'_>) {
    let started = Instant::now();
    let spoken = scope.spoken(programs);
    let ways = Place::ALL.into_iter();
    let ways = ways.flat_map(|place| modes(scope, place).map(move |mode| (place, mode)));
    let all: Vec<Job<'a>> = ways
        .flat_map(|(place, mode)| jobs(scope, &spoken, place, mode))
        .collect();
    table.add(sessions(&all, clusters));
    repeat(table, |job| sessions(&[job], clusters).remove(0));
    println!("in {:.0?}", started.elapsed());
}

/// Holds what came of all runs.
fn judge(table: &Table<'_>) {
    write(table);
    assert!(table.runs() > 0, "nothing was run");
    let complaints = table.complaints();
    assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
}

#[test]
fn every_way_has_a_driver_where_they_are_shared_out() {
    let drivers = |place: Place, mode: Mode| {
        let sent = (0..programs::ALL.len()).filter(|&driver| Scope::Bounded.sends(driver, place, mode));
        sent.count()
    };
    for mode in [Mode::Direct, Mode::Cluster] {
        assert_eq!(drivers(Place::Ring, mode), programs::ALL.len());
    }
    for (place, mode) in OTHER_WAYS {
        assert!((1..=2).contains(&drivers(place, mode)), "{place:?} {mode:?}");
        assert!(drivers(place, Mode::Direct) >= drivers(place, mode), "{place:?}");
    }
}

#[test]
fn a_driver_can_be_chosen_in_one_version() {
    let dialect = |version| Dialect {
        version,
        compression: Compression::Lz4,
    };
    let chosen = |text: &str| {
        let of = |version| Choice::of(text).has(dialect(version));
        [of(Some(3)), of(Some(5)), of(None)]
    };
    assert_eq!(chosen("python"), [true; 3]);
    assert_eq!(chosen("python@5"), [false, true, false]);
    assert_eq!(chosen("python@auto"), [false, false, true]);
    assert_eq!(Choice::of("python@5").name, "python");
}

/// Shows what has come of all runs so far, here and in a file.
fn write(table: &Table<'_>) {
    let text = table.markdown();
    let file = cache::log_file("drivers").with_extension("md");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(&file, &text).unwrap();
    println!(
        "{text}\n{}\nalso in {}",
        table.complaints().join("\n"),
        file.display()
    );
}

/// What drivers see while nodes fall silent, end and come back; on one node and on three at the same time.
fn outages<'a>(
    scope: &Scope,
    lookers: &[Spoken<'a>],
    placed: &[(Place, Vec<Front>)],
    one: &mut Cassandra,
    ring: &mut Cassandra,
) -> Vec<Seen<'a>> {
    let certificates = shared::certificates();
    let of = |place: Place| -> Vec<(Job<'a>, &Front)> {
        let (_, fronts) = placed.iter().find(|(of, _)| *of == place).unwrap();
        fronts
            .iter()
            .flat_map(|front| {
                let jobs = jobs(scope, lookers, place, front.mode).into_iter();
                jobs.map(move |job| (job, front))
            })
            .collect()
    };
    let (on_one, on_ring) = (of(Place::OneNode), of(Place::Ring));
    std::thread::scope(|threads| {
        let first = threads.spawn(|| outage::run(Place::OneNode, one, certificates, &on_one));
        let mut seen = outage::run(Place::Ring, ring, certificates, &on_ring);
        seen.extend(first.join().unwrap());
        seen
    })
}

/// Does once more, one at a time, what has come out otherwise than without a proxy, and the latter if it
/// still does.
fn repeat<'a>(table: &mut Table<'a>, run: impl Fn(Job<'a>) -> Seen<'a>) {
    let run = |job| Seen {
        again: true,
        ..run(job)
    };
    let (at_least, one_in) = AGAIN;
    let mut left = at_least.max(table.runs() / one_in);
    while let Some(job) = table.doubtful() {
        if !job.may_hurry() {
            let Some(fewer) = left.checked_sub(1) else { return };
            left = fewer;
        }
        println!("again, because of\n{}", table.complaints().join("\n"));
        table.add([run(job)]);
        if table.differs(&job) && job.mode != Mode::Direct {
            let mode = Mode::Direct;
            table.add([run(Job { mode, ..job })]);
        }
    }
}

/// All that needs no outage.
fn sessions<'a>(jobs: &[Job<'a>], clusters: Clusters<'_>) -> Vec<Seen<'a>> {
    let (mut seen, mut before) = (Vec::new(), Vec::new());
    for jobs in jobs.chunks(KEYSPACES_AT_ONCE) {
        // What the last runs have had goes with the nodes.
        fixtures::clear_away(&before);
        let orders = jobs
            .iter()
            .map(|&job| Order::of_session(job, clusters.at(job.place)));
        let orders: Vec<Order<'a>> = orders.collect();
        fixtures::create_for(&orders);
        let start = |job: &Job<'a>| {
            Front::start(
                job.mode,
                job.place,
                clusters.at(job.place),
                shared::certificates(),
            )
        };
        seen.extend(run_together(&orders, start, shared::certificates()));
        before = orders;
    }
    seen
}

/// Several programs at a time. What they go through is there from the first that does to the last.
fn run_together<'a>(
    orders: &[Order<'a>],
    start: impl Fn(&Job<'a>) -> Front + Send,
    certificates: &Certificates,
) -> Vec<Seen<'a>> {
    let (left, seen) = (
        Mutex::new(with_fronts(orders).into_iter()),
        Mutex::new(Vec::new()),
    );
    let next = || left.lock().unwrap().next();
    // One after the other: an address that is free is free for one of them.
    let start = Mutex::new(start);
    let started = |job: &Job<'a>| start.lock().unwrap()(job);
    std::thread::scope(|threads| {
        for _ in 0..AT_A_TIME {
            threads.spawn(|| {
                while let Some((order, way)) = next() {
                    let front = way.get_or_init(|| started(&order.job));
                    let run = Running::start(order, front, certificates, None).finish();
                    println!("{}", run.summary());
                    seen.lock().unwrap().push(run);
                    let has_ended = Arc::into_inner(way).and_then(OnceLock::into_inner);
                    has_ended.into_iter().for_each(Front::stop);
                }
            });
        }
    });
    seen.into_inner().unwrap()
}

/// What some runs go through: a proxy reads the whole schema whenever a program changes it, and none is there longer
/// than it is needed.
type Way = Arc<OnceLock<Front>>;

fn with_fronts<'o, 'a>(orders: &'o [Order<'a>]) -> Vec<(&'o Order<'a>, Way)> {
    let mut ways: BTreeMap<(Place, Mode), Way> = BTreeMap::new();
    let with_way = |order: &'o Order<'a>| {
        let way = ways.entry((order.job.place, order.job.mode)).or_default();
        (order, Arc::clone(way))
    };
    orders.iter().map(with_way).collect()
}
