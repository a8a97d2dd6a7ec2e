//! What a trace says of partitions and indexes.
//!
//! The texts are those of Cassandra 5.0 and 6.0: `SinglePartitionReadCommand`, `RangeCommandIterator`,
//! `PartitionRangeReadCommand`, `SecondaryIndexManager`, `ReadCommand`, `Keyspace.applyInternal`.

/// The activities of one execution, on a cluster of one node.
#[derive(Debug, Clone)]
pub(crate) struct Trace(Vec<String>);

impl Trace {
    pub(crate) fn of(activities: impl IntoIterator<Item = String>) -> Self {
        Self(activities.into_iter().collect())
    }

    /// The trace with other activities before its own.
    pub(crate) fn after(&self, activities: impl IntoIterator<Item = String>) -> Self {
        Self::of(activities.into_iter().chain(self.0.iter().cloned()))
    }

    /// The trace with its activities changed.
    pub(crate) fn map(&self, change: impl Fn(&str) -> String) -> Self {
        Self::of(self.0.iter().map(|activity| change(activity)))
    }

    /// Whether anything was read or written.
    pub(crate) fn touches(&self) -> bool {
        self.reads_range()
            || self.keys_of_accord() > 0
            || self.count(|activity| {
                activity.starts_with("Executing single-partition query on ")
                    || activity.starts_with("Executing read on ")
                    || (activity.starts_with("Adding to ") && activity.ends_with(" memtable"))
            }) > 0
    }

    /// Partitions of the table that were read by their keys. An index read of a named partition is one; what
    /// an index reads behind it, its own hidden table and the rows that it points to, is not counted.
    pub(crate) fn partitions_read(&self, keyspace: &str, table: &str) -> usize {
        let by_index = self.count(|activity| {
            activity.starts_with(&format!("Executing read on {keyspace}.{table} using index"))
        });
        match by_index {
            0 => self.count(|activity| activity == format!("Executing single-partition query on {table}")),
            by_index => by_index,
        }
    }

    /// Pairs of table and key that were written, on the tables given; a table that has a view is read before.
    pub(crate) fn partitions_written(&self, tables: &[&str]) -> usize {
        self.count(|activity| {
            tables
                .iter()
                .any(|table| activity == format!("Adding to {table} memtable"))
        })
    }

    /// The partitions that Accord is given to order a transaction on: tokens, by table.
    ///
    /// `Local PreAccept for [[…]] and tid:00ab:[-1,7],tid:00cd:[5]`
    pub(crate) fn keys_of_accord(&self) -> usize {
        let keys = self.0.iter().filter_map(|activity| {
            let mut requests = ["Local PreAccept for ", "GetEphemeralReadDeps for "].iter();
            let asked = requests.find_map(|request| activity.strip_prefix(request))?;
            let (_, tables) = asked.split_once("]] and ")?;
            let tokens = tables.split("tid:").skip(1).filter_map(|table| {
                let (_, tokens) = table.split_once(":[")?;
                Some(tokens.split_once(']')?.0.split(',').count())
            });
            Some(tokens.sum::<usize>())
        });
        keys.max().unwrap_or(0)
    }

    /// Whether a range of the ring was read.
    pub(crate) fn reads_range(&self) -> bool {
        self.0
            .iter()
            .any(|activity| activity == "Computing ranges to query")
    }

    /// The indexes that were chosen, none if none was.
    pub(crate) fn indexes(&self) -> Vec<&str> {
        let chosen = self.0.iter().find_map(|activity| {
            let (_, chosen) = activity
                .strip_prefix("Index mean cardinalities are ")?
                .split_once("Scanning with ")?;
            chosen.strip_suffix('.')
        });
        let mut indexes: Vec<&str> = chosen
            .into_iter()
            .flat_map(|chosen| chosen.split(','))
            .map(str::trim)
            .collect();
        indexes.sort_unstable();
        indexes
    }

    /// The share of the ring between the bounds of a range read without an index: `(max(5),
    /// min(-9223372036854775808)]`.
    pub(crate) fn ring_share(&self) -> Option<f64> {
        let mut share = None;
        for activity in &self.0 {
            let Some((_, bounds)) = activity
                .strip_prefix("Executing seq scan across ")
                .and_then(|rest| rest.split_once(" for "))
            else {
                continue;
            };
            let mut tokens = bounds
                .split(|c: char| !(c.is_ascii_digit() || c == '-'))
                .filter_map(|number| number.parse::<i64>().ok());
            let (Some(left), Some(right)) = (tokens.next(), tokens.next()) else {
                continue;
            };
            let width = i128::from(right) - i128::from(left);
            // The smallest token on the right is the end of the ring.
            let width = if right == i64::MIN {
                width + (1 << 64)
            } else {
                width
            };
            share = Some(share.unwrap_or(0.0) + width as f64 / 2_f64.powi(64));
        }
        share
    }

    fn count(&self, is: impl Fn(&str) -> bool) -> usize {
        self.0.iter().filter(|activity| is(activity)).count()
    }
}

impl std::fmt::Display for Trace {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(&self.0.join(" | "))
    }
}
