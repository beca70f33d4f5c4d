//! The `hookonce` program: reads its arguments, runs one command, gives its exit code.

use std::process::ExitCode;

fn main() -> ExitCode {
    hookonce::cli::main()
}
