//! A C program that copies and closes the descriptor of a mapped port.

use crate::tools::{command, compile, ports, run};
use anyhow::{Result, ensure};

/// The library's receiver lives as long as a descriptor of the socket does.
pub fn end_the_receiver() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (program, ports) = (compile("descriptors", folder.path())?, ports("msr:0.9")?);
    let numbers = [ports.program.to_string(), ports.atp.to_string()];
    let said = run(command(true, &ports, None, &program).args(numbers))?;
    ensure!(said == "as expected\n", "it printed {said:?}");
    Ok(())
}
