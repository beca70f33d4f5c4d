//! The `hookonce` program: reads its arguments, runs one command, gives its exit code.

use std::process::ExitCode;

/// A delivery is some hundred small allocations, and the C library's allocator is slow at them, musl's very much so
/// (docs/performance.md).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    hookonce::cli::main()
}
