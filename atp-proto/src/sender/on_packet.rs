//! Hands each packet of the peer to its phases, in their order. Packets are hostile until they are
//! checked.

use super::{
    PacketRefused, Sender,
    ack_loss::full_count,
    fin::Answer,
    latest_receipt::Order,
    no_room::Refusal,
    report::{SendError, Short},
};
use atp_common::{
    units::Msr,
    wire::{Features, FinBody, HEADER_LEN, Header, Kind, ReceiptBody, RequestBody, ResetReason},
};

impl Sender {
    /// Takes in a packet of the network for this flow: ACK, RECEIPT, FIN-ACK, REQUEST or
    /// RESET. Checks job, cookie and counts.
    pub fn on_packet(&mut self, now_ns: u64, payload: &[u8]) -> Result<(), PacketRefused> {
        let result = self.dispatch(now_ns, payload);
        self.windows.void_ended(&mut self.transmissions.sent);
        self.report.packets_refused += u64::from(result.is_err());
        result
    }

    fn dispatch(&mut self, now_ns: u64, payload: &[u8]) -> Result<(), PacketRefused> {
        let (header, kind) = Header::parse(payload).map_err(|_| PacketRefused::Malformed)?;
        self.check_origin(&header)?;
        let body = &payload[HEADER_LEN..];
        match kind {
            Kind::Ack => self.accept_ack(now_ns, &header),
            Kind::Receipt => {
                let receipt = ReceiptBody::parse(body).ok_or(PacketRefused::Malformed)?;
                self.on_receipt(now_ns, &header, &receipt)
            }
            Kind::FinAck => {
                let fin = FinBody::parse(body).ok_or(PacketRefused::Malformed)?;
                self.on_fin_ack(now_ns, &header, &fin)
            }
            Kind::Request => {
                let request = RequestBody::parse(body).ok_or(PacketRefused::Malformed)?;
                self.on_request(&header, &request)
            }
            Kind::Reset => self.on_reset(now_ns, &header),
            Kind::Data | Kind::Fin | Kind::Probe | Kind::ProbeAck | Kind::Terms => {
                Err(PacketRefused::Kind)
            }
        }
    }

    pub(super) fn check_origin(&self, header: &Header) -> Result<(), PacketRefused> {
        let ours = header.job() == self.config.job && header.cookie() == self.config.cookie;
        if ours { Ok(()) } else { Err(PacketRefused::Foreign) }
    }

    fn on_receipt(
        &mut self,
        now_ns: u64,
        header: &Header,
        receipt: &ReceiptBody,
    ) -> Result<(), PacketRefused> {
        let next_slot = self.transmissions.sent.next_slot();
        let number = self.windows.number_of_receipt(header, next_slot);
        let window = number.and_then(|number| self.windows.of_number(number));
        if window.is_some_and(|window| window.is_impossible(header, receipt, &self.indices)) {
            return Err(PacketRefused::Impossible);
        }
        // Of any receipt, also of a window that has ended: jobs of short windows may get no
        // others. A restarted receiver counts its receipts from 1 again, or it joined at an old
        // packet, and the terms tell it where the job is.
        self.peer.silence.end();
        let features = Features::from_wire(header.epoch());
        if self.peer.on_features(features) {
            let lost = self.transmissions.lose_packed();
            lost.iter().for_each(|lost| self.file_loss(lost));
        }
        self.announcement.on_receipt(header, features);
        let Some(number) = number else { return Ok(()) };
        let order = self.peer.receipt_order(header);
        if order == Order::OfAnother {
            self.report.packets_arrived = 0;
            self.windows.each_mut().for_each(|window| window.named_before = window.delivered);
        }
        let Self { config, indices, windows, transmissions, peer, report, .. } = self;
        let Some(window) = windows.of_number(number) else { return Ok(()) };
        window.on_receipt(now_ns, header, receipt, order, indices, &mut peer.no_room);
        if matches!(order, Order::Earlier | Order::OfEarlierProcess) {
            return Ok(());
        }
        let smoothed_ns = transmissions.lanes.longest_smoothed_ns();
        peer.on_latest_receipt(now_ns, header, indices.index(header.group()), order);
        if order != Order::Same {
            let (acked, sent) = (report.packets_acked, report.packets_sent);
            peer.ack_loss.on_receipt(now_ns, smoothed_ns, receipt.packets_arrived, acked, sent);
        }
        report.packets_arrived =
            full_count(report.packets_arrived, receipt.packets_arrived, report.packets_sent);
        window.on_slot_read(header.slot(), receipt.delivered, next_slot, config, report);
        Ok(())
    }

    fn on_fin_ack(
        &mut self,
        now_ns: u64,
        header: &Header,
        body: &FinBody,
    ) -> Result<(), PacketRefused> {
        let Self { config, windows, transmissions, peer, report, .. } = self;
        let Some(window) = windows.of_number(body.window()).filter(|window| !window.is_over())
        else {
            return Ok(());
        };
        if !window.can_be_answer(header, body) {
            return Err(PacketRefused::Impossible);
        }
        peer.silence.end();
        match window.on_fin_ack(now_ns, header, body, config.names_lost) {
            Answer::Taken => {}
            Answer::Continue => {
                let (slot, delivered) = (window.ending.slot(), window.delivered_by_fin());
                let next_slot = transmissions.sent.next_slot();
                window.on_slot_read(slot, delivered, next_slot, config, report);
            }
            Answer::LostState => self.fail(|short| SendError::ReceiverLostState { short }),
        }
        Ok(())
    }

    /// Takes in a REQUEST. Rates of exact groups stay, and after a FIN rates may only fall. TERMS
    /// answer with the rates that hold from now on. Between two windows only the end is taken: the
    /// receiver repeats the rest, so that the next window gets it.
    fn on_request(
        &mut self,
        header: &Header,
        request: &RequestBody<'_>,
    ) -> Result<(), PacketRefused> {
        if !self.config.announce_terms {
            return Err(PacketRefused::Kind);
        }
        self.peer.silence.end();
        let ends = request.end && self.config.requests.may_end;
        let is_job_over = self.has_ended() && self.is_last_window();
        let is_between = self.has_ended() && !ends;
        if is_job_over || is_between || !self.announcement.is_new_request(header.time()) {
            return Ok(());
        }
        self.report.requests += 1;
        if let Some((least, most)) = self.config.requests.msr.filter(|_| !ends) {
            for (group, msr) in request.groups() {
                // A group that keeps its rate: the answer says so.
                let _ = self.set_msr(group, msr.clamp(least, most.max(least)));
            }
        }
        self.announcement.answer(header.time());
        if ends {
            self.end_for_receiver();
        }
        Ok(())
    }

    /// Ends the job because the receiver has enough: no further message is needed. The counts of a
    /// window that has ended stay.
    fn end_for_receiver(&mut self) {
        if std::mem::replace(&mut self.report.ended_by_receiver, true) {
            return;
        }
        self.windows.each_mut().for_each(|window| window.need_nothing(self.config.complete_at));
        for group in &mut self.config.groups {
            group.msr = Msr::NONE;
        }
        self.cancel();
    }

    fn on_reset(&mut self, now_ns: u64, header: &Header) -> Result<(), PacketRefused> {
        let reason = ResetReason::from_wire(header.epoch());
        if reason == Some(ResetReason::NoRoom) {
            return self.on_no_room(now_ns, header);
        }
        if !self.has_ended() {
            self.fail(|short| SendError::Reset { reason, short });
        }
        Ok(())
    }

    /// Takes in a RESET that says that the receiver currently has no room.
    fn on_no_room(&mut self, now_ns: u64, header: &Header) -> Result<(), PacketRefused> {
        let (slot, next_slot) = (header.slot(), self.transmissions.sent.next_slot());
        if (slot.wrapping_sub(next_slot) as i32) >= 0 {
            return Err(PacketRefused::Impossible);
        }
        // The receiving library runs, and reads.
        self.peer.silence.end();
        self.windows.each_mut().for_each(|window| window.awaiting_receipt.on_receipt(now_ns));
        self.report.refusals += 1;
        let oldest = self.windows.iter().next();
        let is_of_ended = oldest.is_some_and(|oldest| !oldest.is_in_or_after(slot, next_slot));
        if is_of_ended || self.has_ended() {
            return Ok(());
        }
        let refused_ns = self.peer.no_room.on_refusal(&Refusal {
            now_ns,
            slot,
            next_slot,
            rtt_ns: self.transmissions.lanes.longest_smoothed_ns(),
            peer_timeout_ns: self.config.peer_timeout_ns,
            seed: self.config.cookie,
        });
        if refused_ns >= self.config.peer_timeout_ns {
            self.fail(|short| SendError::NoRoom { refused_ns, short });
        }
        Ok(())
    }

    /// Fails the job, unless the receiver has confirmed its end. The error names the groups that
    /// are short.
    pub(super) fn fail(&mut self, error: impl FnOnce(Vec<Short>) -> SendError) {
        self.windows.fail(&error(self.windows.short()));
        self.windows.void_ended(&mut self.transmissions.sent);
    }
}
