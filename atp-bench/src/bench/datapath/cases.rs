//! The kinds of packets that the programs distinguish.

use atp_common::wire::{HEADER_LEN, Kind};

use super::fixture::{ACK_MARK, COOKIE, JOB, Program, foreign, v4, v6};
use super::packet::{Ends, Form, header, tcp, udp};

/// Message bytes in a DATA packet.
const PAYLOAD_BYTES: usize = 1400;

const TC_GO_ON: u32 = u32::MAX; // TC_ACT_UNSPEC, -1
const TC_DROP: u32 = 2; // TC_ACT_SHOT
const XDP_DROP: u32 = 1;
const XDP_PASS: u32 = 2;

/// One kind of packet for one program.
pub struct Case {
    pub program: Program,
    pub packet: &'static str,
    /// The verdict that the program must return. With another verdict the case measures another
    /// path.
    pub verdict: u32,
    /// The counter that must count the packet.
    pub counter: Option<&'static str>,
    /// Whether the program can run on the same packet again. Not if the first run changes the
    /// behavior of the second.
    pub repeats: bool,
    pub mark: u32,
    /// Whether the job is bound to a cgroup.
    pub bound: bool,
    frame: Frame,
}

enum Frame {
    Fixed(Vec<u8>),
    /// A packet with another slot in each run.
    PerSlot(fn(u32) -> Vec<u8>),
}

impl Case {
    /// The packet. `slot` makes it new in cases that need a new packet for each run.
    pub fn frame(&self, slot: u32) -> Vec<u8> {
        match &self.frame {
            Frame::Fixed(frame) => frame.clone(),
            Frame::PerSlot(make) => make(slot),
        }
    }

    fn new(program: Program, packet: &'static str, frame: Vec<u8>) -> Self {
        let verdict = if program == Program::Xdp { XDP_PASS } else { TC_GO_ON };
        Self {
            program,
            packet,
            verdict,
            counter: None,
            repeats: true,
            mark: 0,
            bound: false,
            frame: Frame::Fixed(frame),
        }
    }

    fn counted(mut self, counter: &'static str) -> Self {
        self.counter = Some(counter);
        self
    }

    fn dropped(mut self, counter: &'static str) -> Self {
        self.verdict = if self.program == Program::Xdp { XDP_DROP } else { TC_DROP };
        self.counted(counter)
    }

    fn once(mut self) -> Self {
        self.repeats = false;
        self
    }

    fn marked(mut self) -> Self {
        self.mark = ACK_MARK;
        self.once()
    }

    fn bound(mut self) -> Self {
        self.bound = true;
        self
    }

    fn per_slot(mut self, make: fn(u32) -> Vec<u8>) -> Self {
        self.frame = Frame::PerSlot(make);
        self.once()
    }
}

/// All cases.
pub fn all() -> Vec<Case> {
    let mut cases = egress();
    cases.extend(ingress());
    cases.extend(acks(Program::Ingress));
    cases.extend(acks(Program::Xdp));
    cases
}

fn egress() -> Vec<Case> {
    const E: Program = Program::Egress;
    let with_checksum = Form { checksum: true, vlan: false };
    let vlan = Form { checksum: false, vlan: true };
    vec![
        Case::new(E, "DATA IPv4", data(&v4(), Form::default())).counted("paced"),
        Case::new(E, "DATA IPv4, UDP checksum", data(&v4(), with_checksum)).counted("paced"),
        Case::new(E, "DATA IPv4, VLAN", data(&v4(), vlan)).counted("paced"),
        Case::new(E, "DATA IPv4, job bound to a cgroup", data(&v4(), Form::default()))
            .counted("paced")
            .bound(),
        Case::new(E, "DATA IPv6", data(&v6(), Form::default())).counted("paced"),
        Case::new(E, "DATA of another's job", atp(&v4(), Kind::Data, COOKIE ^ 1, PAYLOAD_BYTES))
            .dropped("impersonation"),
        Case::new(E, "RECEIPT or FIN of a flow", atp(&v4(), Kind::Fin, COOKIE, 64)),
        Case::new(E, "foreign UDP", udp(&foreign(), with_checksum, &[0; PAYLOAD_BYTES])),
        Case::new(E, "foreign TCP", tcp(&foreign(), &[0; PAYLOAD_BYTES])),
        Case::new(E, "marked clone IPv4, becomes an ACK", data(&v4(), Form::default()))
            .counted("ack_sent")
            .marked(),
        Case::new(E, "marked clone IPv6, becomes an ACK", data(&v6(), Form::default()))
            .counted("ack_sent")
            .marked(),
    ]
}

fn ingress() -> Vec<Case> {
    const I: Program = Program::Ingress;
    let mut garbage = v4();
    garbage.source.1 += 1;
    let with_checksum = Form { checksum: true, vlan: false };
    vec![
        Case::new(I, "DATA IPv4, with its ACK's egress", data(&v4(), Form::default()))
            .counted("ack_sent"),
        Case::new(I, "DATA IPv6, with its ACK's egress", data(&v6(), Form::default()))
            .counted("ack_sent"),
        Case::new(I, "not ATP, to a receiver", udp(&garbage, with_checksum, &[0; PAYLOAD_BYTES]))
            .counted("malformed"),
        Case::new(I, "foreign UDP", udp(&foreign(), with_checksum, &[0; PAYLOAD_BYTES])),
        Case::new(I, "foreign TCP", tcp(&foreign(), &[0; PAYLOAD_BYTES])),
    ]
}

/// ACKs at the sender's host, under XDP or under tc ingress.
fn acks(program: Program) -> Vec<Case> {
    let ack = |ends: Ends, cookie| atp(&ends.reversed(), Kind::Ack, cookie, 0);
    let mut cases = vec![
        Case::new(program, "ACK IPv4, news", Vec::new())
            .dropped("ack_news")
            .per_slot(|slot| ack_of_slot(&v4(), slot)),
        Case::new(program, "ACK IPv6, news", Vec::new())
            .dropped("ack_news")
            .per_slot(|slot| ack_of_slot(&v6(), slot)),
        Case::new(program, "ACK IPv4, stale", ack(v4(), COOKIE)).dropped("ack_stale"),
        Case::new(program, "ACK IPv6, stale", ack(v6(), COOKIE)).dropped("ack_stale"),
        Case::new(program, "ACK IPv4, forged", ack(v4(), COOKIE ^ 1)).dropped("ack_forged"),
        Case::new(program, "RECEIPT of a flow", atp(&v4().reversed(), Kind::Receipt, COOKIE, 64)),
    ];
    if program == Program::Xdp {
        let with_checksum = Form { checksum: true, vlan: false };
        cases.push(Case::new(
            program,
            "foreign UDP",
            udp(&foreign(), with_checksum, &[0; PAYLOAD_BYTES]),
        ));
        cases.push(Case::new(program, "foreign TCP", tcp(&foreign(), &[0; PAYLOAD_BYTES])));
    }
    cases
}

fn data(ends: &Ends, form: Form) -> Vec<u8> {
    let mut payload = header(Kind::Data, JOB, COOKIE, 0).as_bytes().to_vec();
    payload.resize(HEADER_LEN + PAYLOAD_BYTES, 0);
    udp(ends, form, &payload)
}

fn atp(ends: &Ends, kind: Kind, cookie: u32, body_bytes: usize) -> Vec<u8> {
    let mut payload = header(kind, JOB, cookie, 0).as_bytes().to_vec();
    payload.resize(HEADER_LEN + body_bytes, 0);
    udp(ends, Form::default(), &payload)
}

fn ack_of_slot(ends: &Ends, slot: u32) -> Vec<u8> {
    udp(&ends.reversed(), Form::default(), header(Kind::Ack, JOB, COOKIE, slot).as_bytes())
}
