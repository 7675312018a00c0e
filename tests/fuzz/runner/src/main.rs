//! libFuzzer around the target that the binary is named after.

#![no_main]

use std::sync::LazyLock;

static TARGET: LazyLock<&fuzz::Target> = LazyLock::new(|| {
    fuzz::find(env!("CARGO_BIN_NAME")).expect("each binary is named after a target")
});

libfuzzer_sys::fuzz_target!(|data: &[u8]| (TARGET.run)(data));
