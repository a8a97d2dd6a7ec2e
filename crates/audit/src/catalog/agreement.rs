//! Whether the nodes agree on the schema.

use std::{collections::BTreeMap, time::Duration};

/// Nodes that have different versions of the schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Disagreement {
    /// From when it was seen to when it was seen last.
    pub(crate) duration: Duration,
    /// The nodes of each version, as it was seen last.
    pub(crate) versions: BTreeMap<String, Vec<String>>,
}

/// For how long nodes have had different versions of the schema.
#[derive(Debug, Default)]
pub(super) struct SchemaAgreement {
    /// When they were first seen to differ; none while they agree.
    since: Option<Duration>,
    /// The longest disagreement that nobody has been told of yet.
    longest: Option<Disagreement>,
}

impl SchemaAgreement {
    /// Takes over which nodes have which version, as one of them told `now`: since the Unix epoch.
    pub(super) fn see(&mut self, versions: BTreeMap<String, Vec<String>>, now: Duration) {
        if versions.len() <= 1 {
            self.since = None;
            return;
        }
        let duration = now.saturating_sub(*self.since.get_or_insert(now));
        let is_longest = |longest: &Disagreement| duration >= longest.duration;
        if self.longest.as_ref().is_none_or(is_longest) {
            self.longest = Some(Disagreement { duration, versions });
        }
    }

    /// The longest disagreement since it was last taken.
    pub(super) fn take(&mut self) -> Option<Disagreement> {
        self.longest.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disagreement_lasts_until_the_nodes_agree() {
        let after = Duration::from_secs;
        let versions = |versions: &[&str]| -> BTreeMap<String, Vec<String>> {
            let each = versions.iter().zip(1..);
            each.map(|(version, node)| ((*version).to_owned(), vec![format!("10.9.0.{node}")]))
                .collect()
        };
        let seconds = |agreement: &mut SchemaAgreement| agreement.take().map(|told| told.duration.as_secs());
        let mut agreement = SchemaAgreement::default();
        agreement.see(versions(&["a"]), after(0));
        assert_eq!(seconds(&mut agreement), None);
        agreement.see(versions(&["a", "b"]), after(10));
        agreement.see(versions(&["a", "b"]), after(70));
        agreement.see(versions(&["b"]), after(80));
        agreement.see(versions(&["b", "c"]), after(90));
        assert_eq!(seconds(&mut agreement), Some(60));
        agreement.see(versions(&["b", "c"]), after(120));
        assert_eq!(seconds(&mut agreement), Some(30), "it goes on in the next window");
        assert_eq!(seconds(&mut agreement), None);
    }
}
