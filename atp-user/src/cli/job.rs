//! `atp-user job create|list|end`

use super::ControlSocket;
use anyhow::{Context, Result};
use approxlib::control::{Client, JobInfo};
use std::path::{Path, PathBuf};

/// The commands of `job`.
#[derive(clap::Subcommand)]
pub enum Command {
    /// Make a job that lasts until it is ended or the daemon stops
    Create {
        /// Its id; any that is free by default
        #[arg(long)]
        id: Option<u32>,
        /// A name for people
        #[arg(long)]
        name: Option<String>,
        /// Only sockets of this cgroup (v2) may send for the job, and those that name no job send
        /// for it
        #[arg(long, value_name = "PATH")]
        cgroup: Option<PathBuf>,
        /// Print JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        control: ControlSocket,
    },
    /// All jobs of this host
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        control: ControlSocket,
    },
    /// End a job: its sockets lose their lanes and go on in userspace
    End {
        /// The job's id
        id: u32,
        #[command(flatten)]
        control: ControlSocket,
    },
}

/// Runs one of them.
pub fn main(command: Command) -> Result<()> {
    match command {
        Command::Create { id, name, cgroup, json, control } => {
            let cgroup = cgroup.as_deref().map(whole_path).transpose()?;
            let job = Client::connect(&control.socket)?.job_create(id, name, cgroup)?;
            if json {
                println!("{}", serde_json::to_string(&job)?);
            } else {
                println!("{}", line(&job));
            }
        }
        Command::List { json, control } => {
            let jobs = Client::connect(&control.socket)?.job_list()?;
            if json {
                println!("{}", serde_json::to_string(&jobs)?);
            } else {
                jobs.iter().for_each(|job| println!("{}", line(job)));
            }
        }
        Command::End { id, control } => {
            Client::connect(&control.socket)?.job_end(id)?;
            println!("job {id} ended");
        }
    }
    Ok(())
}

/// A path as the daemon needs it, which runs in another folder.
fn whole_path(cgroup: &Path) -> Result<PathBuf> {
    cgroup.canonicalize().with_context(|| {
        format!("there is no cgroup at {}: create it with mkdir first", cgroup.display())
    })
}

fn line(job: &JobInfo) -> String {
    let name = job.name.as_deref().unwrap_or("-");
    let cgroup = job.cgroup.as_ref().map_or_else(|| "-".into(), |path| path.display().to_string());
    let life = if job.ephemeral { "until its last sender ends" } else { "until ended" };
    format!(
        "job {} name {name} user {} cgroup {cgroup} flows {} {life}",
        job.id, job.uid, job.flows
    )
}
