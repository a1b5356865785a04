//! The server, on a thread of its own: the program's loop doesn't notice.

mod page;
mod places;

use self::{page::Page, places::Places};
use crate::peer::Peer;
use http_body_util::Full;
use hyper::{
    Method, Request, Response, StatusCode,
    body::Bytes,
    header::{ALLOW, CONTENT_TYPE, HeaderValue},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use nix::sys::socket::{Backlog, listen};
use std::{
    cell::RefCell,
    convert::Infallible,
    io,
    net::{SocketAddr, TcpListener},
    rc::Rc,
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};
use tokio::{
    net::TcpStream,
    sync::oneshot,
    task::{LocalSet, spawn_local, yield_now},
};

/// The media type of the answer.
pub const TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// The longest times of a connection. Longer ones are closed.
#[derive(Clone, Copy, Debug)]
struct Times {
    /// From its begin to the end of the request's head.
    head: Duration,
    /// The time of the whole connection, so that a client that doesn't read leaves its place.
    connection: Duration,
}

const TIMES: Times = Times { head: Duration::from_secs(1), connection: Duration::from_secs(10) };
/// The longest head of a request.
const HEAD_BYTES_MAX: usize = 16 << 10;
/// The delay after a failed accept. The missing resource, such as descriptors, needs time to
/// return.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// The scrapes before a page.
#[derive(Clone, Copy, Debug, Default)]
pub struct Scrapes {
    /// Scrapes that were answered.
    pub answered: u64,
    /// Connections that were closed to make room.
    pub evicted: u64,
}

/// The running server. Dropping it ends its thread.
pub struct Server {
    address: SocketAddr,
    /// `None` only while it is dropped.
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Finds the peer of a connection between a remote and a local address.
type FindPeer = Box<dyn FnMut(SocketAddr, SocketAddr) -> Peer + Send>;
/// Renders the page.
type Render = Box<dyn FnMut(Scrapes) -> String + Send>;

impl Server {
    /// Listens at `address` and answers GET and HEAD of `/metrics` with the text of `render`,
    /// which is called twice a second at most. `find_peer`: the peer of a connection between a
    /// remote and a local address.
    ///
    /// # Errors
    /// If the address can't be bound, or the thread can't be started.
    pub fn start(
        address: SocketAddr,
        find_peer: impl FnMut(SocketAddr, SocketAddr) -> Peer + Send + 'static,
        render: impl FnMut(Scrapes) -> String + Send + 'static,
    ) -> io::Result<Self> {
        Self::start_with(address, Box::new(find_peer), Box::new(render), TIMES)
    }

    fn start_with(
        address: SocketAddr,
        find_peer: FindPeer,
        render: Render,
        times: Times,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        // Connections that come at once must not fill the queue before the thread runs.
        listen(&listener, Backlog::MAXCONN)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (stop, stopped) = oneshot::channel();
        let thread = thread::Builder::new().name("atp-metrics".into()).spawn(move || {
            let serve = async {
                tokio::select! {
                    served = serve(listener, find_peer, render, times) => served,
                    _ = stopped => Ok(()),
                }
            };
            if let Err(error) = LocalSet::new().block_on(&runtime, serve) {
                tracing::error!(%error, "the metrics server ended");
            }
        })?;
        Ok(Self { address, stop: Some(stop), thread: Some(thread) })
    }

    /// The address with the port that was bound.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the metrics server has panicked");
        }
    }
}

/// State that all connections share.
struct Source {
    render: Render,
    page: Page,
    scrapes: Scrapes,
    places: Places,
}

type Shared = Rc<RefCell<Source>>;

async fn serve(
    listener: TcpListener,
    mut find_peer: FindPeer,
    render: Render,
    times: Times,
) -> io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let (page, scrapes, places) = (Page::default(), Scrapes::default(), Places::default());
    let source = Rc::new(RefCell::new(Source { render, page, scrapes, places }));
    loop {
        let (stream, address) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::debug!(%error, "can't accept a scrape");
                tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
                continue;
            }
        };
        if let Ok(local) = stream.local_addr() {
            let peer = find_peer(address, local);
            let places = &mut source.borrow_mut().places;
            let (source, number) = (source.clone(), places.next_number());
            let task = spawn_local(connection(stream, number, source, times));
            places.add(peer, Instant::now(), task);
        }
        // A request that is there is read before its connection can be evicted.
        yield_now().await;
        let Source { scrapes, places, .. } = &mut *source.borrow_mut();
        scrapes.evicted += u64::from(places.evict_surplus(Instant::now()));
    }
}

/// Answers one request.
async fn connection(stream: TcpStream, number: u64, source: Shared, times: Times) {
    let service = service_fn(|request| {
        source.borrow_mut().places.set_asked(number);
        let response = answer(&request, &source);
        async move { Ok::<_, Infallible>(response) }
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(times.head);
    http.keep_alive(false).max_buf_size(HEAD_BYTES_MAX);
    let served = http.serve_connection(TokioIo::new(stream), service);
    if let Ok(Err(error)) = tokio::time::timeout(times.connection, served).await {
        tracing::debug!(%error, "a scrape failed");
    }
    source.borrow_mut().places.remove(number);
}

fn answer<B>(request: &Request<B>, source: &Shared) -> Response<Full<Bytes>> {
    let plain = |status, text: &'static str| {
        let mut response = Response::new(Full::new(Bytes::from_static(text.as_bytes())));
        *response.status_mut() = status;
        response
    };
    // The server leaves out the body of an answer to HEAD.
    let is_scrape = request.method() == Method::GET;
    if !is_scrape && request.method() != Method::HEAD {
        let mut response = plain(StatusCode::METHOD_NOT_ALLOWED, "use GET or HEAD\n");
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return response;
    }
    if request.uri().path() != "/metrics" {
        return plain(StatusCode::NOT_FOUND, "the metrics are at /metrics\n");
    }
    let Source { render, page, scrapes, .. } = &mut *source.borrow_mut();
    let text = page.at(Instant::now(), || render(*scrapes));
    scrapes.answered += u64::from(is_scrape);
    let mut response = Response::new(Full::new(text));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(TYPE));
    response
}

#[cfg(test)]
mod tests;
