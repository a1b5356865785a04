//! Receives tables: the answers of a query, or the rows, from the first header to the end.
//!
//! A [`Reception`] receives until the awaited senders have ended. A [`Session`] takes its events:
//! it tells the senders of a table from strangers, asks them for as much as an accepted error
//! needs, and ends with the answers and what puts them in doubt. `atp-user recv --query`,
//! `atp.receive` of Python and `QueryReceiver` of Java are these two.

mod end;
mod error;
mod json;
mod kept;
mod line;
mod pace;
mod plan;
mod printable;
mod reception;
mod session;
mod step;
mod strata;
mod terms;
#[cfg(test)]
mod tests;
mod text;
mod underway;

pub use end::{Answered, ReceivedRows, Sender, Verdict};
pub use error::SessionError;
pub use pace::Pace;
pub use printable::printable;
pub use reception::{Next, Reception};
pub use session::{Accepted, Session};
pub use step::Step;
