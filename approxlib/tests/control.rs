//! Tests of the control client against a small server: its requests, and how it handles any reply.

mod common;

use approxlib::{
    Error, Job, Receiver,
    control::{
        Client, ClientError, GroupOpen, JobInfo, JobUser, KnownPath, PROTOCOL, Refusal,
        RefusalKind, Reply, Request, SenderGrant,
    },
};
use common::{
    daemon::{Answer, TestDaemon, registered, reply, welcome},
    receive,
};
use std::{
    fs::File,
    net::UdpSocket,
    os::fd::{AsFd, OwnedFd},
    path::Path,
    sync::mpsc,
};

fn job() -> JobInfo {
    JobInfo {
        id: 7,
        name: Some("mean".into()),
        cgroup: None,
        uid: 0,
        container: None,
        ephemeral: false,
        flows: 2,
    }
}

fn null() -> OwnedFd {
    File::open("/dev/null").unwrap().into()
}

#[test]
fn client__sends_requests_and_reads_every_kind_of_reply() {
    let (sender, requests) = mpsc::channel();
    let daemon = TestDaemon::start(move |request, _| {
        let answer = match &request {
            Request::JobCreate { .. } => Reply::Job(job()),
            Request::JobList { from: 0, .. } => Reply::Jobs {
                jobs: vec![job()],
                next: Some(7),
                next_uid: Some(1000),
                next_container: Some(9),
            },
            Request::JobList { .. } => {
                Reply::Jobs { jobs: vec![job()], next: None, next_uid: None, next_container: None }
            }
            _ => Reply::Done,
        };
        sender.send(request).unwrap();
        reply(&answer)
    });
    let client = Client::connect(&daemon.socket).unwrap();
    assert_eq!((client.version(), client.pacing()), ("test", "fq"));
    assert_eq!(client.job_create(Some(7), Some("mean".into()), None).unwrap(), job());
    assert_eq!(client.job_list().unwrap().len(), 2);
    client.job_end(7, None).unwrap();
    client.job_end(7, Some(1000.into())).unwrap();
    client.job_end(7, Some(JobUser { uid: 0, container: Some(9) })).unwrap();
    client.stop().unwrap();
    let create = Request::JobCreate { id: Some(7), name: Some("mean".into()), cgroup: None };
    let jobs = [
        Request::JobList { from: 0, from_uid: None, from_container: None },
        Request::JobList { from: 7, from_uid: Some(1000), from_container: Some(9) },
    ];
    let mut expected = vec![create];
    expected.extend(jobs);
    let ended = [(None, None), (Some(1000), None), (Some(0), Some(9))];
    let end = |(uid, container)| Request::JobEnd { id: 7, uid, container };
    expected.extend(ended.map(end));
    expected.push(Request::Stop {});
    assert_eq!(requests.try_iter().collect::<Vec<_>>(), expected);
}

#[test]
fn client__ends_a_list_that_has_no_end() {
    for next_uid in [None, Some(1000)] {
        let endless =
            Reply::Jobs { jobs: vec![job()], next: Some(8), next_uid, next_container: None };
        let daemon = TestDaemon::start(move |_, _| reply(&endless));
        let error = Client::connect(&daemon.socket).unwrap().job_list().unwrap_err();
        assert!(matches!(error, ClientError::InvalidReply(_)), "{error}");
    }
}

/// A daemon of an earlier version knows no users in these requests, and refuses unknown fields.
#[test]
fn request__names_users_only_if_asked_to() {
    let earlier = [
        (
            Request::JobList { from: 0, from_uid: None, from_container: None },
            r#"{"request":"job-list","from":0}"#,
        ),
        (Request::JobEnd { id: 7, uid: None, container: None }, r#"{"request":"job-end","id":7}"#),
    ];
    for (request, text) in earlier {
        assert_eq!(serde_json::to_string(&request).unwrap(), text);
        assert_eq!(serde_json::from_str::<Request>(text).unwrap(), request);
    }
    let page = r#"{"reply":"jobs","jobs":[],"next":8}"#;
    let read =
        Reply::Jobs { jobs: Vec::new(), next: Some(8), next_uid: None, next_container: None };
    assert_eq!(serde_json::from_str::<Reply>(page).unwrap(), read);
}

#[test]
fn request__with_an_unknown_field_is_refused() {
    for request in ["job-list", "receiver-open", "snapshot", "stop"] {
        let text = format!(r#"{{"request":"{request}","from":0,"surprise":1}}"#);
        assert!(serde_json::from_str::<Request>(&text).is_err(), "{text}");
    }
    assert_eq!(serde_json::from_str::<Request>(r#"{"request":"stop"}"#).unwrap(), Request::Stop {});
}

#[test]
fn client__passes_the_socket_itself() {
    let (sender, passed) = mpsc::channel();
    let daemon = TestDaemon::start(move |_, mut fds| {
        sender.send(UdpSocket::from(fds.pop().unwrap()).local_addr().unwrap()).unwrap();
        registered(&[])
    });
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    Client::connect(&daemon.socket).unwrap().receiver_open(socket.as_fd()).unwrap();
    assert_eq!(passed.recv().unwrap(), socket.local_addr().unwrap());
}

#[test]
fn sender_open__takes_exactly_three_descriptors() {
    for count in [0, 2, 3, 4, 40] {
        let daemon = TestDaemon::start(move |_, _| {
            let grant = SenderGrant {
                job: 7,
                cookie: 9,
                ack_ring_words: 8,
                pacing: "htb".into(),
                path: KnownPath::default(),
            };
            let (bytes, _) = reply(&Reply::Sender(grant));
            (bytes, (0..count).map(|_| null()).collect())
        });
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let client = Client::connect(&daemon.socket).unwrap();
        let group =
            GroupOpen { msr_parts_per_billion: 800_000_000, messages: 10, ..GroupOpen::default() };
        let opened = client.sender_open(Some(7), &[group], socket.as_fd());
        match opened {
            Ok((grant, _)) => assert_eq!((grant.cookie, count), (9, 3)),
            Err(error) => {
                assert!(count != 3 && matches!(error, ClientError::InvalidReply(_)), "{error}");
            }
        }
    }
}

#[test]
fn client__refuses_invalid_replies() {
    let answers: [fn() -> Answer; 4] = [
        || (b"{".to_vec(), Vec::new()),
        || (br#"{"reply":"surprise"}"#.to_vec(), Vec::new()),
        || (vec![b' '; 193 * 1024], Vec::new()),
        || {
            reply(&Reply::Jobs {
                jobs: Vec::new(),
                next: None,
                next_uid: None,
                next_container: None,
            })
        },
    ];
    for answer in answers {
        let daemon = TestDaemon::start(move |_, _| answer());
        let error = Client::connect(&daemon.socket).unwrap().stop().unwrap_err();
        assert!(matches!(error, ClientError::InvalidReply(_)), "{error}");
    }
}

/// A later daemon may add fields to its replies, and kinds of refusals.
#[test]
fn client__ignores_what_later_versions_add() {
    let done = br#"{"reply":"done","surprise":1}"#;
    let daemon = TestDaemon::start(|_, _| (done.to_vec(), Vec::new()));
    Client::connect(&daemon.socket).unwrap().stop().unwrap();
    let refused = br#"{"reply":"refused","kind":"surprise","message":"no","surprise":1}"#;
    let daemon = TestDaemon::start(|_, _| (refused.to_vec(), Vec::new()));
    let error = Client::connect(&daemon.socket).unwrap().stop().unwrap_err();
    let ClientError::Refused(refusal) = error else { panic!("{error}") };
    assert_eq!((refusal.kind, &refusal.message[..]), (RefusalKind::Unknown, "no"));
}

/// The answers to a hello of daemons that share no version with this library.
fn other_versions() -> [Answer; 3] {
    let message = "the client speaks protocol versions 5 to 6, this daemon 7 to 8".to_owned();
    [
        reply(&Reply::Refused(Refusal { kind: RefusalKind::Version, message })),
        welcome(PROTOCOL + 1),
        // Before negotiation, a welcome had no version.
        (br#"{"reply":"welcome","version":"0.1.0","pacing":"fq"}"#.to_vec(), Vec::new()),
    ]
}

#[test]
fn connect__names_another_version() {
    for hello_answer in other_versions() {
        let daemon = TestDaemon::with_hello_answer(hello_answer);
        let error = Client::connect(&daemon.socket).unwrap_err();
        assert!(matches!(error, ClientError::OtherVersion { .. }), "{error}");
    }
}

/// An application keeps working when the daemon of its host is replaced by one of another version.
#[test]
fn connect__a_daemon_of_another_version_means_userspace() {
    for (hello_answer, other) in other_versions().into_iter().zip(other_versions()) {
        let (near, far) =
            (TestDaemon::with_hello_answer(hello_answer), TestDaemon::with_hello_answer(other));
        let receiver = Receiver::builder().control_socket(Some(far.socket.clone()));
        let receiver = receiver.bind("127.0.0.1:0").unwrap();
        assert_eq!(receiver.datapath(), "userspace");
        let peer = receiver.local_addr().unwrap();
        let received = receive(receiver);
        let job = Job::builder().control_socket(Some(near.socket.clone()));
        let mut job = job.connect(peer).unwrap();
        assert_eq!(job.datapath(), "userspace");
        job.send(b"one").unwrap();
        assert_eq!(job.finish().unwrap().groups[0].delivered, 1);
        assert_eq!(received.join().unwrap().messages[&0], b"one");
    }
}

#[test]
fn client__reports_a_closed_connection() {
    let daemon = TestDaemon::start(|_, _| panic!("the client must send no request"));
    let client = Client::connect(&daemon.socket).unwrap();
    daemon.hang_up();
    assert!(matches!(client.stats().unwrap_err(), ClientError::Closed));
}

#[test]
fn connect__names_the_socket_without_a_daemon() {
    let path = Path::new("/nonexistent/atp.sock");
    let text = Client::connect(path).unwrap_err().to_string();
    assert!(text.contains("/nonexistent/atp.sock") && text.contains("atp-user run"), "{text}");
    let peer = "127.0.0.1:9";
    let error = Job::builder().control_socket(Some(path.into())).connect(peer).unwrap_err();
    assert!(matches!(error, Error::Daemon(ClientError::NoDaemon { .. })), "{error}");
    let error =
        Receiver::builder().control_socket(Some(path.into())).bind("127.0.0.1:0").unwrap_err();
    assert!(matches!(error, Error::Daemon(ClientError::NoDaemon { .. })), "{error}");
}

#[test]
fn connect__passes_the_daemons_refusal_on() {
    let daemon = TestDaemon::start(|_, _| {
        let message = "job 7 is user 1000's: ask for another id".to_owned();
        reply(&Reply::Refused(Refusal { kind: RefusalKind::NotYours, message }))
    });
    let job = Job::builder().id(7).control_socket(Some(daemon.socket.clone()));
    let text = job.connect("127.0.0.1:9").unwrap_err().to_string();
    assert!(text.ends_with("job 7 is user 1000's: ask for another id"), "{text}");
}
