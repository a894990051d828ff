//! Two sides that talk, and bytes that come in any pieces.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::LazyLock;

use node::tls::{ClientAuth, Tls, TlsContext, TlsError, TlsSettings, TlsVersions};
use proptest::prelude::*;

use crate::certificates::{Authority, WALL_MICROS, context, strict};

const HERE: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
const THERE: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));

static AUTHORITY: LazyLock<Authority> = LazyLock::new(Authority::new);

/// Both sides of a connection from `HERE` to `THERE`.
struct Pair {
    here: Tls,
    there: Tls,
    /// What each has heard.
    heard: [Vec<u8>; 2],
}

impl Pair {
    fn new(here: &TlsContext, there: &TlsContext) -> Pair {
        Pair {
            here: here.connect(THERE, WALL_MICROS).expect("it may"),
            there: there.accept(WALL_MICROS).expect("it may"),
            heard: [Vec::new(), Vec::new()],
        }
    }

    /// Carries what is to be sent from side to side in pieces until there is no more.
    fn carry(&mut self, mut piece: impl FnMut() -> usize) -> Result<(), TlsError> {
        loop {
            let (mut to_there, mut to_here) = (Vec::new(), Vec::new());
            self.here.take_output(&mut to_there);
            self.there.take_output(&mut to_here);
            if to_there.is_empty() && to_here.is_empty() {
                return Ok(());
            }
            deliver(&mut self.there, &to_there, &mut self.heard[1], &mut piece)?;
            deliver(&mut self.here, &to_here, &mut self.heard[0], &mut piece)?;
        }
    }
}

fn deliver(
    to: &mut Tls,
    mut bytes: &[u8],
    heard: &mut Vec<u8>,
    piece: &mut impl FnMut() -> usize,
) -> Result<(), TlsError> {
    while !bytes.is_empty() {
        let (now, later) = bytes.split_at(piece().clamp(1, bytes.len()));
        to.receive(now, heard)?;
        bytes = later;
    }
    Ok(())
}

/// Two sides that have agreed upon TLS 1.3.
fn agreed() -> Pair {
    let mut pair = Pair::new(
        &context(&strict(), &AUTHORITY.credentials(HERE)),
        &context(&strict(), &AUTHORITY.credentials(THERE)),
    );
    pair.carry(|| usize::MAX).expect("they agree");
    pair
}

/// The bits of a record's head that TLS 1.3 only has for what stands between, and that need not be looked at:
/// the outer type (the true one is encrypted) and a version that "MUST be ignored for all purposes" (RFC 8446,
/// 5.1 and 5.2).
const FOR_SHOW: std::ops::Range<usize> = 0..24;

/// What the other side hears of records of which one bit was changed on the way.
fn heard_with_changed(pair: &mut Pair, sent: &mut [u8], bit: usize) -> Vec<u8> {
    sent[bit / 8] ^= 1 << (bit % 8);
    let mut heard = Vec::new();
    // A longer record may be waited for, or the record is damaged.
    let _ = pair.there.receive(sent, &mut heard);
    heard
}

fn versions() -> impl Strategy<Value = TlsVersions> {
    prop::sample::select(vec![TlsVersions::Both, TlsVersions::V12, TlsVersions::V13])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn what_is_said_is_heard_in_any_pieces(
        (here, there) in (versions(), versions()),
        pieces in prop::collection::vec(1usize..5_000, 1..20),
        said in prop::collection::vec((any::<bool>(), 0usize..40_000), 0..4),
    ) {
        let settings = |versions| TlsSettings { versions, ..strict() };
        let mut pair = Pair::new(
            &context(&settings(here), &AUTHORITY.credentials(HERE)),
            &context(&settings(there), &AUTHORITY.credentials(THERE)),
        );
        let mut pieces = pieces.into_iter().cycle();
        let mut piece = || pieces.next().unwrap_or(1);
        let agreed = pair.carry(&mut piece);
        let apart = matches!(
            (here, there),
            (TlsVersions::V12, TlsVersions::V13) | (TlsVersions::V13, TlsVersions::V12)
        );
        prop_assert_eq!(agreed.is_err(), apart);
        if apart {
            return Ok(());
        }
        prop_assert!(!pair.here.is_handshaking() && !pair.there.is_handshaking());
        let mut expected = [Vec::new(), Vec::new()];
        for (number, (from_here, length)) in said.into_iter().enumerate() {
            let words: Vec<u8> = (0..length).map(|at| (at + number) as u8).collect();
            let mut sent = Vec::new();
            let (to, side) = match from_here {
                true => {
                    pair.here.send(&words, &mut sent);
                    (&mut pair.there, 1)
                }
                false => {
                    pair.there.send(&words, &mut sent);
                    (&mut pair.here, 0)
                }
            };
            prop_assert!(length < 64 || !sent.windows(64).any(|window| window == &words[..64]));
            deliver(to, &sent, &mut pair.heard[side], &mut piece).expect("they have agreed");
            expected[side].extend(words);
        }
        prop_assert!(pair.heard == expected);
    }

    #[test]
    fn a_changed_bit_is_never_heard(bit in any::<prop::sample::Index>()) {
        let mut pair = agreed();
        let mut sent = Vec::new();
        pair.here.send(&[7; 500], &mut sent);
        let bit = bit.index(sent.len() * 8);
        let heard = heard_with_changed(&mut pair, &mut sent, bit);
        prop_assert!(heard.is_empty() || FOR_SHOW.contains(&bit) && heard == [7; 500]);
    }

    #[test]
    fn nothing_that_comes_is_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let here = context(&strict(), &AUTHORITY.credentials(HERE));
        let mut heard = Vec::new();
        for lead in [&[][..], &[0x16, 3, 1, 1, 0]] {
            let bytes = [lead, &bytes].concat();
            let mut client = here.connect(THERE, WALL_MICROS).expect("it may");
            let _ = client.receive(&bytes, &mut heard);
            let mut server = here.accept(WALL_MICROS).expect("it may");
            let _ = server.receive(&bytes, &mut heard);
        }
        prop_assert!(heard.is_empty());
    }
}

#[test]
fn a_changed_bit_of_a_records_head_changes_nothing_that_is_heard() {
    for bit in 0..5 * 8 {
        let mut pair = agreed();
        let mut sent = Vec::new();
        pair.here.send(&[7; 500], &mut sent);
        let heard = heard_with_changed(&mut pair, &mut sent, bit);
        let unchanged = FOR_SHOW.contains(&bit) && heard == [7; 500];
        assert!(heard.is_empty() || unchanged, "bit {bit}");
    }
}

/// What comes of a connection, as the side says that refuses.
fn refusal(here: &TlsContext, there: &TlsContext) -> Option<TlsError> {
    let mut pair = Pair::new(here, there);
    let agreed = pair.carry(|| usize::MAX);
    agreed.and_then(|()| pair.there.judge_address(HERE)).err()
}

/// Both sides show certificates, whatever their addresses.
fn anywhere() -> TlsSettings {
    TlsSettings {
        verify_addresses: false,
        ..strict()
    }
}

#[test]
fn certificates_of_strangers_are_not_taken_on_either_side() {
    let ours = AUTHORITY.credentials(HERE);
    // It believes us, but we do not believe it.
    let mut theirs = AUTHORITY.credentials(THERE);
    theirs.keystore = Authority::new().issue(THERE);
    let (ours, theirs) = (context(&anywhere(), &ours), context(&anywhere(), &theirs));
    for error in [refusal(&ours, &theirs), refusal(&theirs, &ours)] {
        let text = error.expect("an error").to_string();
        assert!(text.contains("nobody whom truststore"), "{text}");
    }
    assert!(theirs.own_verdict().is_err());
    assert_eq!(ours.own_verdict(), Ok(()));
}

#[test]
fn certificates_expire_by_the_time_that_is_given() {
    let good = context(&anywhere(), &AUTHORITY.credentials(HERE));
    let mut old = AUTHORITY.credentials(THERE);
    old.keystore = AUTHORITY.issue_until(THERE, 2023);
    let old = context(&anywhere(), &old);
    for error in [refusal(&good, &old), refusal(&old, &good)] {
        let text = error.expect("an error").to_string();
        assert_eq!(text, "its certificate has expired");
    }
    let text = old.own_verdict().expect_err("it has").to_string();
    assert_eq!(text, "its certificate has expired");
}

#[test]
fn addresses_are_looked_at_if_that_is_asked_for() {
    let moved: IpAddr = [10, 0, 0, 9].into();
    for verify_addresses in [true, false] {
        let settings = TlsSettings {
            verify_addresses,
            ..strict()
        };
        let here = context(&settings, &AUTHORITY.credentials(HERE));
        let there = context(&settings, &AUTHORITY.credentials(THERE));
        let other = context(&settings, &AUTHORITY.credentials(moved));
        assert_eq!(refusal(&here, &there), None);
        let (connecting, connected) = (refusal(&other, &there), refusal(&here, &other));
        if verify_addresses {
            assert_eq!(connecting, Some(TlsError::OtherAddress(HERE)));
            let text = connected.expect("an error").to_string();
            assert!(text.contains("require_endpoint_verification"), "{text}");
        } else {
            assert_eq!((connecting, connected), (None, None));
        }
    }
}

#[test]
fn who_shows_nothing_is_taken_as_the_settings_say() {
    let node = AUTHORITY.credentials(HERE);
    // One whose own certificate is of somebody else is asked for none, or refused.
    let mut stranger = AUTHORITY.credentials(HERE);
    stranger.outbound = Some(Authority::new().issue(HERE));
    let stranger = context(&TlsSettings::default(), &stranger);
    for (client_auth, taken) in [
        (ClientAuth::None, true),
        (ClientAuth::Optional, false),
        (ClientAuth::Required, false),
    ] {
        let settings = TlsSettings {
            client_auth,
            ..TlsSettings::default()
        };
        let there = context(&settings, &node);
        assert_eq!(
            refusal(&stranger, &there).is_none(),
            taken,
            "{client_auth:?}"
        );
    }
}
