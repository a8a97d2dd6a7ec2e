//! Charts as SVG: numbers and our own words only, colours from the style sheet, a label for those who cannot
//! see them.

use std::fmt::Write;

use askama::filters::Safe;

use super::super::{Chart, RingReport};
use cqlens_rules::Unit;
use cqlens_window::number;

/// What a picture of a distribution takes up.
const WIDTH: f64 = 430.0;
/// From the top to the axis; the words of the threshold stand above the bars.
const BASE: f64 = 118.0;
const BARS: f64 = 92.0;
/// Left of the first bar and right of the last one, for the labels of the axis.
const MARGIN: f64 = 24.0;
/// Up to this many different values each has a line with its number; more are bars over an axis.
const MOST_LINES: usize = 6;
const MOST_BARS: f64 = 28.0;

/// A distribution: few values as lines with their shares, many as bars over a logarithmic axis, with the median, the
/// p99 and the threshold of the rule.
pub(super) fn distribution(chart: &Chart) -> Safe<String> {
    let seen: Vec<_> = chart.steps.iter().copied().filter(|step| step.1 > 0).collect();
    match seen.len() {
        0 | 1 => Safe(String::new()),
        2..=MOST_LINES => lines(chart, &seen),
        _ => bars(chart, &seen),
    }
}

/// One line a value: no axis, since the values may be far apart.
fn lines(chart: &Chart, seen: &[(u64, u64)]) -> Safe<String> {
    let whole: u64 = seen.iter().map(|step| step.1).sum();
    let height = seen.len() * 20 + 2;
    let mut svg = open(chart, height);
    let mut path = String::new();
    for (at, &(value, count)) in seen.iter().enumerate() {
        let top = at * 20 + 3;
        let width = (count as f64 / whole as f64 * 240.0).max(1.5);
        let _ = write!(path, "M100 {top}h{width:.1}v13h-{width:.1}z");
        let _ = write!(
            svg,
            "<text class=\"to\" x=\"92\" y=\"{y}\">{}</text><text class=\"b from\" x=\"{:.0}\" y=\"{y}\">{}</text>",
            write_in(chart.unit, value),
            108.0 + width,
            number::share(count, whole),
            y = top + 11,
        );
    }
    let _ = write!(svg, "<path class=\"bars\" d=\"{path}\"/></svg>");
    Safe(svg)
}

/// Where a value stands on a logarithmic axis. Zero stands where one does: both are nothing to worry about.
#[derive(Clone, Copy)]
struct LogAxis {
    first: f64,
    last: f64,
}

impl LogAxis {
    fn of(chart: &Chart, seen: &[(u64, u64)]) -> Self {
        let log = |value: u64| (value.max(1) as f64).log10();
        let least = seen.first().map_or(0.0, |step| log(step.0));
        let most = seen.last().map_or(0.0, |step| log(step.0));
        // A threshold that is far away says no more than that it is far away.
        let threshold = chart.threshold.map(log);
        let near = threshold.filter(|at| (least - 1.0..=most + 1.0).contains(at));
        let (least, most) = near.map_or((least, most), |at| (least.min(at), most.max(at)));
        // So that the greatest and the threshold stand inside.
        let pad = ((most - least) * 0.03).max(0.004);
        let last = most + pad;
        Self {
            first: (least - pad).max(0.0),
            last,
        }
    }

    /// Bars, each of the same ratio; no more than there are whole numbers.
    fn bars(self) -> usize {
        let numbers = 10_f64.powf(self.last) - 10_f64.powf(self.first);
        usize::try_from(floor(numbers.clamp(1.0, MOST_BARS))).unwrap_or(1)
    }

    fn x(self, value: u64) -> f64 {
        let log = (value.max(1) as f64).log10();
        let share = (log - self.first) / (self.last - self.first).max(1e-9);
        MARGIN + share.clamp(0.0, 1.0) * (WIDTH - 2.0 * MARGIN)
    }

    fn bar(self, value: u64) -> usize {
        let share = (self.x(value) - MARGIN) / (WIDTH - 2.0 * MARGIN);
        let bar = floor((share * self.bars() as f64 + 1e-9).max(0.0));
        usize::try_from(bar).unwrap_or(0).min(self.bars() - 1)
    }

    /// Round numbers on the axis, at most six: powers of ten with their halves and fifths, or even steps where the axis
    /// is short.
    fn ticks(self) -> Vec<u64> {
        let (first, last) = (10_f64.powf(self.first), 10_f64.powf(self.last));
        let is_inside = |tick: &u64| (first..=last).contains(&(*tick as f64));
        let tens = || (0..20_u32).filter_map(|power| 10_u64.checked_pow(power));
        for steps in [&[1_u64, 2, 5][..], &[1, 5], &[1]] {
            let ticks = tens().flat_map(|ten| steps.iter().filter_map(move |step| ten.checked_mul(*step)));
            let ticks: Vec<_> = ticks.filter(is_inside).collect();
            match ticks.len() {
                0..=2 => return even(first, last),
                3..=6 => return ticks,
                _ => {}
            }
        }
        let thousands = tens().step_by(3).filter(is_inside);
        thousands.collect()
    }
}

/// Four or five multiples of 1, 2 or 5 times a power of ten.
fn even(first: f64, last: f64) -> Vec<u64> {
    let rough = ((last - first) / 4.0).max(1.0);
    let ten = 10_f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|times| times * ten);
    let step = step.into_iter().find(|step| *step >= rough).unwrap_or(rough);
    let from = (first / step).ceil();
    (0..6_u32)
        .map(|at| (from + f64::from(at)) * step)
        .filter(|tick| *tick <= last)
        .map(floor)
        .collect()
}

fn bars(chart: &Chart, seen: &[(u64, u64)]) -> Safe<String> {
    let axis = LogAxis::of(chart, seen);
    let mut counts = vec![0_u64; axis.bars()];
    for &(value, count) in seen {
        if let Some(bar) = counts.get_mut(axis.bar(value)) {
            *bar = bar.saturating_add(count);
        }
    }
    let most = counts.iter().copied().max().unwrap_or(1).max(1) as f64;
    let pitch = (WIDTH - 2.0 * MARGIN) / counts.len() as f64;
    let mut path = String::new();
    for (at, &count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
        // What happened at all is seen.
        let height = (count as f64 / most * BARS).max(1.5);
        let x = MARGIN + (at as f64 + 0.5) * pitch;
        let _ = write!(path, "M{x:.1} {BASE}v-{height:.0}");
    }
    let mut svg = open(chart, 158);
    let _ = write!(
        svg,
        "<path class=\"bars\" stroke-width=\"{:.1}\" d=\"{path}\"/><path class=\"axis\" d=\"M{MARGIN} {BASE}.5H{:.0}\"/>",
        (pitch - 1.0).max(1.0),
        WIDTH - MARGIN
    );
    for tick in axis.ticks() {
        let _ = write!(
            svg,
            "<text x=\"{:.0}\" y=\"152\">{}</text>",
            axis.x(tick),
            write_in(chart.unit, tick)
        );
    }
    quantiles(&mut svg, chart, axis);
    threshold(&mut svg, chart, axis);
    svg.push_str("</svg>");
    Safe(svg)
}

/// The median and the p99 below the axis; where they are close, one on each side.
fn quantiles(svg: &mut String, chart: &Chart, axis: LogAxis) {
    let [median, p99] = [0.5, 0.99].map(|share| axis.x(quantile(&chart.steps, share)));
    let (left, right) = if p99 - median < 36.0 {
        (" to", " from")
    } else {
        ("", "")
    };
    for (name, x, anchor) in [("p50", median, left), ("p99", p99, right)] {
        let _ = write!(
            svg,
            "<path class=\"tick\" d=\"M{x:.1} {BASE}v6\"/><text class=\"b{anchor}\" x=\"{x:.1}\" y=\"137\">{name}</text>",
        );
    }
}

fn threshold(svg: &mut String, chart: &Chart, axis: LogAxis) {
    let Some(value) = chart.threshold.filter(|&value| {
        let log = (value.max(1) as f64).log10();
        (axis.first..=axis.last).contains(&log)
    }) else {
        return;
    };
    let x = axis.x(value);
    let (anchor, at) = if x > WIDTH * 0.6 {
        ("to", x - 6.0)
    } else {
        ("from", x + 6.0)
    };
    let _ = write!(
        svg,
        "<path class=\"threshold\" d=\"M{x:.1} 4V{BASE}\"/><text class=\"{anchor}\" x=\"{at:.0}\" y=\"13\">threshold {}</text>",
        write_in(chart.unit, value)
    );
}

fn open(chart: &Chart, height: usize) -> String {
    format!(
        "<svg class=\"chart\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{}\">",
        described(chart)
    )
}

/// The figures of a distribution, for the words beside its picture: `p50 12 · p99 31 · most 40`.
pub(super) fn caption(chart: &Chart) -> String {
    let write = |value| write_in(chart.unit, value);
    format!(
        "p50 {} · p99 {} · most {}",
        write(quantile(&chart.steps, 0.5)),
        write(quantile(&chart.steps, 0.99)),
        write(chart.steps.last().map_or(0, |step| step.0)),
    )
}

/// Reads and writes of a table, side by side.
pub(super) fn read_write(reads: u64, writes: u64) -> Safe<String> {
    if reads + writes == 0 {
        return Safe(String::new());
    }
    let share = reads as f64 / (reads + writes) as f64;
    let read = share * 84.0;
    let label = number::percent(share);
    Safe(format!(
        "<svg class=\"split\" viewBox=\"0 0 84 8\" role=\"img\" aria-label=\"{label} reads\">\
         <path class=\"w\" d=\"M0 0h84v8H0z\"/><path class=\"r\" d=\"M0 0h{read:.1}v8H0z\"/></svg>"
    ))
}

/// The ring from its smallest token on: reads from the axis up, writes on top of them, a dashed line where
/// all would be alike.
pub(super) fn ring(ring: &RingReport) -> Safe<String> {
    let most = ring.hottest.all().max(1) as f64;
    let height = |count: u64| count as f64 / most * (RING - 2.0);
    let (mut all_reads, mut all_writes) = (String::new(), String::new());
    for slice in &ring.loads {
        let (reads, writes, x) = (height(slice.reads), height(slice.writes), slice.slice);
        if slice.reads > 0 {
            let _ = write!(all_reads, "M{x} {RING}v-{reads:.1}h1v{reads:.1}z");
        }
        if slice.writes > 0 {
            let _ = write!(all_writes, "M{x} {:.1}v-{writes:.1}h1v{writes:.1}z", RING - reads);
        }
    }
    let mean = RING - (RING - 2.0) / ring.hottest_times_mean;
    Safe(format!(
        "<svg class=\"chart\" viewBox=\"0 0 {slices} {RING}\" preserveAspectRatio=\"none\" role=\"img\" \
         aria-label=\"the busiest of {slices} slices of the ring has {} of the partitions read and written\">\
         <path class=\"w\" d=\"{all_writes}\"/><path class=\"r\" d=\"{all_reads}\"/>\
         <path class=\"mark\" d=\"M0 {mean:.1}H{slices}\" vector-effect=\"non-scaling-stroke\"/>\
         <path class=\"axis\" d=\"M0 {RING}H{slices}\" vector-effect=\"non-scaling-stroke\"/></svg>",
        number::percent(ring.hottest_share),
        slices = ring.slices,
    ))
}

const RING: f64 = 72.0;

/// A share (0 to 1) as a short bar; the number stands beside it, so the bar is not read out.
pub(super) fn part(share: f64) -> Safe<String> {
    let width = (share.clamp(0.0, 1.0) * 56.0).max(if share > 0.0 { 1.0 } else { 0.0 });
    Safe(format!(
        "<svg class=\"part\" viewBox=\"0 0 56 7\" aria-hidden=\"true\">\
         <path class=\"track\" d=\"M0 0h56v7H0z\"/><path class=\"p\" d=\"M0 0h{width:.1}v7H0z\"/></svg>"
    ))
}

/// What a screen reader says instead of the picture.
fn described(chart: &Chart) -> String {
    let write = |value| write_in(chart.unit, value);
    format!(
        "{}: half are {} or less, 99 % {} or less, the maximum is {}",
        chart.label,
        write(quantile(&chart.steps, 0.5)),
        write(quantile(&chart.steps, 0.99)),
        write(chart.steps.last().map_or(0, |step| step.0)),
    )
}

fn quantile(steps: &[(u64, u64)], share: f64) -> u64 {
    let all: u64 = steps.iter().map(|step| step.1).sum();
    let mut seen = 0;
    for &(value, count) in steps {
        seen += count;
        if seen as f64 >= all as f64 * share {
            return value;
        }
    }
    0
}

fn write_in(unit: Unit, value: u64) -> String {
    match unit {
        Unit::Count => number::count(value),
        Unit::Micros => number::micros(value),
        Unit::Bytes => number::bytes(value),
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a value between two counts; `as` saturates"
)]
fn floor(value: f64) -> u64 {
    value.floor() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(unit: Unit, steps: &[(u64, u64)], threshold: Option<u64>) -> Chart {
        Chart {
            label: "tombstones of one read",
            unit,
            steps: steps.to_vec(),
            threshold,
        }
    }

    fn many(values: impl Iterator<Item = u64>) -> Vec<(u64, u64)> {
        values.map(|value| (value, 3)).collect()
    }

    /// How many bars a path draws.
    fn drawn(svg: &str) -> usize {
        let bars = svg.split("class=\"bars\"").nth(1).unwrap_or_default();
        bars.split("/>").next().unwrap_or_default().matches('M').count()
    }

    #[test]
    fn few_values_have_a_line_each_with_their_share() {
        let svg = distribution(&chart(Unit::Count, &[(6, 98), (12, 1), (1_000, 1)], Some(20))).0;
        assert_eq!(drawn(&svg), 3);
        for label in [">6</text>", ">1,000</text>", ">98.0 %</text>", ">1.0 %</text>"] {
            assert!(svg.contains(label), "{label} {svg}");
        }
        let lines: Vec<_> = svg.matches("y=\"14\"").collect();
        assert_eq!(lines.len(), 2, "a line has one value and one share: {svg}");
    }

    #[test]
    fn what_never_happened_has_no_bar() {
        let mut steps = many(1..=8);
        steps.push((9, 0));
        steps.extend(many(900..908));
        let svg = distribution(&chart(Unit::Count, &steps, None)).0;
        let occupied = [1, 2, 3, 4, 5, 6, 7, 8].len();
        assert!(drawn(&svg) <= occupied + 2, "{svg}");
        assert!(svg.contains(">100</text>") && svg.contains(">10</text>"), "{svg}");
    }

    #[test]
    fn the_threshold_is_drawn_where_it_is_near() {
        let steps = many(600..640);
        let near = distribution(&chart(Unit::Count, &steps, Some(1_000))).0;
        assert!(near.contains("class=\"threshold\"") && near.contains("threshold 1,000</text>"));
        let far = distribution(&chart(Unit::Count, &steps, Some(1_000_000))).0;
        assert!(!far.contains("class=\"threshold\""), "{far}");
    }

    #[test]
    fn the_largest_values_do_not_overflow() {
        let steps: Vec<_> = (0..20).map(|at| (u64::MAX - 20 + at, u64::MAX / 40)).collect();
        assert_eq!(
            drawn(&distribution(&chart(Unit::Bytes, &steps, Some(u64::MAX))).0),
            1
        );
        let wide = many((0..60).map(|power| 1 << power));
        let svg = distribution(&chart(Unit::Count, &wide, Some(0))).0;
        assert!(drawn(&svg) <= 48 && drawn(&svg) > 20, "{svg}");
    }

    #[test]
    fn a_picture_says_its_numbers() {
        let svg = distribution(&chart(
            Unit::Micros,
            &[(1_000, 98), (2_000, 1), (40_000, 1)],
            None,
        ));
        assert!(svg.0.contains(
            "aria-label=\"tombstones of one read: half are 1.0 ms or less, 99 % 2.0 ms or less, the \
                maximum is 40 ms\""
        ));
    }

    #[test]
    fn nothing_is_drawn_of_nothing_or_of_one_value() {
        assert_eq!(distribution(&chart(Unit::Micros, &[], None)).0, "");
        assert_eq!(distribution(&chart(Unit::Count, &[(42, 7)], None)).0, "");
        assert_eq!(read_write(0, 0).0, "");
    }
}
