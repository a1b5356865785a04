//! Captures made in the tests: every link type, damaged files, filters.

use super::*;
use atp_common::wire::{Ack, Fields, Flags, Header};
use etherparse::PacketBuilder;
use proptest::prelude::*;
use serde_json::Value;
use std::slice::from_ref;

const ETHERNET: u32 = 1;
const RAW: u32 = 101;
const SLL: u32 = 113;
const SLL2: u32 = 276;

/// A pcap file with one packet of each element.
fn pcap(link: u32, packets: &[Vec<u8>]) -> Vec<u8> {
    let mut file = Vec::new();
    file.extend(0xa1b2_c3d4u32.to_le_bytes());
    file.extend([2, 0, 4, 0]);
    file.extend([0; 8]);
    file.extend(65_535u32.to_le_bytes());
    file.extend(link.to_le_bytes());
    for packet in packets {
        let len = packet.len() as u32;
        file.extend([7, 500_000, len, len].into_iter().flat_map(u32::to_le_bytes));
        file.extend(packet);
    }
    file
}

/// A pcapng file of one interface with nanoseconds, and one packet of each element.
fn pcapng(link: u32, packets: &[Vec<u8>]) -> Vec<u8> {
    let mut file = Vec::new();
    let mut block = |kind: u32, body: &[u8]| {
        let len = (12 + body.len().next_multiple_of(4)) as u32;
        file.extend(kind.to_le_bytes());
        file.extend(len.to_le_bytes());
        file.extend(body);
        file.resize(file.len().next_multiple_of(4), 0);
        file.extend(len.to_le_bytes());
    };
    let mut section = 0x1a2b_3c4du32.to_le_bytes().to_vec();
    section.extend([1, 0, 0, 0]);
    section.extend([0xff; 8]);
    block(0x0a0d_0d0a, &section);
    let mut interface = link.to_le_bytes().to_vec();
    interface.extend([0; 4]);
    // if_tsresol: 10^-9 s. Then the end of options.
    interface.extend([9, 0, 1, 0, 9, 0, 0, 0, 0, 0, 0, 0]);
    block(1, &interface);
    for packet in packets {
        let time = 7_500_000_000u64;
        let len = packet.len() as u32;
        let head = [0, (time >> 32) as u32, time as u32, len, len];
        let mut body: Vec<u8> = head.into_iter().flat_map(u32::to_le_bytes).collect();
        body.extend(packet);
        block(6, &body);
    }
    file
}

fn data(job: u32, message: u32) -> Vec<u8> {
    let fields = Fields {
        flags: Flags::RETRANSMIT,
        group: 1,
        job,
        cookie: 0xdead_beef,
        message,
        count: 2,
        epoch: 3,
        slot: 4,
        time: 5,
        ..Fields::of(Kind::Data)
    };
    [&Header::new(&fields).as_bytes()[..], &[9; 10]].concat()
}

fn ethernet(payload: &[u8]) -> Vec<u8> {
    let builder = PacketBuilder::ethernet2([1; 6], [2; 6]).ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64);
    let mut packet = Vec::new();
    builder.udp(4000, 4747).write(&mut packet, payload).unwrap();
    packet
}

fn raw_v6(payload: &[u8]) -> Vec<u8> {
    let mut packet = Vec::new();
    let builder = PacketBuilder::ipv6([0x20; 16], [0x30; 16], 64);
    builder.udp(4000, 4747).write(&mut packet, payload).unwrap();
    packet
}

fn run(file: &[u8], filter: &Filter, json: bool) -> (String, Counts, Result<(), Failure>) {
    let (mut out, mut counts) = (Vec::new(), Counts::default());
    let outcome = decode(file, filter, json, &mut out, &mut counts);
    (String::from_utf8(out).unwrap(), counts, outcome)
}

fn counted(atp: u64, other: u64) -> Counts {
    Counts { atp, other, ..Counts::default() }
}

const LINE: &str = "7.500000000 10.0.0.1:4000 > 10.0.0.2:4747: DATA RETRANSMIT job 8 group 1 \
                    message 6 packet 0/2 segmentation 0 slot 4 epoch 3 time 5, 10 bytes\n";

#[test]
fn decode__every_link_type_in_both_formats() {
    let frame = ethernet(&data(8, 6));
    let ip = &frame[14..];
    let sll = [&[0; 14][..], &[8, 0], ip].concat();
    let sll2 = [&[8, 0][..], &[0; 18], ip].concat();
    let vlan = [&frame[..12], &[0x81, 0, 0, 5], &frame[12..]].concat();
    for (link, packet) in [
        (ETHERNET, frame.clone()),
        (ETHERNET, vlan),
        (RAW, ip.to_vec()),
        (12, ip.to_vec()),
        (SLL, sll),
        (SLL2, sll2),
    ] {
        for file in [pcap(link, from_ref(&packet)), pcapng(link, from_ref(&packet))] {
            let (text, counts, outcome) = run(&file, &Filter::default(), false);
            outcome.unwrap();
            assert_eq!((text.as_str(), counts), (LINE, counted(1, 0)), "link {link}");
        }
    }
    let (text, ..) = run(&pcap(RAW, &[raw_v6(&data(8, 6))]), &Filter::default(), false);
    assert!(text.contains("[2020:2020:2020:2020:2020:2020:2020:2020]:4000 > [3030:"), "{text}");
}

#[test]
fn decode__names_an_ack_s_time_of_arrival() {
    let (data, _) = Header::parse(&data(8, 6)).unwrap();
    let ack = Ack::answering(data, false, 77 << 10);
    for (data_len, text, json) in
        [(32, "time 5\n", Value::Null), (42, "time 5 arrived 77\n", 77.into())]
    {
        let file = pcap(ETHERNET, &[ethernet(ack.bytes(data_len))]);
        let (line, ..) = run(&file, &Filter::default(), false);
        assert!(line.contains(": ACK ") && line.ends_with(text), "{line}");
        let (line, ..) = run(&file, &Filter::default(), true);
        let packet: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(packet["arrived"], json);
    }
}

#[test]
fn decode__counts_other_packets() {
    let mut version_2 = data(8, 6);
    version_2[1] = 0x21;
    let packets = [vec![], vec![0; 60], ethernet(b"dns"), ethernet(&version_2)];
    let (text, counts, outcome) = run(&pcap(ETHERNET, &packets), &Filter::default(), false);
    outcome.unwrap();
    assert_eq!((text.as_str(), counts), ("", counted(0, 4)));
}

#[test]
fn decode__names_an_unsupported_link_type_once() {
    let wifi = 105;
    let packets = [ethernet(&data(8, 6)), ethernet(&data(9, 7))];
    for file in [pcap(wifi, &packets), pcapng(wifi, &packets)] {
        let (text, counts, outcome) = run(&file, &Filter::default(), false);
        outcome.unwrap();
        let unsupported_links = BTreeSet::from([105]);
        assert_eq!((text.as_str(), counts), ("", Counts { unsupported_links, ..counted(0, 2) }));
    }
}

#[test]
fn decode__filters_by_job_kind_and_port() {
    let packets = [ethernet(&data(8, 6)), ethernet(&data(9, 7))];
    let lines = |filter: Filter| run(&pcap(ETHERNET, &packets), &filter, false).0.lines().count();
    assert_eq!(lines(Filter::default()), 2);
    assert_eq!(lines(Filter { jobs: vec![9], ..Filter::default() }), 1);
    assert_eq!(lines(Filter { kinds: vec![kind("Fin-Ack").unwrap()], ..Filter::default() }), 0);
    assert_eq!(lines(Filter { ports: vec![1, 4747], ..Filter::default() }), 2);
    assert_eq!(lines(Filter { ports: vec![1], ..Filter::default() }), 0);
    assert!(kind("x").unwrap_err().to_string().ends_with("probe-ack, terms, request"));
}

#[test]
fn decode__json_has_the_fields_but_no_cookie() {
    let (text, ..) = run(&pcap(ETHERNET, &[ethernet(&data(8, 6))]), &Filter::default(), true);
    let packet: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(packet["time_ns"], 7_500_000_000u64);
    assert_eq!(packet["destination"], "10.0.0.2:4747");
    assert_eq!((&packet["kind"], &packet["flags"][0]), (&"DATA".into(), &"RETRANSMIT".into()));
    assert_eq!((&packet["job"], &packet["data_bytes"]), (&8.into(), &10.into()));
    assert!(packet.get("cookie").is_none());
}

#[test]
fn decode__says_what_is_wrong_in_one_packet() {
    let mut bad_flag = data(8, 6);
    bad_flag[2] = 1;
    let mut fin = data(8, 6);
    (fin[1], fin[2]) = (0x15, 0);
    let mut cut_off = ethernet(&data(8, 6));
    cut_off.truncate(cut_off.len() - 4);
    let packets = [ethernet(&bad_flag), ethernet(&fin), cut_off];
    let (text, counts, outcome) = run(&pcap(ETHERNET, &packets), &Filter::default(), false);
    outcome.unwrap();
    let lines: Vec<_> = text.lines().collect();
    assert!(lines[0].contains("invalid header: "), "{text}");
    assert!(lines[1].ends_with("malformed body"), "{text}");
    assert!(lines[2].ends_with(", 10 bytes"), "{text}");
    assert_eq!(counts, counted(3, 0));
}

#[test]
fn decode__refuses_a_file_that_is_no_capture() {
    for file in [&b""[..], b"hello", &[0; 4096]] {
        let (_, counts, outcome) = run(file, &Filter::default(), false);
        let error = outcome.unwrap_err().to_string();
        assert_eq!(error, "the file is neither a pcap nor a pcapng capture");
        assert_eq!(counts, Counts::default());
    }
}

#[test]
fn decode__prints_a_truncated_file_up_to_its_end() {
    let packets = [ethernet(&data(8, 6)), ethernet(&data(8, 6))];
    for file in [pcap(ETHERNET, &packets), pcapng(ETHERNET, &packets)] {
        let (text, _, outcome) = run(&file[..file.len() - 3], &Filter::default(), false);
        assert_eq!(text, LINE);
        assert_eq!(outcome.unwrap_err().to_string(), "the file ends within a packet");
    }
}

#[test]
fn decode__tells_a_full_output_from_a_damaged_file() {
    let file = pcap(ETHERNET, &[ethernet(&data(8, 6))]);
    let mut full = &mut [0; 9][..];
    let outcome = decode(&file[..], &Filter::default(), false, &mut full, &mut Counts::default());
    assert!(matches!(outcome, Err(Failure::Write(_))), "{outcome:?}");
    let (_, _, outcome) = run(&file[..file.len() - 1], &Filter::default(), false);
    assert!(matches!(outcome, Err(Failure::Read(_))), "{outcome:?}");
}

#[test]
fn decode__a_large_packet_grows_the_buffer() {
    let large = vec![0; 3 << 20];
    let packets = [large, ethernet(&data(8, 6))];
    for file in [pcap(ETHERNET, &packets), pcapng(ETHERNET, &packets)] {
        let (text, counts, outcome) = run(&file, &Filter::default(), false);
        outcome.unwrap();
        assert_eq!((text.as_str(), counts), (LINE, counted(1, 1)));
    }
}

proptest! {
    /// Any bytes, damage and truncation give lines or an error, and end.
    #[test]
    fn decode__hostile_input(
        next_generation: bool,
        link in prop::sample::select(vec![ETHERNET, RAW, SLL, SLL2, 12, 0]),
        payload in proptest::collection::vec(any::<u8>(), 0..600),
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
        end in any::<prop::sample::Index>(),
        json: bool,
    ) {
        // The first bytes are valid, so that every kind and body is reached.
        let mut body = payload.clone();
        if let Some(start) = body.first_chunk_mut::<3>() {
            *start = [0xa7, 0x10 | (start[1] % 9), 0];
        }
        let packets = [ethernet(&data(1, 2)), ethernet(&body), raw_v6(&body), payload];
        let mut file = if next_generation { pcapng(link, &packets) } else { pcap(link, &packets) };
        for (at, byte) in damage {
            let at = at.index(file.len());
            file[at] = byte;
        }
        file.truncate(end.index(file.len()).max(file.len() / 2));
        let _ = run(&file, &Filter::default(), json);
    }

    #[test]
    fn decode__arbitrary_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..400), json: bool) {
        let _ = run(&bytes, &Filter::default(), json);
    }
}
