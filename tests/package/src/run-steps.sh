#!/bin/bash
# Runs the steps of the operator's guide in order, as a user who may use sudo. The marks tell the
# host of the machine which step begins, succeeds and fails. Stops at the first failure.
#
# Each step is a file, whose first line is its name. The file's name ends with the kinds of its run:
# on-peer, in-background, on-terminal.
# A step's own shell has the same options, and ends at the first failure.
set -uo pipefail

# Runs a command on the peer: in its network namespace, without a view of this host's daemon.
on_peer() {
    sudo ip netns exec peer sh -c 'test ! -d /run/atp || mount -t tmpfs none /run/atp
        exec sudo --user="$SUDO_USER" --chdir="$0" "$@"' "$PWD" "$@"
}
# Waits until a command succeeds, for half a minute.
soon() {
    for try in $(seq 30); do
        if eval "$1"; then return; fi
        sleep 1
    done
    return 1
}
# Fails if a command succeeds. `!` alone doesn't end a script.
not() {
    if eval "$1"; then return 1; fi
}
export -f on_peer soon not

run() {
    shell="bash -euo pipefail -x $1"
    case $1 in
        *.on-peer*) on_peer $shell ;;
        *.on-terminal*)
            (sleep 5; printf q) | script --quiet --return --command "$shell" /dev/null ;;
        *) $shell ;;
    esac
}

for step in /srv/steps/*; do
    name=$(sed -n '1s/^# //p' "$step")
    echo "== begin $name"
    case $step in
        *.in-background*)
            output=/tmp/background-$(basename "$step")
            (run "$step" > "$output" 2>&1; echo "ended with $?" >> "$output") < /dev/null &
            status=0 ;;
        *)
            # Through a pipe: the serial port is no terminal that pagers and colors should find.
            run "$step" < /dev/null 2>&1 | cat
            status=$? ;;
    esac
    if test $status != 0; then
        sudo systemctl status --lines=0 atp.socket atp.service 2>&1 | cat
        sudo journalctl --lines=30 --unit=atp | cat
        sudo dmesg | tail -n 20
        tail -n 20 /tmp/background-* /dev/null
        printf '\n== failed %s\n' "$name"
        exit
    fi
    printf '\n== ok %s\n' "$name"
done
echo "== end"
