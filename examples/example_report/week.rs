//! A week of the cluster, hour by hour and proxy by proxy.

use cqlens_cql::{Product, schema::Schema};
use cqlens_report::Timeline;
use cqlens_window::{Cluster, Window};
use jiff::{SignedDuration, Timestamp};

use crate::{
    distribution::part,
    hour::{Analysed, Hour},
    statements::{Rhythm, STATEMENTS, Seen},
};

/// A week, the one before it or the one that is reported.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Week {
    Before,
    Reported,
}

/// The proxies, one in each zone, and the part of the traffic that each of them sees.
pub(crate) const PROXIES: [(&str, f64); 3] = [("proxy-a", 0.36), ("proxy-b", 0.34), ("proxy-c", 0.30)];

const HOURS: u64 = 7 * 24;
/// Wednesday, ten o'clock.
const DEPLOYMENT: u64 = 58;
/// The last proxy does not watch from one o'clock to six on Thursday.
const GAP: std::ops::Range<u64> = 73..78;

impl Week {
    /// Monday, midnight (UTC).
    pub(crate) fn start(self) -> Timestamp {
        let reported = Timestamp::from_second(1_794_787_200).expect("a day of 2026 is a time");
        match self {
            Self::Before => reported - SignedDuration::from_hours(7 * 24),
            Self::Reported => reported,
        }
    }

    /// When its report is written: on the morning after it.
    pub(crate) fn reported_at(self) -> Timestamp {
        self.start() + SignedDuration::from_hours(7 * 24 + 6)
    }

    /// All hours of all proxies, merged and over time.
    pub(crate) fn observed(self, schema: &Schema) -> (Window, Timeline) {
        let statements: Vec<_> = STATEMENTS
            .iter()
            .filter(|statement| self.has(statement.seen))
            .map(|statement| Analysed::of(statement, schema))
            .collect();
        let mut week: Option<Window> = None;
        let mut timeline = Timeline::default();
        for hour in 0..HOURS {
            for (proxy, _) in PROXIES.iter().enumerate() {
                if self == Self::Reported && proxy + 1 == PROXIES.len() && GAP.contains(&hour) {
                    continue;
                }
                let window = self.window(hour, proxy, &statements);
                timeline.add(&window);
                match &mut week {
                    Some(week) => week.merge(&window),
                    None => week = Some(window),
                }
            }
        }
        let empty = || Window::new(self.start(), PROXIES[0].0);
        (week.unwrap_or_else(empty), timeline)
    }

    fn window(self, hour: u64, proxy: usize, statements: &[Analysed]) -> Window {
        let (name, share) = PROXIES[proxy];
        let start = self.start() + SignedDuration::from_hours(i64::try_from(hour).unwrap_or(0));
        let mut made = Hour::new(start, (proxy, name), self.is_deployed(hour));
        let number = hour * 3 + proxy as u64;
        for (at, analysed) in (1..).zip(statements) {
            let statement = analysed.statement;
            let is_there = statement.seen != Seen::SinceDeployment || self.is_deployed(hour);
            let noise = 0.96 + 0.08 * part(number * 1_000 + at);
            let rate = statement.peak * share * load(statement.rhythm, hour) * noise;
            if is_there && rate > 0.0 {
                made.send(analysed, rate, (number, self.strain(hour)));
            }
        }
        made.end()
    }

    fn has(self, seen: Seen) -> bool {
        match seen {
            Seen::Always => true,
            Seen::Before => self == Self::Before,
            Seen::After | Seen::SinceDeployment => self == Self::Reported,
        }
    }

    fn is_deployed(self, hour: u64) -> bool {
        self == Self::Reported && hour >= DEPLOYMENT
    }

    /// How much longer all answers take: when many customers are there, and when the offices scan.
    fn strain(self, hour: u64) -> f64 {
        let scans = f64::from(u8::from(self.is_deployed(hour))) * load(Rhythm::Offices, hour);
        1.0 + 0.25 * load(Rhythm::Customers, hour).powi(2) + 0.35 * scans
    }
}

/// The part of the highest rate.
fn load(rhythm: Rhythm, hour: u64) -> f64 {
    let (day, hour) = (hour / 24, hour % 24);
    let of_day = match rhythm {
        Rhythm::Customers => CUSTOMERS[usize::try_from(hour).unwrap_or(0)],
        Rhythm::Offices => OFFICES[usize::try_from(hour).unwrap_or(0)],
        Rhythm::Nights => f64::from(u8::from((1..4).contains(&hour))),
        Rhythm::Always => 1.0,
    };
    of_day
        * match (rhythm, day) {
            (Rhythm::Offices, 5..) => 0.0,
            (Rhythm::Customers, 0..4) => 0.86,
            (Rhythm::Customers, 4..6) => 0.93,
            _ => 1.0,
        }
}

/// By the hour of the day; they buy in the evening.
const CUSTOMERS: [f64; 24] = [
    0.16, 0.10, 0.07, 0.05, 0.05, 0.08, 0.16, 0.29, 0.42, 0.52, 0.58, 0.63, 0.68, 0.66, 0.62, 0.60, 0.63,
    0.71, 0.84, 0.96, 1.0, 0.88, 0.58, 0.31,
];

/// By the hour of the day, Monday to Friday.
const OFFICES: [f64; 24] = [
    0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.1, 0.5, 0.9, 1.0, 1.0, 0.9, 0.6, 0.9, 1.0, 0.9, 0.6, 0.2, 0.0, 0.0, 0.0,
    0.0, 0.0, 0.0,
];

/// The cluster that all of it goes to.
pub(crate) fn cluster() -> Cluster {
    Cluster {
        name: Some("shop-production".to_owned()),
        release_version: Some("4.1.7".to_owned()),
        product: Some(Product::Cassandra),
        partitioner: Some("Murmur3Partitioner".to_owned()),
        nodes: Some(NODES.len()),
        data_centers: [("eu-north".to_owned(), NODES.len())].into(),
        ..Cluster::default()
    }
}

/// The nodes by their addresses, two in each rack, and how much of the ring each of them has beside the others.
pub(crate) const NODES: [(&str, &str, f64); 6] = [
    ("10.20.1.11", "rack-a", 1.02),
    ("10.20.1.12", "rack-a", 0.97),
    ("10.20.2.11", "rack-b", 1.01),
    ("10.20.2.12", "rack-b", 0.99),
    ("10.20.3.11", "rack-c", 1.04),
    ("10.20.3.12", "rack-c", 0.97),
];
