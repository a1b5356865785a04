//! Calls on receivers and their events.

use super::{Caller, Memory, WAIT_MS, WORDS, call, check, step::Size};
use atp_c::*;
use std::ffi::CStr;

impl Caller {
    pub(super) fn recv(&mut self, on: u8, size: Size) {
        let handle = self.handle(on);
        let mut memory = Memory::new(size, size_of::<atp_event>());
        let status = call!(atp_receiver_recv(atp_receiver { handle }, memory.at(), WAIT_MS));
        self.expect(&self.receivers, handle, status);
        if status == atp_status::ATP_OK {
            self.keep(memory.0[1]);
            if memory.0[0] as usize >= size_of::<atp_event>() {
                // SAFETY: the call has filled it in.
                let event = unsafe { memory.at::<atp_event>().read() };
                self.runs.push(event.run);
            }
        }
    }

    pub(super) fn recv_batch(&mut self, on: u8, size: Size, len: u8) {
        let (handle, len) = (self.handle(on), usize::from(len % 4));
        let mut memory = Memory::new(size, size_of::<atp_event>());
        let stride = memory.0[0] as usize;
        if stride.saturating_mul(len) > WORDS * 8 {
            return;
        }
        let mut received = 0;
        let receiver = atp_receiver { handle };
        let status =
            call!(atp_receiver_recv_batch(receiver, memory.at(), len, &raw mut received, WAIT_MS));
        self.expect(&self.receivers, handle, status);
        assert!(received <= len);
        for index in 0..received {
            self.keep(memory.0[index * stride / 8 + 1]);
        }
    }

    fn keep(&mut self, memory: u64) {
        assert_ne!(memory, 0, "an event that nobody can free");
        self.events.push(memory);
        self.open_events.push(memory);
    }

    fn event(memory: u64) -> Memory {
        let mut event = Memory::new(Size::Right, size_of::<atp_event>());
        event.0[1] = memory;
        event
    }

    pub(super) fn event_group(&mut self, event: u8, index: u8, size: Size) {
        let Some(&memory) = self.events.get(usize::from(event)) else { return };
        let (mut event, mut out) =
            (Self::event(memory), Memory::new(size, size_of::<atp_group_summary>()));
        let status = call!(atp_event_group(event.at(), index.into(), out.at()));
        self.expect(&self.open_events, memory, status);
        if status == atp_status::ATP_OK && out.0[0] as usize == size_of::<atp_group_summary>() {
            // SAFETY: the call has filled it in.
            let summary = unsafe { out.at::<atp_group_summary>().read() };
            if summary.lost_len > 0 {
                // SAFETY: the ranges are valid until the event is freed.
                let lost = unsafe { std::slice::from_raw_parts(summary.lost, summary.lost_len) };
                let lost: u32 = lost.iter().map(|range| range.end - range.start).sum();
                assert_eq!(lost, summary.messages - summary.delivered);
            }
        }
    }

    pub(super) fn event_terms(&mut self, event: u8, index: u8, size: Size) {
        let Some(&memory) = self.events.get(usize::from(event)) else { return };
        let (mut event, mut out) =
            (Self::event(memory), Memory::new(size, size_of::<atp_group_terms>()));
        let status = call!(atp_event_terms(event.at(), index.into(), out.at()));
        self.expect(&self.open_events, memory, status);
        if status == atp_status::ATP_OK && out.0[0] as usize == size_of::<atp_group_terms>() {
            // SAFETY: the call has filled it in, and the name is valid until the event is freed.
            let (terms, name) = unsafe {
                let terms = out.at::<atp_group_terms>().read();
                (terms, CStr::from_ptr(terms.name))
            };
            assert!((0.0..=1.0).contains(&terms.msr) && name.to_bytes().len() <= 32);
        }
    }

    pub(super) fn arrivals(&mut self, on: u8, size: Size, len: u8) {
        let (handle, len) = (self.handle(on), usize::from(len % 4));
        let mut memory = Memory::new(size, size_of::<atp_group_arrivals>());
        let stride = memory.0[0] as usize;
        if stride.saturating_mul(len) > WORDS * 8 {
            return;
        }
        let mut found = 0;
        let receiver = atp_receiver { handle };
        let status = call!(atp_receiver_progress(receiver, memory.at(), len, &raw mut found));
        self.expect(&self.receivers, handle, status);
    }

    /// The run of an event that was received, or no run.
    pub(super) fn run_of(&self, event: u8) -> u64 {
        self.runs.get(usize::from(event)).copied().unwrap_or_default()
    }

    pub(super) fn free_event(&mut self, memory: u64) {
        let mut event = Self::event(memory);
        let status = call!(atp_event_free(event.at()));
        assert_eq!(self.open_events.contains(&memory), status == atp_status::ATP_OK);
        self.open_events.retain(|open| *open != memory);
    }

    pub(super) fn look(&mut self, on: u8, size: Size, len: u8) {
        let handle = self.handle(on);
        let receiver = atp_receiver { handle };
        let mut memory = Memory::new(size, size_of::<atp_receiver_stats>());
        let status = call!(atp_receiver_get_stats(receiver, memory.at()));
        self.expect(&self.receivers, handle, status);
        let mut fd = -1;
        let status = call!(atp_receiver_readable_fd(receiver, &raw mut fd));
        self.expect(&self.receivers, handle, status);
        let status = call!(atp_job_changed_fd(atp_job { handle }, &raw mut fd));
        self.expect(&self.jobs, handle, status);
        let (mut text, len) = ([1; 64], usize::from(len % 64));
        let address =
            atp_address { version: u16::from(on % 8), scope: 5, ..atp_address::default() };
        call!(atp_address_text(&raw const address, text.as_mut_ptr(), len));
        assert!(text[len..].iter().all(|byte| *byte == 1), "it wrote behind the text");
    }
}
