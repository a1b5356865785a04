//! Hands each packet of the peer to its phase. Packets are hostile until they are checked.

use super::{PacketRefused, Sender, report::SendError};
use atp_common::wire::{FinBody, HEADER_LEN, Header, Kind, ReceiptBody, RequestBody, ResetReason};

impl Sender {
    /// Takes in a packet of the network for this flow: ACK, RECEIPT, FIN-ACK, REQUEST or
    /// RESET. Checks job, cookie and counts.
    pub fn on_packet(&mut self, now_ns: u64, payload: &[u8]) -> Result<(), PacketRefused> {
        let result = self.dispatch(now_ns, payload);
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

    fn on_reset(&mut self, now_ns: u64, header: &Header) -> Result<(), PacketRefused> {
        let reason = ResetReason::from_wire(header.epoch());
        if reason == Some(ResetReason::NoRoom) {
            return self.on_no_room(now_ns, header);
        }
        if !self.has_ended() {
            let short = self.short();
            self.fail(SendError::Reset { reason, short });
        }
        Ok(())
    }
}
