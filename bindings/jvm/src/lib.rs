//! The native part of the Java library `org.netapprox.atp`: approxlib behind the Java Native
//! Interface.
//!
//! It translates only. Three rules keep a JVM alive:
//!
//! - Java has numbers and no pointers. A number that belongs to no object is an exception
//!   (`table`), and so is a panic (`call`).
//! - No thread of the library calls Java. Memory that it gives back waits in a queue, which a
//!   thread of Java empties (`lent`).
//! - No call waits for longer than Java asks for, so that threads of Java notice interrupts and
//!   closed objects. No lock is held during a wait.
//!
//! Structures go to Java as bytes: `record` writes them, and `Fields.java` reads them.

mod answer_failures;
mod answers;
mod call;
mod csv_table;
mod events;
mod failure;
mod inbox;
mod job;
mod lent;
mod memory;
mod options;
mod plan;
mod query;
mod query_options;
mod query_receiver;
mod receiver;
mod record;
mod reports;
mod sender;
mod session;
mod table;
mod wait;
mod windows;

use jni::{EnvUnowned, jni_mangle, objects::JClass, objects::JString};

/// The version of the native library, which Java compares with its own.
#[jni_mangle("org.netapprox.atp.Native")]
pub fn version<'local>(env: EnvUnowned<'local>, _: JClass<'local>) -> JString<'local> {
    call::call(env, |env| Ok(JString::from_str(env, env!("CARGO_PKG_VERSION"))?))
}
