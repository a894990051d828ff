//! What an answer says: whether it is an error, and how many rows there are.

use crate::raw;

/// The bit of a header's flags that says that warnings come first.
const WARNING: u8 = 0x08;
const ERROR: u8 = 0x00;
const RESULT: u8 = 0x08;
/// The kind of a result that has rows.
const ROWS: u32 = 2;
/// Bits of the flags of rows' metadata.
const SAME_TABLE: u32 = 0x01;
const MORE_PAGES: u32 = 0x02;
const NO_METADATA: u32 = 0x04;
/// How deep types may be in each other: more than in any table that is measured.
const DEEPEST: u32 = 16;

/// The number of rows of an answer; 0 where it is none of rows. They are not taken apart.
///
/// # Errors
///
/// What the server says, or that it says what nobody understands.
pub(super) fn rows(opcode: u8, flags: u8, body: &[u8]) -> Result<usize, String> {
    let mut body = Reader(body);
    if flags & !WARNING != 0 {
        return Err(format!(
            "an answer with flags 0x{flags:02X}, which nobody asked for"
        ));
    }
    let read = match opcode {
        RESULT | ERROR if flags & WARNING != 0 => skip_texts(&mut body),
        RESULT | ERROR => Some(()),
        _ => return Err(format!("an answer of opcode 0x{opcode:02X} to EXECUTE")),
    };
    let said = read.and_then(|()| match opcode {
        ERROR => refusal(&mut body).map(Err),
        _ => result(&mut body).map(Ok),
    });
    said.unwrap_or_else(|| Err("an answer that ends too early".to_owned()))
}

/// An error: its code and its text.
fn refusal(body: &mut Reader) -> Option<String> {
    let code = body.int()?;
    let text = raw::shown(body.text()?);
    Some(format!("error 0x{code:04X}: {text}"))
}

fn result(body: &mut Reader) -> Option<usize> {
    if body.int()? != ROWS {
        return Some(0);
    }
    let (flags, columns) = (body.int()?, body.int()?);
    if flags & MORE_PAGES != 0 {
        let length = body.int()? as usize;
        body.take(length)?;
    }
    if flags & NO_METADATA == 0 {
        if flags & SAME_TABLE != 0 {
            skip(body, 2)?;
        }
        for _ in 0..columns {
            if flags & SAME_TABLE == 0 {
                skip(body, 2)?;
            }
            body.text()?;
            skip_type(body, DEEPEST)?;
        }
    }
    Some(body.int()? as usize)
}

fn skip(body: &mut Reader, texts: usize) -> Option<()> {
    (0..texts).try_for_each(|_| body.text().map(|_| ()))
}

/// A list of texts.
fn skip_texts(body: &mut Reader) -> Option<()> {
    let count = body.short()?;
    skip(body, count.into())
}

/// A type of a column, and those in it.
fn skip_type(body: &mut Reader, depth: u32) -> Option<()> {
    let depth = depth.checked_sub(1)?;
    let inner = match body.short()? {
        // A class by its name.
        0x00 => return skip(body, 1),
        // Lists and sets; maps.
        0x20 | 0x22 => 1,
        0x21 => 2,
        // User-defined types: keyspace, name, and fields with names.
        0x30 => {
            skip(body, 2)?;
            let fields = body.short()?;
            return (0..fields).try_for_each(|_| {
                body.text()?;
                skip_type(body, depth)
            });
        }
        0x31 => body.short()?,
        _ => 0,
    };
    (0..inner).try_for_each(|_| skip_type(body, depth))
}

/// The rest of a body.
struct Reader<'b>(&'b [u8]);

impl<'b> Reader<'b> {
    fn take(&mut self, length: usize) -> Option<&'b [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn short(&mut self) -> Option<u16> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u16::from_be_bytes(*taken))
    }

    fn int(&mut self) -> Option<u32> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_be_bytes(*taken))
    }

    fn text(&mut self) -> Option<&'b [u8]> {
        let length = self.short()?;
        self.take(length.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Vec<u8> {
        [&(text.len() as u16).to_be_bytes(), text.as_bytes()].concat()
    }

    /// A result of rows with the columns k text, v map<int, frozen<tuple<double, bigint>>>, u a type of one field.
    fn of_rows(flags: u32, rows: u32) -> Vec<u8> {
        let mut body = [ROWS, flags, 3].map(u32::to_be_bytes).concat();
        if flags & MORE_PAGES != 0 {
            body.extend_from_slice(b"\0\0\0\x02pg");
        }
        let table = [text("ks"), text("t")].concat();
        if flags & (SAME_TABLE | NO_METADATA) == SAME_TABLE {
            body.extend_from_slice(&table);
        }
        let types: [&[u16]; 2] = [&[0x0D], &[0x21, 0x09, 0x31, 2, 0x07, 0x02]];
        let mut types: Vec<Vec<u8>> = types
            .map(|ids| ids.iter().flat_map(|id| id.to_be_bytes()).collect())
            .into();
        types.push(
            [
                &b"\0\x30"[..],
                &text("ks"),
                &text("u"),
                b"\0\x01",
                &text("f"),
                b"\0\0",
                &text("a.Class"),
            ]
            .concat(),
        );
        for (name, kind) in ["k", "v", "u"].iter().zip(types) {
            if flags & NO_METADATA != 0 {
                break;
            }
            if flags & SAME_TABLE == 0 {
                body.extend_from_slice(&table);
            }
            body.extend_from_slice(&text(name));
            body.extend_from_slice(&kind);
        }
        body.extend_from_slice(&rows.to_be_bytes());
        body.extend_from_slice(b"and the rows");
        body
    }

    #[test]
    fn rows_are_counted_behind_any_metadata() {
        for flags in 0..8 {
            assert_eq!(rows(RESULT, 0, &of_rows(flags, 7)), Ok(7), "{flags}");
        }
        let warned = [&b"\0\x01"[..], &text("beware"), &of_rows(SAME_TABLE, 3)].concat();
        assert_eq!(rows(RESULT, WARNING, &warned), Ok(3));
        assert_eq!(rows(RESULT, 0, &1u32.to_be_bytes()), Ok(0));
    }

    #[test]
    fn errors_are_told_with_their_text() {
        let body = [&0x1001u32.to_be_bytes()[..], &text("too \x1bmuch")].concat();
        assert_eq!(
            rows(ERROR, 0, &body),
            Err("error 0x1001: too \\u{1b}much".to_owned())
        );
        assert!(rows(ERROR, 0, b"\0\0").unwrap_err().contains("too early"));
        assert!(rows(0x02, 0, b"").unwrap_err().contains("0x02"));
        assert!(rows(RESULT, 0x02, b"").unwrap_err().contains("flags"));
    }

    #[test]
    fn whatever_comes_is_survived() {
        let whole = of_rows(MORE_PAGES, 7);
        for end in 0..whole.len() - b"and the rows".len() {
            assert!(rows(RESULT, 0, &whole[..end]).is_err(), "{end}");
        }
        let nested = [
            &of_rows(SAME_TABLE, 0)[..12],
            &text("k"),
            &text("t"),
            &text("c"),
            &[0, 0x20].repeat(100_000),
        ];
        assert!(rows(RESULT, 0, &nested.concat()).is_err());
        let mut random = crate::generator::Random::new(7);
        for length in 0..500 {
            let mut bytes: Vec<u8> = (0..length % 64)
                .map(|_| (random.next() % 4) as u8)
                .collect();
            let _ = rows(RESULT, 0, &bytes);
            bytes.splice(
                0..0,
                [ROWS, SAME_TABLE, u32::MAX].map(u32::to_be_bytes).concat(),
            );
            let _ = rows(RESULT, 0, &bytes);
        }
    }
}
