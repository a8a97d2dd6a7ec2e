//! The deadline for logging in. Until then, any client that reaches the port takes a
//! connection from the others.
//!
//! [`Connection::is_logged_in`] says what counts as logged in.

use std::{pin::Pin, task::Context, time::Duration};

use tokio::time::Sleep;

use crate::timers::sleep;
use cqlens_capture::Connection;

/// Ends a connection whose client does not log in. Its timer is dropped once the client has.
pub(super) struct LoginDeadline<'a> {
    connection: &'a Connection,
    sleep: Option<Pin<Box<Sleep>>>,
}

impl<'a> LoginDeadline<'a> {
    /// The time begins now; without a `timeout` it never ends.
    pub(super) fn new(connection: &'a Connection, timeout: Option<Duration>) -> Self {
        Self {
            connection,
            sleep: timeout.map(|timeout| Box::pin(sleep(timeout))),
        }
    }

    /// Whether the deadline has passed; wakes the task when it does. Costs one load once
    /// the client has logged in.
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
