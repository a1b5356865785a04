//! The book's pictures of figures show the book's numbers.

use atp_sim::figures::book_pictures;
use std::path::Path;

#[test]
fn book_pictures__are_those_in_the_tree() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/src/results/figures");
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap_or_default();
    let pictures = book_pictures(&read("figures.csv")).unwrap();
    for (number, svg) in pictures {
        let name = format!("figure-{number}.svg");
        assert!(read(&name) == svg, "{name} is old: cargo run --release -p atp-sim -- book");
    }
}
