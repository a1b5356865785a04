//! Fuzzes the header and all bodies with any bytes: no panic, and accepted bytes are those that
//! would be written.

use arbitrary::{Arbitrary, Unstructured};
use atp_common::wire::{
    COUNT_MAX, FIN_BODY_LEN_MAX, FIN_GROUPS_MAX, Fields, FinBody, Flags, HEADER_LEN, Header, Kind,
    PROBE_EPOCHS, PROBE_LEN, PROBE_SLOTS, PROBE_WORDS, PackedBody, ParseError, ProbeBody,
    RECEIPT_WORDS_MAX, REQUEST_BODY_LEN_MAX, ReceiptBody, RequestBody, ResetReason,
    SEGMENTATION_BITS, TERMS_BODY_LEN_MAX, TERMS_GROUPS_MAX, TermsBody, U24_MAX, member_header,
    probe_packet,
};

/// Reads `data` as a packet, then as each of its parts.
pub fn run(data: &[u8]) {
    match Header::parse(data) {
        Ok((header, kind)) => check_header(&header, kind, &data[..HEADER_LEN]),
        Err(error) => assert_eq!(error == ParseError::Short, data.len() < HEADER_LEN),
    }
    // Bodies are also read without a header before them, because a fuzzer finds such bodies faster.
    for body in [data, data.get(HEADER_LEN..).unwrap_or_default()] {
        check_receipt(body);
        check_fin(body);
        check_probe(body);
        check_packed(body);
        check_terms(body);
        check_request(body);
    }
    check_built(data).ok();
}

fn check_header(header: &Header, kind: Kind, bytes: &[u8]) {
    assert_eq!(header.as_bytes(), bytes);
    assert_eq!(header.kind(), Ok(kind));
    assert!(header.count() <= COUNT_MAX && header.index() <= U24_MAX);
    let rebuilt = Header::new(&fields_of(header, kind)).with_segmentation(header.segmentation());
    let is_data = matches!(kind, Kind::Data | Kind::Ack);
    let rebuilt = match header.window().filter(|_| is_data) {
        Some(window) => rebuilt.with_window(window),
        None => rebuilt,
    };
    assert_eq!(rebuilt, *header);
    for time in [0, u64::from(header.time()) << 10, u64::MAX] {
        assert!(header.age_ns(time).is_none_or(|age_ns| age_ns >> 10 <= u64::from(u32::MAX / 2)));
    }
    if kind == Kind::Data {
        let (ack, ack_kind) = Header::parse(header.into_ack(true).as_bytes()).expect("an ACK");
        assert_eq!((ack_kind, ack.segmentation()), (Kind::Ack, header.segmentation()));
        let echoed = Fields { kind, flags: header.flags(), ..fields_of(&ack, kind) };
        assert_eq!(echoed, fields_of(header, kind));
    }
    assert!(kind.flags().contains(header.flags()), "{kind:?} with {:?}", header.flags());
    if matches!(kind, Kind::Probe | Kind::ProbeAck) {
        assert_eq!(header.slot() % 32, 0);
        let (answer, answer_kind) =
            Header::parse(header.into_probe_ack().as_bytes()).expect("an answer");
        let echoed = fields_of(&answer, kind);
        assert_eq!((answer_kind, echoed), (Kind::ProbeAck, fields_of(header, kind)));
        let probe = probe_packet(header);
        assert_eq!(probe[..HEADER_LEN], *bytes);
        assert_eq!(ProbeBody::parse(&probe[HEADER_LEN..]), Some(ProbeBody::default()));
    }
    if let Some(reason) = ResetReason::from_wire(header.epoch()) {
        assert_eq!(reason as u16, header.epoch());
        assert!(!reason.explain().is_empty());
    }
}

fn fields_of(header: &Header, kind: Kind) -> Fields {
    Fields {
        kind,
        flags: header.flags(),
        group: header.group(),
        job: header.job(),
        cookie: header.cookie(),
        message: header.message(),
        index: header.index(),
        count: header.count(),
        epoch: header.epoch(),
        slot: header.slot(),
        time: header.time(),
    }
}

fn check_receipt(bytes: &[u8]) {
    let Some(body) = ReceiptBody::parse(bytes) else { return };
    let words: Vec<_> = body.words().collect();
    assert!(words.len() <= RECEIPT_WORDS_MAX && words.iter().all(|word| word.index <= U24_MAX));
    let mut out = [0; 12 * (RECEIPT_WORDS_MAX + 1)];
    let counts = (body.cumulative, body.delivered, body.packets_arrived);
    let len = ReceiptBody::write(&mut out, counts.0, counts.1, counts.2, &words);
    assert_eq!(len.map(|len| &out[..len]), Some(bytes));
    assert_eq!(ReceiptBody::write(&mut out[..bytes.len() - 1], 0, 0, 0, &words), None);
}

fn check_fin(bytes: &[u8]) {
    let Some(body) = FinBody::parse(bytes) else { return };
    assert_eq!(body.bytes(), bytes.len());
    let groups: Vec<_> = body.groups().collect();
    assert!((1..=FIN_GROUPS_MAX).contains(&groups.len()));
    assert!(groups.windows(2).all(|pair| pair[0].group < pair[1].group));
    assert!(groups.iter().all(|group| group.needed.max(group.delivered) <= group.messages));
    let mut out = [0xff; FIN_BODY_LEN_MAX];
    let len = FinBody::write(&mut out, body.window(), &groups).expect("it came in one packet");
    assert_eq!(&out[..len], bytes);
}

fn check_terms(bytes: &[u8]) {
    let Some(body) = TermsBody::parse(bytes) else { return };
    let groups: Vec<_> = body.groups().collect();
    assert!((1..=TERMS_GROUPS_MAX).contains(&groups.len()));
    assert!(groups.windows(2).all(|pair| pair[0].group < pair[1].group));
    assert!(groups.iter().all(|group| !group.name.as_str().contains(char::is_control)));
    let mut out = [0xff; TERMS_BODY_LEN_MAX];
    let len = TermsBody::write(&mut out, body.window, body.answered, groups.into_iter());
    assert_eq!(&out[..len.expect("it came in one packet")], bytes);
}

fn check_request(bytes: &[u8]) {
    let Some(body) = RequestBody::parse(bytes) else { return };
    let groups: Vec<_> = body.groups().collect();
    assert!(body.end || !groups.is_empty());
    let mut out = [0xff; REQUEST_BODY_LEN_MAX];
    let len = RequestBody::write(&mut out, body.end, groups.into_iter());
    assert_eq!(&out[..len.expect("it came in one packet")], bytes);
}

/// Checks that any bytes of the right length are a body, and that setting one part changes no
/// other.
fn check_probe(bytes: &[u8]) {
    let Some(body) = ProbeBody::parse(bytes) else {
        return assert_ne!(bytes.len(), PROBE_LEN - HEADER_LEN);
    };
    assert_eq!(body.as_bytes(), bytes);
    let mut built = ProbeBody::default();
    (0..PROBE_WORDS).for_each(|at| built.set_word(at, body.word(at)));
    (0..PROBE_EPOCHS).for_each(|at| built.set_epoch(at, body.epoch(at).unwrap_or_default()));
    assert!((0..PROBE_WORDS).all(|at| built.word(at) == body.word(at)));
    assert!((0..PROBE_EPOCHS).all(|at| built.epoch(at) == body.epoch(at)));
    let slots: u32 = (0..PROBE_WORDS).map(|at| body.word(at).count_ones()).sum();
    assert!(slots <= PROBE_SLOTS);
}

/// Checks that a header built from any fields is parsed back.
fn check_built(data: &[u8]) -> arbitrary::Result<()> {
    let u = &mut Unstructured::new(data);
    let kind = *u.choose(&Kind::ALL)?;
    let slots_of_words = if matches!(kind, Kind::Probe | Kind::ProbeAck) { !31 } else { !0 };
    let count = u.int_in_range(1..=COUNT_MAX)?;
    let fields = Fields {
        kind,
        flags: flags(kind, u.arbitrary()?),
        group: u.arbitrary()?,
        job: u.arbitrary()?,
        cookie: u.arbitrary()?,
        message: u.arbitrary()?,
        index: u.int_in_range(0..=count - 1)?,
        count,
        epoch: u.arbitrary()?,
        slot: u32::arbitrary(u)? & slots_of_words,
        time: u32::arbitrary(u)?,
    };
    let segmentation = u.int_in_range(0..=(1 << SEGMENTATION_BITS) - 1)?;
    let built = Header::new(&fields).with_segmentation(segmentation);
    let (header, read) = Header::parse(built.as_bytes()).expect("a header that was just built");
    assert_eq!((fields_of(&header, read), header.segmentation()), (fields, segmentation));
    Ok(())
}

/// Reads a body as that of a packed packet, behind a header whose message and count fit it.
fn check_packed(body: &[u8]) {
    let Some(first) = body.first_chunk().map(|id| u32::from_be_bytes(*id)) else { return };
    let count = u32::from(body[body.len() - 1]);
    let header = Header::new(&Fields {
        flags: Flags::PACKED,
        message: first,
        count,
        ..Fields::of(Kind::Data)
    });
    let Some(packed) = PackedBody::parse(&header, body) else { return };
    assert!(count >= 2 && packed.members().count() == count as usize);
    let member = |(id, data): (u32, &[u8])| {
        let len = u16::try_from(data.len()).expect("it has 16 bits");
        [&member_header(id, len)[..], data].concat()
    };
    let written: Vec<u8> = packed.members().flat_map(member).collect();
    assert_eq!((written.len(), &written[..]), (packed.bytes(), &body[..packed.bytes()]));
}

/// The flags of a kind among eight flag bits.
pub(crate) fn flags(kind: Kind, bits: u8) -> Flags {
    let known = [
        (1, Flags::CONGESTION),
        (2, Flags::RETRANSMIT),
        (4, Flags::ORDERED),
        (8, Flags::FORCED), // PACKED in DATA
        (16, Flags::MORE),
        (16, Flags::BACKLOGGED),
        (32, Flags::NO_ACK),
        (64, Flags::WHOLE_WINDOW),
        (128, Flags::ENDED), // WINDOW in DATA
    ];
    let set =
        known.into_iter().filter(|(bit, flag)| bits & bit != 0 && kind.flags().contains(*flag));
    set.fold(Flags::NONE, |all, (_, flag)| all.with(flag))
}
