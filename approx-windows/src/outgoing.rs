//! A window on its way to a receiver.

use crate::{
    cutter::{Batch, Cut},
    header::{WindowBegin, WindowHeader},
    position::Position,
    stream::Stream,
};

/// A window that is sent: its messages so far, and its header once it is closed. It is kept until
/// the window is confirmed, so that it can be sent again.
#[derive(Clone, Debug)]
pub struct OutgoingWindow {
    pub(crate) begin: WindowBegin,
    /// The messages with the job's groups, in the order in which they are sent.
    pub(crate) messages: Vec<(u8, Vec<u8>)>,
    pub(crate) end: Option<WindowEnd>,
}

#[derive(Clone, Debug)]
pub(crate) struct WindowEnd {
    pub(crate) header: WindowHeader,
    pub(crate) position: Position,
}

impl OutgoingWindow {
    /// A window that is still open.
    pub fn open(batch: Batch, stream: &Stream) -> Self {
        let Batch { number, part, epoch, messages } = batch;
        let begin = WindowBegin { stream: stream.clone(), epoch, number, part };
        Self { begin, messages, end: None }
    }

    /// A window of which no message was taken before.
    pub fn closed(cut: Cut, stream: &Stream) -> Self {
        let (header, position) = (cut.header(stream.clone()), cut.position);
        let (begin, end) = (header.begin(), Some(WindowEnd { header, position }));
        Self { begin, messages: cut.messages, end }
    }

    /// Adds the next messages.
    pub fn add(&mut self, batch: Batch) {
        self.messages.extend(batch.messages);
    }

    /// Adds what was left, and closes it.
    pub fn close(&mut self, cut: Cut) {
        let header = cut.header(self.begin.stream.clone());
        debug_assert_eq!(self.begin, header.begin(), "batches of one window");
        self.end = Some(WindowEnd { header, position: cut.position });
        self.messages.extend(cut.messages);
    }

    /// Whether parts of it may follow.
    pub fn is_open(&self) -> bool {
        self.end.is_none()
    }

    /// The header, once it is closed.
    pub fn header(&self) -> Option<&WindowHeader> {
        self.end.as_ref().map(|end| &end.header)
    }

    /// Where the stream is read again once this window is confirmed; `None` while it is open.
    pub fn position(&self) -> Option<Position> {
        self.end.as_ref().map(|end| end.position)
    }
}
