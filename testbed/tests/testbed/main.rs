//! Tests of the testbed on this kernel, as root or in a user namespace. They check counts and
//! ratios, because the machine may be slow.

mod life;
mod ports;
mod traffic;

use std::process::ExitCode;

use anyhow::Result;
use libtest_mimic::{Arguments, Completion, Failed, Trial};
use testbed::privilege::{self, Privilege};

/// A test and its name.
type Test = (&'static str, fn() -> Result<()>);

fn main() -> ExitCode {
    if let Some(code) = life::play_owner() {
        return code;
    }
    let arguments = Arguments::from_args();
    // A user namespace must be entered before libtest-mimic starts threads.
    let denied = match privilege::current() {
        Privilege::Root => None,
        Privilege::UserNamespace => privilege::enter_user_namespace().err().map(|e| e.to_string()),
        Privilege::Denied(why) => Some(why),
    };
    let trial = |(name, test): Test| {
        let denied = denied.clone();
        Trial::ignorable_test(name, move || {
            if let Some(why) = denied {
                let reason = format!("needs userns: {why}");
                println!("skipped: {name}: {reason}");
                return Ok(Completion::ignored_with(reason));
            }
            match test() {
                Ok(()) => Ok(Completion::Completed),
                Err(error) => Err(Failed::from(format!("{error:#}"))),
            }
        })
    };
    let tests = ports::TESTS.iter().chain(life::TESTS).copied();
    libtest_mimic::run(&arguments, tests.map(trial).collect()).exit_code()
}
