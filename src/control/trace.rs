//! What the server writes down of a request that asks for it: `system_traces`.

use std::time::Duration;

use cqlens_proto::message::{Extensions, Extras, Query, Request, Response};
use tokio::time::sleep;

use super::SystemReader;
use cqlens_audit::{audit::TraceEvent, catalog::Record};
use cqlens_client::ClientError;

/// A trace is written after the answer was sent; drivers wait for 2 s, too.
const LOOKS: u32 = 20;
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);

impl SystemReader {
    /// Asks with tracing and reads what was written down of it (Cassandra keeps it for a day).
    ///
    /// # Errors
    /// The connection's and the server's; a response without a trace, or a trace that is not finished within
    /// 2 s.
    pub async fn trace(&mut self, query: Query<'_>) -> Result<Vec<TraceEvent>, ClientError> {
        let asked = Extras {
            tracing: true,
            ..Extras::default()
        };
        let response = self.client.request_with(&Request::Query(query), &asked).await?;
        let decoded = Response::decode(&response, Extensions::NONE)?;
        if let error @ Response::Error(_) = &decoded.message {
            return Err(ClientError::from_response(error));
        }
        let missing = |what: &str| ClientError::Unexpected(what.to_owned());
        let id = decoded.extras.tracing_id.map(|id| id.to_string());
        let id = id.ok_or_else(|| missing("a response without a trace"))?;
        let session = format!("SELECT duration FROM system_traces.sessions WHERE session_id = {id}");
        for _ in 0..LOOKS {
            let session = self.records(&session).await?;
            // The coordinator writes it when all is done.
            if session.iter().any(|session| session.int("duration", -1) >= 0) {
                return self.trace_events(&id).await;
            }
            sleep(BETWEEN_LOOKS).await;
        }
        Err(missing("an unfinished trace"))
    }

    async fn trace_events(&mut self, id: &str) -> Result<Vec<TraceEvent>, ClientError> {
        // Replicas write theirs by themselves.
        sleep(BETWEEN_LOOKS).await;
        let events = format!("SELECT source, activity FROM system_traces.events WHERE session_id = {id}");
        let events = self.records(&events).await?;
        let event = |record: &Record| TraceEvent {
            source: record.text("source"),
            activity: record.text("activity"),
        };
        Ok(events.iter().map(event).collect())
    }
}
