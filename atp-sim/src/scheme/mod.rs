//! Transport schemes: the software of hosts, and the queues of switches.
//!
//! Each scheme is a folder with one [`Spec`], which holds everything that the rest of the simulator
//! knows about it. `schemes!` below lists them. Files beside the folders serve several schemes.

mod additions;
pub mod aeolus;
pub mod atp;
pub mod background;
pub mod dctcp;
mod endpoint;
mod feature;
mod host_state;
mod law_choice;
pub mod mlt;
mod name;
pub mod ndp;
pub mod pfabric;
mod piece;
mod route;
mod segments;
mod spec;
pub mod stream;
pub mod udp;
mod unsent;

pub use additions::Additions;
pub use endpoint::{Context, Endpoint, PathState, Probe};
pub use feature::{Feature, Features};
pub use host_state::HostState;
pub use law_choice::{LawChoice, Queues};
pub use name::Scheme;
pub use piece::{PacketBody, Piece};
pub use route::{LoadBalancing, Route, wire_bytes};
pub use segments::{MessagePart, PacketContents};
pub use spec::{Choices, Color, ECN_THRESHOLD_PACKETS, Ends, Environment, Network, Policy, Spec};

use crate::net::{self, Content, Label};

/// Defines [`SCHEMES`] and [`Body`] from one list.
macro_rules! schemes {
    ($($variant:ident($module:ident::$body:ident)),* $(,)?) => {
        /// All schemes, in the order of help texts and figures.
        pub const SCHEMES: &[&Spec] = &[$(&$module::SPEC),*];

        /// The body of a packet. An enum lets a network carry packets of several schemes without a
        /// box for each.
        #[derive(Clone, Debug)]
        pub enum Body {
            $(
                #[doc = concat!("A packet of [`", stringify!($module), "`].")]
                $variant($module::$body)
            ),*
        }

        impl PacketBody for Body {
            fn is_approximate(&self) -> bool {
                match self { $(Self::$variant(body) => body.is_approximate()),* }
            }

            fn piece(&self, label: &Label) -> Option<Piece<'_>> {
                match self { $(Self::$variant(body) => body.piece(label)),* }
            }

            fn content(&self, label: &Label) -> Content {
                match self { $(Self::$variant(body) => body.content(label)),* }
            }
        }

        $(impl From<$module::$body> for Body {
            fn from(body: $module::$body) -> Self {
                Self::$variant(body)
            }
        })*
    };
}

// The list of schemes: folder and type of packet body.
schemes! {
    Atp(atp::AtpBody),
    Dctcp(dctcp::DctcpBody),
    PFabric(pfabric::PFabricBody),
    Ndp(ndp::NdpBody),
    Mlt(mlt::MltBody),
    Aeolus(aeolus::AeolusBody),
    Udp(udp::UdpBody),
}

/// A packet of any scheme.
pub type Packet = net::Packet<Body>;

/// The packets in flight, of all schemes.
pub type Packets = net::Packets<Body>;
