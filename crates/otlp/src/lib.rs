#![doc = include_str!("../README.md")]

mod exporter;
mod message;

pub use exporter::{Exporter, ExporterSettings, NotExported, NotUsable};
pub use message::{Event, Importance, Kind, Metric, Point, Resource, Value};
