//! Tests the all-reduce of the Python packages on a network that loses packets.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::{path::Path, time::Duration};
use testbed::{
    Host, Process,
    faults::{Injection, Trouble, wired_star},
};

const SCRIPT: &str = "../integrations/pytorch/tests/rank_on_host.py";
const LIMIT: Duration = Duration::from_secs(200);

crate::trials! { if missing_for_collective:
    collective__without_loss,
    collective__at_loss_0_1,
    collective__at_loss_0_3,
    collective__at_loss_0_6,
    collective__at_loss_0_9_one_way,
}

fn collective__without_loss() -> Result<()> {
    at_loss(0.0)
}

fn collective__at_loss_0_1() -> Result<()> {
    at_loss(0.1)
}

fn collective__at_loss_0_3() -> Result<()> {
    at_loss(0.3)
}

fn collective__at_loss_0_6() -> Result<()> {
    at_loss(0.6)
}

/// Few steps: each takes many seconds, in which the ranks mostly wait to send again.
fn collective__at_loss_0_9_one_way() -> Result<()> {
    at_losses(0.9, 0.0, 1)
}

/// Two ranks, with this share of lost packets both ways: at MSR 1 the means are exact, and below
/// it the ranks still have the same bits.
fn at_loss(loss: f64) -> Result<()> {
    at_losses(loss, loss, 3)
}

/// The shares of lost packets to rank 0 and to rank 1.
fn at_losses(to_0: f64, to_1: f64, steps: u32) -> Result<()> {
    let star = wired_star(2)?;
    let _injection = Injection::start(&star.router, &Trouble::loss(to_0), &Trouble::loss(to_1))?;
    for (msr, missing) in [(1.0, "zero"), (0.5, "mean"), (0.5, "feedback")] {
        // A loss is fed back in the next step.
        let steps = if missing == "feedback" { steps.max(2) } else { steps };
        let outcomes = reduce(&star.hosts, msr, missing, steps)
            .with_context(|| format!("loss {to_0} and {to_1}, MSR {msr}, missing {missing}"))?;
        let number = |at: usize, name: &str| outcomes[at][name].as_f64().context("a number");
        ensure!(outcomes[0]["digest"] == outcomes[1]["digest"], "{outcomes:?}");
        for at in 0..2 {
            let arrived = number(at, "chunks_arrived")? / number(at, "chunks")?;
            ensure!(arrived >= msr, "{outcomes:?}");
            // No rank sends more before its hello has arrived.
            ensure!(number(at, "messages_refused")? == 0.0, "{outcomes:?}");
            ensure!(msr < 1.0 || number(at, "error")? < 1e-6, "{outcomes:?}");
        }
    }
    Ok(())
}

fn reduce(hosts: &[Host], msr: f64, missing: &str, steps: u32) -> Result<Vec<Value>> {
    let folder = testbed::own_folder("collective")?;
    let start = |(rank, host): (usize, &Host)| {
        let told = json!({
            "rank": rank, "ranks": hosts.len(), "address": host.ipv4.to_string(),
            "folder": folder.path(), "msr": msr, "missing": missing,
            "elements": 8_000, "steps": steps, "seed": 1,
        });
        let mut command = host.namespace.command(testbed::collective_python()?);
        command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join(SCRIPT)).arg(told.to_string());
        Process::captured(&format!("rank {rank}"), command)
    };
    let ranks: Vec<Process> = hosts.iter().enumerate().map(start).collect::<Result<_>>()?;
    let end = |rank: Process| -> Result<Value> {
        let finished = rank.end(LIMIT)?;
        ensure!(finished.status.success(), "{}", finished.stderr);
        Ok(serde_json::from_str(finished.stdout.trim())?)
    };
    ranks.into_iter().map(end).collect()
}
