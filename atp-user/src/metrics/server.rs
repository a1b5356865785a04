//! Serves metrics over HTTP, on a thread of its own: the control loop doesn't notice.

use super::families;
use anyhow::{Context, Result};
use approxlib::control::Snapshot;
use http_body_util::Full;
use hyper::{
    Method, Request, Response, StatusCode,
    body::Bytes,
    header::{ALLOW, CONTENT_TYPE, HeaderValue},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::{
    cell::RefCell,
    convert::Infallible,
    net::{SocketAddr, TcpListener},
    rc::Rc,
    thread::{self, JoinHandle},
    time::Duration,
};
use tokio::{
    sync::{Semaphore, oneshot},
    task::LocalSet,
};

/// The media type of the answer.
pub const TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// The most connections at once. More of them wait.
const CONNECTIONS_MAX: usize = 16;

/// The longest times of a connection. Longer ones are closed.
#[derive(Clone, Copy, Debug)]
struct Times {
    /// From its begin, or the last answer, to the end of a request's header. Clients that wait
    /// silently take few places for this time only.
    header: Duration,
    /// The time of the whole connection, so that one that never ends leaves its place.
    connection: Duration,
}

const TIMES: Times = Times { header: Duration::from_secs(1), connection: Duration::from_secs(10) };
/// The delay after a failed accept. The missing resource, such as descriptors, needs time to
/// return.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// The running server. Dropping it ends its thread.
pub struct Server {
    address: SocketAddr,
    /// `None` only while it is dropped.
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Listens at `address` and answers GET and HEAD of `/metrics` from `snapshot`.
    ///
    /// # Errors
    /// If the address can't be bound, or the thread can't be started.
    pub fn start(address: SocketAddr, snapshot: Snapshot) -> Result<Self> {
        Self::start_with(address, snapshot, TIMES)
    }

    fn start_with(address: SocketAddr, snapshot: Snapshot, times: Times) -> Result<Self> {
        let failed = || format!("can't serve metrics at {address}: choose another --metrics");
        let listener = TcpListener::bind(address).with_context(failed)?;
        listener.set_nonblocking(true).with_context(failed)?;
        let address = listener.local_addr().with_context(failed)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .with_context(failed)?;
        let (stop, stopped) = oneshot::channel();
        let thread = thread::Builder::new().name("atp-metrics".into()).spawn(move || {
            let serve = async {
                tokio::select! {
                    served = serve(listener, snapshot, times) => served,
                    _ = stopped => Ok(()),
                }
            };
            if let Err(error) = LocalSet::new().block_on(&runtime, serve) {
                tracing::error!(%error, "the metrics server ended");
            }
        });
        let thread = Some(thread.with_context(failed)?);
        Ok(Self { address, stop: Some(stop), thread })
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

/// The snapshot, and the number of scrapes so far.
type Source = Rc<RefCell<(Snapshot, u64)>>;

async fn serve(listener: TcpListener, snapshot: Snapshot, times: Times) -> std::io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let source: Source = Rc::new(RefCell::new((snapshot, 0)));
    let places = std::sync::Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok(place) = places.clone().acquire_owned().await else { return Ok(()) };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::debug!(%error, "can't accept a scrape");
                tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
                continue;
            }
        };
        let source = source.clone();
        tokio::task::spawn_local(async move {
            let answer = service_fn(move |request| {
                let response = answer(&request, &source);
                async move { Ok::<_, Infallible>(response) }
            });
            let mut http = http1::Builder::new();
            let http = http.timer(TokioTimer::new()).header_read_timeout(times.header);
            let connection = http.serve_connection(TokioIo::new(stream), answer);
            let ended = tokio::time::timeout(times.connection, connection).await;
            if let Ok(Err(error)) = ended {
                tracing::debug!(%error, "a scrape failed");
            }
            drop(place);
        });
    }
}

fn answer<B>(request: &Request<B>, source: &Source) -> Response<Full<Bytes>> {
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
    let (snapshot, scrapes) = &mut *source.borrow_mut();
    let text = families::text(&snapshot.read(), *scrapes);
    *scrapes += u64::from(is_scrape);
    let mut response = Response::new(Full::new(Bytes::from(text)));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(TYPE));
    response
}

#[cfg(test)]
mod tests;
