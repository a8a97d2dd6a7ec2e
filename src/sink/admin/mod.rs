//! The admin listener: what operators, probes and load balancers ask a running proxy, over HTTP.
//!
//! | request | answer |
//! | --- | --- |
//! | `GET /livez` | 200 as long as the threads of the data path and of the control loop make progress, else 503. \
//!   The audit does not count: the data path never waits for it, and a restart would end healthy connections
//! |
//! | `GET /readyz` | 200 while clients are accepted, 503 before (no node is known yet) and in a shutdown; \
//!   operators get [`Status`] as JSON, others its state alone |
//! | `GET /config` | the settings as TOML, without passwords |
//! | `POST /reload` | reads the settings again: 200 with what has changed, 422 with what is wrong |
//! | `POST /drain` | 202; clients are no longer accepted, requests in flight end, the process ends |
//!
//! There is no authentication, so any client may use the two probes, and only operators the other requests.
//! An operator connects from this machine, not from a web page, and names this machine by its address or as
//! `localhost`: a page of another name that resolves to it is refused, too. Or the operator connects over a
//! Unix socket, which its permissions guard. Clients may be hostile: sizes, times and connections are bounded
//! (`server`). Answers come from counters; only an order waits for the control loop, and nothing here is in
//! the way of the data path.

mod routes;
mod server;
mod socket;
mod status;

pub use server::{AdminListener, serve};
pub use socket::{SocketFile, listen};
pub use status::{
    Admin, AdminOrder, AuditStatus, ControlConnection, ListenerState, ListenerStatus, ReadyState,
    ReloadResult, SettingChanges, Status, ThreadStatus,
};
