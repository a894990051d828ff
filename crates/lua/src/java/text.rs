//! Texts as Java has them: counted in units of UTF-16, of which what is beyond 65,535 has two.
//!
//! A text is UTF-8, in which half of such a character is what it would be if it was one, of three bytes
//! (WTF-8). Two halves that meet become the character.

use std::rc::Rc;

use mlua::{Lua, LuaString, Table};

use crate::sandbox::{Watch, late};

/// How many units there are.
fn units(text: &[u8]) -> usize {
    let of = |byte: &u8| usize::from(byte & 0xC0 != 0x80) + usize::from(*byte >= 0xF0);
    text.iter().map(of).sum()
}

/// At which byte the character of a unit begins, and whether the unit is its second half.
fn place(text: &[u8], unit: usize) -> (usize, bool) {
    let mut seen = 0;
    for (at, byte) in text.iter().enumerate() {
        if byte & 0xC0 == 0x80 {
            continue;
        }
        if seen == unit {
            return (at, false);
        }
        let is_wide = *byte >= 0xF0;
        if is_wide && seen + 1 == unit {
            return (at, true);
        }
        seen += 1 + usize::from(is_wide);
    }
    (text.len(), false)
}

/// The number of the character that begins at a byte; also half of one is a character here.
fn code(text: &[u8], at: usize) -> u32 {
    let byte = |i: usize| u32::from(text.get(at + i).copied().unwrap_or_default());
    let rest = |i: usize| byte(i) & 0x3F;
    match byte(0) {
        lead @ 0xF0.. => (lead & 0x07) << 18 | rest(1) << 12 | rest(2) << 6 | rest(3),
        lead @ 0xE0.. => (lead & 0x0F) << 12 | rest(1) << 6 | rest(2),
        lead @ 0xC0.. => (lead & 0x1F) << 6 | rest(1),
        lead => lead,
    }
}

/// The two units of a character beyond 65,535.
fn halves(code: u32) -> (u32, u32) {
    let beyond = code.wrapping_sub(0x10000) & 0xF_FFFF;
    (0xD800 + (beyond >> 10), 0xDC00 + (beyond & 0x3FF))
}

fn push(text: &mut Vec<u8>, code: u32) {
    match char::from_u32(code) {
        Some(c) => text.extend(c.encode_utf8(&mut [0; 4]).as_bytes()),
        // Half of a character.
        None => text.extend([
            0xE0 | (code >> 12) as u8,
            0x80 | (code >> 6 & 0x3F) as u8,
            0x80 | (code & 0x3F) as u8,
        ]),
    }
}

/// The unit at a place that is in the text.
fn unit(text: &[u8], at: usize) -> u32 {
    let (at, is_second) = place(text, at);
    match code(text, at) {
        code @ 0x10000.. if is_second => halves(code).1,
        code @ 0x10000.. => halves(code).0,
        code => code,
    }
}

/// From one unit up to another, which are in the text, the first not behind the other.
fn part(text: &[u8], from: usize, to: usize) -> Vec<u8> {
    if from >= to {
        return Vec::new();
    }
    let (mut start, is_second) = place(text, from);
    let (end, is_cut) = place(text, to);
    let mut part = Vec::new();
    if is_second {
        push(&mut part, halves(code(text, start)).1);
        start += 4;
    }
    part.extend(text.get(start..end).unwrap_or_default());
    if is_cut {
        push(&mut part, halves(code(text, end)).0);
    }
    part
}

/// Does a text begin with half of a character, the second or the first?
fn is_half(text: &[u8], is_second: bool) -> bool {
    matches!(text, [0xED, 0xA0..=0xAF, ..] if !is_second)
        || matches!(text, [0xED, 0xB0..=0xBF, ..] if is_second)
}

/// Both texts, one behind the other.
fn joined(mut text: Vec<u8>, more: &[u8]) -> Vec<u8> {
    let last = text.len().saturating_sub(3);
    if is_half(&text[last..], false) && is_half(more, true) {
        let (first, second) = (code(&text, last), code(more, 0));
        text.truncate(last);
        push(
            &mut text,
            0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00),
        );
        text.extend(&more[3..]);
    } else {
        text.extend(more);
    }
    text
}

/// The last character first.
fn reversed(text: &[u8]) -> Vec<u8> {
    let mut reversed = Vec::with_capacity(text.len());
    let mut end = text.len();
    while end > 0 {
        let is_first = |at: &usize| text[*at] & 0xC0 != 0x80;
        let start = (0..end).rev().find(is_first).unwrap_or_default();
        reversed = joined(reversed, &text[start..end]);
        end = start;
    }
    reversed
}

/// As Java writes it to bytes: of half a character nothing is left but a mark.
fn told(text: &[u8]) -> Vec<u8> {
    let mut told = Vec::with_capacity(text.len());
    let mut at = 0;
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        match is_half(rest, false) || is_half(rest, true) {
            true => {
                told.push(b'?');
                at += 3;
            }
            false => {
                told.push(rest[0]);
                at += 1;
            }
        }
    }
    told
}

/// The text with what is changed in it, where it is one; halves of characters stay.
fn changed(text: &[u8], change: fn(&str) -> String) -> Vec<u8> {
    let mut changed = Vec::with_capacity(text.len());
    for chunk in text.utf8_chunks() {
        changed.extend(change(chunk.valid()).into_bytes());
        changed.extend(chunk.invalid());
    }
    changed
}

/// A text of fewer bytes takes no time.
const SHORT: usize = 4096;

/// What these functions do takes as long as a text is; nothing else looks at the clock meanwhile.
fn charge(watch: &Watch, text: &[u8]) -> mlua::Result<()> {
    match text.len() > SHORT && watch.is_late() {
        true => Err(late()),
        false => Ok(()),
    }
}

/// What makes a text of another one.
type Change = fn(&[u8]) -> Vec<u8>;

/// Functions of a text that give another one.
const CHANGES: [(&str, Change); 5] = [
    ("reversed", reversed),
    ("told", told),
    ("upper", |text| changed(text, str::to_uppercase)),
    ("lower", |text| changed(text, str::to_lowercase)),
    // Of what is no UTF-8 nothing is left but marks.
    ("decoded", |text| {
        String::from_utf8_lossy(text).into_owned().into_bytes()
    }),
];

/// Puts these functions into a table. Places are counted from 0, and are in the text.
pub(super) fn add(lua: &Lua, table: &Table, watch: &Rc<Watch>) -> mlua::Result<()> {
    for (name, change) in CHANGES {
        let watch = watch.clone();
        let function = move |lua: &Lua, text: LuaString| {
            let text = text.as_bytes();
            charge(&watch, &text)?;
            lua.create_string(change(&text))
        };
        table.raw_set(name, lua.create_function(function)?)?;
    }
    let of = watch.clone();
    let cut = move |lua: &Lua, (text, from, to): (LuaString, usize, usize)| {
        let text = text.as_bytes();
        charge(&of, &text)?;
        lua.create_string(part(&text, from, to))
    };
    table.raw_set("part", lua.create_function(cut)?)?;
    let of = watch.clone();
    let join = move |lua: &Lua, (text, more): (LuaString, LuaString)| {
        let text = text.as_bytes();
        charge(&of, &text)?;
        lua.create_string(joined(text.to_vec(), &more.as_bytes()))
    };
    table.raw_set("joined", lua.create_function(join)?)?;
    add_places(lua, table, watch)
}

/// What is asked of texts.
fn add_places(lua: &Lua, table: &Table, watch: &Rc<Watch>) -> mlua::Result<()> {
    let of = watch.clone();
    let count = move |_: &Lua, (text, to): (LuaString, usize)| {
        let text = text.as_bytes();
        charge(&of, &text)?;
        Ok(units(text.get(..to).unwrap_or(&text)))
    };
    table.raw_set("units", lua.create_function(count)?)?;
    let of = watch.clone();
    let at = move |_: &Lua, (text, at): (LuaString, usize)| {
        let text = text.as_bytes();
        charge(&of, &text)?;
        Ok(unit(&text, at))
    };
    table.raw_set("unit", lua.create_function(at)?)?;
    // At which byte a unit begins, or the one behind it, counted from 1.
    let of = watch.clone();
    let offset = move |_: &Lua, (text, unit): (LuaString, usize)| {
        let text = text.as_bytes();
        charge(&of, &text)?;
        let (at, is_second) = place(&text, unit);
        Ok(at + 1 + if is_second { 4 } else { 0 })
    };
    table.raw_set("offset", lua.create_function(offset)?)?;
    // Are all its characters below 256?
    let is_narrow = |_: &Lua, text: LuaString| Ok(text.as_bytes().iter().all(|byte| *byte < 0xC4));
    table.raw_set("is_narrow", lua.create_function(is_narrow)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_part_and_meet() {
        let text = "aé𝄞b".as_bytes();
        assert_eq!(units(text), 5);
        let all: Vec<u32> = (0..5).map(|at| unit(text, at)).collect();
        assert_eq!(all, [0x61, 0xE9, 0xD834, 0xDD1E, 0x62]);
        for at in 0..=5 {
            let (before, behind) = (part(text, 0, at), part(text, at, 5));
            assert_eq!((units(&before), units(&behind)), (at, 5 - at));
            assert_eq!(joined(before, &behind), text);
        }
        assert_eq!(told(&part(text, 1, 3)), "é?".as_bytes());
        assert_eq!(reversed(text), "b𝄞éa".as_bytes());
        // The halves the other way around: reversed, they meet.
        let apart = joined(part(text, 3, 4), &part(text, 2, 3));
        assert_eq!(reversed(&apart), "𝄞".as_bytes());
        assert_eq!(changed(&apart, str::to_uppercase), apart);
    }
}
