//! What becomes no recorded exchange, and why.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU64, Ordering},
};

/// Why a request is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LeftOut {
    /// It executes nothing: STARTUP, OPTIONS, REGISTER, PREPARE, ….
    NoStatement,
    /// USE: the keyspace stands in each request.
    Use,
    /// It reads the server's own tables, or asks the server about itself.
    System,
    /// It gives a role, maybe with a password.
    Credentials,
    /// The server did not know the prepared statement; the client sends another request.
    Unprepared,
    /// The text of its prepared statement is not known.
    UnknownPrepared,
    /// Longer than what the audit keeps of a request.
    TooLong,
    /// A batch of statements with unqualified names that were prepared in different keyspaces.
    SeveralKeyspaces,
    /// It asks for many pages at once, as only DSE gives them.
    ContinuousPaging,
    /// What the log has of it cannot be read, or is not all of it.
    Unread,
    /// The audit did not see it: left out of the audit, or not decoded.
    Unseen,
    /// The queue was full.
    QueueFull,
    /// Its file could not be written.
    NotWritten,
}

impl LeftOut {
    /// All, in their order.
    pub const ALL: [Self; 13] = [
        Self::NoStatement,
        Self::Use,
        Self::System,
        Self::Credentials,
        Self::Unprepared,
        Self::UnknownPrepared,
        Self::TooLong,
        Self::SeveralKeyspaces,
        Self::ContinuousPaging,
        Self::Unread,
        Self::Unseen,
        Self::QueueFull,
        Self::NotWritten,
    ];

    /// Whether another cluster lacks it: a request of an application that had its effect.
    pub fn is_loss(self) -> bool {
        match self {
            Self::NoStatement | Self::Use | Self::System | Self::Credentials | Self::Unprepared => false,
            Self::UnknownPrepared
            | Self::TooLong
            | Self::SeveralKeyspaces
            | Self::ContinuousPaging
            | Self::Unread
            | Self::Unseen
            | Self::QueueFull
            | Self::NotWritten => true,
        }
    }

    /// Whether what a file names so is a loss; what a later version names is one.
    pub fn is_loss_of_name(name: &str) -> bool {
        let named = Self::ALL.into_iter().find(|why| why.name() == name);
        named.is_none_or(Self::is_loss)
    }

    /// As it stands in files and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::NoStatement => "no statement",
            Self::Use => "USE",
            Self::System => "the server's own tables",
            Self::Credentials => "roles",
            Self::Unprepared => "not prepared on the server",
            Self::UnknownPrepared => "prepared statement not known",
            Self::TooLong => "too long",
            Self::SeveralKeyspaces => "prepared in several keyspaces",
            Self::ContinuousPaging => "continuous paging",
            Self::Unread => "not readable in the log",
            Self::Unseen => "not seen by the audit",
            Self::QueueFull => "queue full",
            Self::NotWritten => "not written",
        }
    }
}

/// How many requests were left out, by reason; counted by one thread and read by others.
#[derive(Debug, Default)]
pub struct LeftOutCounts([AtomicU64; LeftOut::ALL.len()]);

impl LeftOutCounts {
    /// Counts some.
    pub fn add(&self, why: LeftOut, requests: u64) {
        self.0[why as usize].fetch_add(requests, Ordering::Relaxed);
    }

    /// So far, by reason; those that there are none of left out.
    pub fn by_reason(&self) -> BTreeMap<LeftOut, u64> {
        let counts = LeftOut::ALL.into_iter().map(|why| (why, self.of(why)));
        counts.filter(|(_, count)| *count > 0).collect()
    }

    /// So far, for one reason.
    pub fn of(&self, why: LeftOut) -> u64 {
        self.0[why as usize].load(Ordering::Relaxed)
    }
}
