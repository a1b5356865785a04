//! Builds the testbed and keeps it until Ctrl-C, for inspection with `nsenter`:
//! `cargo run -p testbed --example testbed -- [SENDERS [RATE_BITS_PER_S [DAEMON]]]`.

use std::thread;
use std::time::Duration;

use anyhow::Result;
use switch_profiles::Profile;
use testbed::privilege::{self, Privilege};
use testbed::{Launch, Options, Testbed, interrupt};

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let word = |index: usize| words.get(index).map(String::as_str);
    let senders = word(0).unwrap_or("4").parse()?;
    let rate_bits_per_s = word(1).unwrap_or("200000000").parse()?;
    match privilege::current() {
        Privilege::Root => println!("as root"),
        Privilege::UserNamespace => println!("in a user namespace"),
        Privilege::Denied(why) => anyhow::bail!(why),
    }
    privilege::enter_user_namespace()?;
    interrupt::install()?;
    let options = Options {
        senders,
        rate_bits_per_s,
        nic_rate_bits_per_s: rate_bits_per_s,
        receiver_rate_bits_per_s: None,
        profile: Profile::default(),
    };
    let mut testbed = Testbed::build(&options)?;
    if let Some(daemon) = word(2) {
        let launch = Launch { program: daemon.into(), object: None, options: Vec::new() };
        testbed.start_daemons(&launch, None)?;
    }
    for host in testbed.hosts() {
        let (name, path) = (&host.name, host.namespace.path());
        println!("{name}: {} {}: nsenter --net={path}", host.ipv4, host.ipv6);
    }
    testbed.notes().iter().for_each(|note| println!("{note}"));
    while !interrupt::interrupted() {
        thread::sleep(Duration::from_millis(50));
    }
    for (queue, counters) in testbed.port_counters(testbed.receiver())?.iter().enumerate() {
        println!("receiver's port, queue {queue}: {counters:?}");
    }
    testbed.hosts().for_each(|host| print!("{}", testbed.daemon_log(host)));
    Ok(())
}
