//! `atp-kafka`: carries windows of a topic's records over ATP, and back into a topic.

fn main() {}
