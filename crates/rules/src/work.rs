//! How much is looked at where findings meet what is said of them: tests count it, since seconds say nothing on a busy
//! machine.

use std::cell::Cell;

thread_local! {
    static LOOKS: Cell<u64> = const { Cell::new(0) };
}

/// Counts so many looks at a finding, a statement or an acceptance.
pub fn look(times: usize) {
    LOOKS.set(LOOKS.get().saturating_add(times as u64));
}

/// The looks of this thread since the last call.
pub fn looks() -> u64 {
    LOOKS.take()
}
