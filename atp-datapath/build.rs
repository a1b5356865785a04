//! With the feature `embedded`, embeds the eBPF object that `ATP_EBPF_OBJECT` names. Without an
//! object the crate builds too, and reports the missing programs at run time.

use std::{env, fs, path::PathBuf};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is_embedded = env::var_os("CARGO_FEATURE_EMBEDDED").is_some();
    if is_embedded {
        println!("cargo::rerun-if-env-changed=ATP_EBPF_OBJECT");
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let object = env::var_os("ATP_EBPF_OBJECT").filter(|path| is_embedded && !path.is_empty());
    let embedded = match object {
        None => String::from("None"),
        Some(path) => {
            let path = fs::canonicalize(&path)
                .unwrap_or_else(|error| panic!("ATP_EBPF_OBJECT={}: {error}", path.display()));
            println!("cargo::rerun-if-changed={}", path.display());
            format!("Some(aya::include_bytes_aligned!({path:?}))")
        }
    };
    fs::write(out.join("embedded.rs"), embedded).expect("OUT_DIR is writable");
}
