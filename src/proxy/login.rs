//! The time that a client has to log in. Until then it holds a place for nothing: anybody who reaches the port can have one.
//!
//! What counts as logged in, [`Connection::is_logged_in`] says.

use std::{pin::Pin, task::Context, time::Duration};

use tokio::time::Sleep;

use crate::timers::sleep;
use cqlens_audit::capture::Connection;

/// When a connection ends whose client has not logged in. Nothing is left of it once the client has.
pub(super) struct Deadline<'a> {
    connection: &'a Connection,
    sleep: Option<Pin<Box<Sleep>>>,
}

impl<'a> Deadline<'a> {
    /// The deadline begins now; none never ends.
    pub(super) fn new(connection: &'a Connection, timeout: Option<Duration>) -> Self {
        Self {
            connection,
            sleep: timeout.map(|timeout| Box::pin(sleep(timeout))),
        }
    }

    /// Whether the client had its time; wakes the task when it has. Costs one look once the client has logged in.
    pub(super) fn is_over(&mut self, context: &mut Context<'_>) -> bool {
        let Some(sleep) = &mut self.sleep else {
            return false;
        };
        if self.connection.is_logged_in() {
            self.sleep = None;
            return false;
        }
        sleep.as_mut().poll(context).is_ready()
    }
}
