//! The server over real sockets.

use super::*;
use std::{
    collections::HashSet,
    io::{Read, Write},
    net::TcpStream,
};

/// An answer that hasn't come by then never will.
const LIMIT: Duration = Duration::from_secs(60);

fn server(times: Times) -> Server {
    let render = |Scrapes { answered, evicted }| {
        format!("scrapes_total {answered}\nevicted_total {evicted}\n# EOF\n")
    };
    let find_peer = |remote: SocketAddr, _| Peer::host(remote.ip());
    let address = "127.0.0.1:0".parse().unwrap();
    Server::start_with(address, Box::new(find_peer), Box::new(render), times).unwrap()
}

fn client(server: &Server, sends: &str) -> TcpStream {
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    stream.write_all(sends.as_bytes()).unwrap();
    stream
}

/// The head and the body of the answer to a request.
fn ask(server: &Server, method: &str, path: &str) -> (String, String) {
    let head = format!("{method} {path} HTTP/1.1\r\nHost: atp\r\nConnection: close\r\n\r\n");
    let mut answer = String::new();
    client(server, &head).read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.to_lowercase(), body.to_owned())
}

#[test]
fn answer__head_is_get_without_its_body() {
    let server = server(TIMES);
    for (path, status) in [("/metrics", "http/1.1 200"), ("/other", "http/1.1 404")] {
        let (head, none) = ask(&server, "HEAD", path);
        let (same, body) = ask(&server, "GET", path);
        assert!(head.starts_with(status) && none.is_empty(), "{head}\n{none}");
        assert!(head.contains(&format!("content-length: {}", body.len())), "{head}");
        let lines = |head: &str| {
            let dated = |line: &&str| !line.starts_with("date:");
            head.lines().filter(dated).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(lines(&head), lines(&same));
    }
    // HEAD is no scrape.
    thread::sleep(page::AGE_MAX);
    let (_, body) = ask(&server, "GET", "/metrics");
    assert!(body.contains("scrapes_total 1\n"), "{body}");
}

/// RFC 9110, section 15.5.6.
#[test]
fn answer__other_methods_name_those_that_are_allowed() {
    let server = server(TIMES);
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "PATCH", "BREW"] {
        let (head, body) = ask(&server, method, "/metrics");
        assert!(head.starts_with("http/1.1 405 "), "{method}: {head}");
        assert!(head.lines().any(|line| line == "allow: get, head"), "{method}: {head}");
        assert_eq!(body, "use GET or HEAD\n");
    }
}

/// Clients that never finish a request leave their places, though nothing else ends them.
#[test]
fn serve__idle_clients_do_not_blind_the_monitor() {
    assert_eq!(TIMES.head, Duration::from_secs(1));
    let server = server(Times { connection: Duration::from_secs(3_600), ..TIMES });
    for begun in ["GET /metrics HTTP/1.1\r\nHost: a", "GET", ""] {
        let mut idle: Vec<_> = (0..40).map(|_| client(&server, begun)).collect();
        let (head, body) = ask(&server, "GET", "/metrics");
        assert!(head.starts_with("http/1.1 200") && body.ends_with("# EOF\n"), "{head}");
        assert!(body.contains("evicted_total 0\n"), "{body}");
        for client in &mut idle {
            // Closed, with or without an error.
            client.read_to_end(&mut Vec::new()).ok();
        }
    }
}

/// The oldest connection that waits loses its place first.
#[test]
fn serve__more_clients_than_places() {
    let forever = Duration::from_secs(3_600);
    let server = server(Times { head: forever, connection: forever });
    let mut idle: Vec<_> = (0..places::PLACES).map(|_| client(&server, "GET")).collect();
    thread::sleep(places::YOUTH);
    idle.extend((0..9).map(|_| client(&server, "GET")));
    for client in &mut idle[..9] {
        client.read_to_end(&mut Vec::new()).ok();
    }
    let (head, body) = ask(&server, "GET", "/metrics");
    assert!(head.starts_with("http/1.1 200"), "{head}");
    let evicted = |count| body.contains(&format!("evicted_total {count}\n"));
    assert!(evicted(9) || evicted(10), "{body}");
    // The last one still has its place.
    let mut last = idle.pop().unwrap();
    last.write_all(b" /metrics HTTP/1.1\r\nHost: atp\r\n\r\n").unwrap();
    let mut answer = String::new();
    last.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

/// Each page that is rendered anew has another count of scrapes.
#[test]
fn answer__is_rendered_twice_a_second_whatever_the_requests() {
    let (server, begin) = (server(TIMES), Instant::now());
    let pages: HashSet<_> = (0..500).map(|_| ask(&server, "GET", "/metrics").1).collect();
    let most = 1 + begin.elapsed().div_duration_f64(page::AGE_MAX) as usize;
    assert!(pages.len() <= most, "{} pages in the time of {most}", pages.len());
}
