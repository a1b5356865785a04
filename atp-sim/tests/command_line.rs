//! The command line: error messages, captions, and files that contain the settings of their runs.

#[path = "../../atp-output/tests/outputs/mod.rs"]
mod outputs;

use serde_json::Value;
use std::process::{Command, Output};

fn command(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_atp-sim"));
    command.args(words);
    command
}

fn output(words: &[&str]) -> Output {
    command(words).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

const SMALL: [&str; 5] = ["run", "--network", "leaf-spine:2,3,2", "--duration-us", "60"];

fn small<'a>(more: &[&'a str]) -> Vec<&'a str> {
    SMALL.into_iter().chain(more.iter().copied()).collect()
}

#[test]
fn run__errors_name_the_cause() {
    for (words, about) in [
        (&["--load", "-1"][..], "0.001 to 10"),
        (&["--load", "nan"], "0.001 to 10"),
        (&["--seed", "-1"], "whole number from 0"),
        (&["--msr", "2"], "above 0 and up to 1"),
        (&["--buffer", "12k"], "whole number from 10000"),
        (&["--gbit", "0"], "1 to 400"),
        (&["--slow-hosts", "0.5"], "SHARE:TIMES"),
        (&["--slow-hosts", "0.5:1"], "has no effect here"),
        (&["--slow-hosts", "0:4"], "has no effect here"),
        (&["--slow-links", "0.01:4"], "has no effect here"),
        (&["--pattern", "incast:6"], "6 senders"),
        (&["--profile", "no/such"], "no/such"),
        (&["--profile", "/dev/zero"], "longer than"),
        (&["--sizes", "/dev/zero"], "longer than"),
        (&["--trace", "/dev/zero"], "longer than"),
        (&["--trace", "/dev/null"], "has no message"),
        (&["--trace", "x", "--load", "1"], "cannot be used with"),
        (&["--coflows", "x", "--pattern", "incast"], "cannot be used with"),
        (&["--trace", "x", "--coflows-first", "3"], "cannot be used with"),
        (&["--vector-bytes", "9"], "has no effect here"),
        (&["--exact", "1", "--msr", "0.5"], "has no effect here"),
        (&["--scheme", "udp", "--packet-limits"], "has no effect here"),
        (&["--scheme", "atp:base:frugal"], "write atp:base"),
        (&["--msr", "1", "--scheme", "udp,atp:base:pi:-evaluate-late"], "write atp:base"),
        (&["--scheme", "pfabric-es", "--ecn-threshold-packets", "9"], "has no effect here"),
        (&["--ecn-threshold-packets", "0"], "1 to 100000"),
        (&["--json", "no/such/file"], "no/such/file"),
    ] {
        let output = output(&small(words));
        let said = said(&output);
        assert!(!output.status.success() && said.contains(about), "{words:?}: {said}");
        assert!(output.stdout.is_empty(), "{words:?}");
        let cause = "No such file or directory (os error 2)";
        assert!(said.matches(cause).count() <= 1, "{said}");
    }
}

/// The error names the file, the line and the expected form.
#[test]
fn run__refuses_a_table_of_sizes_without_a_mean() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sizes.txt");
    for mean in ["0", "-3", "inf", "nan"] {
        std::fs::write(&path, format!("# bytes\n{mean}\n10 1\n")).unwrap();
        let output = output(&small(&["--sizes", path.to_str().unwrap()]));
        let said = said(&output);
        assert!(!output.status.success() && said.contains("sizes.txt"), "{said}");
        assert!(said.contains(&format!("line 2: \"{mean}\": expected the mean")), "{said}");
    }
}

/// The caption names the settings: files by path, and the duration if it has an effect.
#[test]
fn run__the_caption_names_the_traffic() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name).to_str().unwrap().to_owned();
        std::fs::write(&path, text).unwrap();
        path
    };
    let trace = write("trace.txt", "0 1 0 300\n");
    let sizes = write("sizes.txt", "15\n10 0\n20 1\n");
    let coflows = write("coflows.txt", "3 1\n1 0 1 0 1 2:1\n");
    for (words, expected) in [
        (&["--duration-us", "60"][..], "fbkv at load 0.6 for 60 us".to_owned()),
        (&["--duration-us", "60", "--sizes", "500"], "500 bytes at load 0.6 for 60 us".to_owned()),
        (&["--duration-us", "60", "--sizes", &sizes], format!("{sizes} at load 0.6 for 60 us")),
        (&["--trace", &trace], format!("messages of {trace}")),
        (
            &["--coflows", &coflows, "--load", "0.1"],
            format!("coflows of {coflows}, messages of fbkv at load 0.1 for 1000 us"),
        ),
        (
            &["--pattern", "ring-allreduce", "--sizes", "1400", "--vector-bytes", "9000"],
            "ring all-reduce of 9000 bytes, messages of 1400 bytes".to_owned(),
        ),
    ] {
        let output = output(&[&["run", "--network", "star:4", "--scheme", "udp"], words].concat());
        assert!(output.status.success(), "{}", said(&output));
        let text = String::from_utf8(output.stdout).unwrap();
        let expected = format!("\nstar:4 (4 hosts), {expected}, MSR 0.5, seed 1\n");
        assert!(text.contains(&expected), "{expected}{text}");
    }
}

/// At a load of 0.001, no message of 100 kB arrives within a microsecond.
#[test]
fn run__fails_without_messages() {
    let words = ["run", "--network", "star:4", "--duration-us", "1", "--sizes", "100000"];
    let output = output(&[&words[..], &["--load", "0.001"]].concat());
    assert!(!output.status.success() && said(&output).contains("no host has a message"));
}

/// 0.95 of 19 messages rounds up to 19, and 0.95 of 20 messages is 19.
#[test]
fn run__notes_jobs_that_are_too_small_to_lose_a_message() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.txt");
    let lines = |from: u32, number| format!("{from} {from} 0 100\n").repeat(number);
    std::fs::write(&path, lines(1, 19) + &lines(2, 20) + &lines(3, 2)).unwrap();
    let note = |msr| {
        let words =
            ["run", "--network", "star:4", "--scheme", "atp:paper", "--msr", msr, "--trace"];
        let output = output(&[&words[..], &[path.to_str().unwrap()]].concat());
        assert!(output.status.success(), "{}", said(&output));
        said(&output).lines().find(|line| line.contains("need all")).map(str::to_owned)
    };
    let expected = "note: 2 of 3 jobs need all of their messages: at MSR 0.95, a job of fewer \
                    than 20 messages cannot lose any";
    assert_eq!(note("0.95").as_deref(), Some(expected));
    assert!(note("0.5").is_none() && note("1").is_none());
}

/// The command in the JSON document reproduces the document.
#[test]
fn run__the_json_reproduces_itself() {
    let json = |words: &[&str]| -> Value {
        let output = output(words);
        assert!(output.status.success(), "{}", said(&output));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let mut first = json(&small(&["--scheme", "atp,udp", "--exact", "0.3", "--json", "-"]));
    let settings = &first["settings"];
    assert_eq!((&settings["hosts"], &settings["duration_us"]), (&6.into(), &60.0.into()));
    assert_eq!((&settings["pattern"], &settings["sizes"]), (&"random".into(), &"fbkv".into()));
    let words = first["command"].as_array().unwrap().clone();
    let words: Vec<&str> = words.iter().skip(1).map(|word| word.as_str().unwrap()).collect();
    let mut again = json(&words);
    for document in [&mut first, &mut again] {
        for scheme in document["schemes"].as_array_mut().unwrap() {
            assert!(scheme["wall_s"].take().is_number());
        }
    }
    assert_eq!(first, again);
    assert_eq!(first["schemes"][1]["scheme"], "udp");
    assert!(first["schemes"][0]["summary"]["completion"]["mean_us"].is_number());
}

/// With several seeds, a row has the mean of the runs with single seeds.
#[test]
fn run__means_are_of_the_chosen_seeds() {
    let json = |more: &[&str]| -> Value {
        let words = small(&["--scheme", "atp,dctcp-es", "--json", "-"]);
        let output = output(&[&words[..], more].concat());
        assert!(output.status.success(), "{}", said(&output));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let alone = |seed: &str, scheme: usize| {
        let json = json(&["--seed", seed]);
        json["schemes"][scheme]["summary"]["completion"]["mean_us"].as_f64().unwrap()
    };
    let both = json(&["--seed", "5", "--seeds", "2"]);
    assert_eq!(both["seeds"], serde_json::json!([5, 6]));
    assert!(both["settings"].get("seed").is_none());
    let measured = &both["schemes"][0]["measured"]["completion_us"];
    let mean = (alone("5", 0) + alone("6", 0)) / 2.0;
    let ratio = (alone("5", 0) / alone("5", 1) + alone("6", 0) / alone("6", 1)) / 2.0;
    assert!((measured["value"]["mean"].as_f64().unwrap() / mean - 1.0).abs() < 1e-9);
    assert!((measured["ratio"]["mean"].as_f64().unwrap() / ratio - 1.0).abs() < 1e-9);
    let output = output(&small(&["--seeds", "2", "--exact", "0.5"]));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.contains(" ±") && text.contains("seeds 1 to 2") && text.contains("exact"),
        "{text}"
    );
    assert!(text.lines().all(|line| line.chars().count() <= 120), "{text}");
}

/// The hosts in the JSON document are those of the trace.
#[test]
fn run__the_json_names_the_hosts_of_each_job() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.txt");
    std::fs::write(&path, "0 2 0 300\n1 0 3 500\n2 2 0 100\n").unwrap();
    let words = ["run", "--network", "star:4", "--scheme", "udp", "--json", "-", "--trace"];
    let output = output(&[&words[..], &[path.to_str().unwrap()]].concat());
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    let jobs = json["schemes"][0]["jobs"].as_array().unwrap().iter();
    let ends: Vec<[&Value; 3]> =
        jobs.map(|job| ["source", "destination", "messages"].map(|name| &job[name])).collect();
    assert_eq!(ends, [[0, 3, 1], [2, 0, 2]]);
}

#[test]
fn output__that_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().to_str().unwrap();
    for words in [
        &small(&["--scheme", "udp"])[..],
        &small(&["--scheme", "udp", "--json", "-"]),
        &["figure", "14", "--quick", "--out", out],
        &["map", "fan-in", "--quick", "--out", out],
        &["--help"],
        &["run", "--help"],
        &["--version"],
    ] {
        outputs::check_beside(Some(" M events, "), || command(words));
    }
}

#[test]
fn figure__quick_is_noted_in_the_output() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let output = output(&["figure", "14", "--quick", "--out", path]);
    assert!(String::from_utf8(output.stdout).unwrap().contains("quick: "));
    let text = std::fs::read_to_string(folder.path().join("figure-14.json")).unwrap();
    let json: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&json["extent"], &json["settings"]["hosts"]), (&"quick".into(), &12.into()));
}

/// An interrupted figure continues where it stopped, and more seeds run only the new ones. The
/// files are the same as without an interruption.
#[test]
fn figure__continues_after_an_interruption() {
    let folder = tempfile::tempdir().unwrap();
    let out = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let figure = |out: &str, more: &[&str]| {
        let output = output(&[&["figure", "14", "--quick", "--out", out], more].concat());
        assert!(output.status.success(), "{}", said(&output));
        String::from_utf8(output.stdout).unwrap()
    };
    let (whole, interrupted) = (out("whole"), out("interrupted"));
    assert!(figure(&whole, &["--seeds", "3"]).contains("(36 runs, 3 seeds)"));
    figure(&interrupted, &["--seeds", "2"]);
    let mut files = std::fs::read_dir(folder.path().join("interrupted/runs")).unwrap();
    let path = files.next().unwrap().unwrap().path();
    let lines = std::fs::read(&path).unwrap();
    std::fs::write(&path, &lines[..lines.len() - 40]).unwrap();
    let text = figure(&interrupted, &["--seeds", "3"]);
    assert!(text.contains("(36 runs, 3 seeds, 23 runs known already)"), "{text}");
    for extension in ["json", "csv", "svg"] {
        let read = |out: &str| std::fs::read(format!("{out}/figure-14.{extension}")).unwrap();
        assert_eq!(read(&whole), read(&interrupted), "{extension}");
    }
    assert!(figure(&interrupted, &["--fresh"]).contains("(12 runs, one seed)"));
    assert!(figure(&interrupted, &[]).contains("(12 runs, one seed, 12 runs known already)"));
}

/// A map's schemes have the same seeds, and its table has intervals.
#[test]
fn map__has_the_chosen_number_of_seeds() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let output = output(&["map", "fan-in", "--quick", "--seeds", "2", "--out", path]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("16 runs, 2 seeds") && text.contains(" ±"), "{text}");
    let json = std::fs::read_to_string(folder.path().join("map-fan-in.json")).unwrap();
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["seeds"], serde_json::json!([1, 2]));
    assert!(json["settings"].get("seed").is_none());
    let ratio = &json["cells"][0]["scheme"]["measured"]["completion_us"]["ratio"];
    assert!(ratio["half_width_95"].is_number(), "{ratio}");
}

#[test]
fn figure__refuses_a_number_of_seeds_without_an_effect() {
    for words in [&["--seeds", "0"][..], &["--seeds", "x"], &["--draw", "--seeds", "2"]] {
        let output = output(&[&["figure", "14"], words].concat());
        assert!(!output.status.success() && output.stdout.is_empty(), "{words:?}");
    }
}

/// `--sizes` sets the message sizes of a map. Maps that vary the sizes refuse the option.
#[test]
fn map__uses_the_chosen_sizes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let words = ["--quick", "--out", path, "--sizes", "3000"];
    assert!(output(&[&["map", "fan-in"], &words[..]].concat()).status.success());
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    let json: Value = serde_json::from_str(&read("map-fan-in.json")).unwrap();
    assert_eq!(json["settings"]["sizes"], "3000");
    assert!(read("map-fan-in.svg").contains("messages of 3000 bytes"));
    for map in ["message-size", "spread", "msr-spread"] {
        let refused = output(&[&["map", map], &words[..]].concat());
        assert!(!refused.status.success(), "{map}");
        assert!(said(&refused).contains("--sizes has no effect on the map"), "{}", said(&refused));
    }
}

/// A map's profile is that of both schemes, if it has one queue. A missing file is refused.
#[test]
fn map__uses_the_chosen_profile() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let words = ["map", "fan-in", "--quick", "--out", path, "--profile"];
    assert!(output(&[&words[..], &["one-queue"]].concat()).status.success());
    let json = std::fs::read_to_string(folder.path().join("map-fan-in.json")).unwrap();
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["settings"]["profile"]["queues"].as_array().unwrap().len(), 1);
    let refused = output(&[&words[..], &["no/such"]].concat());
    assert!(!refused.status.success() && said(&refused).contains("no/such"), "{}", said(&refused));
}

#[test]
fn map__refuses_sizes_that_would_take_hours() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("maps");
    let words = ["map", "--quick", "--out", path.to_str().unwrap(), "--sizes", "67108864"];
    let output = output(&words);
    assert!(
        !output.status.success() && said(&output).contains("up to 10000000"),
        "{}",
        said(&output)
    );
    assert!(
        said(&output).contains("leaves out message-size, spread, msr-spread"),
        "{}",
        said(&output)
    );
    assert!(!path.exists());
}

#[test]
fn figure__draw_fails_if_nothing_can_be_drawn() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("figures");
    let draw = |number| output(&["figure", number, "--draw", "--out", path.to_str().unwrap()]);
    let refused = draw("10");
    assert!(!refused.status.success() && refused.stdout.is_empty() && !path.exists());
    assert!(said(&refused).contains("without --draw"), "{}", said(&refused));
    let plain = said(&draw("14"));
    assert!(plain.contains("for N = 14: run") && !plain.contains("quick"), "{plain}");
    std::fs::create_dir_all(path.join("quick")).unwrap();
    std::fs::write(path.join("quick/figure-14.json"), "{}").unwrap();
    let hint = format!("or use --out {}", path.join("quick").display());
    assert!(said(&draw("14")).contains(&hint), "{}", said(&draw("14")));
}

/// All figures with a file are drawn. The error names the missing files at the end.
#[test]
fn figure__draw_continues_past_missing_files() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    assert!(output(&["figure", "14", "--quick", "--out", path]).status.success());
    std::fs::remove_file(folder.path().join("figure-14.svg")).unwrap();
    std::fs::write(folder.path().join("figure-6.json"), "{").unwrap();
    let output = output(&["figure", "all", "--draw", "--out", path]);
    let said = said(&output);
    assert!(!output.status.success() && folder.path().join("figure-14.svg").exists(), "{said}");
    assert!(said.contains("for N = 5, 7, 8, 9, 11, 12, 13, 15, 16, 17, 18, 19: run"), "{said}");
    assert!(said.contains("figure-6.json: EOF") && said.trim_end().lines().count() == 1, "{said}");
}

/// A host's profile is a name, a file or none. One that no scheme uses is refused.
#[test]
fn main_job__refuses_profiles_without_effect() {
    let words = ["main-job", "--messages", "40", "--seeds", "1", "--profile", "one-queue"];
    let of = |more: &[&str]| output(&[&words[..], more].concat());
    for (words, about) in [
        (&["--sender-profile", "no/such"][..], "no/such"),
        (&["--receiver-profile", "/dev/null"], "/dev/null"),
        (&["--scheme", "dctcp-es", "--sender-profile", "none"], "no scheme is ATP"),
        (&["--scheme", "dctcp-es", "--receiver-profile", "none"], "no scheme has advice"),
        (&["--scheme", "atp:paper", "--receiver-profile", "default"], "no scheme has advice"),
    ] {
        let refused = of(words);
        let said = said(&refused);
        assert!(!refused.status.success() && said.contains(about), "{words:?}: {said}");
        assert!(refused.stdout.is_empty(), "{words:?}");
    }
    let used = ["--sender-profile", "none", "--receiver-profile", "default", "--scheme", "atp"];
    assert!(of(&used).status.success(), "{}", said(&of(&used)));
}
