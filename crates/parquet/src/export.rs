//! The files: which partitions there are, and that an export is there as a whole or not at all.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

use arrow_array::RecordBatch;
use arrow_schema::ArrowError;
use cqlens_window::Snapshot;
use jiff::{civil::Date, tz::TimeZone};
use parquet::{
    arrow::ArrowWriter,
    basic::Compression,
    errors::ParquetError,
    file::{metadata::KeyValue, properties::WriterProperties},
};
use tempfile::TempDir;

use crate::rows::{FORMAT, TABLES, rows};

/// Rows that are kept in memory before they are written.
const ROW_GROUP: usize = 20_000;

/// What Hive and Spark take for null.
const NO_CLUSTER: &str = "__HIVE_DEFAULT_PARTITION__";

/// Files of one cluster and day of one table.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Partition {
    cluster: Option<String>,
    day: Date,
}

/// Gives the place that a path leads to, or refuses one that another user has set.
pub type Follow = fn(&Path) -> io::Result<PathBuf>;

/// An export that is being written.
pub struct Export {
    folder: PathBuf,
    follow: Follow,
    /// Where files are until the end, inside `folder`.
    beside: TempDir,
    open: Option<(Partition, Vec<ArrowWriter<File>>)>,
    /// Files of each partition that there are, so that the next has another name.
    parts: Vec<(Partition, u32)>,
}

impl Export {
    /// Begins an export into a folder, which is made if it is not there.
    ///
    /// # Errors
    /// A folder that cannot be made or written to, and those of `follow`, which every path passes on which there may be links.
    pub fn begin(folder: &Path, follow: Follow) -> Result<Self, ExportError> {
        let folder = &follow(folder)?;
        fs::create_dir_all(folder)?;
        Ok(Self {
            folder: folder.clone(),
            follow,
            // Engines pass over names that begin so.
            beside: tempfile::Builder::new().prefix("_cqlens-").tempdir_in(folder)?,
            open: None,
            parts: Vec::new(),
        })
    }

    /// Adds a window.
    ///
    /// # Errors
    /// A disk that is full; a partition that is there from an earlier export: its windows would count twice.
    pub fn add(&mut self, snapshot: &Snapshot) -> Result<(), ExportError> {
        let partition = Partition {
            cluster: snapshot.cluster.name.clone(),
            day: snapshot.window.start.to_zoned(TimeZone::UTC).date(),
        };
        let rows = rows(snapshot)?;
        let is_open = self.open.as_ref().is_some_and(|(open, _)| *open == partition);
        if !is_open {
            self.close()?;
            let writers = self.create(&partition, &rows)?;
            self.open = Some((partition, writers));
        }
        if let Some((_, writers)) = &mut self.open {
            for (writer, rows) in writers.iter_mut().zip(&rows) {
                writer.write(rows)?;
            }
        }
        Ok(())
    }

    /// Moves everything to its place.
    ///
    /// # Errors
    /// As [`Export::add`].
    pub fn finish(mut self) -> Result<(), ExportError> {
        self.close()?;
        let partitions: Vec<_> = self.parts.iter().map(|(partition, _)| partition.path()).collect();
        for table in TABLES {
            for partition in &partitions {
                let place = (self.follow)(&self.folder.join(table).join(partition))?;
                fs::create_dir_all(place.parent().unwrap_or(&self.folder))?;
                fs::rename(self.beside.path().join(table).join(partition), place)?;
            }
        }
        Ok(())
    }

    /// The files of the next part of a partition, one for each table.
    fn create(
        &mut self,
        partition: &Partition,
        rows: &[RecordBatch],
    ) -> Result<Vec<ArrowWriter<File>>, ExportError> {
        let path = partition.path();
        let part = match self.parts.iter_mut().find(|(known, _)| known == partition) {
            Some((_, parts)) => {
                *parts += 1;
                *parts
            }
            None => {
                let place = (self.follow)(&self.folder.join(TABLES[0]).join(&path))?;
                if place.exists() {
                    return Err(ExportError::Exists(place));
                }
                self.parts.push((partition.clone(), 0));
                0
            }
        };
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_max_row_group_row_count(Some(ROW_GROUP))
            .set_key_value_metadata(Some(vec![KeyValue::new(
                "cqlens.format".to_owned(),
                FORMAT.to_owned(),
            )]))
            .build();
        let create = |(table, rows): (&&str, &RecordBatch)| {
            let folder = self.beside.path().join(table).join(&path);
            fs::create_dir_all(&folder)?;
            let file = File::create(folder.join(format!("part-{part}.parquet")))?;
            Ok(ArrowWriter::try_new(
                file,
                rows.schema(),
                Some(properties.clone()),
            )?)
        };
        TABLES.iter().zip(rows).map(create).collect()
    }

    fn close(&mut self) -> Result<(), ExportError> {
        for writer in self.open.take().into_iter().flat_map(|(_, writers)| writers) {
            writer.close()?;
        }
        Ok(())
    }
}

impl Partition {
    /// Below the folder of a table.
    fn path(&self) -> PathBuf {
        let cluster = self.cluster.as_deref().map_or(NO_CLUSTER.to_owned(), escaped);
        Path::new(&format!("cluster={cluster}")).join(format!("day={}", self.day))
    }
}

/// As Hive writes values in names of folders.
fn escaped(value: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let bytes = value.bytes();
    bytes
        .map(|byte| match plain(byte) {
            true => char::from(byte).to_string(),
            false => format!("%{byte:02X}"),
        })
        .collect()
}

/// Why there is no export.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// An earlier export has the same cluster and day.
    #[error("{} is there already, and windows would count twice: remove it, or export into another folder", .0.display())]
    Exists(PathBuf),
    /// The folder or its disk.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// Columns of different lengths.
    #[error(transparent)]
    Rows(#[from] ArrowError),
    /// The format.
    #[error(transparent)]
    Parquet(#[from] ParquetError),
}
