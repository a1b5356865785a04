//! The choice of control laws, for schemes that run atp-common's: variant, rate law, and a rule to
//! switch off. Also options of their senders.

use atp_common::laws::{RateLaw, Rule, Rules, Variant};
use std::fmt;

/// A choice of control laws.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LawChoice {
    /// The paper's variant.
    pub variant: Variant,
    /// The rate law. Base has none. Jobs of MSR 1 run DCTCP's law under any choice.
    pub law: RateLaw,
    /// The rule that is switched off, if any.
    pub off: Option<Rule>,
    /// Whether short messages travel one by one, not several in a packet.
    pub unpacked: bool,
    /// Whether MRDF compares new messages by bytes, not by packets.
    pub rank_by_bytes: bool,
}

/// The word that ends packing.
const UNPACKED: &str = "-packing";
/// The word that selects ranks by bytes.
const RANK_BY_BYTES: &str = "+rank-by-bytes";

impl LawChoice {
    /// Parses the words of `VARIANT:LAW:-RULE`, of which the last ones may be missing. Base is the
    /// variant without the rate law (NetApprox §7.1.3), so no law follows it. Any rule can be
    /// switched off with any other variant, because its effect depends on MSR and traffic. The
    /// words `-packing` and `+rank-by-bytes` may stand anywhere.
    ///
    /// # Errors
    /// The reason, if a word is unknown or superfluous.
    pub fn from_words(words: &[&str]) -> Result<Self, String> {
        let has = |option| words.contains(&option);
        let (unpacked, rank_by_bytes) = (has(UNPACKED), has(RANK_BY_BYTES));
        let is_option = |word: &&&str| [UNPACKED, RANK_BY_BYTES].contains(*word);
        let words: Vec<&str> = words.iter().filter(|word| !is_option(word)).copied().collect();
        let unknown = |word: &str, kind: &str, names: String| {
            format!("{word:?} is not a {kind}: choose one of {names}")
        };
        let variant = words.first().map_or(Ok(Variant::Full), |word| {
            find(&Variant::ALL, word).ok_or_else(|| unknown(word, "variant", names(&Variant::ALL)))
        })?;
        let law = words.get(1).map_or(Ok(RateLaw::default()), |word| {
            find(&RateLaw::ALL, word).ok_or_else(|| unknown(word, "law", names(&RateLaw::ALL)))
        })?;
        let off = words.get(2).map(|word| {
            let rule = word.strip_prefix('-').and_then(|name| find(&Rule::ALL, name));
            rule.ok_or_else(|| {
                let names = names(&Rule::ALL);
                unknown(word, "rule to switch off", format!("{names}, with a - before it"))
            })
        });
        if let Some(word) = words.get(3) {
            return Err(format!("{word:?} is too much: a rule is the last word"));
        }
        let choice = Self { variant, law, off: off.transpose()?, unpacked, rank_by_bytes };
        if variant == Variant::Base && words.len() > 1 {
            return Err("base takes no law and no rule: write atp:base".to_owned());
        }
        Ok(choice)
    }

    /// The rules of lanes with this choice.
    pub fn rules(self) -> Rules {
        let rules = Rules::variant(self.variant, self.law);
        self.off.map_or(rules, |off| rules.without(off))
    }
}

impl fmt::Display for LawChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { variant, law, off, unpacked, rank_by_bytes } = self;
        if *variant == Variant::Base {
            f.write_str("base")?;
        } else {
            write!(f, "{}:{}", name_of(&Variant::ALL, variant), name_of(&RateLaw::ALL, law))?;
        }
        off.map_or(Ok(()), |off| write!(f, ":-{}", name_of(&Rule::ALL, &off)))?;
        for (_, word) in [(unpacked, UNPACKED), (rank_by_bytes, RANK_BY_BYTES)]
            .into_iter()
            .filter(|(is_set, _)| **is_set)
        {
            write!(f, ":{word}")?;
        }
        Ok(())
    }
}

fn find<T: Copy>(all: &[(T, &'static str)], name: &str) -> Option<T> {
    all.iter().find(|known| known.1 == name).map(|known| known.0)
}

fn name_of<T: PartialEq>(all: &[(T, &'static str)], wanted: &T) -> &'static str {
    all.iter().find(|known| known.0 == *wanted).map_or("?", |known| known.1)
}

fn names<T>(all: &[(T, &'static str)]) -> String {
    all.iter().map(|known| known.1).collect::<Vec<_>>().join(", ")
}
