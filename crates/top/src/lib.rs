//! What a running proxy sees, as a screen of a terminal.
//!
//! A [`Source`] gives a report as JSON every few seconds. `report` is the part of it that is shown, `model` what is
//! on the screen and what keys do, `draw` how that looks, `terminal` the loop. Only the last two know a terminal.

mod draw;
mod keys;
mod model;
mod report;
mod rows;
mod source;
mod terminal;
#[cfg(test)]
mod tests;

pub use source::{Http, HttpSettings, Source, SourceError};
pub use terminal::{ScreenOptions, once, run};
