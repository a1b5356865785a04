//! The use of the package's service in a container, which has no fq.

/// The steps of an operator, in order: a name, and commands of which each must succeed. None
/// pipes into `grep --quiet`, which ends early: that would fail the command before it.
///
/// The container has no list of kernel modules, so the daemon can't learn which qdiscs there are:
/// the options name one.
pub const STEPS: &[(&str, &str)] = &[
    (
        "install__starts_nothing",
        "dpkg --install /srv/atp.deb
        test $(systemctl is-active atp.socket) = inactive
        atp-user --version",
    ),
    (
        "units__are_valid",
        "systemd-analyze verify --man=no atp.service atp.socket",
    ),
    (
        "pages_and_completions__are_there",
        "for page in atp-user atp-user-run atp-user-send; do test -f /usr/share/man/man1/$page.1*; done
        grep --quiet -- --iface /usr/share/bash-completion/completions/atp-user
        grep --quiet -- --iface /usr/share/zsh/vendor-completions/_atp-user
        grep --quiet iface /usr/share/fish/vendor_completions.d/atp-user.fish",
    ),
    (
        "binary__needs_only_libraries_of_debian_12",
        "! ldd /usr/bin/atp-user | grep 'not found'",
    ),
    (
        "socket__starts_the_daemon_without_root",
        "ip netns add peer
        ip link add v0 type veth peer name v1 netns peer
        ip addr add 10.0.0.1/24 dev v0
        ip -n peer addr add 10.0.0.2/24 dev v1
        ip link set v0 up
        ip -n peer link set v1 up
        echo 'ATP_OPTIONS=\"--iface v0 --pacing htb --law frugal --metrics\"' > /etc/default/atp
        systemctl start atp.socket
        test $(systemctl is-active atp.service) = inactive
        atp-user job list
        test $(systemctl is-active atp.service) = active
        test $(stat --format=%U /proc/$(systemctl show --property=MainPID --value atp)) != root
        systemctl status atp --no-pager | grep 'Status: \"v0, paced by htb\"'",
    ),
    (
        "job__of_another_user_uses_the_programs",
        "# Long lines: each message has a packet of its own.
        seq --format=%0900.0f 2000 > /tmp/lines
        chmod 644 /tmp/lines
        ip netns exec peer atp-user recv 10.0.0.2:4747 --out /tmp/received --timeout 20s &
        receiver=$!
        for try in $(seq 30); do
            if ip netns exec peer ss --udp --listening --numeric | grep 10.0.0.2:4747; then break; fi
            sleep 1
        done
        setpriv --reuid=65534 --regid=65534 --clear-groups \
            atp-user send 10.0.0.2:4747 --msr 0.9 --file /tmp/lines --json > /tmp/report
        wait $receiver
        cat /tmp/report
        grep --quiet '\"datapath\":\"ebpf\"' /tmp/report
        test $(wc --lines < /tmp/received) -ge 1800",
    ),
    (
        "journal__has_fields",
        "journalctl --unit=atp --output=json | grep '\"F_INTERFACE\":\"v0\"' > /dev/null",
    ),
    (
        "metrics__are_read_by_prometheus",
        "cd /usr/share/doc/atp/monitoring
        promtool check rules alerts.yml
        promtool test rules alerts-test.yml
        echo 'rule_files: [/usr/share/doc/atp/monitoring/alerts.yml]' > /etc/prometheus/prometheus.yml
        echo 'scrape_configs: [{job_name: atp, scrape_interval: 1s, static_configs: [{targets: [\"127.0.0.1:9747\"]}]}]' \
            >> /etc/prometheus/prometheus.yml
        promtool check config /etc/prometheus/prometheus.yml
        systemctl restart prometheus
        ask='promtool query instant http://127.0.0.1:9090'
        for try in $(seq 30); do
            if $ask 'up{job=\"atp\"} == 1' 2> /dev/null | grep .; then break; fi
            sleep 1
        done
        $ask 'atp_datapath_events_total{event=\"paced\"} > 1800' | grep .
        $ask 'atp_daemon_interfaces{state=\"tc\"} == 1' | grep .
        sed --quiet 's/^ *\"expr\": \"\\(.*\\)\",$/\\1/p' grafana.json \
            | sed 's/\\\\\"/\"/g; s/\\$__rate_interval/1m/g; s/\\$instance/.*/g' > /tmp/expressions
        test $(wc --lines < /tmp/expressions) -ge 12
        while read -r expression; do $ask \"$expression\" > /dev/null; done < /tmp/expressions
        ip netns exec peer atp-user recv 10.0.0.2:4748 --out /tmp/received-2 &
        (seq 100; sleep 10) | atp-user send 10.0.0.2:4748 --msr 0.5 --ordered &
        for try in $(seq 9); do
            if $ask 'count by (job_id, group) (atp_group_lanes)' | grep job_id=; then break; fi
            sleep 1
        done
        $ask 'count by (job_id, group) (atp_group_lanes)' | grep job_id=
        wait
        systemctl stop prometheus",
    ),
    (
        "watchdog__is_kept_quiet",
        "sleep 12
        test $(systemctl show --property=NRestarts --value atp) = 0",
    ),
    (
        "crash__is_repaired",
        "killed=$(systemctl show --property=MainPID --value atp)
        kill -KILL $killed
        for try in $(seq 30); do
            running=$(systemctl show --property=MainPID --value atp)
            if systemctl is-active atp.service && test $running != $killed; then break; fi
            sleep 1
        done
        test $(systemctl is-active atp.service) = active
        test $running != $killed
        atp-user job list",
    ),
    (
        "stop__is_left_to_systemd",
        "(atp-user stop 2>&1 || true) | grep 'systemctl stop'
        systemctl stop atp.socket atp.service
        test $(systemctl show --property=Result --value atp) = success
        ! tc qdisc show dev v0 | grep htb",
    ),
    (
        "purge__leaves_nothing",
        "dpkg --purge atp
        test ! -e /etc/default/atp -a ! -e /run/atp/atp.sock -a ! -e /usr/bin/atp-user
        ! systemctl cat atp.service",
    ),
];
