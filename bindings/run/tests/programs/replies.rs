//! A C server that answers datagrams, and a C client that awaits the answers.

use crate::tools::{Server, command, compile, counted, ports, run};
use anyhow::{Context, Result, ensure};

/// The replies come from the server to the asking socket, with both ends or one under `atp-run`.
pub fn reach(server_under: bool, client_under: bool) -> Result<()> {
    for server in ["serve", "serve-info"] {
        reach_from(server, server_under, client_under).context(server)?;
    }
    Ok(())
}

fn reach_from(server: &str, server_under: bool, client_under: bool) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (program, ports) = (compile("replies", folder.path())?, ports("msr:1")?);
    let (report, port) = (folder.path().join("report"), ports.program.to_string());
    let mut serve = command(server_under, &ports, None, &program);
    let _server = Server::start(serve.args([server, &port]), "bound")?;
    run(command(client_under, &ports, Some(&report), &program).args(["ask", &port]))?;
    if client_under {
        let messages = counted(&report, "sent_as_messages")?;
        let expected = if server_under { 100 } else { 0 };
        ensure!(messages == expected, "{messages} of {expected} questions were messages");
    }
    Ok(())
}
