//! Failures, and the exception of Java for each.

use crate::reports;
use approxlib::{Error, Shortfall};
use jni::{
    Env,
    errors::Error as JniError,
    jni_sig, jni_str,
    objects::{JThrowable, JValue},
    strings::{JNIStr, JNIString},
};
use std::io::ErrorKind;

/// A class of exceptions, as the JVM names it.
pub type Class = &'static JNIStr;

pub const ARGUMENT: Class = jni_str!("java/lang/IllegalArgumentException");
pub const STATE: Class = jni_str!("java/lang/IllegalStateException");
pub const INTERNAL: Class = jni_str!("java/lang/InternalError");
pub const ATP: Class = jni_str!("org/netapprox/atp/AtpException");
pub const CLOSED: Class = jni_str!("org/netapprox/atp/ClosedException");
const NAME: Class = jni_str!("java/net/UnknownHostException");
const PORT: Class = jni_str!("java/net/BindException");
const SHORT: Class = jni_str!("org/netapprox/atp/ShortfallException");
const SOCKET: Class = jni_str!("java/net/SocketException");

pub type Outcome<T = ()> = Result<T, Failure>;

/// Why a call fails.
pub enum Failure {
    /// An exception of this class, with one sentence.
    Said(Class, String),
    /// A job ended below its minimal sampling rate.
    Short(Box<Shortfall>),
    /// A call of the JVM failed. Mostly it has thrown an exception.
    Jni(JniError),
}

impl Failure {
    pub fn new(class: Class, text: impl Into<String>) -> Self {
        Self::Said(class, text.into())
    }

    pub fn argument(text: impl Into<String>) -> Self {
        Self::new(ARGUMENT, text)
    }

    /// The object of this kind is closed.
    pub fn closed(kind: &str) -> Self {
        Self::new(CLOSED, format!("the {kind} is closed: open another one"))
    }
}

impl From<JniError> for Failure {
    fn from(error: JniError) -> Self {
        Self::Jni(error)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let class = match error {
            Error::Short(shortfall) => return Self::Short(shortfall),
            Error::Msr(_)
            | Error::RequestBounds { .. }
            | Error::GroupName(_)
            | Error::NoMessages
            | Error::TooLarge { .. }
            | Error::NoPeers
            | Error::NoGroup(_)
            | Error::Options(_)
            | Error::Peer(_)
            | Error::RateMax(_) => ARGUMENT,
            Error::Ended
            | Error::EndedByReceiver
            | Error::WindowEnding
            | Error::MsrRefused(_)
            | Error::TooMany { .. } => STATE,
            Error::Name { .. } => NAME,
            Error::Socket { ref source, .. } => match source.kind() {
                ErrorKind::AddrInUse | ErrorKind::AddrNotAvailable => PORT,
                _ => SOCKET,
            },
            _ => ATP,
        };
        Self::new(class, error.to_string())
    }
}

/// Throws the exception of a failure.
pub fn throw(env: &mut Env<'_>, failure: Failure) -> Result<(), JniError> {
    let thrown = match failure {
        Failure::Said(class, text) => env.throw_new(class, JNIString::new(text)),
        Failure::Short(shortfall) => throw_short(env, &shortfall),
        Failure::Jni(error) => {
            let text = format!("a call of the JVM failed: {error}");
            env.throw_new(INTERNAL, JNIString::new(text))
        }
    };
    match thrown {
        // This is how the crate says that it has thrown.
        Err(JniError::JavaException) => Ok(()),
        other => other,
    }
}

fn throw_short(env: &mut Env<'_>, shortfall: &Shortfall) -> Result<(), JniError> {
    let (text, bytes) = (env.new_string(shortfall.to_string())?, reports::shortfall(shortfall));
    let bytes = env.byte_array_from_slice(&bytes)?;
    let arguments = [JValue::Object(&text), JValue::Object(&bytes)];
    let made = env.new_object(SHORT, jni_sig!("(Ljava/lang/String;[B)V"), &arguments)?;
    let made = env.cast_local::<JThrowable>(made)?;
    env.throw(made)
}
