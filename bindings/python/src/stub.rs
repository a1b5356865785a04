//! The docstrings of the type stubs, in the compiled classes.

/// The text of a class or of a method in `python/atp/*.pyi`: `build.rs` reads it.
macro_rules! stub {
    ($class:ident) => {
        include_str!(concat!(env!("OUT_DIR"), "/", stringify!($class)))
    };
    ($class:ident.$method:ident) => {
        include_str!(concat!(env!("OUT_DIR"), "/", stringify!($class), ".", stringify!($method)))
    };
}
pub(crate) use stub;
