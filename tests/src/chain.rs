//! A foreign TCX program that ends the chain of its hook.

use anyhow::{Context, Result};
use aya::{
    Ebpf,
    programs::{
        LinkOrder, SchedClassifier, TcAttachType,
        tc::{SchedClassifierLink, TcAttachOptions},
    },
};

/// The program at the head of both hooks of an interface. Dropping it detaches the program.
#[derive(Debug)]
pub struct ForeignProgram {
    _links: [SchedClassifierLink; 2],
    _ebpf: Ebpf,
}

/// The name of the program.
pub const FOREIGN: &str = "end_chain";

impl ForeignProgram {
    /// Attaches the program before those that are there, in the calling thread's namespace.
    ///
    /// # Errors
    /// The fault injector's object isn't there, or the kernel refuses the program.
    pub fn attach(interface: &str) -> Result<Self> {
        let mut ebpf = Ebpf::load_file(testbed::faults_object()?).context("faults.o")?;
        let program = ebpf.program_mut(FOREIGN).context("faults.o has no such program")?;
        let program: &mut SchedClassifier = program.try_into()?;
        program.load()?;
        let mut attach = |at| -> Result<SchedClassifierLink> {
            let first = TcAttachOptions::TcxOrder(LinkOrder::first());
            let link = program.attach_with_options(interface, at, first)?;
            Ok(program.take_link(link)?)
        };
        let links = [attach(TcAttachType::Ingress)?, attach(TcAttachType::Egress)?];
        Ok(Self { _links: links, _ebpf: ebpf })
    }
}

/// The names of the programs at a hook, in their order.
///
/// # Errors
/// The interface isn't there.
pub fn order(interface: &str, at: TcAttachType) -> Result<Vec<String>> {
    let (_, programs) = SchedClassifier::query_tcx(interface, at)?;
    Ok(programs.iter().map(|one| one.name_as_str().unwrap_or("").to_owned()).collect())
}
