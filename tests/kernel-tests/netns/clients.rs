//! Tests wrong, numerous and hostile clients of the control socket: the daemon refuses and
//! continues.

use anyhow::{Context, Result, ensure};
use approxlib::control::{
    Client, ClientError, GroupOpen, JobInfo, KnownPath, PROTOCOL, RefusalKind, Request,
};
use nix::sys::{
    resource::{Resource, getrlimit, setrlimit},
    signal::Signal,
    socket::{
        AddressFamily, ControlMessage, MsgFlags, SockFlag, SockType, UnixAddr, connect, recv, send,
        sendmsg, setsockopt, socket, sockopt,
    },
};
use std::{
    fs,
    io::{IoSlice, Write},
    net::{SocketAddr, TcpListener, TcpStream, UdpSocket},
    os::fd::{AsFd, AsRawFd, OwnedFd},
    panic::resume_unwind,
    process::Command,
    ptr,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};
use testbed::{DEVICE, Daemon, Family, Load, PORT, Pair, Process, Transfer, one_group, wait_for};

crate::trials! {
    clients__nonsense_is_refused,
    clients__many_at_once,
    clients__wrong_descriptors_are_refused,
    clients__port_can_be_registered_once,
    clients__port_is_free_once_its_client_has_ended,
    clients__many_flows_come_and_go,
    clients__more_lanes_than_one_reply_holds,
    clients__more_connections_than_descriptors,
    clients__slow_descriptor_delays_no_other_client,
    clients__slow_descriptor_that_is_never_read,
    clients__socket_of_another_network_is_refused,
    clients__path_of_an_earlier_flow_is_known,
    clients__exact_lane_with_a_first_window_begins_at_rmax,
    clients__job_lasts_as_long_as_its_last_sender,
    clients__snapshot_names_sockets_and_processes,
    clients__snapshot_is_read_without_the_daemon,
    clients__page_is_current_without_lanes,
    clients__screen_ends_with_its_terminal,
}

const HALF: u32 = 500_000_000;

fn clients__nonsense_is_refused() -> Result<()> {
    let pair = Pair::new()?;
    let a = pair.a.daemon(&[])?;
    for nonsense in [
        &b"\0"[..],
        b"{}",
        b"[1, 2",
        b"{\"request\":\"stats\"}",
        b"{\"request\":\"hello\",\"protocol\":99}",
        b"{\"request\":\"hello\",\"protocol\":2,\"more\":true}",
        &[b'['; 100_000],
        &[0xff; 150_000],
    ] {
        let client = raw_client(&a)?;
        send(client.as_raw_fd(), nonsense, MsgFlags::MSG_NOSIGNAL)?;
        let mut reply = vec![0; 4096];
        let len = recv(client.as_raw_fd(), &mut reply, MsgFlags::empty())?;
        let reply = String::from_utf8_lossy(&reply[..len]);
        ensure!(
            len == 0 || reply.contains("refused"),
            "{reply} to {:?}",
            &nonsense[..20.min(nonsense.len())]
        );
    }
    expect_idle(&a)
}

/// More clients than any real host has, all at once and all silent.
fn clients__many_at_once() -> Result<()> {
    let pair = Pair::new()?;
    let a = pair.a.daemon(&[])?;
    let silent: Vec<_> = (0..300).map(|_| raw_client(&a)).collect::<Result<_>>()?;
    a.stats().context("with 300 silent clients")?;
    drop(silent);
    expect_idle(&a)
}

fn clients__wrong_descriptors_are_refused() -> Result<()> {
    let pair = Pair::new()?;
    let a = pair.a.daemon(&[])?;
    let client = Client::connect(a.socket())?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let unconnected = sender_socket(&pair, None)?;
    let file = tempfile::tempfile()?;
    for wrong in [listener.as_fd(), unconnected.as_fd(), file.as_fd()] {
        let granted = client.sender_open(None, &one_group(HALF, 1), wrong);
        ensure!(granted.is_err(), "a flow was granted for {wrong:?}");
    }
    for wrong in [listener.as_fd(), file.as_fd()] {
        ensure!(client.receiver_open(wrong).is_err(), "a receiver was granted for {wrong:?}");
    }
    let right = sender_socket(&pair, Some(pair.b.endpoint(Family::V4, PORT)))?;
    ensure!(
        client.sender_open(None, &one_group(HALF + HALF + 1, 1), right.as_fd()).is_err(),
        "MSR above 1"
    );
    // The connection still accepts valid requests.
    client.sender_open(None, &one_group(HALF, 1), right.as_fd())?;
    drop(client);
    expect_idle(&a)
}

fn clients__port_can_be_registered_once() -> Result<()> {
    let pair = Pair::new()?;
    let a = pair.a.daemon(&[])?;
    let (first, second) = (Client::connect(a.socket())?, Client::connect(a.socket())?);
    let socket = sender_socket(&pair, Some(pair.b.endpoint(Family::V4, PORT)))?;
    first.sender_open(None, &one_group(HALF, 1), socket.as_fd())?;
    let again = second.sender_open(None, &one_group(HALF, 1), socket.as_fd());
    ensure!(again.is_err_and(|error| error.to_string().contains("registered")), "a second time");
    ensure!(second.receiver_open(socket.as_fd()).is_err(), "a sender's port as a receiver's");
    ensure!(a.stats()?.lanes.len() == 1, "the refused request left a lane");
    drop((first, second));
    expect_idle(&a)
}

/// A program that starts after another one's end gets its port, however busy the daemon is.
fn clients__port_is_free_once_its_client_has_ended() -> Result<()> {
    let pair = Pair::new()?;
    let a = pair.a.daemon(&[])?;
    let socket = sender_socket(&pair, Some(pair.b.endpoint(Family::V4, PORT)))?;
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        // Children have copies of all descriptors before they run their programs.
        let children = scope.spawn(|| -> Result<()> {
            while !is_over.load(Ordering::Relaxed) {
                Command::new("true").status()?;
            }
            Ok(())
        });
        let take_over = |open: &dyn Fn(&Client) -> Result<()>| -> Result<()> {
            let mut holder = Client::connect(a.socket())?;
            open(&holder)?;
            for _ in 0..100 {
                let next = Client::connect(a.socket())?;
                drop(std::mem::replace(&mut holder, next));
                open(&holder)?;
            }
            Ok(())
        };
        let receive = |client: &Client| Ok(client.receiver_open(socket.as_fd()).map(drop)?);
        // The job ends with its last flow, and begins anew.
        let groups = one_group(HALF, 1);
        let send =
            |client: &Client| Ok(client.sender_open(Some(7), &groups, socket.as_fd()).map(drop)?);
        let outcome = take_over(&receive).and_then(|()| take_over(&send));
        is_over.store(true, Ordering::Relaxed);
        children.join().unwrap_or_else(|panic| resume_unwind(panic))?;
        outcome
    })?;
    expect_idle(&a)
}

/// A flow begins with the RTT that the user's last flow to the host measured.
fn clients__path_of_an_earlier_flow_is_known() -> Result<()> {
    let pair = Pair::new()?;
    let (a, b) = (pair.a.daemon(&[])?, pair.b.daemon(&[])?);
    let path_to = |family| -> Result<KnownPath> {
        let socket = sender_socket(&pair, Some(pair.b.endpoint(family, PORT)))?;
        let client = Client::connect(a.socket())?;
        Ok(client.sender_open(None, &one_group(HALF, 1), socket.as_fd())?.0.path)
    };
    let before = path_to(Family::V4)?;
    ensure!(before.rtt_smoothed_ns == 0 && before.rate_max_bytes_per_s > 0, "{before:?}");
    let (family, load, msr) = (Family::V4, Load::lines(500, 200), 0.8);
    let (from, to) = (&pair.a, &pair.b);
    Transfer { from, from_daemon: &a, to, to_daemon: &b, family, load, msr }.run()?;
    wait_for("the flow to close", || Ok(a.stats()?.lanes.is_empty().then_some(())))?;
    let (known, other) = (path_to(Family::V4)?, path_to(Family::V6)?);
    let longest_ns = Duration::from_secs(2).as_nanos() as u64;
    ensure!((1..longest_ns).contains(&known.rtt_smoothed_ns), "{known:?}");
    ensure!((1..=longest_ns).contains(&known.rtt_min_ns), "{known:?}");
    ensure!(other.rtt_smoothed_ns == 0, "another address: {other:?}");
    Ok(())
}

/// An exact lane begins slowly, but not if its library limits the first window.
fn clients__exact_lane_with_a_first_window_begins_at_rmax() -> Result<()> {
    let pair = Pair::new()?;
    let a = pair.a.daemon(&["--rate-max", "1gbit"])?;
    for first_window in [false, true] {
        let socket = sender_socket(&pair, Some(pair.b.endpoint(Family::V4, PORT)))?;
        let client = Client::connect(a.socket())?;
        let group = GroupOpen { first_window, ..one_group(HALF + HALF, 100)[0] };
        client.sender_open(None, &[group], socket.as_fd())?;
        let rate_bytes_per_s = a.stats()?.lanes[0].rate_bytes_per_s;
        ensure!((rate_bytes_per_s == 125_000_000) == first_window, "{rate_bytes_per_s} bytes/s");
        drop(client);
        wait_for("the flow to close", || Ok(a.stats()?.lanes.is_empty().then_some(())))?;
    }
    Ok(())
}

/// The lanes, classes and jobs of a client end with its connection.
fn clients__many_flows_come_and_go() -> Result<()> {
    let pair = Pair::new()?;
    let a = pair.a.daemon(&[])?;
    let classes = || pair.a.namespace.run(&format!("tc class show dev {DEVICE}"));
    let before = classes()?;
    for _ in 0..2 {
        let client = Client::connect(a.socket())?;
        let to = pair.b.endpoint(Family::V6, PORT);
        let sockets: Vec<_> =
            (0..200).map(|_| sender_socket(&pair, Some(to))).collect::<Result<_>>()?;
        for socket in &sockets {
            client.sender_open(None, &one_group(HALF, 1), socket.as_fd())?;
        }
        let stats = a.stats()?;
        ensure!(stats.lanes.len() == 200, "{} lanes", stats.lanes.len());
        drop(client);
        expect_idle(&a)?;
    }
    ensure!(classes()? == before, "classes are left: {}", classes()?);
    Ok(())
}

/// One reply holds 256 lanes. Closing all at once must not delay other clients either.
fn clients__more_lanes_than_one_reply_holds() -> Result<()> {
    const CLIENTS: usize = 8;
    const LANES: usize = 1_000;
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard)?;
    let pair = Pair::new()?;
    let a = pair.a.daemon(&[])?;
    let to = pair.b.endpoint(Family::V4, PORT);
    let sockets: Vec<_> =
        (0..LANES).map(|_| sender_socket(&pair, Some(to))).collect::<Result<_>>()?;
    let open = |sockets: &[UdpSocket]| -> Result<Client> {
        let client = Client::connect(a.socket())?;
        for socket in sockets {
            client.sender_open(Some(7), &one_group(HALF, 1_000), socket.as_fd())?;
        }
        Ok(client)
    };
    let clients = thread::scope(|scope| {
        let each = sockets.chunks(LANES / CLIENTS).map(|sockets| scope.spawn(|| open(sockets)));
        let each: Vec<_> = each.collect();
        let opened = each.into_iter().map(|client| client.join());
        opened
            .map(|client| client.unwrap_or_else(|panic| resume_unwind(panic)))
            .collect::<Result<Vec<_>>>()
    })?;
    let lanes = a.stats()?.lanes;
    ensure!(lanes.len() == LANES, "{} lanes", lanes.len());
    ensure!(
        lanes.is_sorted_by(|one, next| one.lane < next.lane),
        "lanes are duplicated or unsorted"
    );
    // The numbers that the library announced before it sent anything.
    ensure!(lanes[LANES - 1].group.messages == 1_000, "{:?}", lanes[LANES - 1]);
    drop(clients);
    // Each answer meanwhile comes within the library's limit.
    expect_idle(&a)
}

/// The daemon serves its present clients, and others once it has free descriptors.
fn clients__more_connections_than_descriptors() -> Result<()> {
    let pair = Pair::new()?;
    let a = pair.a.daemon(&[])?;
    let first = Client::connect(a.socket())?;
    leave_room_for(&a, 20)?;
    // The other connections wait to be accepted.
    let silent: Vec<_> = (0..60).map(|_| raw_client(&a)).collect::<Result<_>>()?;
    thread::sleep(Duration::from_millis(300));
    first.stats().context("with no descriptor left")?;
    drop(silent);
    expect_idle(&a)
}

/// Limits the daemon to this number of further descriptors.
fn leave_room_for(daemon: &Daemon, descriptors: u64) -> Result<()> {
    let lock = fs::read_dir(daemon.state())?.next().context("the daemon has no lock")??;
    let pid: i32 = fs::read_to_string(lock.path())?.parse()?;
    let open = fs::read_dir(format!("/proc/{pid}/fd"))?.count() as u64;
    let limit = libc::rlimit { rlim_cur: open + descriptors, rlim_max: open + descriptors };
    // SAFETY: `limit` lives through the call; the old limit is not asked for.
    let set = unsafe { libc::prlimit(pid, libc::RLIMIT_NOFILE, &raw const limit, ptr::null_mut()) };
    ensure!(set == 0, "{}", std::io::Error::last_os_error());
    Ok(())
}

/// The creator of a TCP socket determines how long closing it takes.
fn clients__slow_descriptor_delays_no_other_client() -> Result<()> {
    slow_descriptor(&[])
}

/// The daemon closes the connection before it reads the descriptor, and closes both together.
fn clients__slow_descriptor_that_is_never_read() -> Result<()> {
    slow_descriptor(&[b' '; 100_000])
}

/// Sends `before` if it is not empty, then a descriptor that takes long to close. The daemon must
/// serve another client meanwhile.
fn slow_descriptor(before: &[u8]) -> Result<()> {
    // The descriptor closes when its peer does, at the end of the test.
    const LINGER: Duration = Duration::from_secs(3_600);
    let pair = Pair::new()?;
    let a = pair.a.daemon(&[])?;
    let client = raw_client(&a)?;
    // The daemon takes no descriptors before it serves the connection.
    let hello = Request::Hello { protocol: PROTOCOL, protocol_min: None };
    send(client.as_raw_fd(), &serde_json::to_vec(&hello)?, MsgFlags::MSG_NOSIGNAL)?;
    recv(client.as_raw_fd(), &mut [0; 4096], MsgFlags::empty())?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let mut stream = TcpStream::connect(listener.local_addr()?)?;
    stream.set_nonblocking(true)?;
    while stream.write(&[0; 1 << 16]).is_ok() {}
    stream.set_nonblocking(false)?;
    let linger = libc::linger { l_onoff: 1, l_linger: LINGER.as_secs() as i32 };
    setsockopt(&stream, sockopt::Linger, &linger)?;
    // The daemon must close the last copy, so it is stopped until this process has closed its own.
    a.signal(Signal::SIGSTOP)?;
    if !before.is_empty() {
        send(client.as_raw_fd(), before, MsgFlags::MSG_NOSIGNAL)?;
    }
    let fds = [stream.as_raw_fd()];
    let (text, rights) = ([IoSlice::new(b"descriptor")], [ControlMessage::ScmRights(&fds)]);
    sendmsg::<()>(client.as_raw_fd(), &text, &rights, MsgFlags::MSG_NOSIGNAL, None)?;
    drop(stream);
    a.signal(Signal::SIGCONT)?;
    // An answer, or the connection's end.
    recv(client.as_raw_fd(), &mut [0; 4096], MsgFlags::empty()).ok();
    let mut command = pair.a.atp_of_nobody()?;
    command.args(["stats", "--once", "--socket"]).arg(a.socket());
    Process::captured("nobody's stats", command)?.success()?;
    // A daemon that ends does not wait for the descriptor either.
    a.stop_by(Signal::SIGTERM)?;
    drop(listener);
    Ok(())
}

/// The owner of a network namespace chooses its addresses freely, and may change its packets on the
/// path to this host's interface.
fn clients__socket_of_another_network_is_refused() -> Result<()> {
    let pair = Pair::new()?;
    let a = pair.a.daemon(&[])?;
    let client = Client::connect(a.socket())?;
    let elsewhere = pair.b.namespace.enter(|| {
        let socket = UdpSocket::bind(pair.b.endpoint(Family::V4, 0))?;
        socket.connect(pair.a.endpoint(Family::V4, PORT))?;
        Ok(socket)
    })?;
    let refused = [
        client.sender_open(None, &one_group(HALF, 1), elsewhere.as_fd()).map(drop),
        client.receiver_open(elsewhere.as_fd()).map(drop),
    ];
    for refused in refused {
        let Err(ClientError::Refused(refusal)) = refused else {
            anyhow::bail!("a socket of another network was accepted: {refused:?}");
        };
        ensure!(refusal.kind == RefusalKind::OtherNamespace, "{refusal:?}");
    }
    expect_idle(&a)
}

/// The sender that created the job may finish first.
fn clients__job_lasts_as_long_as_its_last_sender() -> Result<()> {
    let pair = Pair::new()?;
    let a = pair.a.daemon(&[])?;
    let to = pair.b.endpoint(Family::V4, PORT);
    let sockets: Vec<_> = (0..4).map(|_| sender_socket(&pair, Some(to))).collect::<Result<_>>()?;
    let (creator, joiner) = (Client::connect(a.socket())?, Client::connect(a.socket())?);
    let (created, _) = creator.sender_open(None, &one_group(HALF, 1), sockets[0].as_fd())?;
    joiner.sender_open(Some(created.job), &one_group(HALF, 1), sockets[1].as_fd())?;
    drop(creator);
    wait_for("the creator's flow to end", || Ok((a.stats()?.lanes.len() == 1).then_some(())))?;
    let left = a.stats()?.jobs;
    ensure!(left.len() == 1 && left[0].id == created.job && left[0].flows == 1, "{left:?}");
    // Another job, and another sender that joins, do not affect it.
    let other = Client::connect(a.socket())?;
    other.sender_open(None, &one_group(HALF, 1), sockets[2].as_fd())?;
    let late = Client::connect(a.socket())?;
    let (joined, _) =
        late.sender_open(Some(created.job), &one_group(HALF, 1), sockets[3].as_fd())?;
    ensure!(joined.job == created.job, "it joined another job");
    ensure!(joined.cookie != created.cookie, "two flows have one cookie");
    drop(joiner);
    drop(late);
    wait_for("the job to end", || {
        Ok(a.stats()?.jobs.iter().all(|job| job.id != created.job).then_some(()))
    })?;
    let left = a.stats()?.jobs;
    ensure!(left.len() == 1 && left[0].flows == 1, "{left:?}");
    drop(other);
    expect_idle(&a)
}

/// Root sees whose lanes those are, from the lane's first moment to its last.
fn clients__snapshot_names_sockets_and_processes() -> Result<()> {
    let pair = Pair::new()?;
    let a = pair.a.daemon(&[])?;
    let job: JobInfo = serde_json::from_str(&a.ask("job create --name training --json")?)?;
    let mut snapshot = Client::connect(a.socket())?.snapshot()?;
    let client = Client::connect(a.socket())?;
    for family in [Family::V4, Family::V6] {
        let to = pair.b.endpoint(family, PORT);
        let socket = sender_socket(&pair, Some(to))?;
        client.sender_open(Some(job.id), &one_group(HALF, 10), socket.as_fd())?;
        // Without a wait: the reply comes after the entry.
        let lanes = snapshot.read().lanes;
        let lane = lanes.last().context("no lane")?;
        let identity = lane.identity.as_ref().context("root sees no identity")?;
        ensure!((identity.peer, identity.local) == (to, socket.local_addr()?), "{identity:?}");
        ensure!(identity.pid == std::process::id() && identity.uid == 0, "{identity:?}");
        ensure!(identity.process == fs::read_to_string("/proc/self/comm")?.trim());
        ensure!(identity.user.as_deref() == Some("root"), "{identity:?}");
        ensure!((lane.job, lane.group.messages, lane.group.msr) == (job.id, 10, 0.5), "{lane:?}");
        ensure!(lane.rate_bytes_per_s > 0 && lane.sent_bytes == Some(0), "{lane:?}");
    }
    let stats = a.stats()?;
    let named = JobInfo { flows: 2, ..job };
    ensure!(stats.jobs == [named] && stats.lanes.len() == 2, "{:?}", stats.jobs);
    ensure!(stats.interfaces.contains_key(DEVICE) && !stats.pacing.is_empty(), "{stats:?}");
    drop(client);
    wait_for("the lanes to close", || Ok(snapshot.read().lanes.is_empty().then_some(())))?;
    a.stop()?;
    ensure!(snapshot.has_ended(), "the page does not say that the daemon has ended");
    Ok(())
}

/// Any number of readers takes no time of the control loop: a stopped daemon serves them as well.
fn clients__snapshot_is_read_without_the_daemon() -> Result<()> {
    let pair = Pair::new()?;
    let a = pair.a.daemon(&[])?;
    let socket = sender_socket(&pair, Some(pair.b.endpoint(Family::V4, PORT)))?;
    let client = Client::connect(a.socket())?;
    client.sender_open(None, &one_group(HALF, 10), socket.as_fd())?;
    let open = |_| Client::connect(a.socket())?.snapshot();
    let mut snapshots = (0..100).map(open).collect::<Result<Vec<_>, ClientError>>()?;
    a.signal(Signal::SIGSTOP)?;
    let first = snapshots[0].read();
    for snapshot in &mut snapshots {
        for _ in 0..10 {
            let stats = snapshot.read();
            ensure!(stats.lanes.len() == 1 && stats.uptime_s == first.uptime_s, "{stats:?}");
        }
    }
    a.signal(Signal::SIGCONT)?;
    wait_for("the next tick", || Ok((snapshots[0].read().uptime_s > first.uptime_s).then_some(())))
}

/// Without lanes the control loop runs seldom, but a client that asks for the page never gets an
/// old one: scripts rely on the state at the time of their call.
fn clients__page_is_current_without_lanes() -> Result<()> {
    let pair = Pair::new()?;
    let a = pair.a.daemon(&[])?;
    let mut kept = Client::connect(a.socket())?.snapshot()?;
    for _ in 0..20 {
        let before = kept.read().uptime_s;
        let now = Client::connect(a.socket())?.stats()?.uptime_s;
        ensure!(now > before, "the page is of {now} s, after {before} s");
    }
    Ok(())
}

/// Waits until nothing is registered. The daemon must answer.
fn expect_idle(daemon: &Daemon) -> Result<()> {
    wait_for("the daemon to forget its clients", || {
        let stats = daemon.stats()?;
        Ok((stats.jobs.is_empty() && stats.lanes.is_empty()).then_some(()))
    })
}

fn raw_client(daemon: &Daemon) -> Result<OwnedFd> {
    let client = socket(AddressFamily::Unix, SockType::SeqPacket, SockFlag::SOCK_CLOEXEC, None)?;
    setsockopt(&client, sockopt::SndBuf, &(1 << 20))?;
    connect(client.as_raw_fd(), &UnixAddr::new(daemon.socket())?)?;
    Ok(client)
}

fn sender_socket(pair: &Pair, to: Option<SocketAddr>) -> Result<UdpSocket> {
    pair.a.namespace.enter(|| {
        let family = if to.is_some_and(|to| to.is_ipv6()) { Family::V6 } else { Family::V4 };
        let socket = UdpSocket::bind(pair.a.endpoint(family, 0))?;
        if let Some(to) = to {
            socket.connect(to)?;
        }
        Ok(socket)
    })
}

/// The screen of a terminal that was closed must not go on, and use a processor for nothing.
fn clients__screen_ends_with_its_terminal() -> Result<()> {
    let pair = Pair::new()?;
    let a = pair.a.daemon(&[])?;
    let window = nix::pty::Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
    let terminal = nix::pty::openpty(&window, None)?;
    // The screen must not hold the other end of its terminal.
    let close_on_exec = nix::fcntl::FcntlArg::F_SETFD(nix::fcntl::FdFlag::FD_CLOEXEC);
    nix::fcntl::fcntl(&terminal.master, close_on_exec)?;
    let mut command = pair.a.atp()?;
    command.args(["stats", "--socket"]).arg(a.socket()).env("TERM", "xterm");
    command.stdin(terminal.slave.try_clone()?).stdout(terminal.slave.try_clone()?);
    let mut screen = command.stderr(terminal.slave).spawn()?;
    drop(command);
    let mut master = std::fs::File::from(terminal.master);
    let drawn = std::io::Read::read(&mut master, &mut [0; 1_000])?;
    drop(master);
    let ended = wait_for("the screen to end", || Ok(screen.try_wait()?));
    if ended.is_err() {
        screen.kill()?;
        screen.wait()?;
    }
    ended?;
    ensure!(drawn > 0, "it drew nothing");
    Ok(())
}
