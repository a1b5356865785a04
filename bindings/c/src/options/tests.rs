use super::*;

fn built(options: &atp_job_options) -> Outcome<String> {
    // SAFETY: the options are readable, and point to nothing.
    unsafe { job_builder(options) }.map(|builder| format!("{builder:?}"))
}

fn default() -> String {
    format!("{:?}", JobBuilder::default())
}

#[test]
fn job_builder__has_the_defaults_of_the_library() {
    let options = built(&atp_job_options::initial()).ok();
    assert_eq!(options, Some(default()));
}

#[test]
fn job_flags__set_an_option_each() {
    let (_, flags) = include_str!("../../include/atp.h").split_once("enum atp_flag {").unwrap();
    let (flags, _) = flags.split_once('}').unwrap();
    let flags: Vec<_> = flags.lines().filter_map(|line| line.trim().split_once(" = ")).collect();
    assert_eq!(flags.len(), JOB_FLAGS.len(), "add each flag of atp_flag to JOB_FLAGS");
    for (name, number) in flags {
        let flags = number.trim_end_matches(',').parse().unwrap();
        let options = atp_job_options { flags, ..atp_job_options::initial() };
        let builder = built(&options).unwrap_or_else(|_| panic!("add {name} to JOB_FLAGS"));
        assert_ne!(builder, default(), "let {name} change the builder in JOB_FLAGS");
    }
}
