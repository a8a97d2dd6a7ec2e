#![doc = include_str!("../README.md")]

mod access;
mod client;
mod routes;
mod server;
mod socket;
mod status;

pub use access::{NoToken, Token};
pub use client::{NotAnswered, Readiness, readiness};
pub use server::{AdminListener, serve};
pub use socket::{SocketFile, listen};
pub use status::{
    Admin, AdminOrder, AuditStatus, ControlConnection, Exposition, ListenerState, ListenerStatus, ReadyState,
    ReloadResult, Rendering, SettingChanges, ShadowOrder, Status, ThreadStatus,
};
