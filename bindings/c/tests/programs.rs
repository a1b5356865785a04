//! C programs, the sample of the guide, and the examples, compiled against the library and run.

#[path = "../../tests/trials.rs"]
mod trials;

use anyhow::{Context, Result, ensure};
use libtest_mimic::Arguments;
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};
use trials::{Test, missing, run, trial};

const STRICT_C: [&str; 6] =
    ["-std=c11", "-D_POSIX_C_SOURCE=200809L", "-Wall", "-Wextra", "-Werror", "-pthread"];
const STRICT_CPP: [&str; 5] = ["-std=c++17", "-Wall", "-Wextra", "-Werror", "-Wpedantic"];
/// Reports each error and ends the program.
const SANITIZERS: [&str; 3] =
    ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer"];
/// What the guide's sample of answers prints.
const ANSWERS: &str = "AA: 3.00 (3.00 to 3.00)\nUA: 2.88 (2.59 to 3.16)\n";
/// The libraries below Rust's standard library.
const STATIC_NEEDS: [&str; 6] = ["-lgcc_s", "-lutil", "-lrt", "-lpthread", "-lm", "-ldl"];

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let (cc, cpp, go) = (missing("cc", "cc"), missing("c++", "c++"), missing("go", "go"));
    let go = cc.clone().or(go).or(missing("pkg-config", "pkg-config"));
    let sanitizers = cc.clone().or_else(|| {
        let error = sanitized("int main(void) { return 0; }").err()?;
        Some(format!("needs sanitizers: {}", error.to_string().lines().next().unwrap_or_default()))
    });
    let tests: [(&str, Test, &Option<String>); 12] = [
        ("transfer__holds", || c_program("transfer", &[]), &cc),
        ("transfer__holds_under_sanitizers", || c_program("transfer", &SANITIZERS), &sanitizers),
        ("waiting__holds", || c_program("waiting", &[]), &cc),
        ("waiting__holds_under_sanitizers", || c_program("waiting", &SANITIZERS), &sanitizers),
        ("bad_input__has_its_errors", || c_program("bad_input", &[]), &cc),
        ("bad_input__has_its_errors_under_sanitizers", bad_input_sanitized, &sanitizers),
        ("answers__hold", || c_program("answers", &[]), &cc),
        ("answers__hold_under_sanitizers", || c_program("answers", &SANITIZERS), &sanitizers),
        ("guide__sample_runs", || guide_sample(0, "of 100 arrived\n"), &cc),
        ("guide__sample_of_answers_runs", || guide_sample(1, ANSWERS), &cc),
        ("example__in_cpp_runs", cpp_example, &cpp),
        ("example__in_go_runs", go_example, &go),
    ];
    let trials = tests.map(|(name, test, missing)| trial(name, test, missing, &arguments));
    libtest_mimic::run(&arguments, trials.into()).exit_code()
}

fn crate_folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The folder with the libraries that cargo built for this test.
fn libraries() -> Result<PathBuf> {
    let test = std::env::current_exe()?;
    let folder = test.parent().context("a program lies in a folder")?.to_owned();
    for library in ["libatp_c.so", "libatp_c.a"] {
        let is_there = folder.join(library).is_file();
        ensure!(is_there, "{library} is missing in {}: run cargo test", folder.display());
    }
    Ok(folder)
}

fn c_program(name: &str, sanitizers: &[&str]) -> Result<()> {
    let source = crate_folder().join(format!("tests/{name}.c"));
    let said = compile_and_run("cc", &STRICT_C, &source, sanitizers)?;
    ensure!(said.starts_with(&format!("{name}: ")), "it printed {said:?}");
    Ok(())
}

fn bad_input_sanitized() -> Result<()> {
    c_program("bad_input", &SANITIZERS)
}

/// With sanitizers the static library is linked, otherwise the shared one.
fn compile_and_run(
    compiler: &str,
    flags: &[&str],
    source: &Path,
    sanitizers: &[&str],
) -> Result<String> {
    let (folder, libraries) = (tempfile::tempdir()?, libraries()?);
    let program = folder.path().join("program");
    let mut compile = Command::new(compiler);
    compile.args(flags).args(sanitizers).arg("-g").arg("-I").arg(crate_folder().join("include"));
    compile.arg(source).arg("-o").arg(&program);
    if sanitizers.is_empty() {
        compile.arg("-L").arg(&libraries).arg("-latp_c");
        compile.arg(format!("-Wl,-rpath,{}", libraries.display()));
    } else {
        compile.arg(libraries.join("libatp_c.a")).args(STATIC_NEEDS);
    }
    run(&mut compile)?;
    run(&mut Command::new(&program))
}

/// Compiles and runs a program under the sanitizers, without the library.
fn sanitized(source: &str) -> Result<String> {
    let folder = tempfile::tempdir()?;
    let (file, program) = (folder.path().join("probe.c"), folder.path().join("probe"));
    fs::write(&file, source)?;
    run(Command::new("cc").args(SANITIZERS).arg(&file).arg("-o").arg(&program))?;
    run(&mut Command::new(&program))
}

/// The C block of the guide at `index`. Its output ends with `end`.
fn guide_sample(index: usize, end: &str) -> Result<()> {
    let guide = crate_folder().join("../../docs/src/guide/c.md");
    let text = fs::read_to_string(guide)?;
    let block = text.split("```c\n").nth(index + 1).and_then(|rest| rest.split("```").next());
    let folder = tempfile::tempdir()?;
    let source = folder.path().join("sample.c");
    fs::write(&source, block.context("the guide has a sample")?)?;
    let said = compile_and_run("cc", &["-std=c11", "-Wall", "-Wextra", "-Werror"], &source, &[])?;
    ensure!(said.ends_with(end), "it printed {said:?}");
    Ok(())
}

fn cpp_example() -> Result<()> {
    let source = crate_folder().join("examples/windows.cpp");
    let said = compile_and_run("c++", &STRICT_CPP, &source, &[])?;
    ensure!(said.ends_with(" messages arrived\n"), "it printed {said:?}");
    Ok(())
}

fn go_example() -> Result<()> {
    let (folder, libraries) = (tempfile::tempdir()?, libraries()?);
    let (libraries, include) = (libraries.display(), crate_folder().join("include"));
    let pkg_config = format!(
        "Name: libatp\nDescription: the library of this test\nVersion: 0\n\
         Libs: -L{libraries} -latp_c -Wl,-rpath,{libraries}\nCflags: -I{}\n",
        include.display()
    );
    fs::write(folder.path().join("libatp.pc"), pkg_config)?;
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("go");
    let program = folder.path().join("program");
    let mut build = Command::new("go");
    build.args(["build", "-trimpath", "-o"]).arg(&program).arg(".");
    build.current_dir(crate_folder().join("examples/go"));
    build.env("PKG_CONFIG_PATH", folder.path()).env("GOCACHE", cache);
    // Nothing is downloaded, and the clone isn't asked for its version.
    build.envs([("GOTOOLCHAIN", "local"), ("GOFLAGS", "-buildvcs=false"), ("GOPROXY", "off")]);
    build.env("CGO_ENABLED", "1");
    run(&mut build)?;
    let said = run(&mut Command::new(&program))?;
    ensure!(said == "10 messages arrived\n", "it printed {said:?}");
    Ok(())
}
