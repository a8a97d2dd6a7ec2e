//! What this process gives away of itself: nothing of the keys, passwords and requests in its memory.

use rustix::process::{DumpableBehavior, Resource, Rlimit, getrlimit, set_dumpable_behavior, setrlimit};

/// No core dump, and no other process of the same user reads this one's memory or traces it (`prctl(2)`, `PR_SET_DUMPABLE`). Who may trace
/// every process still can.
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
        tracing::warn!(%error, "core dumps cannot be switched off");
    }
}
