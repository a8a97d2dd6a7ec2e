//! Metrics and findings on their way to an OpenTelemetry collector, up to collectors that refuse them; a real one is in
//! `tests/external/collector.rs`.

mod refusals;
mod shop;
