//! What the fuzz target does with an input; `cargo test` does the same with the kept corpus.

/// Parses a statement. Any text gives a statement or an error, and the same one each time.
pub(super) fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let once = cql::parse(text);
    let again = cql::parse(text);
    assert_eq!(format!("{once:?}"), format!("{again:?}"));
}
