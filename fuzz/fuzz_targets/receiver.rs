#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| atp_fuzz_targets::receiver::run(data));
