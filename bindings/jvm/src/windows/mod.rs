//! Windows of streams: `WindowReceiver.java` and `WindowSender.java`, on `approx-windows`.

mod events;
mod inbox;
mod options;
mod receiver;
mod sender;
mod stream_sender;
