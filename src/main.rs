//! The `cqlens` command: arguments in, exit code out.

use std::process::ExitCode;

/// Statements are trees of small parts: two fifths of what the audit of a new text takes would go to glibc's
/// allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    cqlens::cli::main()
}
