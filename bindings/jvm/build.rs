//! A JVM unloads the library with the classes that loaded it. Threads of jobs may still run its
//! code then, so the library stays in memory.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
