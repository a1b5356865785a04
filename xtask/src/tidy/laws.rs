//! Rules of the control laws: time is an argument, and an equation that a law cites has a test.

use std::collections::{BTreeMap, BTreeSet};

use crate::sources::{Source, each_line, split_tests};

const LAWS: &str = "atp-common/src/laws/";
/// Crates that get the time as an argument.
const CLOCKLESS: [&str; 2] = ["atp-common/", "atp-proto/"];

/// A law or a state machine that reads a clock can't be replayed.
pub fn clocks(sources: &[Source]) -> Vec<String> {
    let clockless = sources.iter().filter(|source| {
        source.is_rust() && CLOCKLESS.iter().any(|krate| source.path.starts_with(krate))
    });
    each_line(clockless, |_, line| {
        let reads_clock = line.contains("Instant::now") || line.contains("SystemTime::now");
        reads_clock.then(|| "reads a clock: take `now`".to_owned())
    })
}

/// An equation that a law cites must be cited by a test, too: NetApprox §x, Eq. n.
pub fn untested_equations(sources: &[Source]) -> Vec<String> {
    let mut cited: BTreeMap<u32, String> = BTreeMap::new();
    let mut tested = BTreeSet::new();
    for source in sources.iter().filter(|source| source.is_rust()) {
        if source.path.starts_with("atp-common/tests/") {
            tested.extend(equations(&source.text));
        } else if source.path.starts_with(LAWS) {
            let (code, tests) =
                if source.is_test() { ("", &*source.text) } else { split_tests(&source.text) };
            tested.extend(equations(tests));
            for equation in equations(code) {
                cited.entry(equation).or_insert_with(|| source.path.clone());
            }
        }
    }
    let untested = cited.iter().filter(|(equation, _)| !tested.contains(equation));
    let complain = |(equation, path)| format!("{path}: cites Eq. {equation}, and no test does");
    untested.map(complain).collect()
}

/// The numbers in `Eq. 1`, `Eq. 2 and 3`, `Eq. 2, 3`; other documents than the paper don't count.
fn equations(text: &str) -> BTreeSet<u32> {
    let mut found = BTreeSet::new();
    for line in text.lines().filter(|line| !line.contains("RFC")) {
        for citation in line.split("Eq. ").skip(1) {
            let words = citation.split([' ', ',', ')', ':', '.', ';']).filter(|w| !w.is_empty());
            let numbers = words.take_while(|word| *word == "and" || word.parse::<u32>().is_ok());
            found.extend(numbers.filter_map(|word| word.parse::<u32>().ok()));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::tests::source;

    #[test]
    fn clocks__are_found_where_time_is_an_argument() {
        let text = "let now = Instant::now();";
        assert_eq!(clocks(&[source("atp-proto/src/a.rs", text)]).len(), 1);
        assert!(clocks(&[source("approxlib/src/a.rs", text)]).is_empty());
    }

    #[test]
    fn equations__are_read_in_all_their_forms() {
        let text = "(NetApprox §4.2, Eq. 2 and 3)\n// Eq. 1, against\n// RFC 1624, Eq. 9";
        assert_eq!(equations(text), BTreeSet::from([1, 2, 3]));
    }

    #[test]
    fn untested_equations__are_found_across_files() {
        let law = "//! NetApprox §4.2, Eq. 4\n#[cfg(test)]\nmod tests { // Eq. 1\n}";
        let mut sources = vec![source("atp-common/src/laws/rate.rs", law)];
        assert_eq!(untested_equations(&sources).len(), 1);
        sources.push(source("atp-common/tests/laws.rs", "// NetApprox §4.2, Eq. 4"));
        assert!(untested_equations(&sources).is_empty());
    }
}
