//! Protects the memory of this process, which holds keys, passwords and requests.

use rustix::process::{DumpableBehavior, Resource, Rlimit, getrlimit, set_dumpable_behavior, setrlimit};

/// Forbids core dumps, and keeps other processes of the same user from reading or tracing this one
/// (`prctl(2)`, `PR_SET_DUMPABLE`). A process that may trace every process still can.
pub(super) fn keep_memory_private() {
    if let Err(error) = set_dumpable_behavior(DumpableBehavior::NotDumpable) {
        tracing::warn!(%error, "other processes of this user can read the memory of this one");
    }
    // A core that is piped to a program is not limited by it; there PR_SET_DUMPABLE is what counts.
    let none = Rlimit {
        current: Some(0),
        maximum: getrlimit(Resource::Core).maximum,
    };
    if let Err(error) = setrlimit(Resource::Core, none) {
        tracing::warn!(%error, "core dumps cannot be disabled");
    }
}
