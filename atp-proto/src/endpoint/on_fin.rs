//! Answers FINs. The one after which every group has enough, or a forced one, ends the job or the
//! window. Later attempts get the same answer: from `receiver/end.rs` or,
//! when their sender has left the table, from its tombstone.

use super::{
    Datagram, Endpoint, Lanes,
    events::{take_messages, take_summaries},
    source::SourceKey,
    sources::Admitted,
    tombstones::Tombstone,
};
use atp_common::wire::{FinBody, Flags, Header, ResetReason};

impl<L: Lanes> Endpoint<L> {
    pub(super) fn on_fin(&mut self, now_ns: u64, packet: &Datagram<'_>, header: &Header) {
        let Some(body) = FinBody::parse(packet.body) else {
            return self.drop_packet(packet, header);
        };
        let key = SourceKey::new(packet.ends.source, header);
        if header.flags().contains(Flags::ENDED) {
            // The sender knows of the end, and wants no answer.
            match self.sources.find(packet.ends.source, header) {
                Some(source) => _ = source.transport.on_fin(now_ns, header, &body, &mut []),
                None => self.sources.forget_unknown_end(&key),
            }
            return;
        }
        let source = match self.sources.admit(now_ns, packet.ends, header) {
            Admitted::Here(source) => source,
            Admitted::Gone(Tombstone::Ended { end, .. }) => {
                self.sources.note_fin(now_ns, &key);
                return self.replies.control(packet.ends, |out| end.answer(header, &body, out));
            }
            Admitted::Gone(Tombstone::Forgotten) => {
                return self.refuse(now_ns, packet.ends, header, ResetReason::Forgotten);
            }
            Admitted::Refused(reason) => {
                return self.refuse(now_ns, packet.ends, header, reason);
            }
        };
        let transport = &mut source.transport;
        // The receipt goes first: the sender's report needs its counts before the job ends.
        let window = body.window();
        self.replies
            .control(packet.ends, |out| transport.write_receipt_of_window(now_ns, window, out));
        self.replies.control(packet.ends, |out| transport.on_fin(now_ns, header, &body, out));
        // The end of the job releases messages that waited for earlier ones.
        self.stats.messages += take_messages(source, &mut self.events);
        let has_ended = source.transport.is_finished();
        if has_ended {
            source.end_advice();
        }
        take_summaries(source, &mut self.events);
        if has_ended {
            self.sources.note_ended(key);
        }
    }
}
