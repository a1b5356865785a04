use super::*;
use nix::poll::{PollFd, PollFlags, poll};

fn shared(rate_bytes_per_s: u64) -> Shared {
    let limits = Limits { buffer_bytes: 1 << 22, buffer_messages: 1 << 16 };
    let shared = Shared::new(limits, std::iter::once((0, u32::MAX))).unwrap();
    shared.set_progress(Progress { rate_bytes_per_s, ..Progress::default() });
    shared
}

/// Accepts messages, and waits for room.
fn put(
    shared: &Shared,
    group: u8,
    messages: impl IntoIterator<Item = Data>,
) -> Result<Range<u32>, PutError> {
    shared.put(group, &mut messages.into_iter().peekable(), true, &mut BufferPool::default())
}

/// Accepts a message if there is room.
fn try_put(shared: &Shared, message: &[u8]) -> Result<Range<u32>, PutError> {
    let mut messages = std::iter::once(Data::Shared(message.into())).peekable();
    let accepted = shared.put(0, &mut messages, false, &mut BufferPool::default());
    assert_eq!(messages.next().is_none(), matches!(&accepted, Ok(ids) if !ids.is_empty()));
    accepted
}

/// The number of messages that are accepted until the next would have to wait.
fn accepted(shared: &Shared, is_copy: bool) -> u32 {
    let (mut pool, bytes) = (BufferPool::default(), [7; 1 << 10]);
    let request = RoomRequest { bytes: 1 << 10, is_copy };
    let mut number = 0;
    while shared.has_room(&shared.lock(), request) {
        let data = match is_copy {
            true => Data::Copied(pool.copy(&bytes)),
            false => Data::Shared(bytes.into()),
        };
        put(shared, 0, [data]).unwrap();
        number += 1;
    }
    number
}

#[test]
fn put__limits_waiting_copies_to_the_cache_on_fast_lanes_only() {
    const GIGABYTE_PER_S: u64 = 1_000_000_000;
    assert_eq!(accepted(&shared(GIGABYTE_PER_S / 10), true), 1 << 12);
    assert_eq!(accepted(&shared(GIGABYTE_PER_S), false), 1 << 12);
    let fast = shared(GIGABYTE_PER_S);
    let ahead = (AHEAD_BYTES_MAX >> 10) as u32;
    assert_eq!(accepted(&fast, true), ahead + 1);
    // The application is woken when half of the copies were sent, and then there is room.
    let mut messages = Vec::new();
    let mut exchange = |untried| {
        messages.clear();
        fast.exchange(&mut messages, Released::default(), untried, &mut BufferPool::default());
        let request = RoomRequest { bytes: 1 << 10, is_copy: true };
        fast.is_worth_waking(&fast.lock(), request)
    };
    exchange(0);
    assert!(!exchange(ahead / 2 + 1));
    assert!(exchange(ahead / 2));
    assert_eq!(accepted(&fast, true), ahead / 2 + 1);
}

#[test]
fn put__messages_up_to_the_first_that_is_refused() {
    let limits = Limits { buffer_bytes: 1 << 22, buffer_messages: 1 << 16 };
    let shared = Shared::new(limits, std::iter::once((0, 10))).unwrap();
    let messages = |number| std::iter::repeat_with(|| Data::Shared([7; 9].into())).take(number);
    assert_eq!(put(&shared, 0, messages(0)).unwrap(), 0..0);
    assert_eq!(put(&shared, 0, messages(8)).unwrap(), 0..8);
    assert!(matches!(put(&shared, 1, messages(1)), Err(PutError::NoGroup)));
    assert!(matches!(put(&shared, 0, messages(3)), Err(PutError::TooMany(10))));
    let mut taken = Vec::new();
    shared.exchange(&mut taken, Released::default(), 0, &mut BufferPool::default());
    assert_eq!(taken.len(), 10);
}

/// A look for the job's end must not hide that there is room.
#[test]
fn try_outcome__leaves_the_signal_set_while_a_message_would_fit() {
    let limits = Limits { buffer_bytes: 1 << 22, buffer_messages: 1 };
    let shared = Shared::new(limits, std::iter::once((0, u32::MAX))).unwrap();
    let put = || try_put(&shared, &[7; 9]);
    let is_readable = || is_readable(&shared);
    assert!(is_readable());
    assert_eq!(put().unwrap(), 0..1);
    assert!(put().unwrap().is_empty() && !is_readable());
    let released = Released { messages: 1, bytes: 9 };
    shared.exchange(&mut Vec::new(), released, 0, &mut BufferPool::default());
    assert!(is_readable());
    assert!(shared.try_outcome().is_none() && is_readable());
    assert_eq!(put().unwrap(), 1..2);
    assert!(put().unwrap().is_empty() && !is_readable());
    shared.command(Command::Finish);
    assert!(matches!(put(), Err(PutError::Ended)));
}

/// Several tasks may wait for the end of one job, and one of them takes it.
#[test]
fn try_outcome__leaves_the_signal_set_after_the_end() {
    let limits = Limits { buffer_bytes: 1_000, buffer_messages: 1 };
    let shared = Shared::new(limits, std::iter::once((0, 1))).unwrap();
    let is_readable = || is_readable(&shared);
    assert!(is_readable() && shared.try_outcome().is_none() && !is_readable());
    shared.set_thread_gone();
    for _ in 0..2 {
        assert!(matches!(shared.try_outcome(), Some(None)) && is_readable());
    }
}

/// A short message that finds room must not make a longer one wait forever.
#[test]
fn try_put__of_a_short_message_keeps_the_request_of_a_long_one() {
    let limits = Limits { buffer_bytes: 1_000, buffer_messages: 100 };
    let shared = Shared::new(limits, std::iter::once((0, u32::MAX))).unwrap();
    let put = |bytes| !try_put(&shared, &vec![7; bytes]).unwrap().is_empty();
    let is_readable = || is_readable(&shared);
    assert!(is_readable() && put(900) && !put(800) && put(50) && !is_readable());
    let released = Released { messages: 1, bytes: 900 };
    shared.exchange(&mut Vec::new(), released, 0, &mut BufferPool::default());
    assert!(is_readable() && put(800));
    assert!(put(10) && !is_readable(), "nobody waits any more");
}

#[test]
fn put__messages_that_wait_for_room_wake_the_thread_before() {
    let limits = Limits { buffer_bytes: 1 << 22, buffer_messages: 4 };
    let shared = Shared::new(limits, std::iter::once((0, u32::MAX))).unwrap();
    let messages = std::iter::repeat_with(|| Data::Shared([7; 9].into())).take(20);
    std::thread::scope(|scope| {
        let putting = scope.spawn(|| put(&shared, 0, messages));
        let (mut taken, mut number, mut released) = (Vec::new(), 0, Released::default());
        while number < 20 {
            shared.exchange(&mut taken, released, 0, &mut BufferPool::default());
            assert!(taken.len() <= 4);
            number += taken.len();
            let messages = taken.drain(..).len() as u32;
            released = Released { messages, bytes: 9 * u64::from(messages) };
            if messages == 0 && shared.prepare_to_sleep() {
                let mut wake = [PollFd::new(shared.wake(), PollFlags::POLLIN)];
                if poll(&mut wake, 10_000u16) != Ok(1) {
                    shared.set_thread_gone();
                    break;
                }
                shared.awake(true);
            }
        }
        assert_eq!(putting.join().unwrap().unwrap(), 0..20);
    });
}

/// Calls that were given up must not wake the application without end.
#[test]
fn forget_waits__leaves_the_signal_to_calls_that_wait() {
    let limits = Limits { buffer_bytes: 1 << 22, buffer_messages: 1 };
    let shared = Shared::new(limits, std::iter::once((0, u32::MAX))).unwrap();
    let put = || !try_put(&shared, &[7; 9]).unwrap().is_empty();
    let report = |window| WindowReport { window, complete: true, groups: vec![] };
    assert!(is_readable(&shared) && put());
    shared.command(Command::FinishWindow);
    shared.begin_window(vec![]);
    assert!(!put(), "the buffer is full");
    shared.command(Command::FinishWindow);
    assert!(!put() && !shared.can_begin_window() && !is_readable(&shared));
    // Room, and an end of a window: both calls may succeed, and a look for a window hides it not.
    let released = Released { messages: 1, bytes: 9 };
    shared.exchange(&mut Vec::new(), released, 0, &mut BufferPool::default());
    shared.set_window_outcome(report(0));
    assert!(matches!(shared.try_window_outcome(), Some(Some(_))));
    assert!(shared.try_window_outcome().is_none() && is_readable(&shared));
    shared.forget_waits();
    assert!(is_readable(&shared), "a call of another task tries again");
    assert!(shared.try_window_outcome().is_none() && !is_readable(&shared));
    shared.set_window_outcome(report(1));
    assert!(is_readable(&shared) && matches!(shared.try_window_outcome(), Some(Some(_))));
}

fn is_readable(shared: &Shared) -> bool {
    let mut fds = [PollFd::new(shared.changed_fd().unwrap(), PollFlags::POLLIN)];
    poll(&mut fds, 0u8) == Ok(1)
}
