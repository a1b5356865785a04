//! A session that takes the events of its reception.

use crate::{Next, Reception, Session, SessionError};
use std::time::Duration;

/// The outcome of a step of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// It took an event.
    Took,
    /// It waited, and no event came.
    Nothing,
    /// There is nothing to wait for any longer: [`Session::finish`] is due.
    Ended,
}

impl Session {
    /// Waits for the next event of a reception, for `wait` at most, and takes it.
    ///
    /// # Errors
    /// The receiver failed, or a request can't be sent.
    pub fn step(
        &mut self,
        reception: &mut Reception,
        wait: Duration,
    ) -> Result<Step, SessionError> {
        let ends_by_plan = self.has_asked_for_the_end();
        match reception.next(wait, ends_by_plan)? {
            Next::Event(event) => {
                self.on_event(&event, reception.receiver())?;
                Ok(if self.has_refused_all() { Step::Ended } else { Step::Took })
            }
            Next::Nothing => Ok(Step::Nothing),
            Next::Ended => Ok(Step::Ended),
            Next::Silent => {
                self.cut_short(&format!(
                    "no packet arrived for {} s: check that the senders run and reach this \
                     address, or raise timeout",
                    reception.timeout().as_secs_f64()
                ));
                Ok(Step::Ended)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use approxlib::Receiver;

    /// No sender comes.
    #[test]
    fn step__ends_after_the_timeout() {
        let timeout = Duration::from_millis(50);
        let receiver = Receiver::builder().control_socket(None).bind("127.0.0.1:0").unwrap();
        let mut reception = Reception::new(receiver, 1, timeout, false);
        let mut session = Session::of_rows(1, 1 << 20);
        let mut steps = 0;
        while session.step(&mut reception, timeout).unwrap() == Step::Nothing {
            steps += 1;
        }
        assert!(steps > 0, "it has not waited");
        let error = session.finish_rows().unwrap_err();
        assert!(matches!(error, SessionError::CutShort(_)), "{error:?}");
        assert!(error.to_string().contains("no packet arrived for 0.05 s"), "{error}");
    }
}
