//! Calls from Java: every failure and every panic becomes an exception.

use crate::failure::{self, Failure, Outcome};
use jni::{
    Env, EnvUnowned,
    errors::{Error, ErrorPolicy},
};
use std::any::Any;

/// Runs a native method. It returns the default value of its type if it throws.
pub fn call<'local, T: Default>(
    mut env: EnvUnowned<'local>,
    method: impl FnOnce(&mut Env<'local>) -> Outcome<T>,
) -> T {
    env.with_env(method).resolve::<Throw>()
}

/// Throws failures. A panic is an `InternalError`: the library has a fault.
struct Throw;

impl<T: Default> ErrorPolicy<T, Failure> for Throw {
    type Captures<'unowned_env_local: 'native_method, 'native_method> = ();

    fn on_error<'unowned_env_local: 'native_method, 'native_method>(
        env: &mut Env<'unowned_env_local>,
        (): &mut (),
        failure: Failure,
    ) -> Result<T, Error> {
        // An exception of Java's own call comes first.
        if !env.exception_check() {
            failure::throw(env, failure)?;
        }
        Ok(T::default())
    }

    fn on_panic<'unowned_env_local: 'native_method, 'native_method>(
        env: &mut Env<'unowned_env_local>,
        (): &mut (),
        panic: Box<dyn Any + Send + 'static>,
    ) -> Result<T, Error> {
        let said = panic.downcast_ref::<String>().map(String::as_str);
        let said = said.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no text");
        let text = format!("the library has a fault: {said}");
        if !env.exception_check() {
            failure::throw(env, Failure::new(failure::INTERNAL, text))?;
        }
        Ok(T::default())
    }
}
