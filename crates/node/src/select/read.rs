//! Reading: walks over partitions and rows, stops at the limit or the end of the page, and counts the
//! tombstones that it passes, as Cassandra's `ReadCommand` counts them.

use std::ops::ControlFlow;

use super::limits::RowLimits;
use super::result_rows::ResultRows;
use crate::execution::Execution;
use crate::failure::Failure;
use crate::layout::{Layout, RowView};
use crate::paging::Mark;
use crate::restriction::{Restrictions, Source, literal_text};
use crate::store::{Partition, PartitionId, Passed, Row, StoredTable, Stretch, stretch};

/// From how many tombstones on a read is warned about, or fails.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Thresholds {
    /// More than this is a warning.
    pub(crate) warn: u64,
    /// More than this is a failure.
    pub(crate) fail: u64,
}

/// A read, decided in all points.
pub(super) struct Read<'a> {
    pub(super) layout: &'a Layout,
    pub(super) restrictions: &'a Restrictions,
    pub(super) limits: &'a RowLimits,
    pub(super) thresholds: Thresholds,
    pub(super) execution: &'a Execution<'a>,
    /// Against the order in which the table is stored.
    pub(super) reversed: bool,
    /// One row for each partition.
    pub(super) is_distinct: bool,
    /// `SELECT *`.
    pub(super) selects_all: bool,
}

/// How far a read has come.
struct Progress {
    rows_left: u64,
    page_left: u64,
    mark: Option<Mark>,
    /// Of the replica's command that is running: one for each named partition, one for a whole scan.
    live_rows: u64,
    tombstones: u64,
    warnings: Vec<String>,
}

impl Read<'_> {
    /// Reads into `rows`; gives the warnings, and where the next page starts if there may be one.
    ///
    /// # Errors
    /// If it passes more tombstones than allowed.
    pub(super) fn run(
        &self,
        table: &StoredTable,
        rows: &mut ResultRows<'_>,
    ) -> Result<(Vec<String>, Option<Mark>), Failure> {
        let mut progress = Progress {
            rows_left: if self.limits.reads_all {
                u64::MAX
            } else {
                self.limits.limit
            },
            page_left: self.limits.page,
            mark: None,
            live_rows: 0,
            tombstones: 0,
            warnings: Vec::new(),
        };
        match &self.restrictions.source {
            Source::Keys(keys) => {
                for key in keys {
                    let id =
                        PartitionId::of(key).ok_or_else(|| Failure::invalid("Partition key is too long"))?;
                    let flow = match table.partition(&id) {
                        Some(partition) if self.is_due(&id, keys) => {
                            self.partition(&id, partition, rows, &mut progress)?
                        }
                        _ => ControlFlow::Continue(()),
                    };
                    self.close_command(&mut progress, &id);
                    if flow.is_break() {
                        break;
                    }
                }
            }
            Source::Ring(tokens) => self.scan(tokens, table, rows, &mut progress)?,
        }
        Ok((progress.warnings, progress.mark))
    }

    fn scan(
        &self,
        tokens: &std::ops::RangeInclusive<i64>,
        table: &StoredTable,
        rows: &mut ResultRows<'_>,
        progress: &mut Progress,
    ) -> Result<(), Failure> {
        let first = PartitionId::first_of(*tokens.start());
        let from = match &self.limits.resume {
            Some(mark) => mark.partition.clone().max(first),
            None => first,
        };
        let mut last = None;
        for (id, partition) in table
            .range(from..)
            .take_while(|(id, _)| id.token <= *tokens.end())
        {
            last = Some(id);
            if self.partition(id, partition, rows, progress)?.is_break() {
                break;
            }
        }
        if let Some(id) = last {
            self.close_command(progress, id);
        }
        Ok(())
    }

    /// Whether a named partition was not read on an earlier page.
    fn is_due(&self, id: &PartitionId, keys: &[Vec<bytes::Bytes>]) -> bool {
        let Some(mark) = &self.limits.resume else {
            return true;
        };
        let place = |wanted: &PartitionId| {
            keys.iter()
                .position(|key| PartitionId::of(key).as_ref() == Some(wanted))
        };
        place(id) >= place(&mark.partition)
    }

    fn partition(
        &self,
        id: &PartitionId,
        partition: &Partition,
        rows: &mut ResultRows<'_>,
        progress: &mut Progress,
    ) -> Result<ControlFlow<()>, Failure> {
        let now = self.execution.now;
        let resume = self.limits.resume.as_ref().filter(|mark| mark.partition == *id);
        let mut left = resume.map_or(self.limits.per_partition, |mark| mark.rows_left_in_partition);
        let static_row = partition.static_row.scan(now);
        progress.tombstones += static_row.tombstones;
        let view = |row| RowView {
            layout: self.layout,
            partition,
            row,
            now,
        };
        if self.is_distinct {
            let is_new = resume.is_none() && partition.is_live(now);
            return Ok(match is_new && self.passes(&view(None)) {
                true => self.emit(id, &view(None), None, &mut left, rows, progress),
                false => ControlFlow::Continue(()),
            });
        }
        let mut has_rows = resume.is_some();
        for stretch in self.stretches(resume) {
            for passed in partition.scan(&stretch, self.reversed) {
                if left == 0 {
                    return Ok(ControlFlow::Continue(()));
                }
                let Passed::Row(position, row) = passed else {
                    progress.tombstones += 1;
                    self.check(progress)?;
                    continue;
                };
                if !self.count(row, progress)? {
                    continue;
                }
                has_rows = true;
                if self.passes(&view(Some(row)))
                    && self
                        .emit(id, &view(Some(row)), Some(position), &mut left, rows, progress)
                        .is_break()
                {
                    return Ok(ControlFlow::Break(()));
                }
            }
        }
        let shows_static = !has_rows && static_row.is_live && !self.restrictions.restricts_clustering;
        if shows_static && left > 0 && self.passes(&view(None)) {
            return Ok(self.emit(id, &view(None), None, &mut left, rows, progress));
        }
        Ok(ControlFlow::Continue(()))
    }

    /// What is left to read of each stretch, in the order of reading.
    fn stretches(&self, resume: Option<&Mark>) -> Vec<Stretch> {
        let mut stretches = self.restrictions.stretches.clone();
        if self.reversed {
            stretches.reverse();
        }
        let Some(mark) = resume else { return stretches };
        let Some(position) = &mark.position else {
            return Vec::new();
        };
        let rest = match self.reversed {
            true => Stretch {
                from: Vec::new(),
                to: Some(position.clone()),
            },
            false => Stretch {
                from: stretch::after_row(position),
                to: None,
            },
        };
        let stretches = stretches.iter().map(|stretch| stretch.intersection(&rest));
        stretches.filter(|stretch| !stretch.is_empty()).collect()
    }

    fn passes(&self, row: &RowView<'_>) -> bool {
        self.restrictions.filters.iter().all(|filter| filter.passes(row))
    }

    /// Counts a row; says whether it is live.
    fn count(&self, row: &Row, progress: &mut Progress) -> Result<bool, Failure> {
        let scanned = row.scan(self.execution.now);
        progress.live_rows += u64::from(scanned.is_live);
        progress.tombstones += scanned.tombstones;
        self.check(progress)?;
        Ok(scanned.is_live)
    }

    fn check(&self, progress: &Progress) -> Result<(), Failure> {
        // An index leads to its rows: what lies between them is not read.
        if progress.tombstones > self.thresholds.fail && !self.restrictions.uses_index {
            return Err(Failure::too_many_tombstones(self.execution.consistency));
        }
        Ok(())
    }

    fn emit(
        &self,
        id: &PartitionId,
        row: &RowView<'_>,
        position: Option<&[u8]>,
        left: &mut u64,
        rows: &mut ResultRows<'_>,
        progress: &mut Progress,
    ) -> ControlFlow<()> {
        rows.add(row, position.unwrap_or_default());
        *left = left.saturating_sub(1);
        progress.rows_left -= 1;
        progress.page_left -= 1;
        if progress.rows_left == 0 {
            return ControlFlow::Break(());
        }
        if progress.page_left == 0 {
            progress.mark = Some(Mark {
                partition: id.clone(),
                position: position.map(<[u8]>::to_vec),
                rows_left: progress.rows_left,
                rows_left_in_partition: *left,
            });
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }

    /// Warns, if there were too many tombstones, and starts counting anew.
    fn close_command(&self, progress: &mut Progress, id: &PartitionId) {
        let (live, tombstones) = (progress.live_rows, progress.tombstones);
        (progress.live_rows, progress.tombstones) = (0, 0);
        if tombstones <= self.thresholds.warn || self.restrictions.uses_index {
            return;
        }
        let text: String = self.text(id).chars().take(LONGEST_TEXT).collect();
        progress.warnings.push(format!(
            "Read {live} live rows and {tombstones} tombstone cells for query {text}; token {} (see \
             tombstone_warn_threshold)",
            id.token
        ));
    }

    /// The read as Cassandra prints its commands: with values, and always with ALLOW FILTERING.
    fn text(&self, id: &PartitionId) -> String {
        let layout = self.layout;
        let columns = match self.selects_all {
            true => "*".to_owned(),
            false => {
                let names: Vec<_> = layout.columns.iter().map(|column| column.name.as_str()).collect();
                names.join(", ")
            }
        };
        let mut relations = self.restrictions.text_beside_key(layout);
        if let Source::Keys(keys) = &self.restrictions.source {
            let key = keys.iter().find(|key| PartitionId::of(key).as_ref() == Some(id));
            let values = layout.partition_key().iter().zip(key.into_iter().flatten());
            let equal = values.map(|(column, value)| {
                format!(" AND {} = {}", column.name, literal_text(&column.cql_type, value))
            });
            relations = equal.collect::<String>() + &relations;
        }
        let relations = relations
            .strip_prefix(" AND ")
            .map(|all| format!(" WHERE {all}"))
            .unwrap_or_default();
        let order = match self.reversed {
            true => {
                let columns = layout.clustering().iter().map(|column| {
                    format!(
                        "{} {}",
                        column.name,
                        if column.is_descending() { "ASC" } else { "DESC" }
                    )
                });
                format!(" ORDER BY {}", columns.collect::<Vec<_>>().join(", "))
            }
            false => String::new(),
        };
        let limit = match self.limits.limit.min(self.limits.page) {
            u64::MAX => String::new(),
            rows => format!(" LIMIT {rows}"),
        };
        let (keyspace, table) = (&layout.keyspace, &layout.name);
        format!("SELECT {columns} FROM {keyspace}.{table}{relations}{order}{limit} ALLOW FILTERING")
    }
}

/// Characters of a query that Cassandra puts into a warning.
const LONGEST_TEXT: usize = 512;
