//! Bytes of a fuzzer in intact segments: it hardly finds a checksum by itself.

/// The data in segments of at most 1000 bytes, with checksums that are right.
pub(crate) fn segments(data: &[u8], lz4_headers: bool, self_contained: bool) -> Vec<u8> {
    let mut out = Vec::new();
    for payload in data.chunks(1000) {
        let length = payload.len() as u64;
        let contained = u64::from(self_contained);
        let header = match lz4_headers {
            true => length | contained << 34,
            false => length | contained << 17,
        };
        let header_length = if lz4_headers { 5 } else { 3 };
        let header = &header.to_le_bytes()[..header_length];
        out.extend_from_slice(header);
        out.extend_from_slice(&crc24(header).to_le_bytes()[..3]);
        out.extend_from_slice(payload);
        let mut crc = crc32fast::Hasher::new();
        crc.update(&[0xFA, 0x2D, 0x55, 0xCA]);
        crc.update(payload);
        out.extend_from_slice(&crc.finalize().to_le_bytes());
    }
    out
}

fn crc24(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x0087_5060, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte) << 16, |crc, _| {
            let carry = if crc & 0x0080_0000 != 0 {
                0x0197_4F0B
            } else {
                0
            };
            (crc << 1) ^ carry
        })
    })
}
