//! Header and bodies from any bytes: no panic, and what is accepted is exactly what would be written.

use arbitrary::{Arbitrary, Unstructured};
use atp_common::wire::{
    COUNT_MAX, CUT_BITS, FIN_BODY_LEN_MAX, FIN_GROUPS_MAX, Fields, FinBody, Flags, HEADER_LEN,
    Header, Kind, ParseError, RECEIPT_WORDS_MAX, ReceiptBody, ResetReason, U24_MAX,
};

/// Reads `data` as a packet, then as each of its parts.
pub fn run(data: &[u8]) {
    match Header::parse(data) {
        Ok((header, kind)) => check_header(&header, kind, &data[..HEADER_LEN]),
        Err(error) => assert_eq!(error == ParseError::Short, data.len() < HEADER_LEN),
    }
    // As after a header, and as the only thing: the fuzzer then finds bodies without it.
    for body in [data, data.get(HEADER_LEN..).unwrap_or_default()] {
        check_receipt(body);
        check_fin(body);
    }
    check_built(data).ok();
}

fn check_header(header: &Header, kind: Kind, bytes: &[u8]) {
    assert_eq!(header.as_bytes(), bytes);
    assert_eq!(header.kind(), Ok(kind));
    assert!(header.count() <= COUNT_MAX && header.index() <= U24_MAX);
    let rebuilt = Header::new(&fields_of(header, kind)).with_cut(header.cut());
    assert_eq!(rebuilt, *header);
    for time in [0, u64::from(header.time()) << 10, u64::MAX] {
        assert!(header.age_ns(time).is_none_or(|age_ns| age_ns >> 10 <= u64::from(u32::MAX / 2)));
    }
    if kind == Kind::Data {
        let (ack, ack_kind) = Header::parse(header.into_ack(true).as_bytes()).expect("an ACK");
        assert_eq!((ack_kind, ack.cut()), (Kind::Ack, header.cut()));
        let echoed = Fields { kind, flags: header.flags(), ..fields_of(&ack, kind) };
        assert_eq!(echoed, fields_of(header, kind));
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
    let again = FinBody::parse(&out[..len]).expect("it was accepted before");
    assert_eq!((again.window(), len), (body.window(), bytes.len()));
    assert!(again.groups().eq(groups));
}

/// A header built from fields, whatever they are, is one that is read back.
fn check_built(data: &[u8]) -> arbitrary::Result<()> {
    let u = &mut Unstructured::new(data);
    let kinds = [Kind::Data, Kind::Ack, Kind::Receipt, Kind::Fin, Kind::FinAck, Kind::Reset];
    let kind = *u.choose(&kinds)?;
    let count = u.int_in_range(1..=COUNT_MAX)?;
    let fields = Fields {
        kind,
        flags: flags(u.arbitrary()?),
        group: u.arbitrary()?,
        job: u.arbitrary()?,
        cookie: u.arbitrary()?,
        message: u.arbitrary()?,
        index: u.int_in_range(0..=count - 1)?,
        count,
        epoch: u.arbitrary()?,
        slot: u.arbitrary()?,
        time: u32::arbitrary(u)?,
    };
    let cut = u.int_in_range(0..=(1 << CUT_BITS) - 1)?;
    let built = Header::new(&fields).with_cut(cut);
    let (header, read) = Header::parse(built.as_bytes()).expect("a header that was just built");
    assert_eq!((fields_of(&header, read), header.cut()), (fields, cut));
    Ok(())
}

/// The known ones of eight flag bits.
pub(crate) fn flags(bits: u8) -> Flags {
    let known = [
        (1, Flags::CONGESTION),
        (2, Flags::AGAIN),
        (4, Flags::ORDERED),
        (8, Flags::FORCED),
        (16, Flags::MORE),
        (64, Flags::ODD_WINDOW),
        (128, Flags::ENDED),
    ];
    let set = known.into_iter().filter(|(bit, _)| bits & bit != 0);
    set.fold(Flags::NONE, |all, (_, flag)| all.with(flag))
}
