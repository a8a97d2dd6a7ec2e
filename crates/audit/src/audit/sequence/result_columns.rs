//! The columns of rows, also where a client leaves them out because PREPARED has told them.

use std::{collections::HashMap, sync::Arc};

use cqlens_proto::message::{ColumnSpecs, Prepared, PreparedId, Request, Rows};
use foldhash::fast::RandomState;

use super::inside::Inside;

/// Columns in order.
pub(crate) type Columns = Arc<[ResultColumn]>;

/// A column of rows.
#[derive(Debug, Clone)]
pub(crate) struct ResultColumn {
    pub(super) name: Box<str>,
    pub(super) inside: Inside,
}

/// What PREPARED results said of the columns of rows. Bounded: all are dropped when there are too many.
#[derive(Debug, Default)]
pub(crate) struct ResultColumns(HashMap<Box<[u8]>, Columns, RandomState>);

impl ResultColumns {
    const MOST: usize = 4_096;

    /// Longer ids are no server's: those are digests.
    const LONGEST_ID: usize = 64;

    /// More columns are not told apart.
    const MOST_COLUMNS: usize = 256;

    /// Takes over what a PREPARED result says.
    pub(crate) fn prepared(&mut self, prepared: &Prepared<'_>) {
        let id = prepared.id.0;
        self.0.remove(id);
        if let Some(columns) = &prepared.result.columns
            && !columns.is_empty()
            && id.len() <= Self::LONGEST_ID
        {
            if self.0.len() >= Self::MOST {
                self.0.clear();
            }
            self.0.insert(id.into(), columns_of(columns));
        }
    }

    /// The columns of `rows`, which answer `request`; empty where nobody has told them.
    pub(crate) fn of(&self, request: &Request<'_>, rows: &Rows<'_>) -> Columns {
        let prepared = |PreparedId(id): PreparedId<'_>| self.0.get(id).cloned();
        match (&rows.metadata.columns, request) {
            (Some(columns), _) => columns_of(columns),
            (None, Request::Execute(execute)) => prepared(execute.id).unwrap_or_default(),
            (None, _) => Columns::default(),
        }
    }
}

fn columns_of(columns: &ColumnSpecs<'_>) -> Columns {
    let columns = columns.iter().take(ResultColumns::MOST_COLUMNS);
    let columns = columns.map(|column| ResultColumn {
        name: column.name.into(),
        inside: Inside::of(&column.column_type),
    });
    columns.collect()
}
