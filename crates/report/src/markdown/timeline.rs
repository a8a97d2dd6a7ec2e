//! How traffic changed, in blocks: `▁▂▃▅█`, one for each point, of the cluster and of the worst problems.

use std::io::{self, Write};

use super::{MOST_LINES, prose_cell};
use crate::{
    Report,
    timeline::{Course, LATENCY, Measure, PARTITIONS, REQUESTS, TOMBSTONES},
};
use cqlens_window::number;

/// Blocks of a line: more are wider than the column of a pull request.
const MOST_BLOCKS: usize = 42;

/// From nothing to the most.
const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Nobody watched.
const GAP: char = '░';
/// Somebody watched, and nothing was measured.
const UNKNOWN: char = '·';

pub(super) fn timeline(report: &Report, to: &mut dyn Write) -> io::Result<()> {
    let Some(timeline) = &report.timeline else {
        return Ok(());
    };
    let course = timeline.course().at_most(MOST_BLOCKS);
    let (Some(first), Some(last)) = (course.points.first(), course.points.last()) else {
        return Ok(());
    };
    let minute = |at: jiff::Timestamp| at.strftime("%-d %B, %H:%M").to_string();
    writeln!(
        to,
        "\n## Over time\n\nFrom {} to {} UTC, {} per block; `{GAP}` not observed, `{UNKNOWN}` not \
            measured.{}\n",
        minute(first.start),
        minute(end(&course, last.start)),
        number::seconds(course.seconds),
        match timeline.has_fewer_sources() {
            true => " Fewer sources than usual were watching in some of them, so counts are too low there.",
            false => "",
        }
    )?;
    writeln!(to, "| What | Over time | From, to |")?;
    writeln!(to, "| --- | --- | --- |")?;
    let has_times = report.problems.iter().any(|problem| problem.time_share.is_some());
    for measure in [&REQUESTS, &LATENCY, &PARTITIONS, &TOMBSTONES] {
        if measure.name != LATENCY.name || has_times {
            let name = format!("{}, {}", measure.name, measure.unit);
            row(&name, &course, measure, to)?;
        }
    }
    for (rank, problem) in (1..).zip(&report.problems).take(MOST_LINES) {
        if let Some((course, measure)) = report.problem_over_time(problem) {
            let table = problem.table.as_deref().unwrap_or("no single table");
            let name = format!("{rank}. `{table}`: {}", measure.short);
            row(&prose_cell(&name), &course.at_most(MOST_BLOCKS), measure, to)?;
        }
    }
    Ok(())
}

fn end(course: &Course, last: jiff::Timestamp) -> jiff::Timestamp {
    let length = jiff::SignedDuration::try_from_secs_f64(course.seconds).unwrap_or_default();
    last.checked_add(length).unwrap_or(last)
}

fn row(name: &str, course: &Course, measure: &Measure, to: &mut dyn Write) -> io::Result<()> {
    let known = course.known(measure);
    let most = known.iter().map(|one| one.1).fold(0.0, f64::max);
    let least = known.iter().map(|one| one.1).fold(f64::INFINITY, f64::min);
    if known.is_empty() {
        return Ok(());
    }
    let mut blocks = vec![GAP; course.len()];
    let values = course.points.iter().map(|point| (course.place(point), UNKNOWN));
    let values = values.chain(
        known
            .iter()
            .map(|(point, value)| (course.place(point), block(*value, most))),
    );
    for (place, shown) in values {
        if let Some(block) = blocks.get_mut(place) {
            *block = shown;
        }
    }
    let blocks: String = blocks.into_iter().collect();
    writeln!(to, "| {name} | `{blocks}` | {} |", measure.range(least, most))
}

/// What is little is more than nothing.
fn block(value: f64, most: f64) -> char {
    let step = (value / most.max(f64::MIN_POSITIVE) * 7.0).ceil();
    let step = usize::try_from(number::rounded(step)).unwrap_or(0);
    BLOCKS[step.min(BLOCKS.len() - 1)]
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use crate::{Timeline, markdown::tests::markdown, testing};
    use cqlens_cql::{footprint::PartitionClass, plan::Flag};
    use cqlens_rules::testing::{read, window};
    use cqlens_window::Window;
    use jiff::{SignedDuration, Timestamp};

    fn hour(at: i64, reads: u64) -> Window {
        let flags = [Flag::AllowFiltering, Flag::FilteringNeeded];
        let cql = "SELECT * FROM shop.items WHERE a = ? ALLOW FILTERING";
        let mut scan = read(cql, &flags, PartitionClass::Scan, reads);
        scan.partitions.record_n(5, reads);
        let mut hour = window([scan]);
        hour.start = Timestamp::from_second(at * 3_600).unwrap();
        hour.close(hour.start + SignedDuration::from_hours(1));
        hour
    }

    fn text(hours: &[(i64, u64)]) -> String {
        let hours: Vec<_> = hours.iter().map(|&(at, reads)| hour(at, reads)).collect();
        let (mut timeline, mut whole) = (Timeline::default(), hours[0].clone());
        hours.iter().for_each(|hour| timeline.add(hour));
        hours.iter().skip(1).for_each(|hour| whole.merge(hour));
        markdown(&testing::report(&whole).over_time(&timeline, &whole))
    }

    #[test]
    fn blocks_have_gaps_where_nobody_watched_and_are_lowest_where_nothing_was_sent() {
        let text = text(&[(0, 7_000), (1, 1), (2, 0), (6, 3_500), (7, 7_000)]);
        let expected = "| Requests, reads and writes | `█▂▁░░░▅█` | 0 to 1.9 a second |";
        assert!(text.contains(expected), "{text}");
        assert!(
            text.contains("From 1 January, 00:00 to 1 January, 08:00 UTC, 1 h per block"),
            "{text}"
        );
        assert!(text.contains("| 1. `items`: requests | `█▂▁░░░▅█` |"), "{text}");
        assert!(!text.contains("| Tombstones"), "nothing is known of them: {text}");
    }

    #[test]
    fn a_week_is_a_few_lines() {
        let week: Vec<_> = (0..168)
            .map(|at: i64| (at, 1_000 + at.unsigned_abs() * 7_919 % 5_000))
            .collect();
        let text = text(&week);
        let (_, section) = text.split_once("## Over time").unwrap();
        let section = section.split("\n## ").next().unwrap();
        assert!(section.len() < 2_000, "{section}");
        assert!(section.contains("4 h per block"), "{section}");
        let row = section
            .lines()
            .find(|line| line.starts_with("| Requests"))
            .unwrap();
        assert_eq!(
            row.matches(|block| ('▁'..='█').contains(&block)).count(),
            42,
            "{row}"
        );
    }
}
