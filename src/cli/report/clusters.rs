//! Of which cluster windows are: one of another cluster that somebody put beside them does not decide.

use std::collections::BTreeMap;

/// Of which cluster the windows are.
#[derive(Default)]
pub(super) struct Clusters {
    /// That of those that are merged.
    ours: Option<String>,
    /// Whether it is known that most are of it.
    is_known: bool,
    /// How many windows are of each; of the first clusters, if there are too many.
    windows: BTreeMap<String, u64>,
    /// Why the first of the others cannot be merged with ours.
    error: Option<anyhow::Error>,
}

/// Clusters that are counted at most.
const MOST_CLUSTERS: usize = 1_000;

impl Clusters {
    /// Those of that cluster are merged, or of the first one that comes.
    pub(super) fn of(cluster: Option<String>) -> Self {
        Self {
            is_known: cluster.is_some(),
            ours: cluster,
            ..Self::default()
        }
    }

    /// The cluster whose windows are merged.
    pub(super) fn ours(&self) -> &str {
        self.ours.as_deref().unwrap_or_default()
    }

    /// Notes why a window of another cluster is left out.
    pub(super) fn leave_out(&mut self, error: anyhow::Error) {
        self.error.get_or_insert(error);
    }

    /// Counts a window; the name of its cluster if that is not the one whose windows are merged.
    pub(super) fn other<'n>(&mut self, name: Option<&'n str>) -> Option<&'n str> {
        let name = name?;
        if self.windows.len() < MOST_CLUSTERS || self.windows.contains_key(name) {
            *self.windows.entry(name.to_owned()).or_default() += 1;
        }
        let ours = self.ours.get_or_insert_with(|| name.to_owned());
        (ours != name).then_some(name)
    }

    /// The cluster of more than half of the windows, if it is another one than ours.
    ///
    /// # Errors
    /// None has so many.
    pub(super) fn most_are_of(&mut self) -> anyhow::Result<Option<String>> {
        let Some(error) = self.error.take().filter(|_| !self.is_known) else {
            return Ok(None);
        };
        let all: u64 = self.windows.values().sum();
        let most = self.windows.iter().find(|(_, windows)| **windows > all / 2);
        match most {
            Some((name, _)) if self.ours.as_ref() == Some(name) => Ok(None),
            Some((name, _)) => Ok(Some(name.clone())),
            None => Err(error),
        }
    }
}
