//! The rendered page. All scrapes of half a second get the same one: rendering it takes much longer
//! than sending it, and a client can ask without end.

use hyper::body::Bytes;
use std::time::{Duration, Instant};

/// The greatest age of a page when it is sent: short enough for a scrape each second.
pub const AGE_MAX: Duration = Duration::from_millis(500);

/// The page that was rendered last.
#[derive(Default)]
pub struct Page(Option<(Instant, Bytes)>);

impl Page {
    /// The page, from `render` if the last one is too old at `now`.
    pub fn at(&mut self, now: Instant, render: impl FnOnce() -> String) -> Bytes {
        match &self.0 {
            Some((rendered, page)) if now.saturating_duration_since(*rendered) < AGE_MAX => {
                page.clone()
            }
            _ => {
                let page = Bytes::from(render());
                self.0 = Some((now, page.clone()));
                page
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten seconds with a request in each millisecond.
    #[test]
    fn at__is_rendered_twice_a_second_whatever_the_requests() {
        let (mut page, mut rendered) = (Page::default(), 0);
        let begin = Instant::now();
        for ms in 0..10_000 {
            let now = begin + Duration::from_millis(ms);
            let text = page.at(now, || {
                rendered += 1;
                ms.to_string()
            });
            let text = std::str::from_utf8(&text).unwrap();
            assert!(ms - text.parse::<u64>().unwrap() < 500, "{text} at {ms}");
        }
        assert_eq!(rendered, 20);
    }

    #[test]
    fn at__is_fresh_for_each_scrape_a_second() {
        let (mut page, begin) = (Page::default(), Instant::now());
        for second in 0..10 {
            let now = begin + Duration::from_secs(second);
            assert_eq!(page.at(now, || second.to_string()), second.to_string());
        }
    }
}
