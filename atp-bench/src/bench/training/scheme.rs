//! The schemes that exchange gradients, and the trained models.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// A way to exchange gradients.
pub struct Scheme {
    pub name: &'static str,
    /// A sentence's end: "NAME is ...".
    pub about: &'static str,
    hook: Hook,
}

/// A communication hook of PyTorch.
enum Hook {
    /// PyTorch's `noop_hook`: no exchange, the bound of speed.
    Noop,
    Gloo,
    /// PyTorch's `fp16_compress_hook`.
    Fp16,
    /// PyTorch's `powerSGD_hook` of rank 1, from step 2 on, the earliest that it allows.
    PowerSgd,
    Atp(Setting),
}

/// Options of `atp.torch`.
struct Setting {
    groups: Groups,
    missing: &'static str,
    wire: Option<&'static str>,
    /// The share of each mean that its owner sends.
    mean_share: f64,
    chunk_bytes: u32,
}

/// Single precision at MSR 0.9, with the defaults of `atp.torch`.
const SINGLE: Setting = Setting {
    groups: Groups::Msr(0.9),
    missing: "zero",
    wire: None,
    mean_share: 1.0,
    chunk_bytes: 1_400,
};
const HALF: Setting = Setting { wire: Some("float16"), ..SINGLE };

/// Half precision: the largest chunks only, both ways. Small chunks hold less beside large values.
const fn largest(share: f64) -> Setting {
    Setting {
        groups: Groups::Msr(share),
        missing: "feedback",
        mean_share: share,
        chunk_bytes: 128,
        ..HALF
    }
}

/// Which chunks may be lost.
enum Groups {
    /// One MSR for all.
    Msr(f64),
    /// The paper's groups by magnitude.
    Magnitude,
}

/// The scheme that exchanges nothing.
pub const NO_EXCHANGE: &str = "noop";

/// All schemes, in the order of tables. A new setting of ATP is a row here.
pub const SCHEMES: [Scheme; 10] = [
    Scheme { name: NO_EXCHANGE, about: "no exchange, the bound of speed", hook: Hook::Noop },
    Scheme { name: "gloo", about: "PyTorch's all-reduce over TCP", hook: Hook::Gloo },
    Scheme { name: "gloo-fp16", about: "gloo with halved gradients", hook: Hook::Fp16 },
    Scheme {
        name: "gloo-powersgd",
        about: "gloo with gradients compressed to matrices of rank 1",
        hook: Hook::PowerSgd,
    },
    Scheme { name: "atp", about: "ATP at MSR 0.9", hook: Hook::Atp(SINGLE) },
    Scheme {
        name: "atp-fp16-0.5-feedback",
        about: "ATP with halved gradients at MSR 0.5, and error feedback",
        hook: Hook::Atp(Setting { groups: Groups::Msr(0.5), missing: "feedback", ..HALF }),
    },
    Scheme {
        name: "atp-fp16-magnitude",
        about: "ATP with halved gradients at the paper's MSRs by magnitude",
        hook: Hook::Atp(Setting { groups: Groups::Magnitude, ..HALF }),
    },
    Scheme {
        name: "atp-fp16-largest-0.1",
        about: "ATP with the largest tenth of halved gradients, both ways, and error feedback",
        hook: Hook::Atp(largest(0.1)),
    },
    Scheme {
        name: "atp-fp16-largest-0.05",
        about: "ATP with the largest twentieth of halved gradients, both ways, and error feedback",
        hook: Hook::Atp(largest(0.05)),
    },
    Scheme {
        name: "atp-fp16-largest-0.03",
        about: "ATP with the largest three hundredths of them, both ways, and error feedback",
        hook: Hook::Atp(largest(0.03)),
    },
];

impl Scheme {
    /// The scheme of this name.
    pub fn named(name: &str) -> Option<&'static Scheme> {
        SCHEMES.iter().find(|scheme| scheme.name == name)
    }

    /// Whether each host needs a daemon.
    pub fn is_atp(&self) -> bool {
        matches!(self.hook, Hook::Atp(_))
    }

    /// The part of a rank's orders that names the hook and its options.
    pub fn told(&self) -> Value {
        let hook = match &self.hook {
            Hook::Noop => "noop",
            Hook::Gloo => "gloo",
            Hook::Fp16 => "fp16",
            Hook::PowerSgd => "power-sgd",
            Hook::Atp(setting) => return json!({ "hook": "atp", "options": setting.told() }),
        };
        json!({ "hook": hook })
    }
}

impl Setting {
    fn told(&self) -> Value {
        let mut told = json!({
            "missing": self.missing,
            "mean_share": self.mean_share,
            "chunk_bytes": self.chunk_bytes,
        });
        if let Groups::Msr(msr) = self.groups {
            told["msr"] = msr.into();
        }
        if let Some(wire) = self.wire {
            told["wire"] = wire.into();
        }
        told
    }
}

/// A model, trained on the digits of scikit-learn.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum,
)]
#[serde(rename_all = "kebab-case")]
pub enum Model {
    /// A perceptron with 85,002 parameters
    Mlp,
    /// A convolutional network with 297,690 parameters
    Conv,
}

impl Model {
    pub fn name(self) -> &'static str {
        match self {
            Model::Mlp => "mlp",
            Model::Conv => "conv",
        }
    }

    /// The steps of a training: after these, exact training is some points above 95 %.
    pub fn steps(self) -> usize {
        match self {
            Model::Mlp => 110,
            Model::Conv => 120,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn told__names_the_hook_and_its_options() {
        let told = |name| Scheme::named(name).unwrap().told();
        assert_eq!(told("gloo-fp16"), json!({ "hook": "fp16" }));
        let options =
            json!({ "msr": 0.9, "missing": "zero", "mean_share": 1.0, "chunk_bytes": 1_400 });
        assert_eq!(told("atp"), json!({ "hook": "atp", "options": options }));
        let paper = told("atp-fp16-magnitude");
        assert_eq!(paper["options"]["wire"], "float16");
        assert_eq!(paper["options"].get("msr"), None);
    }

    #[test]
    fn schemes__have_names_of_their_own() {
        for (at, scheme) in SCHEMES.iter().enumerate() {
            let first = SCHEMES.iter().position(|other| other.name == scheme.name);
            assert_eq!(first, Some(at), "{}", scheme.name);
        }
    }
}
