#![doc = include_str!("../README.md")]

mod exporter;
mod message;

pub use exporter::{Exporter, ExporterSettings, NotExported, NotUsable};
pub use message::{Event, Kind, Level, Metric, Point, Resource, Value};
