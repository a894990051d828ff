//! Checksums that fit, put over those of an input: a fuzzer hardly finds one, and what they guard
//! has to bear anything.

/// `Statistics.db` of a version with checksums: of the table of contents and of each part.
pub(super) fn statistics(file: &mut [u8]) {
    let word = |file: &[u8], at: usize| {
        let bytes = file.get(at..at + 4)?;
        Some(u32::from_be_bytes(bytes.try_into().ok()?) as usize)
    };
    let Some(count) = word(file, 0).filter(|count| *count <= 16) else {
        return;
    };
    let starts: Vec<usize> = (0..count).filter_map(|i| word(file, 12 + 8 * i)).collect();
    let mut contents = file.get(..4).unwrap_or_default().to_vec();
    put(file, 4, crc32fast::hash(&contents));
    contents.extend(file.get(8..8 + 8 * count).unwrap_or_default());
    put(file, 8 + 8 * count, crc32fast::hash(&contents));
    for start in &starts {
        let behind = starts.iter().filter(|s| *s > start).min();
        let end = behind.map_or(file.len(), |end| *end);
        if let Some(part) = end.checked_sub(4).and_then(|end| file.get(*start..end)) {
            let sum = crc32fast::hash(part);
            put(file, end - 4, sum);
        }
    }
}

/// Puts a number where there is room for it.
pub(super) fn put(file: &mut [u8], at: usize, number: u32) {
    if let Some(place) = file.get_mut(at..at.saturating_add(4)) {
        place.copy_from_slice(&number.to_be_bytes());
    }
}
