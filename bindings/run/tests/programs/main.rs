//! Unmodified programs under `atp-run`: C programs, and a public statsd client and server.

mod bypass;
mod calls;
mod children;
mod datagrams;
mod descriptors;
mod endings;
mod exits;
mod relay;
mod replies;
mod senders;
mod statsd;
mod strangers;
mod streams;
mod tools;
#[path = "../../../tests/trials.rs"]
mod trials;

use libtest_mimic::Arguments;
use statsd::{TCP, UDP};
use std::process::ExitCode;
use trials::{Test, missing, trial};

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let missing = |program: &str| missing(program, program);
    let cc = missing("cc");
    let public = missing("node").or(missing("npm")).or(missing("python3"));
    let public = public.or_else(|| {
        let error = statsd::packages().as_ref().err()?;
        Some(format!("needs registries: {}", error.lines().next().unwrap_or_default()))
    });
    let python = cc.clone().or(missing("python3"));
    let tools = cc.clone().or(missing("nm"));
    // SAFETY: it has no arguments and always succeeds.
    let is_root = unsafe { libc::geteuid() } == 0;
    let root = cc.clone().or((!is_root).then(|| "needs root".to_owned()));
    let hosts = root.clone().or(missing("ip")).or(missing("ethtool"));
    let tests: [(&str, Test, &Option<String>); 64] = [
        ("calls__do_as_without_the_library", calls::do_as_without, &cc),
        ("calls__that_are_replaced_have_a_case", calls::have_cases, &tools),
        ("calls__look_nothing_up_after_the_start", calls::are_looked_up, &tools),
        ("children__have_nothing_of_the_library", children::have_nothing, &cc),
        ("children__have_nothing_that_was_being_made", children::have_nothing_unnoted, &cc),
        ("replies__reach_a_client_under_both", || replies::reach(true, true), &cc),
        ("replies__reach_a_client_alone", || replies::reach(false, true), &cc),
        ("replies__reach_a_client_of_a_server_alone", || replies::reach(true, false), &cc),
        ("replies__come_through_a_router_that_translates", replies::through_translation, &cc),
        ("replies__to_strangers_are_none", replies::to_strangers, &cc),
        ("strangers__make_no_destinations", strangers::make_no_destinations, &hosts),
        ("strangers__leave_few_threads", strangers::leave_few_threads, &hosts),
        ("strangers__leave_descriptors", strangers::leave_descriptors, &hosts),
        ("strangers__insert_no_frame", strangers::insert_no_frame, &hosts),
        ("strangers__hold_up_no_other_connection", strangers::hold_up_no_other, &cc),
        ("strangers__leave_senders", senders::leave_senders, &hosts),
        ("strangers__stop_no_datagrams", senders::stop_no_datagrams, &hosts),
        ("strangers__speak_for_no_port", senders::speak_for_no_port, &hosts),
        ("datagrams__of_reserved_ports_are_plain", senders::have_reserved_ports, &hosts),
        ("frames__of_another_version_stay_tcp", strangers::of_another_version, &cc),
        ("datagrams__of_a_lost_receiver_are_sent_plainly", datagrams::of_a_lost_receiver, &cc),
        ("descriptors__end_the_receiver_with_the_last", descriptors::end_the_receiver, &cc),
        ("calls_around_libc__are_reported_once", bypass::is_reported, &cc),
        ("datagrams__are_messages_between_both_ends", datagrams::under_both, &cc),
        ("datagrams__stay_datagrams_without_the_other_end", datagrams::under_one, &cc),
        ("frames__are_messages_between_both_ends", streams::under_both, &cc),
        ("frames__of_the_least_rate_are_whole", streams::of_the_least_rate, &cc),
        ("frames__sent_before_the_exit_arrive", streams::before_exit, &cc),
        ("frames__unread_hold_up_no_exit", streams::unread, &cc),
        ("frames__wait_for_a_program_that_pauses", streams::paused, &cc),
        ("frames__without_a_pace_are_reset", streams::without_pace, &cc),
        ("frames__wait_for_it_after_the_client_has_ended", streams::paused_at_the_end, &cc),
        ("frames__to_a_successor_are_not_taken", streams::to_successor, &cc),
        ("replies__before_the_exit_arrive", streams::replied_before_exit, &cc),
        ("replies__reach_a_client_that_waits", exits::to_a_client_that_waits, &cc),
        ("replies__reach_a_client_that_ends_later", exits::to_a_client_that_ends, &cc),
        ("frames__stay_tcp_without_the_other_end", streams::under_one, &cc),
        ("frames__of_another_framing_go_on_over_tcp", streams::of_another_framing, &cc),
        ("frames__under_two_framings_stay_tcp", streams::of_two_framings, &cc),
        ("endings__are_as_expected_without_the_library", endings::without_the_library, &cc),
        ("endings__of_clients_come_after_all_bytes", endings::of_clients, &cc),
        ("endings__of_clients_with_children_and_threads", endings::of_clients_with_others, &cc),
        ("endings__of_servers_come_after_all_bytes", endings::of_servers, &cc),
        ("endings__of_servers_with_children_and_threads", endings::of_servers_with_others, &cc),
        ("endings__that_are_resets_are_shown", endings::that_are_resets, &cc),
        ("endings__that_are_cut_off_miss_nothing", endings::that_are_cut_off, &cc),
        ("endings__of_processes_of_two_users", endings::of_other_users, &root),
        ("endings__of_processes_that_sent_their_socket", endings::of_received, &cc),
        ("endings__of_processes_that_had_children", endings::of_former_parents, &root),
        ("endings__of_last_threads", endings::of_last_threads, &cc),
        ("endings__in_the_allocator_are_no_hang", endings::in_the_allocator, &cc),
        ("endings__of_many_connections", endings::of_many, &cc),
        ("endings__beside_a_full_connection", endings::beside_a_full_one, &cc),
        ("endings__of_a_parent_are_shown_to_its_child", endings::of_a_parent, &cc),
        ("endings__of_a_child_are_none_of_its_parent", endings::of_a_child, &cc),
        ("endings__of_one_way_are_shown_to_a_writer", endings::of_one_way, &cc),
        ("endings__of_python_programs", endings::of_python, &python),
        ("endings__wait_for_no_dead_peer", endings::to_a_dead_peer, &cc),
        ("statsd__counts_under_both", || statsd::counts(UDP, true, true), &public),
        ("statsd__counts_with_the_client_alone", || statsd::counts(UDP, false, true), &public),
        ("statsd__counts_with_the_server_alone", || statsd::counts(UDP, true, false), &public),
        ("statsd__counts_lines_under_both", || statsd::counts(TCP, true, true), &public),
        (
            "statsd__counts_lines_with_the_client_alone",
            || statsd::counts(TCP, false, true),
            &public,
        ),
        (
            "statsd__counts_lines_with_the_server_alone",
            || statsd::counts(TCP, true, false),
            &public,
        ),
    ];
    let trials = tests.map(|(name, test, missing)| trial(name, test, missing, &arguments));
    libtest_mimic::run(&arguments, trials.into()).exit_code()
}
