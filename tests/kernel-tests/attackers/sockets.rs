//! The table of attackers and sockets: for each socket that is open to others, the tests that
//! attack it. A test checks that they exist.

use crate::table::ROWS;
use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;

/// A socket, and the tests of its attackers.
pub struct Socket {
    name: &'static str,
    /// Another user of the host.
    user: Cell,
    /// A container, or a user with subordinate ids.
    tenant: Cell,
    /// Another host, from its own address and from forged ones.
    off_path: Cell,
    /// A router of the path.
    on_path: Cell,
}

/// An attacker's tests.
enum Cell {
    /// Rows of the table that begin with one of these words.
    Rows(&'static [&'static str]),
    /// Tests in other files.
    Tests(&'static [(File, &'static str)]),
    /// The reason for which there is none.
    None(&'static str),
}

/// A file of tests: its path below the repository's root, and its text.
type File = (&'static str, &'static str);

macro_rules! file {
    ($path:literal) => {
        ($path, include_str!(concat!("../../../", $path)))
    };
}

const CLOSED: File = file!("tests/kernel-tests/netns/closed_sockets.rs");
const FORGERY: File = file!("tests/kernel-tests/netns/forgery.rs");
const METRICS: File = file!("tests/kernel-tests/netns/metrics.rs");
const DOCTOR: File = file!("tests/kernel-tests/netns/doctor.rs");
const TENANTS: File = file!("tests/kernel-tests/netns/tenants.rs");
const UNPRIVILEGED: File = file!("tests/kernel-tests/netns/unprivileged.rs");
const PLACES: File = file!("atp-metrics/src/server/places.rs");
const RUN: File = file!("bindings/run/tests/programs/main.rs");
const COLLECTIVE: File = file!("integrations/pytorch/tests/test_hostile.py");
const PATHS: File = file!("integrations/pytorch/tests/test_paths.py");

const UNIX: Cell = Cell::None("a Unix socket: other hosts don't reach it");
const AS_USER: Cell = Cell::None("as a user: who sends isn't asked, but from where");
const KEY: Cell = Cell::None("only a key would end it: see the threat model");

/// All sockets.
pub const SOCKETS: [Socket; 9] = [
    Socket {
        name: "daemon: control socket",
        user: Cell::Tests(&[
            (UNPRIVILEGED, "unprivileged__may_not_stop_the_daemon"),
            (UNPRIVILEGED, "unprivileged__may_not_touch_jobs_of_others"),
            (UNPRIVILEGED, "unprivileged__takes_no_id_from_others"),
            (UNPRIVILEGED, "unprivileged__may_not_take_all_jobs"),
            (UNPRIVILEGED, "unprivileged__may_not_take_all_connections"),
            (CLOSED, "closed_sockets__other_users_send_from_their_ports"),
        ]),
        tenant: Cell::Tests(&[
            (TENANTS, "tenants__root_of_a_pid_namespace_is_not_root"),
            (TENANTS, "tenants__user_namespaces_have_the_budget_of_their_user"),
            (TENANTS, "tenants__subordinate_ids_have_the_budget_of_their_user"),
            (TENANTS, "tenants__four_owners_leave_room_for_a_fifth_and_root"),
        ]),
        off_path: UNIX,
        on_path: UNIX,
    },
    Socket {
        name: "library: a receiver's socket",
        user: Cell::Rows(&[
            "user_of_the_receiver_s_host__sends_all_kinds_for_receivers",
            "user_of_the_receiver_s_host__sends_data",
            "user_of_the_sender_s_host__sends_data",
        ]),
        tenant: Cell::Rows(&[
            "container_on_the_sender_s_host__sends_all_kinds_for_receivers",
            "container_on_the_sender_s_host__sends_data",
        ]),
        off_path: Cell::Rows(&[
            "neighbor__sends_all_kinds_for_receivers",
            "neighbor__sends_data",
            "off_path__sends_data",
            "off_path__sends_fin",
            "off_path__sends_terms",
        ]),
        on_path: Cell::Rows(&["on_path__sends_data", "on_path__sends_fin", "on_path__sends_terms"]),
    },
    Socket {
        name: "library: a sender's socket",
        user: Cell::Rows(&[
            "user_of_the_sender_s_host__sends_all_kinds_for_senders",
            "user_of_the_receiver_s_host__sends_all_kinds_for_senders",
        ]),
        tenant: Cell::Rows(&["container_on_the_sender_s_host__sends_all_kinds_for_senders"]),
        off_path: Cell::Rows(&[
            "neighbor__sends_all_kinds_for_senders",
            "off_path__sends_ack",
            "off_path__sends_receipt",
            "off_path__sends_request",
            "off_path__sends_reset",
        ]),
        on_path: Cell::Rows(&[
            "on_path__sends_ack",
            "on_path__sends_receipt",
            "on_path__sends_request",
            "on_path__sends_reset",
        ]),
    },
    Socket {
        name: "eBPF programs: a registered port",
        user: Cell::Tests(&[
            (CLOSED, "closed_sockets__another_socket_of_the_port_is_not_registered"),
            (CLOSED, "closed_sockets__held_by_another_process_is_open"),
        ]),
        tenant: AS_USER,
        off_path: Cell::Tests(&[
            (FORGERY, "forgery__acks_change_nothing"),
            (FORGERY, "forgery__garbage_at_the_receiver_is_counted"),
            (FORGERY, "forgery__strangers_replace_no_record_of_a_known_source"),
        ]),
        on_path: Cell::Rows(&["on_path__sends_ack", "on_path__sends_probe_ack"]),
    },
    Socket {
        name: "metrics: TCP port",
        user: Cell::Tests(&[
            (METRICS, "metrics__idle_connections_of_another_user"),
            (METRICS, "metrics__requests_of_another_user_byte_by_byte"),
            (METRICS, "metrics__a_user_with_many_ids"),
        ]),
        tenant: AS_USER,
        off_path: Cell::Tests(&[
            (METRICS, "metrics__a_host_with_many_addresses"),
            (PLACES, "evict_surplus__one_owner_or_network_evicts_no_other"),
        ]),
        on_path: Cell::None("reads them, and ends connections: they are plain HTTP"),
    },
    Socket {
        name: "doctor --answer: UDP port",
        user: AS_USER,
        tenant: AS_USER,
        off_path: Cell::Tests(&[(DOCTOR, "doctor__strangers_get_no_answer")]),
        on_path: KEY,
    },
    Socket {
        name: "atp-run: the TCP door",
        user: AS_USER,
        tenant: AS_USER,
        off_path: Cell::Tests(&[
            (RUN, "strangers__leave_descriptors"),
            (RUN, "strangers__insert_no_frame"),
        ]),
        on_path: KEY,
    },
    Socket {
        name: "atp-run: datagrams",
        user: Cell::Tests(&[(RUN, "datagrams__of_reserved_ports_are_plain")]),
        tenant: AS_USER,
        off_path: Cell::Tests(&[
            (RUN, "strangers__make_no_destinations"),
            (RUN, "strangers__leave_senders"),
            (RUN, "strangers__stop_no_datagrams"),
            (RUN, "strangers__speak_for_no_port"),
            (RUN, "replies__to_strangers_are_none"),
        ]),
        on_path: KEY,
    },
    Socket {
        name: "collective: a rank's inbox",
        user: Cell::Tests(&[
            (COLLECTIVE, "test_a_stranger_s_job_has_no_place"),
            (PATHS, "test_forged_ends_change_no_mean"),
        ]),
        tenant: AS_USER,
        off_path: Cell::Tests(&[
            (COLLECTIVE, "test_strangers_take_no_memory"),
            (COLLECTIVE, "test_a_stranger_that_floods_a_rank"),
        ]),
        on_path: KEY,
    },
];

/// The check of the table, which prints it.
pub fn trial() -> Trial {
    Trial::test("sockets__each_names_tests_that_exist", || Ok(check().map_err(|e| e.to_string())?))
}

fn check() -> Result<()> {
    for Socket { name, user, tenant, off_path, on_path } in &SOCKETS {
        let attackers = [
            ("another user", user),
            ("another tenant", tenant),
            ("another host", off_path),
            ("a host on the path", on_path),
        ];
        for (attacker, cell) in attackers {
            let told = told(cell).with_context(|| format!("{name}, {attacker}"))?;
            println!("{name} | {attacker} | {told}");
        }
    }
    Ok(())
}

fn told(cell: &Cell) -> Result<String> {
    match cell {
        Cell::None(reason) => Ok((*reason).to_owned()),
        Cell::Rows(beginnings) => {
            let names: Vec<_> = ROWS.iter().map(|row| row.name()).collect();
            for beginning in *beginnings {
                let exists = names.iter().any(|name| name.starts_with(beginning));
                ensure!(exists, "no row begins with {beginning}");
            }
            Ok(format!("rows {}", beginnings.join(", ")))
        }
        Cell::Tests(tests) => {
            for ((path, text), test) in *tests {
                let is_test = |line: &str| {
                    let line = line.trim_start();
                    let begins = |start: String| line.starts_with(&start);
                    ["fn ", "async fn ", "def "].iter().any(|word| begins(format!("{word}{test}(")))
                        || begins(format!("(\"{test}\","))
                };
                ensure!(text.lines().any(is_test), "{path} has no test {test}");
            }
            Ok(tests.iter().map(|(_, test)| *test).collect::<Vec<_>>().join(", "))
        }
    }
}
