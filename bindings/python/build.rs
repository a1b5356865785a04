//! The docstrings of the native classes: those of the type stubs, and of the table of options.
//!
//! `stub!(Job.send)` of `src/stub.rs` is the text of one. A method without a text doesn't compile.

use std::{env, fs, path::Path};

const STUBS: [&str; 2] = ["python/atp/_native.pyi", "python/atp/answers.pyi"];
const TYPES: &str = "python/atp/_types.py";
/// Classes whose keyword arguments are the keys of a `TypedDict`.
const OPTIONS: [(&str, &str); 4] = [
    ("Job", "JobOptions"),
    ("Receiver", "ReceiverOptions"),
    ("Windows", "WindowsOptions"),
    ("WindowSender", "WindowSenderOptions"),
];

fn main() {
    let folder = env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    for stub in STUBS {
        for (name, mut text) in docstrings(&read(stub)) {
            for (_, options) in OPTIONS.iter().filter(|(class, _)| *class == name) {
                text += "\n\nOptions:\n";
                text += &self::options(&read(TYPES), options);
            }
            fs::write(Path::new(&folder).join(name), text).expect("OUT_DIR is there");
        }
    }
}

fn read(file: &str) -> String {
    println!("cargo:rerun-if-changed={file}");
    fs::read_to_string(file).expect(file)
}

/// The texts of classes and of their methods, by `Class` and `Class.method`.
fn docstrings(stub: &str) -> Vec<(String, String)> {
    let (mut class, mut name, mut found) = (String::new(), String::new(), Vec::new());
    let mut lines = stub.lines();
    while let Some(line) = lines.next() {
        let word = |line: &str| line.split(['(', ':']).next().unwrap_or_default().to_owned();
        if let Some(rest) = line.strip_prefix("class ") {
            class = word(rest);
            name.clone_from(&class);
        } else if let Some(rest) = line.strip_prefix("    def ") {
            name = format!("{class}.{}", word(rest));
        } else if !line.starts_with(' ') && !line.starts_with(')') {
            name.clear();
        }
        if let Some(text) = line.trim_start().strip_prefix("\"\"\"").filter(|_| !name.is_empty()) {
            found.push((std::mem::take(&mut name), docstring(text, &mut lines)));
        }
    }
    found
}

/// A text from behind its first quotes on, without its indentation.
fn docstring<'a>(first: &'a str, lines: &mut impl Iterator<Item = &'a str>) -> String {
    let mut text = first.to_owned();
    while !text.ends_with("\"\"\"") {
        text += "\n";
        text += lines.next().expect("the end of a text").trim_start();
    }
    text.truncate(text.len() - 3);
    text.trim_end().replace("\\\\", "\\")
}

/// The options of a class: each with its type and its text.
fn options(types: &str, class: &str) -> String {
    let (_, rest) = types.split_once(&format!("class {class}(")).expect(class);
    let (_, keys) = rest.split_once("\n\n").expect("keys behind the text of the class");
    let (mut lines, mut text) = (keys.lines(), String::new());
    while let Some(line) = lines.next() {
        if !line.is_empty() && !line.starts_with(' ') {
            break;
        }
        let line = line.trim_start();
        if let Some(first) = line.strip_prefix("\"\"\"") {
            for line in docstring(first, &mut lines).lines() {
                text += &format!("        {line}\n");
            }
        } else if !line.is_empty() {
            text += &format!("    {line}\n");
        }
    }
    text
}
