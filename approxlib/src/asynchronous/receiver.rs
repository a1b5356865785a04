use super::{Descriptor, blocking, resolve};
use crate::{Error, Event, RateRequest, Receiver, ReceiverBuilder, ReceiverStats, ToAddresses};
use std::{net::SocketAddr, thread, time::Duration};

/// A [`Receiver`] for tokio.
///
/// Dropping it doesn't block: a thread of its own tells the senders that the receiver is gone. A
/// process that may end soon calls [`AsyncReceiver::close`], which waits for that.
///
/// ```no_run
/// # async fn receive() -> Result<(), approxlib::Error> {
/// use approxlib::{Event, Receiver};
/// let mut receiver = Receiver::builder().bind_async("0.0.0.0:4747").await?;
/// loop {
///     match receiver.recv().await? {
///         Event::Message { message, data, .. } => println!("{message}: {} bytes", data.len()),
///         Event::Finished { .. } => break,
///         Event::Started { .. } | Event::TermsChanged { .. } | Event::WindowEnded { .. } => {}
///     }
/// }
/// receiver.close().await
/// # }
/// ```
#[derive(Debug)]
pub struct AsyncReceiver {
    /// Registered before the receiver's descriptor closes.
    readable: Descriptor,
    /// `None` after `close`.
    receiver: Option<Receiver>,
}

impl ReceiverBuilder {
    /// As [`ReceiverBuilder::bind`], for tokio.
    ///
    /// # Errors
    /// As [`ReceiverBuilder::bind`].
    ///
    /// # Panics
    /// Outside of a tokio runtime with IO enabled.
    pub async fn bind_async(self, local: impl ToAddresses) -> Result<AsyncReceiver, Error> {
        let addresses = resolve(local).await?;
        AsyncReceiver::new(blocking(move || self.bind(&addresses[..])).await?)
    }
}

impl AsyncReceiver {
    /// Takes a receiver into the present runtime.
    ///
    /// # Errors
    /// [`Error::Thread`] if its descriptor can't be registered.
    ///
    /// # Panics
    /// Outside of a tokio runtime with IO enabled.
    pub fn new(receiver: Receiver) -> Result<Self, Error> {
        let readable = Descriptor::new(receiver.readable_fd()?)?;
        Ok(Self { readable, receiver: Some(receiver) })
    }

    /// Waits for the next event. If the future is dropped before it is ready, no event is lost.
    ///
    /// # Errors
    /// As [`Receiver::recv`].
    pub async fn recv(&mut self) -> Result<Event, Error> {
        let Self { readable, receiver } = self;
        let receiver = receiver.as_mut().ok_or_else(closed)?;
        readable.until(|| receiver.recv(Some(Duration::ZERO))).await
    }

    /// Asks a sender to set the sampling rate of a group: see [`Receiver::request_msr`].
    ///
    /// # Errors
    /// As [`Receiver::request_msr`].
    pub fn request_msr(&self, request: &RateRequest) -> Result<(), Error> {
        self.receiver.as_ref().ok_or_else(closed)?.request_msr(request)
    }

    /// Asks a sender to end its job: see [`Receiver::request_end`].
    ///
    /// # Errors
    /// [`Error::Thread`] after [`AsyncReceiver::close`].
    pub fn request_end(&self, run: u64) -> Result<(), Error> {
        self.receiver.as_ref().ok_or_else(closed)?.request_end(run);
        Ok(())
    }

    /// Returns the memory of a message for later ones: see [`Receiver::recycle`].
    pub fn recycle(&mut self, data: Vec<u8>) {
        if let Some(receiver) = &mut self.receiver {
            receiver.recycle(data);
        }
    }

    /// The address that the receiver is bound to.
    ///
    /// # Errors
    /// As [`Receiver::local_addr`].
    pub fn local_addr(&self) -> Result<SocketAddr, Error> {
        self.receiver.as_ref().ok_or_else(closed)?.local_addr()
    }

    /// Counters of the receiver, up to now.
    pub fn stats(&self) -> ReceiverStats {
        self.receiver.as_ref().map(Receiver::stats).unwrap_or_default()
    }

    /// Ends the receiver, and waits until the senders of ended jobs know of the end: see
    /// [`ReceiverBuilder::linger`].
    ///
    /// # Errors
    /// None at present.
    pub async fn close(mut self) -> Result<(), Error> {
        let receiver = self.receiver.take();
        blocking(move || {
            drop(receiver);
            Ok(())
        })
        .await
    }
}

impl Drop for AsyncReceiver {
    fn drop(&mut self) {
        if let Some(receiver) = self.receiver.take() {
            // Without a thread, the receiver is dropped with the closure, and blocks here.
            let dropped = thread::Builder::new().name("atp-leave".to_owned());
            let _ = dropped.spawn(move || drop(receiver));
        }
    }
}

fn closed() -> Error {
    Error::Thread(std::io::Error::other("the receiver was closed"))
}
