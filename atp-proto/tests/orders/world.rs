//! A sender, the processes of its receiver, and the packets between them, which are delivered when
//! an action says so.

use crate::job::{Events, Job};
use atp_common::{
    units::Msr,
    wire::{FinBody, Flags, HEADER_LEN, Header, Kind, TermsBody},
};
use atp_proto::{
    GroupConfig, GroupReport, LostIds, MsrError, PacketRefused, Receiver, ReceiverConfig, Sender,
    SenderConfig, State, StatedEnd, Summary,
};
use std::collections::BTreeSet;

/// A packet, and how often it was delivered.
struct InFlight {
    bytes: Vec<u8>,
    delivered: u32,
    /// The sender's window when it was sent.
    window: u32,
}

/// A step. Packets are named by their number; what is never delivered is lost.
#[derive(Clone, Debug)]
pub enum Action {
    /// The sender sends what is due, at the earliest time that something is.
    Send,
    ToReceiver(usize),
    ToSender(usize),
    /// The receiver sends a receipt.
    Receipt,
    /// The sender begins its next window.
    NextWindow,
    Cancel,
    Deadline,
    LowerMsr,
    Request,
    Restart,
    Leave,
}

impl Action {
    /// Whether only the receiver changes, and the answers that it sends.
    fn is_receivers(&self) -> bool {
        matches!(
            self,
            Self::ToReceiver(_) | Self::Receipt | Self::Request | Self::Restart | Self::Leave
        )
    }
}

/// How a process of the receiver ended a window: its counts by group, and the messages that it had
/// handed over: group and id.
struct Ended {
    window: u32,
    counts: Vec<(u8, u32)>,
    /// Every group has what it needs, as the receiver knows it.
    is_complete: bool,
    got: BTreeSet<(u8, u32)>,
}

pub struct World {
    job: Job,
    left: Events,
    attempts_left: u32,
    duplicates_left: u32,
    now_ns: u64,
    sender: Sender,
    receiver: Option<Receiver>,
    tombstone: Option<StatedEnd>,
    forward: Vec<InFlight>,
    back: Vec<InFlight>,
    ended: Vec<Ended>,
    /// The messages that the present process handed over: window, group, id.
    got: BTreeSet<(u32, u8, u32)>,
    ends: u64,
    /// Answers that had been sent before the last action, if that was the receiver's.
    answers_before: Option<usize>,
    done: Vec<Action>,
}

const S: u64 = 1_000_000_000;

impl World {
    pub fn new(job: &Job) -> Self {
        let group = |(id, &(messages, msr)): (usize, &(u32, u32))| {
            let msr = Msr::from_parts_per_billion(msr).unwrap();
            GroupConfig { total: Some(messages), ..GroupConfig::new(id as u8, msr) }
        };
        let groups: Vec<_> = job.groups.iter().enumerate().map(group).collect();
        let config = SenderConfig {
            groups: groups.clone(),
            windows: job.windows > 1,
            overlap: job.overlap,
            names_lost: job.names_lost,
            announce_terms: true,
            packing: false,
            peer_timeout_ns: 1_000_000 * S,
            receipt_timeout_ns: 1_000_000 * S,
            ..SenderConfig::new(7, 9, groups[0])
        };
        let mut world = Self {
            job: job.clone(),
            left: job.events,
            attempts_left: 0,
            duplicates_left: 0,
            now_ns: S,
            sender: Sender::new(config).unwrap(),
            receiver: None,
            tombstone: None,
            forward: Vec::new(),
            back: Vec::new(),
            ended: Vec::new(),
            got: BTreeSet::new(),
            ends: 0,
            answers_before: None,
            done: Vec::new(),
        };
        world.queue();
        if !job.data {
            // The network is quiet until the first FIN.
            world.send();
            for packet in 0..world.forward.len() {
                let is_terms = kind(&world.forward[packet].bytes) == Kind::Terms;
                if is_terms || packet < job.arrived {
                    world.deliver_to_receiver(packet).unwrap();
                }
            }
            world.forward.retain(|packet| packet.delivered == 0);
            world.back.clear();
        }
        world.attempts_left = job.attempts;
        world.duplicates_left = job.duplicates;
        world
    }

    /// Queues a window's messages. Each says which it is.
    fn queue(&mut self) {
        for (group, &(messages, _)) in self.job.groups.clone().iter().enumerate() {
            for _ in 0..messages {
                self.sender.queue(group as u8, MESSAGE_BYTES).unwrap();
            }
        }
        match self.sender.window() + 1 < self.job.windows {
            true => self.sender.finish_window(),
            false => self.sender.finish(),
        }
    }

    /// The actions that are possible now; none once the job has ended.
    pub fn actions(&self) -> Vec<Action> {
        let mut actions = Vec::new();
        let is_running = !self.sender.has_ended() || self.sender.closing_window().is_some();
        let has_next = self.sender.window() + 1 < self.job.windows && !self.sender.is_last_window();
        if !is_running && !has_next {
            return actions;
        }
        if self.attempts_left > 0 {
            actions.push(Action::Send);
        }
        let deliverable = |packets: &[InFlight]| {
            // Between quiet hosts only an end is duplicated.
            let may_repeat = |packet: &InFlight| {
                self.duplicates_left > 0 && (self.job.data || kind(&packet.bytes) == Kind::Fin)
            };
            let may_come = |packet: &InFlight| match packet.delivered {
                0 => self.job.data || kind(&packet.bytes) != Kind::Terms,
                delivered => delivered == 1 && may_repeat(packet),
            };
            let left = packets.iter().enumerate().filter(|(_, packet)| may_come(packet));
            left.map(|(number, _)| number).collect::<Vec<_>>()
        };
        actions.extend(deliverable(&self.forward).into_iter().map(Action::ToReceiver));
        actions.extend(deliverable(&self.back).into_iter().map(Action::ToSender));
        if self.job.data && self.receiver.is_some() {
            actions.push(Action::Receipt);
        }
        if self.sender.can_begin_window() && has_next {
            actions.push(Action::NextWindow);
        }
        let events = [
            (self.left.cancel && is_running, Action::Cancel),
            (self.left.deadline && is_running, Action::Deadline),
            (self.left.lower_msr && is_running, Action::LowerMsr),
            (self.left.request && self.receiver.is_some(), Action::Request),
            (self.left.restart && self.receiver.is_some(), Action::Restart),
            (self.left.leave && self.has_stated_end(), Action::Leave),
        ];
        actions.extend(events.into_iter().filter(|(can, _)| *can).map(|(_, action)| action));
        if !self.job.data {
            actions.retain(|action| self.is_in_normal_order(action));
        }
        actions
    }

    /// Whether no other order of the same result puts `action` before the last one. The sender acts
    /// before the receiver, unless it takes in what the receiver has just sent.
    fn is_in_normal_order(&self, action: &Action) -> bool {
        let Some(answers_before) = self.answers_before else { return true };
        action.is_receivers() || matches!(action, Action::ToSender(n) if *n >= answers_before)
    }

    fn in_flight(&self, bytes: Vec<u8>) -> InFlight {
        InFlight { bytes, delivered: 0, window: self.sender.window() }
    }

    /// The sender's window.
    pub fn window(&self) -> u32 {
        self.sender.window()
    }

    /// Whether nothing more can happen: the job has ended or failed, or it waits for a next window
    /// that the test doesn't begin.
    pub fn has_ended(&self) -> bool {
        let is_running = !self.sender.has_ended() || self.sender.closing_window().is_some();
        !is_running || matches!(self.sender.state(), State::Failed(_))
    }

    /// Loses the packets in flight for which `keeps` is false. It gets each one's age in windows.
    pub fn lose(&mut self, mut keeps: impl FnMut(u32) -> bool) {
        let window = self.sender.window();
        self.forward.retain(|packet| keeps(window - packet.window));
        self.back.retain(|packet| keeps(window - packet.window));
        self.done.clear();
    }

    /// All packets in flight are lost. Whatever is sent from now on arrives, in order, until the
    /// sender has begun `window`, or without one until the open windows have ended.
    pub fn go_on(&mut self, window: Option<u32>) -> Result<(), String> {
        let (mut forward, mut back) = (self.forward.len(), self.back.len());
        // More rounds than any job of these tests takes.
        for _ in 0..10_000 {
            let is_there = window.map_or(self.has_ended(), |window| self.window() >= window);
            if is_there || self.has_ended() && self.sender.is_last_window() {
                return Ok(());
            }
            self.attempts_left = 1;
            self.act(&Action::Send)?;
            while forward < self.forward.len() {
                self.act(&Action::ToReceiver(forward))?;
                forward += 1;
            }
            if self.receiver.as_ref().is_some_and(|r| r.receipt_due(self.now_ns + S)) {
                self.act(&Action::Receipt)?;
            }
            while back < self.back.len() {
                self.act(&Action::ToSender(back))?;
                back += 1;
            }
            let may_begin = |action: &Action| matches!(action, Action::NextWindow);
            if window.is_some() && self.actions().iter().any(may_begin) {
                self.act(&Action::NextWindow)?;
            }
        }
        Err(format!("nothing is lost, and window {} doesn't end", self.sender.window()))
    }

    fn has_stated_end(&self) -> bool {
        self.receiver.as_ref().is_some_and(|receiver| receiver.stated_end().is_some())
    }

    /// Does one step, and checks both hosts.
    pub fn act(&mut self, action: &Action) -> Result<(), String> {
        self.done.push(action.clone());
        self.answers_before = action.is_receivers().then_some(self.back.len());
        self.now_ns += 1_000;
        match *action {
            Action::Send => self.send(),
            Action::ToReceiver(packet) => self.deliver_to_receiver(packet)?,
            Action::ToSender(packet) => self.deliver_to_sender(packet)?,
            Action::Receipt => {
                let mut out = [0; 1_196];
                let receiver = self.receiver.as_mut().expect("a receiver");
                let len = receiver.write_receipt(self.now_ns, &mut out);
                self.answer(&out[..len]);
            }
            Action::NextWindow => {
                let groups = self.job.groups.clone();
                let begun =
                    self.sender.begin_window(|group| (Some(groups[usize::from(group.group)].0), 0));
                assert!(begun, "it may begin");
                self.queue();
            }
            Action::Cancel => {
                self.left.cancel = false;
                self.sender.cancel();
            }
            Action::Deadline => {
                self.left.deadline = false;
                self.sender.end_now();
                self.sender.end_closing_now();
            }
            Action::LowerMsr => {
                self.left.lower_msr = false;
                // An exact group keeps its rate.
                let set = self.sender.set_msr(0, Msr::NONE);
                assert!(matches!(set, Ok(()) | Err(MsrError::Exact(_))), "{set:?}");
            }
            Action::Request => {
                self.left.request = false;
                let receiver = self.receiver.as_mut().expect("a receiver");
                receiver.request_end(self.now_ns);
                if receiver.request_due(self.now_ns + S) {
                    let mut out = [0; 516];
                    let len = receiver.write_request(self.now_ns, &mut out);
                    self.answer(&out[..len]);
                }
            }
            Action::Restart => {
                self.left.restart = false;
                self.receiver = None;
                self.tombstone = None;
                self.got.clear();
            }
            Action::Leave => {
                self.left.leave = false;
                self.tombstone = self.receiver.as_ref().and_then(Receiver::stated_end).cloned();
                self.receiver = None;
            }
        }
        self.check()
    }

    fn describe(&self, action: &Action) -> String {
        let packet = |packets: &[InFlight], number: usize| {
            let (header, kind) = Header::parse(&packets[number].bytes).unwrap();
            let body = &packets[number].bytes[HEADER_LEN..];
            let fin = matches!(kind, Kind::Fin | Kind::FinAck).then(|| FinBody::parse(body));
            let counts = fin.flatten().map(|fin| (fin.window(), fin.groups().collect::<Vec<_>>()));
            format!("{header} {counts:?}")
        };
        match *action {
            Action::ToReceiver(number) => format!("to receiver: {}", packet(&self.forward, number)),
            Action::ToSender(number) => format!("to sender: {}", packet(&self.back, number)),
            ref other => format!("{other:?}"),
        }
    }

    /// Sends what is due at the earliest time that something is. The host acknowledges all DATA.
    fn send(&mut self) {
        if let Some(due_ns) = self.sender.poll_timeout() {
            self.now_ns = self.now_ns.max(due_ns);
        }
        self.sender.handle_timeout(self.now_ns);
        while let Some(packet) = self.sender.next_packet(self.now_ns) {
            self.sender.on_ack(self.now_ns, &packet.header.into_ack(false)).unwrap();
            let mut bytes = packet.header.as_bytes().to_vec();
            bytes.extend(content(packet.message.window, packet.message.group, packet.message.id));
            self.forward.push(self.in_flight(bytes));
        }
        let mut out = [0; 524];
        let mut has_fin = false;
        while let Some(len) = self.sender.next_control(self.now_ns, &mut out) {
            let bytes = out[..len].to_vec();
            has_fin |= kind(&bytes) == Kind::Fin;
            self.forward.push(self.in_flight(bytes));
        }
        self.sender.released().for_each(drop);
        self.attempts_left = self.attempts_left.saturating_sub(u32::from(has_fin));
    }

    fn deliver_to_receiver(&mut self, packet: usize) -> Result<(), String> {
        self.duplicates_left -= self.forward[packet].delivered;
        self.forward[packet].delivered += 1;
        let bytes = self.forward[packet].bytes.clone();
        let (header, kind) = Header::parse(&bytes).unwrap();
        let body = &bytes[HEADER_LEN..];
        let mut out = [0; 524];
        if let Some(stated) = &self.tombstone {
            if kind == Kind::Fin && !header.flags().contains(Flags::ENDED) {
                let len = stated.answer(&header, &FinBody::parse(body).unwrap(), &mut out);
                self.answer(&out[..len]);
            }
            return Ok(());
        }
        if self.receiver.is_none() && kind == Kind::Terms {
            return Ok(());
        }
        let new = || Receiver::new(ReceiverConfig::default(), self.now_ns, &header);
        let receiver = self.receiver.get_or_insert_with(new);
        let mut len = 0;
        match kind {
            Kind::Data => _ = receiver.on_data(self.now_ns, &header, body),
            Kind::Fin => {
                let body = FinBody::parse(body).unwrap();
                len = receiver.on_fin(self.now_ns, &header, &body, &mut out);
            }
            Kind::Terms => {
                receiver.on_terms(self.now_ns, &header, &TermsBody::parse(body).unwrap());
            }
            other => panic!("{other:?} at the receiver"),
        }
        while let Some(message) = receiver.next_message() {
            let (window, group, id) = (message.window, message.group, message.message);
            if message.data != content(window, group, id) {
                return Err(format!("not the message {window}/{group}/{id}: {:?}", message.data));
            }
            if !self.got.insert((window, group, id)) {
                return Err(format!("message {window}/{group}/{id} came twice"));
            }
        }
        while let Some(Summary { window, groups, .. }) = receiver.take_summary() {
            for group in &groups {
                let got = self.got.iter().filter(|got| (got.0, got.1) == (window, group.group));
                if got.count() as u32 != group.delivered {
                    return Err(format!("window {window} ended with another count: {group:?}"));
                }
            }
            let counts = groups.iter().map(|group| (group.group, group.delivered)).collect();
            let is_complete = groups.iter().all(|group| group.delivered >= group.needed);
            let of_window = self.got.iter().filter(|(of, _, _)| *of == window);
            let got = of_window.map(|(_, group, id)| (*group, *id)).collect();
            self.ended.push(Ended { window, counts, is_complete, got });
        }
        self.answer(&out[..len]);
        Ok(())
    }

    fn answer(&mut self, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.back.push(self.in_flight(bytes.to_vec()));
        }
    }

    fn deliver_to_sender(&mut self, packet: usize) -> Result<(), String> {
        self.duplicates_left -= self.back[packet].delivered;
        self.back[packet].delivered += 1;
        let refused = self.sender.on_packet(self.now_ns, &self.back[packet].bytes);
        match refused {
            Ok(()) => Ok(()),
            Err(refused @ (PacketRefused::Impossible | PacketRefused::Malformed)) => {
                Err(format!("the sender refused its receiver's packet: {refused}"))
            }
            Err(other) => Err(other.to_string()),
        }
    }

    /// Whether the verdict on each window that has just ended is that of some process.
    fn check(&mut self) -> Result<(), String> {
        if let Some(closed) = self.sender.take_ended_window() {
            let is_enough = closed.groups.iter().all(|group| group.delivered >= group.needed);
            let has_right_state = is_enough == closed.is_done;
            self.check_end(closed.window, &closed.groups, &closed.lost_ids, has_right_state)?;
        }
        if self.sender.closing_window().is_some() {
            return Ok(());
        }
        let report = self.sender.report();
        let is_enough = report.groups.iter().all(|group| group.delivered >= group.needed);
        let has_right_state = match self.sender.state() {
            State::Done => is_enough,
            State::Ended => !is_enough,
            _ => return Ok(()),
        };
        let lost_ids = self.sender.lost_ids();
        self.check_end(self.sender.window(), &report.groups, &lost_ids, has_right_state)
    }

    fn check_end(
        &mut self,
        window: u32,
        groups: &[GroupReport],
        lost_ids: &[LostIds],
        has_right_state: bool,
    ) -> Result<(), String> {
        let counts: Vec<_> = groups.iter().map(|group| (group.group, group.delivered)).collect();
        let is_complete = groups.iter().all(|group| group.delivered >= group.needed);
        let so = |ended: &&Ended| {
            (ended.window, ended.is_complete) == (window, is_complete) && ended.counts == counts
        };
        self.ends += 1;
        if !has_right_state || !self.ended.iter().any(|ended| so(&ended)) {
            let verdict = if is_complete { "complete" } else { "short" };
            return Err(format!("no receiver ended window {window} so: {counts:?}, {verdict}"));
        }
        for (group, lost) in groups.iter().zip(lost_ids) {
            let LostIds::Known(lost) = lost else { continue };
            let is_lost = |id| lost.iter().any(|range| range.contains(&id));
            let is_right = |ended: &Ended| {
                (0..group.messages).all(|id| ended.got.contains(&(group.group, id)) != is_lost(id))
            };
            if !self.ended.iter().filter(so).any(is_right) {
                return Err(format!("window {window}: other messages were lost than {lost:?}"));
            }
        }
        Ok(())
    }

    /// How often a window of the sender was found to have ended.
    pub fn ends(&self) -> u64 {
        self.ends
    }

    /// The steps so far, for people.
    pub fn done(&self) -> Vec<String> {
        self.done.iter().map(|action| self.describe(action)).collect()
    }
}

const MESSAGE_BYTES: u32 = 9;

fn content(window: u32, group: u8, id: u32) -> Vec<u8> {
    let mut content = window.to_be_bytes().to_vec();
    content.push(group);
    content.extend(id.to_be_bytes());
    content
}

fn kind(bytes: &[u8]) -> Kind {
    Header::parse(bytes).unwrap().1
}
