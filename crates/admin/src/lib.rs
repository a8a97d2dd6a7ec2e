#![doc = include_str!("../README.md")]

mod routes;
mod server;
mod socket;
mod status;

pub use server::{AdminListener, serve};
pub use socket::{SocketFile, listen};
pub use status::{
    Admin, AdminOrder, AuditStatus, ControlConnection, Exposition, ListenerState, ListenerStatus, ReadyState,
    ReloadResult, SettingChanges, ShadowOrder, Status, ThreadStatus,
};
