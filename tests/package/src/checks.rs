//! The steps of the machine: the guide's commands, and what the test adds between them.

use crate::guide::{Block, How};
use anyhow::{Result, ensure};

/// A step of the machine.
#[derive(Debug)]
pub struct Step {
    /// A place and a first command in the guide, or the name of a check.
    pub name: String,
    /// Commands of which each must succeed.
    pub script: String,
    how: How,
}

/// The side of a block at which the test adds commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Before,
    After,
}
use Side::{After, Before};

/// Commands that the test adds: beside which line of the guide, a name, and the commands. The
/// current folder and the user are those of the guide's commands.
///
/// The guide's lines are complete. A changed guide therefore fails here, and not in the machine.
const CHECKS: &[(Side, &str, &str, &str)] = &[
    (
        Before,
        "sudo apt install ./target/packages/atp_0.1.0-1_amd64.deb",
        "network__of_two_hosts",
        "sudo ip netns add peer
        sudo ip link set eth1 netns peer name eth0
        sudo ip addr add 10.0.0.1/24 dev eth0
        sudo ip -n peer addr add 10.0.0.2/24 dev eth0
        sudo ip link set eth0 up
        sudo ip -n peer link set lo up
        sudo ip -n peer link set eth0 up
        uname --kernel-release | grep '^6[.]12[.]'
        # Long lines: each message has a packet of its own.
        seq --format=%0900.0f 2000 > messages.txt",
    ),
    (
        After,
        "sudo systemctl enable --now atp.socket atp.service",
        "service__paces_with_fq_and_is_no_root",
        "sudo systemctl status atp | grep 'Status: \"eth0, paced by fq\"'
        sudo tc qdisc show dev eth0 | grep '^qdisc fq a7a7: '
        test $(stat --format=%U /proc/$(systemctl show --property=MainPID --value atp)) != root",
    ),
    (
        Before,
        "sudo install target/daemon/atp-user /usr/local/bin/",
        "doctor__before_a_daemon",
        "sudo systemctl stop atp.socket atp.service
        sudo atp-user doctor --iface eth0 --to 10.0.0.2 > doctor.txt
        cat doctor.txt
        grep 'qdisc fq  *fine  *the kernel has sch_fq' doctor.txt
        grep 'root qdisc  *fine  *fq_codel, the system.s default' doctor.txt
        grep 'programs at tc egress  *fine  *none' doctor.txt
        grep 'coverage  *fine  .*where no daemon runs yet' doctor.txt",
    ),
    (
        Before,
        "sudo atp-user stop",
        "daemon_by_hand__paces_with_fq",
        "soon 'sudo atp-user stats --once'
        atp-user job list
        sudo tc qdisc show dev eth0 | grep '^qdisc fq a7a7: '",
    ),
    (
        After,
        "sudo atp-user stop",
        "service__follows_the_daemon_by_hand",
        "soon 'grep \"ended with 0\" /tmp/background-*-operator*'
        not 'sudo tc qdisc show dev eth0 | grep \"^qdisc fq \"'
        sudo rm /usr/local/bin/atp-user
        sudo systemctl start atp.socket atp.service
        sudo atp-user stats --json",
    ),
    (
        After,
        "sudo atp-user doctor",
        "doctor__reads_the_settings_of_the_daemon_s_fq",
        "sudo atp-user doctor > doctor.txt
        grep 'root qdisc  *fine  *fq a7a7:, of an ATP daemon' doctor.txt
        grep 'settings of fq  *fine  *flow_limit 20000, horizon 10000000 us, 0 packets' doctor.txt
        grep 'programs at tc ingress  *fine  *atp_ingress' doctor.txt
        grep 'programs at tc egress  *fine  *atp_egress' doctor.txt",
    ),
    (
        After,
        "sudo atp-user doctor",
        "doctor__its_advice_for_a_small_fq_works",
        "sudo tc qdisc change dev eth0 root fq flow_limit 100 horizon 1s horizon_cap
        sudo atp-user doctor > doctor.txt
        grep --after-context=2 'settings of fq  *degraded  *flow_limit 100, horizon 1000000 us' doctor.txt
        advice=$(sed --quiet 's/^ *change it: `\\(.*\\)`$/\\1/p' doctor.txt)
        sudo ${advice/HANDLE/a7a7}
        sudo atp-user doctor | grep 'settings of fq  *fine  *flow_limit 20000, horizon 10000000 us'",
    ),
    (
        After,
        "atp-user policy",
        "policy__decides_after_a_reload_unless_it_is_bad",
        "sudo systemctl is-active atp.service
        sudo cp /etc/atp/policy.toml kept.toml
        echo '[[rule]]' | sudo tee /etc/atp/policy.toml
        not 'sudo systemctl reload atp.service'
        sudo journalctl -u atp | grep 'line 1: the rule names nobody'
        printf '[others]\\njobs_max = 0\\n' | sudo tee /etc/atp/policy.toml
        read() { sudo journalctl -u atp | grep --count 'policy read'; }
        before=$(read || true)
        sudo systemctl reload atp.service
        until test $(read || true) -gt $before; do sleep 0.1; done
        (atp-user job create 2>&1 || true) | grep 'policy allows user .* no job'
        sudo cp kept.toml /etc/atp/policy.toml
        sudo systemctl reload atp.service",
    ),
    (
        After,
        "atp-user doctor --answer 10.0.0.2:7000",
        "doctor__probes_the_path_as_the_answerer_says",
        "soon 'grep --no-filename -- --token /tmp/background-*-check*'
        sudo $(grep --no-filename -- --token /tmp/background-*-check* | tail -1) > path.txt
        cat path.txt
        grep 'DSCP 0 (queue 0)  *fine' path.txt
        grep 'ECN bits  *fine' path.txt",
    ),
    (
        After,
        "sudo tc qdisc show dev eth0",
        "change__a_removed_qdisc_returns",
        "sudo tc qdisc del dev eth0 root
        soon 'sudo tc qdisc show dev eth0 | grep \"^qdisc fq a7a7: \"'",
    ),
    (
        After,
        "sudo tc qdisc show dev eth0",
        "change__a_qdisc_of_others_stays_until_doctor_s_advice",
        "sudo tc qdisc replace dev eth0 root handle 1: pfifo
        soon 'sudo atp-user stats --once | grep \"not covered\"'
        not 'sudo atp-user doctor > doctor.txt'
        grep 'root qdisc  *missing  *pfifo 1:, configured by someone else' doctor.txt
        sudo $(sed --quiet 's/^ *run `\\(tc qdisc del .*\\)`.*/\\1/p' doctor.txt)
        soon 'sudo tc qdisc show dev eth0 | grep \"^qdisc fq a7a7: \"'
        soon 'sudo atp-user stats --once > stats.txt && not \"grep not.covered stats.txt\"'",
    ),
    (
        After,
        "sudo tc qdisc show dev eth0",
        "change__an_fq_of_others_is_used_and_left",
        "sudo systemctl stop atp.socket atp.service
        sudo tc qdisc replace dev eth0 root handle 1: fq
        sudo systemctl start atp.socket atp.service
        sudo journalctl --unit=atp --output=verbose --since=-10s | grep 'flow_limit of 100 drops'
        sudo atp-user doctor > doctor.txt
        grep 'root qdisc  *fine  *fq 1: paces with fq' doctor.txt
        grep 'settings of fq  *degraded  *flow_limit 100, horizon 10000000 us, 0 packets' doctor.txt
        sudo tc qdisc change dev eth0 handle 1: fq flow_limit 3
        on_peer atp-user recv 10.0.0.2:4746 --out narrow.txt &
        sleep 3
        atp-user send 10.0.0.2:4746 --file messages.txt
        wait
        sudo atp-user doctor | grep 'flow_limit 3, horizon 10000000 us, [1-9][0-9]* packets dropped'
        sudo systemctl stop atp.socket atp.service
        sudo tc qdisc show dev eth0 | grep '^qdisc fq 1: '
        sudo tc qdisc del dev eth0 root
        sudo systemctl start atp.socket atp.service",
    ),
    (
        After,
        "sudo tc qdisc show dev eth0",
        "change__an_interface_that_returns",
        "device=$(basename $(readlink /sys/class/net/eth0/device))
        echo $device | sudo tee /sys/bus/virtio/drivers/virtio_net/unbind
        soon 'sudo atp-user stats --once | grep gone'
        echo $device | sudo tee /sys/bus/virtio/drivers/virtio_net/bind
        sudo ip addr add 10.0.0.1/24 dev eth0
        sudo ip link set eth0 up
        soon 'sudo tc qdisc show dev eth0 | grep \"^qdisc fq a7a7: \"'
        soon 'sudo atp-user stats --once | grep \"eth0: ACKs consumed by tc, packets paced by fq\"'
        sudo atp-user doctor | grep 'programs at tc egress  *fine  *atp_egress'",
    ),
    (
        After,
        "cat /proc/self/cgroup",
        "job__of_a_cgroup_sends_for_it",
        "on_peer atp-user recv 10.0.0.2:4749 --out cgroup.txt &
        sleep 3
        bash -c 'echo $$ | sudo tee /sys/fs/cgroup/training/cgroup.procs
            exec atp-user send 10.0.0.2:4749 --file messages.txt --json' > report.json
        wait
        cat report.json
        job=$(sudo atp-user job list | sed --quiet 's/^job \\([0-9]*\\) name training .*/\\1/p')
        grep \"\\\"job\\\":$job,\" report.json",
    ),
    (
        After,
        "atp-user send 10.0.0.2:4747 --msr 0.9 --file messages.txt",
        "transfer__through_the_programs_and_fq",
        "soon 'grep \"ended with 0\" /tmp/background-*-jobs*'
        test $(wc --lines < received.txt) -ge 1800
        sudo tc -statistics qdisc show dev eth0
        sudo atp-user stats --json > stats.json
        test $(sed 's/.*\"paced\":\\([0-9]*\\).*/\\1/' stats.json) -ge 1800
        test $(sed 's/.*\"ack_news\":\\([0-9]*\\).*/\\1/' stats.json) -gt 0",
    ),
    (
        After,
        "atp-user send 10.0.0.2:4747 --msr 0.9 --file messages.txt",
        "transfer__to_this_host_is_acknowledged_by_the_programs",
        "atp-user recv 10.0.0.1:4748 --out back.txt &
        sleep 3
        on_peer atp-user send 10.0.0.1:4748 --msr 0.9 --file messages.txt
        wait
        test $(wc --lines < back.txt) -ge 1800
        sudo atp-user stats --json > stats.json
        test $(sed 's/.*\"ack_sent\":\\([0-9]*\\).*/\\1/' stats.json) -ge 1800",
    ),
    (
        After,
        "atp-user send 10.0.0.2:4747 --msr 0.9 --file messages.txt",
        "transfer__survives_changes_of_its_interface",
        "on_peer atp-user recv 10.0.0.2:4750 --out changes.txt &
        sleep 3
        (seq 1000; sleep 4; seq 1000; sleep 4; seq 1000; sleep 6; seq 1000) \
            | atp-user send 10.0.0.2:4750 --msr 0.9 --ordered --json > report.json &
        sleep 2
        sudo tc qdisc del dev eth0 root
        sleep 4
        sudo tc qdisc replace dev eth0 root handle 1: pfifo
        sleep 2
        sudo tc qdisc del dev eth0 root
        sleep 3
        sudo ip link set eth0 down
        sleep 1
        sudo ip link set eth0 up
        wait
        cat report.json
        test $(wc --lines < changes.txt) -ge 3600
        sudo atp-user stats --once",
    ),
    (
        Before,
        "sudo journalctl -u atp -o verbose --output-fields=MESSAGE,F_FROM,F_TO,F_JOB TARGET=datapath",
        "packet_log__names_a_packet_that_is_not_atp",
        "(atp-user recv 10.0.0.1:4752 --out none.txt --timeout 20s || true) &
        sleep 3
        on_peer bash -c 'echo x > /dev/udp/10.0.0.1/4752'
        soon 'sudo journalctl --unit=atp --output=json TARGET=datapath \
            | grep \"\\\"F_FROM\\\":\\\"10.0.0.2:\"'
        wait",
    ),
    (
        Before,
        "atp-user decode capture.pcap",
        "capture__of_a_transfer",
        "soon 'grep listening /tmp/background-*-jobs*'
        on_peer atp-user recv 10.0.0.2:4747 --out captured.txt &
        sleep 3
        atp-user send 10.0.0.2:4747 --file messages.txt
        wait
        soon 'grep \"100 packets captured\" /tmp/background-*-jobs*'",
    ),
    (
        After,
        "atp-user decode capture.pcap",
        "capture__is_decoded",
        "test $(atp-user decode capture.pcap --kind data | wc --lines) -gt 20
        test $(atp-user decode capture.pcap --kind ack | wc --lines) -gt 0
        test $(tshark -X lua_script:/usr/share/doc/atp/atp.lua -r capture.pcap -Y approx.job \
            | wc --lines) = 100",
    ),
    (
        After,
        "sudo atp-user stats --json > stats.json",
        "stats__say_fq",
        "grep '\"interfaces\":{\"eth0\":\"tc\"},\"pacing\":\"fq\"' stats.json",
    ),
    (
        After,
        "sudo sysctl kernel.bpf_stats_enabled=1",
        "stats__have_run_times",
        "soon 'sudo atp-user stats --json | grep \"\\\"programs\\\":{\"'
        sudo atp-user doctor | grep 'eBPF statistics  *degraded'",
    ),
    (
        After,
        "curl http://127.0.0.1:9747/metrics",
        "metrics__count_the_interface",
        "curl http://127.0.0.1:9747/metrics | grep 'atp_daemon_interfaces{state=\"tc\"} 1'",
    ),
    (
        After,
        "sudo atp-user doctor --to 10.0.0.2",
        "coverage__of_another_interface_is_refused",
        "not 'sudo atp-user doctor --iface eth0 --to 127.0.0.1 > doctor.txt'
        grep 'coverage  *missing  .*leave through lo' doctor.txt
        atp-user recv 127.0.0.1:4751 --out local.txt &
        sleep 3
        atp-user send 127.0.0.1:4751 --file messages.txt --json > report.json
        wait
        grep '\"datapath\":\"userspace\"' report.json
        sudo atp-user stats --json > stats.json
        grep '\"refused_flows\":[1-9]' stats.json
        grep 'its packets leave by lo' stats.json",
    ),
    (
        After,
        "sudo systemctl stop atp.socket atp.service",
        "stop__restores_the_interface",
        "test $(systemctl show --property=Result --value atp) = success
        sudo tc qdisc show dev eth0 | grep '^qdisc fq_codel 0: '
        sudo atp-user doctor --iface eth0 | grep 'programs at tc egress  *fine  *none'",
    ),
    (
        After,
        "sudo apt purge --yes atp",
        "purge__leaves_nothing",
        "test ! -e /etc/default/atp -a ! -e /run/atp/atp.sock -a ! -e /usr/bin/atp-user
        not 'systemctl cat atp.service'",
    ),
];

/// The steps in their order.
///
/// # Errors
/// A line beside which the test adds commands isn't in exactly one block.
pub fn steps(blocks: &[Block]) -> Result<Vec<Step>> {
    for (_, beside, name, _) in CHECKS {
        let places = blocks.iter().filter(|block| has_line(block, beside)).count();
        ensure!(places == 1, "{places} blocks of the guide have the line of {name}: {beside}");
    }
    let added = |block: &Block, side: Side| {
        let checks = CHECKS
            .iter()
            .filter(move |check| check.0 == side)
            .filter(|check| has_line(block, check.1));
        checks
            .map(|(_, _, name, script)| Step {
                name: (*name).to_owned(),
                script: (*script).to_owned(),
                how: How::default(),
            })
            .collect::<Vec<_>>()
    };
    let mut steps = Vec::new();
    for block in blocks {
        steps.extend(added(block, Before));
        if block.how.not_run.is_none() {
            let first = command(block.commands.lines().next().unwrap_or_default());
            let name = format!("{}: {first}", block.place);
            steps.push(Step { name, script: block.commands.clone(), how: block.how.clone() });
        }
        steps.extend(added(block, After));
    }
    Ok(steps)
}

fn has_line(block: &Block, wanted: &str) -> bool {
    block.commands.lines().any(|line| command(line) == wanted)
}

/// A line without its comment.
fn command(line: &str) -> &str {
    line.split("  #").next().unwrap_or_default().trim_end()
}

impl Step {
    /// The name of the step's file, which `run-steps.sh` reads.
    pub fn file(&self, number: usize) -> String {
        let page = self.name.split([':', '_']).next().unwrap_or_default();
        let How { on_peer, in_background, on_terminal, .. } = self.how;
        let all = [
            (on_peer, ".on-peer"),
            (in_background, ".in-background"),
            (on_terminal, ".on-terminal"),
        ];
        let kinds: String = all.iter().filter(|(is, _)| *is).map(|(_, kind)| *kind).collect();
        format!("{number:03}-{page}{kinds}")
    }
}
