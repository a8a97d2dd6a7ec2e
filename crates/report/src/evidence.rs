//! How the numbers of a finding are shown: the ending of their name is their unit.

use cqlens_rules::EvidenceValue;
use cqlens_window::number;

/// A line of evidence for readers.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct EvidenceLine {
    /// `Latency p99`.
    pub(super) label: String,
    /// `38 ms`.
    pub(super) value: String,
    /// `38412`, for those who want it all.
    pub(super) exact: String,
    /// A number with its unit, which is not broken over lines; else a text.
    pub(super) is_number: bool,
}

impl EvidenceLine {
    /// Whether it is the share of a count, which comes after it and needs no line of its own.
    fn is_share_of(&self, count: &str) -> bool {
        self.label.strip_suffix(SHARE) == Some(count)
    }
}

/// What ends the label of a share that stands alone.
const SHARE: &str = ", share";

/// What the rule itself found: what stands before the figures that all rules give alike.
pub(super) fn own<'e>(evidence: &'e [(&'static str, EvidenceValue)]) -> &'e [(&'static str, EvidenceValue)] {
    let end = evidence.iter().position(|(name, _)| *name == "executions");
    &evidence[..end.unwrap_or(evidence.len())]
}

/// The evidence in the order in which the rule gave it; quantiles of one quantity share a line.
pub(super) fn lines(evidence: &[(&'static str, EvidenceValue)]) -> Vec<EvidenceLine> {
    let mut lines: Vec<EvidenceLine> = Vec::new();
    let mut quantity = None;
    for (name, value) in evidence {
        if let (Some(_), Some(more)) = (name.strip_suffix(LEFT_OUT), value.as_u64()) {
            add_left_out(&mut lines, more);
            continue;
        }
        if let (Some(stem), Some(rate)) = (name.strip_suffix("_bytes_per_second"), value.as_f64()) {
            quantity = None;
            lines.push(bytes_per_second(stem, rate));
            continue;
        }
        if let (Some(stem), Some(rate)) = (name.strip_suffix("_per_second"), value.as_f64()) {
            add_rate(&mut lines, &label(stem), rate);
            continue;
        }
        if let (Some(stem), Some(share)) = (name.strip_suffix("_share"), value.as_f64()) {
            add_share(&mut lines, stem, share);
            quantity = None;
            continue;
        }
        let line = line(name, value);
        if let Some(last) = lines.last_mut()
            && last.is_share_of(&line.label)
        {
            last.label = line.label;
            last.value = format!("{} ({})", line.value, last.value);
            last.exact = format!("{}, {}", line.exact, last.exact);
            continue;
        }
        let (stem, quantile) = split(&line.label);
        match (lines.last_mut(), quantile) {
            (Some(last), Some(quantile)) if quantity.as_deref() == Some(stem) => {
                last.label += &format!(" · {quantile}");
                last.value += &format!(" · {}", line.value);
                last.exact += &format!(" · {}", line.exact);
            }
            _ => {
                quantity = quantile.map(|_| stem.to_owned());
                lines.push(line);
            }
        }
    }
    lines
}

/// What ends the name of how many more a list has than it names.
const LEFT_OUT: &str = "_left_out";

/// `portal, billing and 3 more`.
fn add_left_out(lines: &mut [EvidenceLine], more: u64) {
    if let Some(list) = lines.last_mut() {
        list.value += &format!(" and {} more", number::count(more));
        list.exact += &format!(" and {more} more");
    }
}

/// `1.2 MiB a second`.
fn bytes_per_second(stem: &str, rate: f64) -> EvidenceLine {
    EvidenceLine {
        label: label(stem),
        value: format!("{} a second", number::bytes(number::rounded(rate))),
        exact: format!("{rate} bytes a second"),
        is_number: true,
    }
}

/// A rate stands behind the count that it belongs to: `212,480 (59 a second)`.
fn add_rate(lines: &mut Vec<EvidenceLine>, label: &str, rate: f64) {
    match lines.last_mut() {
        Some(last) if last.label == label => {
            last.value += &format!(" ({})", number::rate(rate));
            last.exact += &format!(", {rate} a second");
        }
        _ => lines.push(EvidenceLine {
            label: label.to_owned(),
            value: number::rate(rate),
            exact: format!("{rate} a second"),
            is_number: true,
        }),
    }
}

/// A share stands behind the count that it belongs to: `120 (49 %)`; alone it is called one, unless its name
/// says of what it is.
fn add_share(lines: &mut Vec<EvidenceLine>, stem: &str, share: f64) {
    let label = label(stem);
    let percent = number::percent(share);
    match lines.last_mut() {
        Some(last) if last.label == label => {
            last.value += &format!(" ({percent})");
            last.exact += &format!(", {share}");
        }
        _ => lines.push(EvidenceLine {
            label: match stem.starts_with("of_") || stem.contains("_of_") {
                true => label,
                false => format!("{label}{SHARE}"),
            },
            value: percent,
            exact: share.to_string(),
            is_number: true,
        }),
    }
}

/// `Latency p99` is the quantity `Latency` at the quantile `p99`.
fn split(label: &str) -> (&str, Option<&str>) {
    match label.rsplit_once(' ') {
        Some((stem, quantile @ ("p50" | "p90" | "p99" | "p999" | "max"))) => (stem, Some(quantile)),
        _ => (label, None),
    }
}

fn line(name: &str, value: &EvidenceValue) -> EvidenceLine {
    let (stem, shown) = if let Some(stem) = name.strip_suffix("_us") {
        (stem, value.as_u64().map(number::micros))
    } else if let Some(stem) = name.strip_suffix("_bytes") {
        (stem, value.as_u64().map(number::bytes))
    } else if name == "share" || name.contains("share_of_") {
        (name, value.as_f64().map(number::percent))
    } else {
        let whole = value.as_u64().map(number::count);
        (name, whole.or_else(|| value.as_f64().map(number::decimal)))
    };
    let exact = value.words();
    EvidenceLine {
        label: label(stem),
        is_number: shown.is_some(),
        value: shown.unwrap_or_else(|| exact.clone()),
        exact,
    }
}

/// `latency_p99` becomes `Latency p99`.
fn label(name: &str) -> String {
    let spaced = name.replace('_', " ");
    let mut letters = spaced.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use cqlens_rules::Client;

    #[test]
    fn the_ending_of_a_name_gives_the_unit_and_quantiles_share_a_line() {
        let evidence = [
            ("executions", 9_123_456.into()),
            ("executions_per_second", 27.14.into()),
            ("latency_p50_us", 1_204.into()),
            ("latency_p99_us", 38_412.into()),
            ("response_p99_bytes", 14_300.into()),
            ("reads_share", 0.4941.into()),
            ("traced", 120.into()),
            ("traced_share", 0.25.into()),
            ("deletes_of_writes_share", 0.5.into()),
            ("overwrites_share", 0.75.into()),
            ("overwrites", 300.into()),
            ("share_of_the_partition", 0.4.into()),
            ("responses_bytes_per_second", 1_500_000.0.into()),
            ("one_after_the_other", true.into()),
            (
                "sent_by",
                EvidenceValue::Clients(vec![Client::of("lab-portal 4.2", 9)]),
            ),
            ("sent_by_left_out", 2.into()),
        ];
        let shown: Vec<_> = lines(&evidence)
            .into_iter()
            .map(|line| format!("{}: {} ({})", line.label, line.value, line.exact))
            .collect();
        assert_eq!(
            shown,
            [
                "Executions: 9,123,456 (27 a second) (9123456, 27.14 a second)",
                "Latency p50 · p99: 1.2 ms · 38 ms (1204 · 38412)",
                "Response p99: 14 KiB (14300)",
                "Reads, share: 49 % (0.4941)",
                "Traced: 120 (25 %) (120, 0.25)",
                "Deletes of writes: 50 % (0.5)",
                "Overwrites: 300 (75 %) (300, 0.75)",
                "Share of the partition: 40 % (0.4)",
                "Responses: 1.4 MiB a second (1500000 bytes a second)",
                "One after the other: yes (yes)",
                "Sent by: lab-portal 4.2 and 2 more (lab-portal 4.2 and 2 more)",
            ]
        );
    }

    #[test]
    fn what_a_rule_found_stands_before_what_all_rules_give() {
        let evidence = [
            ("partitions_p99", 7.into()),
            ("executions", 9.into()),
            ("clients", "a".into()),
        ];
        assert_eq!(own(&evidence), &evidence[..1]);
        assert_eq!(own(&evidence[..1]), &evidence[..1]);
    }
}
