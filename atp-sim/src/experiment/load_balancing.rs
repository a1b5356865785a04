//! The choice of paths on networks with several paths between two hosts.

use crate::scheme::Spec;
use std::{fmt, str::FromStr};

/// The choice of paths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LoadBalancing {
    /// The scheme's own choice: NDP's packets take all paths, and other flows one each.
    #[default]
    Own,
    /// All packets of a flow take one path, chosen by hash.
    Ecmp,
    /// Every packet takes its own path.
    Spray,
}

impl LoadBalancing {
    const ALL: [(Self, &str); 3] =
        [(Self::Own, "own"), (Self::Ecmp, "ecmp"), (Self::Spray, "spray")];

    /// Whether every packet of a scheme takes its own path.
    pub const fn sprays(self, spec: &Spec) -> bool {
        match self {
            Self::Own => spec.sprays,
            Self::Ecmp => false,
            Self::Spray => true,
        }
    }
}

impl FromStr for LoadBalancing {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().find(|known| known.1 == text).map(|known| known.0);
        found.ok_or_else(|| format!("{text:?} is not a load balancing: choose own, ecmp or spray"))
    }
}

impl fmt::Display for LoadBalancing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::ALL.iter().find(|known| known.0 == *self);
        f.write_str(name.map_or("?", |known| known.1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheme::{SCHEMES, dctcp, ndp};

    #[test]
    fn load_balancing__reads_what_it_writes() {
        for (load_balancing, name) in LoadBalancing::ALL {
            assert_eq!(
                (name.parse(), load_balancing.to_string()),
                (Ok(load_balancing), name.into())
            );
        }
        assert!("hash".parse::<LoadBalancing>().unwrap_err().contains("own, ecmp or spray"));
    }

    #[test]
    fn sprays__leaves_the_choice_to_the_scheme_by_default() {
        let own = |spec| LoadBalancing::default().sprays(spec);
        assert!(own(&ndp::SPEC) && !own(&dctcp::SPEC));
        for spec in SCHEMES {
            assert!(LoadBalancing::Spray.sprays(spec) && !LoadBalancing::Ecmp.sprays(spec));
        }
    }
}
