//! Charts as SVG: numbers and our own words only, colours from the style sheet, a label for those who cannot
//! see them.

use std::fmt::Write;

use askama::filters::Safe;

use super::super::{Chart, Latency, RingReport, Unit};
use crate::number;

const WIDTH: f64 = 300.0;
/// From the top to the axis.
const HEIGHT: f64 = 72.0;
/// Up to this many different values each has its own bar; more are gathered in steps of equal ratio.
const MOST_BARS: usize = 14;

/// A distribution as bars over a (mostly logarithmic) axis.
pub(super) fn distribution(chart: &Chart) -> Safe<String> {
    let bars = gather(&chart.steps);
    let (Some(first), Some(last)) = (bars.first(), bars.last()) else {
        return Safe(String::new());
    };
    let write = |value| write_in(chart.unit, value);
    let most = bars.iter().map(|bar| bar.count).max().unwrap_or(1).max(1) as f64;
    let pitch = (WIDTH / bars.len() as f64).min(48.0);
    let mut svg = format!(
        "<svg class=\"chart\" viewBox=\"0 0 {WIDTH} 92\" role=\"img\" aria-label=\"{}\">",
        described(chart)
    );
    for (at, bar) in bars.iter().enumerate() {
        // What happened at all is seen.
        let height = (bar.count as f64 / most * (HEIGHT - 4.0)).max(1.5);
        let _ = write!(
            svg,
            "<rect class=\"bar\" x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{height:.1}\"><title>{}: {}</title></rect>",
            at as f64 * pitch + 1.0,
            HEIGHT - height,
            (pitch - 3.0).max(1.0),
            bar.range(write),
            number::exact(bar.count),
        );
    }
    let end = bars.len() as f64 * pitch;
    let _ = write!(
        svg,
        "<line class=\"axis\" x1=\"0\" x2=\"{end:.1}\" y1=\"{HEIGHT}.5\" y2=\"{HEIGHT}.5\"/>\
         <text x=\"1\" y=\"87\">{}</text><text x=\"{:.1}\" y=\"87\" text-anchor=\"end\">{}</text>\
         <text x=\"{:.1}\" y=\"87\" text-anchor=\"middle\">{}</text></svg>",
        write(first.from),
        end - 2.0,
        write(last.to),
        end / 2.0,
        chart.label,
    );
    Safe(svg)
}

/// Latencies as [`distribution`].
pub(super) fn latency(latency: &Latency) -> Safe<String> {
    distribution(&Chart {
        label: "latency",
        unit: Unit::Micros,
        steps: latency.steps.clone(),
    })
}

/// Parts of a whole in one bar; empty parts are left out.
pub(super) fn stacked(label: &str, parts: &[(&'static str, u64)]) -> Safe<String> {
    let whole: u64 = parts.iter().map(|part| part.1).sum();
    let shares: Vec<_> = parts
        .iter()
        .map(|(name, count)| format!("{name} {}", number::share(*count, whole)))
        .collect();
    let mut svg = format!(
        "<svg viewBox=\"0 0 1000 9\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"{label}: {}\">\
         <rect class=\"track\" width=\"1000\" height=\"9\"/>",
        shares.join(", ")
    );
    let mut from = 0.0;
    for (name, count) in parts.iter().filter(|part| part.1 > 0) {
        let width = *count as f64 / whole as f64 * 1_000.0;
        let _ = write!(
            svg,
            "<rect class=\"{name}\" x=\"{from:.2}\" width=\"{width:.2}\" height=\"9\"/>"
        );
        from += width;
    }
    svg.push_str("</svg>");
    Safe(svg)
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
        "<svg class=\"split\" viewBox=\"0 0 84 8\" role=\"img\" aria-label=\"{label} reads\"><title>{label} reads</title>\
         <rect class=\"w\" width=\"84\" height=\"8\"/><rect class=\"r\" width=\"{read:.1}\" height=\"8\"/></svg>"
    ))
}

/// The ring from its smallest token on: reads from the axis up, writes on top of them, a dashed line where
/// all would be alike.
pub(super) fn ring(ring: &RingReport) -> Safe<String> {
    let most = ring.hottest.all().max(1) as f64;
    let mut svg = format!(
        "<svg class=\"chart\" viewBox=\"0 0 {slices} {HEIGHT}\" preserveAspectRatio=\"none\" role=\"img\" \
         aria-label=\"the busiest of {slices} slices of the ring has {} of the partitions read and written\">",
        number::percent(ring.hottest_share),
        slices = ring.slices,
    );
    for slice in &ring.loads {
        let height = |count: u64| count as f64 / most * (HEIGHT - 2.0);
        let (reads, writes) = (height(slice.reads), height(slice.writes));
        let top = HEIGHT - reads - writes;
        let _ = write!(
            svg,
            "<g><title>from token {}: {} reads, {} writes</title>\
             <rect class=\"w\" x=\"{x}\" y=\"{top:.1}\" width=\"1\" height=\"{writes:.1}\"/>\
             <rect class=\"r\" x=\"{x}\" y=\"{:.1}\" width=\"1\" height=\"{reads:.1}\"/></g>",
            slice.first_token,
            number::exact(slice.reads),
            number::exact(slice.writes),
            top + writes,
            x = slice.slice,
        );
    }
    let mean = HEIGHT - (HEIGHT - 2.0) / ring.hottest_times_mean;
    let _ = write!(
        svg,
        "<line class=\"mark\" x1=\"0\" x2=\"{slices}\" y1=\"{mean:.1}\" y2=\"{mean:.1}\" vector-effect=\"non-scaling-stroke\"/>\
         <line class=\"axis\" x1=\"0\" x2=\"{slices}\" y1=\"{HEIGHT}\" y2=\"{HEIGHT}\" vector-effect=\"non-scaling-stroke\"/></svg>",
        slices = ring.slices,
    );
    Safe(svg)
}

/// A share (0 to 1) as a short bar; the number stands beside it, so the bar is not read out.
pub(super) fn part(share: f64) -> Safe<String> {
    let width = (share.clamp(0.0, 1.0) * 56.0).max(if share > 0.0 { 1.0 } else { 0.0 });
    Safe(format!(
        "<svg class=\"part\" viewBox=\"0 0 56 7\" aria-hidden=\"true\">\
         <rect class=\"track\" width=\"56\" height=\"7\"/><rect class=\"p\" width=\"{width:.1}\" height=\"7\"/></svg>"
    ))
}

/// What a screen reader says instead of the picture.
fn described(chart: &Chart) -> String {
    let write = |value| write_in(chart.unit, value);
    format!(
        "{}: half are {} or less, 99 % {} or less, the most is {}",
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

/// One bar: values from and to (both included) and how often they came.
#[derive(Debug, PartialEq, Eq)]
struct Bar {
    from: u64,
    to: u64,
    count: u64,
}

impl Bar {
    fn range(&self, write: impl Fn(u64) -> String) -> String {
        if self.from == self.to {
            write(self.from)
        } else {
            format!("{} to {}", write(self.from), write(self.to))
        }
    }
}

/// One bar a value while they are few, else [`MOST_BARS`] steps of equal ratio between the first and the last
/// value.
fn gather(steps: &[(u64, u64)]) -> Vec<Bar> {
    let (Some(&(first, _)), Some(&(last, _))) = (steps.first(), steps.last()) else {
        return Vec::new();
    };
    if steps.len() <= MOST_BARS {
        let alone = |&(value, count)| Bar {
            from: value,
            to: value,
            count,
        };
        return steps.iter().map(alone).collect();
    }
    let ratio = (last as f64 / first.max(1) as f64).powf(1.0 / MOST_BARS as f64);
    let mut bars = Vec::with_capacity(MOST_BARS);
    let (mut from, mut steps) = (first, steps.iter().peekable());
    for step in 1..=MOST_BARS {
        let to = if step == MOST_BARS {
            last
        } else {
            floor(first.max(1) as f64 * ratio.powf(step as f64))
        };
        if to < from {
            continue;
        }
        let mut count = 0;
        while let Some((_, times)) = steps.next_if(|(value, _)| *value <= to) {
            count += times;
        }
        bars.push(Bar { from, to, count });
        from = to.saturating_add(1);
    }
    bars
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

    #[test]
    fn few_values_have_a_bar_each() {
        assert_eq!(
            gather(&[(1, 10), (4, 2)]),
            [
                Bar {
                    from: 1,
                    to: 1,
                    count: 10
                },
                Bar {
                    from: 4,
                    to: 4,
                    count: 2
                }
            ]
        );
        assert_eq!(gather(&[]), []);
    }

    #[test]
    fn many_values_are_gathered_without_losing_any() {
        let steps: Vec<_> = (0..1_000).map(|value| (value * value, 3)).collect();
        let bars = gather(&steps);
        assert!(bars.len() <= MOST_BARS);
        assert_eq!(bars.iter().map(|bar| bar.count).sum::<u64>(), 3_000);
        assert_eq!((bars[0].from, bars[bars.len() - 1].to), (0, 998_001));
        assert!(bars.windows(2).all(|pair| pair[0].to + 1 == pair[1].from));
    }

    #[test]
    fn the_largest_values_do_not_overflow() {
        let steps: Vec<_> = (0..20).map(|at| (u64::MAX - 20 + at, u64::MAX / 40)).collect();
        let bars = gather(&steps);
        assert_eq!(bars.iter().map(|bar| bar.count).sum::<u64>(), u64::MAX / 40 * 20);
    }

    #[test]
    fn a_picture_says_its_numbers() {
        let svg = distribution(&Chart {
            label: "latency",
            unit: Unit::Micros,
            steps: vec![(1_000, 98), (2_000, 1), (40_000, 1)],
        });
        assert!(svg.0.contains(
            "aria-label=\"latency: half are 1.0 ms or less, 99 % 2.0 ms or less, the most is 40 ms\""
        ));
    }

    #[test]
    fn nothing_is_drawn_of_nothing() {
        let empty = Chart {
            label: "latency",
            unit: Unit::Micros,
            steps: Vec::new(),
        };
        assert_eq!(distribution(&empty).0, "");
        assert_eq!(read_write(0, 0).0, "");
    }
}
