//! `include/atp.h` is what cbindgen makes of the sources.

use std::{fs, path::Path};

/// Writes the header if the variable ATP_WRITE_HEADER is set, else compares it.
#[test]
fn header__is_that_of_the_sources() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let committed = folder.join("include/atp.h");
    let mut generated = Vec::new();
    cbindgen::generate(folder).expect("sources that cbindgen understands").write(&mut generated);
    let generated = String::from_utf8(generated).expect("text");
    if std::env::var_os("ATP_WRITE_HEADER").is_some() {
        fs::write(&committed, &generated).expect("a writable header");
    }
    let found = fs::read_to_string(&committed).unwrap_or_default();
    assert!(
        found == generated,
        "bindings/c/include/atp.h is stale; run: ATP_WRITE_HEADER=1 cargo test -p atp-c --test header"
    );
}
