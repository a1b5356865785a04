//! Coverage over the real sender.

mod data;
mod lossy;
mod simulated;
mod study;

fn main() {
    let jobs = std::env::var("ATP_COVERAGE_JOBS").map_or(20, |jobs| jobs.parse().unwrap());
    let began = std::time::Instant::now();
    study::quarters(jobs);
    println!("{:?}", began.elapsed());
    study::ways(jobs);
    println!("{:?}", began.elapsed());
}
