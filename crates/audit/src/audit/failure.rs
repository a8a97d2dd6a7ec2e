//! A panic of the auditor: what is logged of it. The auditor itself decides how it goes on.
//!
//! A panic's text may hold what was being read (slices of text show it), so only texts that are part of the
//! program are said.

use std::{
    any::Any,
    cell::{Cell, RefCell},
    collections::BTreeSet,
    panic::{self, AssertUnwindSafe, PanicHookInfo},
    sync::Once,
};

thread_local! {
    /// Whether a panic of this thread is caught by [`guard`].
    static GUARDED: Cell<bool> = const { Cell::new(false) };
    /// Where the last one happened.
    static PLACE: RefCell<String> = const { RefCell::new(String::new()) };
}

/// A panic.
#[derive(Debug)]
pub(crate) struct Failure {
    /// File, line and column.
    place: String,
    /// What it said.
    message: &'static str,
}

/// Runs `work`. The caller gives up whatever `work` may have left half-done.
///
/// # Errors
/// The panic that ended it.
pub(crate) fn guard<T>(work: impl FnOnce() -> T) -> Result<T, Failure> {
    listen();
    GUARDED.set(true);
    let done = panic::catch_unwind(AssertUnwindSafe(work));
    GUARDED.set(false);
    done.map_err(|payload| Failure {
        place: PLACE.take(),
        message: message(&*payload),
    })
}

impl Failure {
    /// Logs it, once for each place in the program: a client that can cause it once can cause it a thousand
    /// times a second.
    pub(crate) fn say(&self, said: &mut BTreeSet<String>) {
        if said.insert(self.place.clone()) {
            tracing::error!(place = %self.place, "an auditor has failed, which is an error in cqlens: {}; forwarding \
                and the audit go on, further failures there are only counted", self.message);
        }
    }
}

/// The text of a panic, where it is part of the program.
pub fn message(payload: &(dyn Any + Send)) -> &'static str {
    // The text of the others was put together when they happened.
    payload
        .downcast_ref::<&'static str>()
        .copied()
        .unwrap_or("its message may hold values and is not shown")
}

/// Notes the place of panics that are caught here, and leaves all others to the hook that was there before.
fn listen() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            if GUARDED.get() {
                PLACE.set(place(panic));
            } else {
                before(panic);
            }
        }));
    });
}

/// File, line and column of a panic.
pub fn place(panic: &PanicHookInfo<'_>) -> String {
    panic
        .location()
        .map_or_else(|| "an unknown place".to_owned(), ToString::to_string)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    #[test]
    fn a_failure_tells_its_place_and_no_text_that_may_hold_values() {
        let failure = guard(|| panic!("a fixed text")).unwrap_err();
        assert!(failure.place.starts_with(file!()), "{}", failure.place);
        assert_eq!(failure.message, "a fixed text");
        let secret = "hunter2";
        let failure = guard(|| panic!("a text with {secret}")).unwrap_err();
        assert!(!failure.message.contains(secret), "{}", failure.message);
        assert_eq!(guard(|| 7).unwrap(), 7);
    }
}
