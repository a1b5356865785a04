//! `atp-user job create|attach|list|end`: manages the jobs of this host.

use super::ControlSocket;
use anyhow::{Context, Result};
use approxlib::{
    JobId,
    control::{Client, JobInfo, JobUser},
};
use atp_output::{say, write};
use nix::unistd::User;
use std::path::{Path, PathBuf};

/// The subcommands of `job`.
#[derive(clap::Subcommand)]
pub enum Command {
    /// Create a job that lasts until it is ended or the daemon stops
    Create {
        /// The job's id, a number or a name that stands for one; by default the daemon chooses a
        /// free number
        #[arg(long)]
        id: Option<JobId>,
        /// A label for `job list` and statistics
        #[arg(long)]
        name: Option<String>,
        /// The cgroup (v2) to bind the job to: only its sockets may send for the job, and they
        /// send for it by default
        #[arg(long, value_name = "PATH")]
        cgroup: Option<PathBuf>,
        /// Print JSON instead of text
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        control: ControlSocket,
    },
    /// Bind a job to a cgroup, as `create --cgroup` does; its sockets outside the cgroup lose their
    /// lanes. For root
    Attach {
        /// The job's id, a number or the name that stands for it
        id: JobId,
        /// The cgroup (v2): only its sockets may send for the job, and they send for it by default
        #[arg(long, value_name = "PATH")]
        cgroup: PathBuf,
        /// The job's user as `job list` has it, or a name, if several users have a job with this id
        #[arg(long, value_name = "USER", value_parser = user)]
        user: Option<JobUser>,
        #[command(flatten)]
        control: ControlSocket,
    },
    /// List the jobs of this host
    List {
        /// Print JSON instead of text
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        control: ControlSocket,
    },
    /// End a job; its sockets lose their lanes, and their libraries pace in userspace
    End {
        /// The job's id, a number or the name that stands for it
        id: JobId,
        /// The job's user as `job list` has it, or a name, if several users have a job with this
        /// id: for root
        #[arg(long, value_name = "USER", value_parser = user)]
        user: Option<JobUser>,
        #[command(flatten)]
        control: ControlSocket,
    },
}

/// Runs a subcommand.
pub fn main(command: Command) -> Result<()> {
    match command {
        Command::Create { id, name, cgroup, json, control } => {
            let cgroup = cgroup.as_deref().map(absolute_path).transpose()?;
            let job = Client::connect(&control.socket)?.job_create(
                id.map(JobId::number),
                name,
                cgroup,
            )?;
            let line = if json { serde_json::to_string(&job)? } else { line(&job) };
            // The job's id is nowhere else.
            write(line + "\n").with_context(|| format!("created job {}", job.id))?;
        }
        Command::Attach { id, cgroup, user, control } => {
            let cgroup = absolute_path(&cgroup)?;
            let job = Client::connect(&control.socket)?.job_attach(id.number(), user, cgroup)?;
            say!("{}", line(&job));
        }
        Command::List { json, control } => {
            let jobs = Client::connect(&control.socket)?.job_list()?;
            if json {
                say!("{}", serde_json::to_string(&jobs)?);
            } else if jobs.is_empty() {
                say!("no jobs");
            } else {
                write(jobs.iter().map(|job| line(job) + "\n").collect::<String>())?;
            }
        }
        Command::End { id, user, control } => {
            Client::connect(&control.socket)?.job_end(id.number(), user)?;
            say!("job {id} ended");
        }
    }
    Ok(())
}

/// The user that a number or a name stands for.
fn user(text: &str) -> Result<JobUser> {
    if let Ok(user) = text.parse() {
        return Ok(user);
    }
    let user = User::from_name(text).with_context(|| format!("can't look up the user {text}"))?;
    let user = user.with_context(|| format!("there is no user {text}: give a name or a number"))?;
    Ok(user.uid.as_raw().into())
}

/// The absolute path of a cgroup: the daemon runs in another folder.
fn absolute_path(cgroup: &Path) -> Result<PathBuf> {
    cgroup.canonicalize().with_context(|| {
        format!("can't find the cgroup {}: create it with mkdir first", cgroup.display())
    })
}

fn line(job: &JobInfo) -> String {
    let name = job.name.as_deref().unwrap_or("-");
    let cgroup = job.cgroup.as_ref().map_or_else(|| "-".into(), |path| path.display().to_string());
    let life = if job.ephemeral { "until its last sender ends" } else { "until ended" };
    format!(
        "job {} name {name} user {} cgroup {cgroup} flows {} {life}",
        job.id,
        job.user(),
        job.flows
    )
}
