//! A C program that forks while the library works.

use crate::tools::{Ports, command, compile, ports, run};
use anyhow::{Result, ensure};

/// A child has no port, no thread and no descriptor of the library, and goes on.
pub fn have_nothing() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let program = compile("children", folder.path())?;
    let (udp, tcp) = (ports("msr:1")?, ports("tcp:lines,msr:1")?);
    let numbers = [udp.program, udp.atp, tcp.program].map(|port| port.to_string());
    let both = Ports { rule: format!("{};{}", udp.rule, tcp.rule), ..udp };
    let said = run(command(true, &both, None, &program).args(numbers))?;
    ensure!(said == "as expected\n", "it printed {said:?}");
    Ok(())
}
