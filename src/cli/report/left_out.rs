//! Files that are left out, and what is said of them.

use std::path::Path;

use cqlens_window::number;

/// How many files a notice names.
const MOST_NAMED: usize = 5;

/// Files of one kind that are left out.
#[derive(Default)]
pub(super) struct LeftOut {
    count: u64,
    /// The first of them.
    names: Vec<String>,
}

impl LeftOut {
    /// Those of a store.
    #[cfg(feature = "fleet")]
    pub(super) fn of(count: u64, names: Vec<String>) -> Self {
        Self { count, names }
    }

    pub(super) fn add(&mut self, path: &Path) {
        let name = path.file_name().unwrap_or(path.as_os_str());
        self.add_name(name.to_string_lossy().into_owned());
    }

    pub(super) fn add_name(&mut self, name: String) {
        self.count += 1;
        if self.names.len() < MOST_NAMED {
            self.names.push(name);
        }
    }

    /// Says which they are; nothing where there are none.
    pub(super) fn notice(&self, [one, several]: [&str; 2], what: &str, so: &str) -> Option<String> {
        let more = match self.count - self.names.len() as u64 {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let count = number::plural(self.count, one, several);
        (self.count > 0).then(|| format!("{count} {what}: {}{more}. {so}", self.names.join(", ")))
    }
}
