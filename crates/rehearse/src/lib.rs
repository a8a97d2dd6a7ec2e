#![doc = include_str!("../README.md")]

pub mod convert;
pub mod digest;
pub mod exchange;
pub mod left_out;
pub mod observe;
mod pages;
pub mod recording;
mod text;
