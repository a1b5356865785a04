//! Fuzzes a receiver with a hostile sender: DATA of several groups, windows and segmentations, and
//! FIN in pages, in any order and with any slots. PROBEs ask about packets flagged NO_ACK.
//!
//! Invariants:
//!
//! - A message is complete once per window. The application gets each complete one once, and those
//!   of an exact group in order, without a gap before the end.
//! - Receipts and FIN-ACKs name complete messages only. PROBE-ACKs name arrived packets only.
//! - At most three times the received bytes are sent.
//! - Memory is bounded by the received packets.
//!
//! Every other input is a job with several windows. For these only the number of complete messages
//! is compared with the model, and that each is handed over once. All answers after the end of a
//! window state the same end.

mod arrivals;
mod model;
mod step;

use arbitrary::{Arbitrary, Unstructured};
use arrivals::Lanes;
use atp_common::{
    units::Msr,
    wire::{
        Fields, FinBody, FinGroup, Flags, GroupName, HEADER_LEN, Header, Kind, Order, RequestBody,
        TERMS_BODY_LEN_MAX, TermsBody, TermsGroup,
    },
};
use atp_proto::{Outcome, Receiver, ReceiverConfig};
use model::Model;
use std::collections::BTreeMap;
use step::{COOKIE, Data, Fin, JOB, Step};

const STEPS_MAX: usize = 200;
/// The assembler's least limit: a message of the greatest length always fits, with its bitmap.
const ASSEMBLER_BYTES: u64 = 1 << 22;
/// The memory of the model and of the application's queue.
const FIXED_BYTES: u64 = 1 << 17;
/// The memory per packet: two leaves of its group's sparse tables with their branches, and the same
/// for the model.
const PACKET_BYTES: u64 = 24_000;

/// Reads `data` as a configuration and steps.
pub fn run(data: &[u8]) {
    let mut u = Unstructured::new(data);
    let before = counting_allocator::bytes();
    let Ok(config) = config(&mut u) else { return };
    let first = Data { foreign: false, ..Data::arbitrary(&mut u).unwrap_or_default() };
    // From the number of unread bytes, so that inputs of the corpus keep their meaning.
    let overlap = u.len().is_multiple_of(2);
    let mut fuzz = Fuzz::new(config, &first.header(&mut 0), overlap);
    for _ in 0..STEPS_MAX {
        if u.is_empty() {
            break;
        }
        // Read without taking, so that inputs of the corpus keep their meaning.
        if u.len().is_multiple_of(6)
            && let Some(bytes) = u.peek_bytes(8)
        {
            fuzz.terms(bytes);
        }
        let Ok(step) = Step::arbitrary(&mut u) else { break };
        fuzz.take(&step);
        let held = u64::try_from(counting_allocator::bytes() - before).unwrap_or(0);
        let most = fuzz.memory_bytes_max();
        assert!(held <= most, "{held} bytes are held, {most} are allowed");
    }
    fuzz.finish();
}

/// Small limits, which few steps reach.
fn config(u: &mut Unstructured<'_>) -> arbitrary::Result<ReceiverConfig> {
    Ok(ReceiverConfig {
        message_bytes_max: *u.choose(&[64, 1_000, 1 << 16, 1 << 20])?,
        incomplete_bytes_max: 0,
        incomplete_messages_max: *u.choose(&[1, 2, 8, 65_536])?,
        incomplete_idle_ns: *u.choose(&[0, 1_000_000, 100_000_000])?,
        messages_max: *u.choose(&[1, 64, 200, 1 << 24])?,
        receipt_messages: *u.choose(&[0, 1, 3, 256])?,
        receipt_delay_ns: *u.choose(&[1, 2_000_000])?,
        ..ReceiverConfig::default()
    })
}

struct Fuzz {
    receiver: Receiver,
    config: ReceiverConfig,
    model: Model,
    lanes: Lanes,
    now_ns: u64,
    slot: u32,
    /// The latest slot of the packets that the receiver took in.
    latest_slot: u32,
    /// The time field of the last REQUEST.
    asked: u32,
    /// The number of the receiver's current window.
    window: u32,
    /// The ends that answers stated, by window and page.
    ends: BTreeMap<(u32, u16), (Flags, u32, Vec<FinGroup>)>,
    received_packets: u64,
    received_bytes: u64,
    sent_bytes: u64,
}

impl Fuzz {
    fn new(config: ReceiverConfig, first: &Header, overlap: bool) -> Self {
        Self {
            receiver: Receiver::new(config, 0, first),
            config,
            model: Model::new(overlap),
            lanes: Lanes::default(),
            now_ns: 0,
            slot: first.slot(),
            latest_slot: first.slot(),
            asked: 0,
            window: 0,
            ends: BTreeMap::new(),
            received_packets: 0,
            received_bytes: 0,
            sent_bytes: 0,
        }
    }

    fn take(&mut self, step: &Step) {
        match step {
            Step::Data(data) => self.data(data),
            Step::Repeat(times, data) => {
                for message in 0..u32::from(*times % 80) {
                    self.data(&Data { message: data.message.wrapping_add(message), ..*data });
                }
            }
            Step::Fin(fin) => self.fin(fin),
            Step::Wait(ms) => self.now_ns += 1 + u64::from(*ms) * 1_000_000,
            Step::Receipt(room) => self.receipt(44 + usize::from(*room) * 8),
            Step::Probe(probe) => self.lanes.answer(&probe.header(self.slot)),
        }
        // One of each open window.
        for _ in 0..1 + u32::from(self.model.overlaps()) {
            if self.receiver.receipt_due(self.now_ns) {
                self.receipt(1_196);
            }
        }
        assert!(!self.receiver.receipt_due(self.now_ns), "a receipt is due at once after another");
    }

    /// A page of TERMS from eight bytes, sometimes a request, and all REQUESTs that are due.
    fn terms(&mut self, bytes: &[u8]) {
        let byte = |at: usize| bytes.get(at).copied().unwrap_or_default();
        let pages = u32::from(byte(1) % 3) + 1;
        let header = Header::new(&Fields {
            job: JOB,
            cookie: COOKIE,
            index: u32::from(byte(0) % 8),
            count: pages,
            epoch: u16::from(byte(2) % 4),
            slot: self.slot.wrapping_sub((byte(3) % 4).into()),
            ..Fields::of(Kind::Terms)
        });
        let groups =
            (byte(4) % 16..).take(usize::from(byte(4) / 16 % 8) + 1).map(|group| TermsGroup {
                group,
                exact: group % 2 == 0,
                messages: (group % 3 == 0).then_some(9),
                msr: Msr::NONE,
                order: Order::shuffled_among(u32::from(group) / 4 * 16),
                shortest_first: group % 5 == 0,
                name: GroupName::EMPTY,
            });
        let groups: Vec<_> = groups.collect();
        let mut body = [0; TERMS_BODY_LEN_MAX];
        let ahead = if self.model.overlaps() { u32::from(byte(5) % 3) } else { 0 };
        let window = self.model.window.unwrap_or(0).wrapping_add(ahead);
        let answered = self.asked.wrapping_sub(u32::from(byte(6) % 2));
        let len = TermsBody::write(&mut body, window, answered, groups.into_iter());
        let body = TermsBody::parse(&body[..len.expect("few groups")]).expect("valid terms");
        self.receive(HEADER_LEN + body.bytes(), &header);
        self.receiver.on_terms(self.now_ns, &header, &body);
        if let Some(terms) = self.receiver.take_terms() {
            assert!(terms.groups.is_sorted_by(|a, b| a.group < b.group));
        }
        match byte(7) {
            0..100 => self.receiver.request_msr(self.now_ns, byte(7), Msr::EXACT),
            100..103 => self.receiver.request_end(self.now_ns),
            _ => {}
        }
        self.request();
        assert!(!self.receiver.request_due(self.now_ns), "a request is due at once after another");
    }

    /// Writes the REQUEST that is due.
    fn request(&mut self) {
        if !self.receiver.request_due(self.now_ns) {
            return;
        }
        let mut out = [0; 600];
        let len = self.receiver.write_request(self.now_ns, &mut out);
        let (header, kind) = Header::parse(&out[..len]).expect("a REQUEST is well-formed");
        assert_eq!((kind, header.cookie()), (Kind::Request, COOKIE));
        assert!(RequestBody::parse(&out[HEADER_LEN..len]).is_some());
        self.asked = header.time();
        self.sent_bytes += len as u64;
        self.check_amplification();
    }

    fn data(&mut self, data: &Data) {
        let header = data.header(&mut self.slot);
        let header = self.in_window(data, header);
        let body = data.body();
        assert_eq!(header.kind(), Ok(Kind::Data));
        self.receive(HEADER_LEN + body.len(), &header);
        if is_ours(&header) {
            self.note_slot(&header);
        }
        let before = self.complete();
        let outcome = self.receiver.on_data(self.now_ns, &header, &body);
        let complete = outcome == Outcome::Complete;
        let taken = is_ours(&header) && !matches!(outcome, Outcome::Refused(_));
        if taken && header.flags().contains(Flags::NO_ACK) {
            self.lanes.record(&header);
        }
        if self.complete() != before + u32::from(complete) {
            self.model.begin_window();
        }
        if complete {
            assert!(header.message() < self.config.messages_max);
            self.model.complete(&header);
        }
        self.collect(false);
    }

    /// Most DATA of a job with several windows names its window: any, counted from the receiver's.
    fn in_window(&self, data: &Data, header: Header) -> Header {
        let ahead = u32::from(data.segmentation);
        let names_none = ahead == 0 && header.flags().contains(Flags::WHOLE_WINDOW);
        match self.model.overlaps() && !names_none {
            true => header.with_window(self.receiver.window().wrapping_add(ahead)),
            false => header,
        }
    }

    fn fin(&mut self, fin: &Fin) {
        let header = fin.header(&mut self.slot);
        let bytes = fin.body();
        let Some(body) = FinBody::parse(&bytes) else { return };
        if !self.model.overlaps() && body.window() != 0 {
            return;
        }
        self.receive(HEADER_LEN + bytes.len(), &header);
        let before = self.complete();
        let mut out = [0; 484];
        let len = self.receiver.on_fin(self.now_ns, &header, &body, &mut out);
        assert!(self.complete() == before || self.model.overlaps(), "a FIN begins a window");
        if len > 0 {
            self.sent_bytes += len as u64;
            self.note_slot(&header);
            self.check_answer(&header, &body, &out[..len]);
        }
        self.collect(true);
        if let Some(summary) = self.receiver.take_summary() {
            self.model.ended();
            assert!(len > 0 && summary.window == body.window());
            let groups = if self.model.overlaps() { &[][..] } else { &summary.groups };
            for group in groups {
                let here = self.model.count(group.group, group.messages);
                let lost: u32 = group.lost.iter().map(|range| range.end - range.start).sum();
                assert_eq!(u64::from(lost) + here, u64::from(group.messages));
                assert!(summary.forced || group.delivered >= group.needed);
                let is_complete = |id: u32| self.model.is_complete(group.group, id);
                assert!(
                    !group
                        .lost
                        .iter()
                        .any(|lost| is_complete(lost.start) || is_complete(lost.end - 1))
                );
            }
        }
        self.check_amplification();
    }

    /// Checks that a FIN-ACK names the FIN, and counts complete messages or states the end.
    fn check_answer(&mut self, fin: &Header, fin_body: &FinBody<'_>, answer: &[u8]) {
        let (header, kind) = Header::parse(answer).expect("a FIN-ACK is well-formed");
        let body = FinBody::parse(&answer[HEADER_LEN..]).expect("so is its body");
        assert_eq!((kind, header.slot(), header.cookie()), (Kind::FinAck, fin.slot(), COOKIE));
        assert_eq!((header.index(), header.epoch()), (fin.index(), fin.epoch()));
        assert_eq!(body.window(), fin_body.window());
        if header.flags().contains(Flags::ENDED) {
            let stated: Vec<_> = body.groups().collect();
            let page = (body.window(), header.epoch());
            let end = (header.flags(), header.time(), stated);
            assert_eq!(self.ends.entry(page).or_insert_with(|| end.clone()), &end);
            return;
        }
        for (ours, theirs) in body.groups().zip(fin_body.groups()) {
            assert!(ours.group == theirs.group && ours.delivered <= theirs.messages);
            if !self.model.overlaps() {
                let complete = self.receiver.delivered(ours.group).min(theirs.messages);
                assert_eq!(ours.delivered, complete);
            }
        }
    }

    /// Takes all messages that are ready for the application.
    fn collect(&mut self, at_end: bool) {
        // A receiver that joined in the middle may follow FINs around all numbers.
        let is_renumbered = self.receiver.window() < self.window;
        self.window = self.receiver.window();
        if is_renumbered {
            self.model.renumbered();
        }
        while let Some(message) = self.receiver.next_message() {
            self.model.got(&message, at_end);
        }
        if is_renumbered {
            self.model.renumbered();
        }
        self.model.drained();
        assert!(self.model.overlaps() || self.complete() == self.model.number());
        let stats = self.receiver.stats();
        assert_eq!(stats.messages_delivered, self.model.complete_ever);
    }

    fn receipt(&mut self, room: usize) {
        let due = self.receiver.receipt_due(self.now_ns);
        let mut out = [0; 1_500];
        let room = room.min(out.len());
        let len = self.receiver.write_receipt(self.now_ns, &mut out[..room]);
        assert!(
            len <= room.min(1_196) && (len > 0 || !due),
            "a receipt is due, but was not written"
        );
        if len > 0 {
            self.sent_bytes += len as u64;
            self.model.check_receipt(&out[..len]);
        }
        self.check_amplification();
    }

    fn receive(&mut self, bytes: usize, header: &Header) {
        self.received_packets += 1;
        if is_ours(header) {
            self.received_bytes += bytes as u64;
        }
    }

    fn is_latest(&self, header: &Header) -> bool {
        header.slot().wrapping_sub(self.latest_slot) as i32 > 0
    }

    fn note_slot(&mut self, header: &Header) {
        if self.is_latest(header) {
            self.latest_slot = header.slot();
        }
    }

    fn check_amplification(&self) {
        let (received, sent) = (self.received_bytes, self.sent_bytes);
        assert!(sent <= 3 * received, "{sent} bytes were sent for {received}");
    }

    fn memory_bytes_max(&self) -> u64 {
        let assembler = u64::from(self.config.message_bytes_max) + ASSEMBLER_BYTES;
        assembler + FIXED_BYTES + self.received_packets * PACKET_BYTES + self.received_bytes
    }

    /// The number of complete messages, as the receiver counts them.
    fn complete(&self) -> u32 {
        step::GROUPS.iter().map(|&group| self.receiver.delivered(group)).sum()
    }

    /// Forces the end: held messages are handed over, and receipts stop after a while.
    fn finish(&mut self) {
        let window = self.model.window.unwrap_or(0);
        let flags = Flags::FORCED;
        self.fin(&Fin { window: Some(window), flags, slot: step::Slot::Next, ..Fin::default() });
        if self.receiver.is_finished() {
            assert_eq!(self.model.waiting(), 0, "complete messages were never handed over");
        }
        for _ in 0..1_000 {
            let Some(at_ns) = self.receiver.poll_timeout() else { break };
            self.now_ns = self.now_ns.max(at_ns);
            self.receipt(1_196);
            self.request();
        }
        assert_eq!(self.receiver.poll_timeout(), None, "receipts never stop");
    }
}

fn is_ours(header: &Header) -> bool {
    (header.job(), header.cookie()) == (JOB, COOKIE)
}
