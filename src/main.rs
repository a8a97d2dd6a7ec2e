//! The `cqlens` command.

fn main() {}
