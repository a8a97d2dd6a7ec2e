//! The `cqlens` command: arguments in, exit code out.

use std::process::ExitCode;

fn main() -> ExitCode {
    cqlens::cli::main()
}
