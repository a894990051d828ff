//! Regular expressions of Java, matched in a time that grows with the text and the expression only.
//!
//! What an automaton cannot do (references back, looking ahead, what gives nothing back) is refused by
//! name, and so is what Java and the automaton mean differently. Letters, digits and blanks are those of ASCII,
//! as Java has them.

use std::cell::RefCell;
use std::iter::Peekable;
use std::rc::Rc;
use std::str::Chars;

use mlua::{Lua, LuaString, Table, Value};
use regex_automata::nfa::thompson;
use regex_automata::util::syntax;
use regex_automata::{Anchored, Input, PatternID, meta};

use super::native::{Thrown, answer};
use crate::sandbox::{Watch, late};

/// How many bytes an automaton may have, and how many characters an expression.
const MAX_BYTES: usize = 128 << 10;
const MAX_LENGTH: usize = 2000;
/// How many expressions are kept ready.
const MAX_KEPT: usize = 16;
/// How many steps it may take to look through a text: an automaton that is in each of its states at once
/// takes one for each at each byte. A few milliseconds.
const MAX_STEPS: usize = 20_000_000;

/// What Java's `.` is not.
const LINE_ENDS: &str = "\\n\\r\\x{85}\\x{2028}\\x{2029}";

/// An expression as the automaton has it, and whether `$` is in it.
pub(super) fn translated(regex: &str) -> Option<(String, bool)> {
    if regex.len() > MAX_LENGTH {
        return None;
    }
    let mut reader = regex.chars().peekable();
    let (mut text, mut has_end) = (String::new(), false);
    while let Some(c) = reader.next() {
        match c {
            '\\' if reader.next_if_eq(&'Q').is_some() => quoted(&mut reader, &mut text),
            '\\' => text.push_str(&escaped(reader.next()?, &mut reader)?),
            '.' => text.push_str(&format!("[^{LINE_ENDS}]")),
            '[' => text.push_str(&set(&mut reader)?),
            '(' if reader.next_if_eq(&'?').is_some() => text.push_str(&group(&mut reader)?),
            '*' | '+' | '?' | '{' => {
                text.push_str(&repetition(c, &mut reader)?);
                // Java's third kind gives nothing back.
                text.extend(reader.next_if_eq(&'?'));
                if matches!(reader.peek(), Some('+' | '*' | '?')) {
                    return None;
                }
            }
            '$' => {
                has_end = true;
                text.push('$');
            }
            '^' | '|' | '(' | ')' => text.push(c),
            c => text.push_str(&plain(c)),
        }
    }
    Some((text, has_end))
}

fn plain(c: char) -> String {
    match c.is_ascii_punctuation() {
        true => format!("\\{c}"),
        false => c.to_string(),
    }
}

/// What is between `\Q` and `\E` stands for itself.
fn quoted(reader: &mut Peekable<Chars<'_>>, text: &mut String) {
    while let Some(c) = reader.next() {
        if c == '\\' && reader.next_if_eq(&'E').is_some() {
            return;
        }
        text.push_str(&plain(c));
    }
}

/// A class of characters that has a letter: what is within its brackets.
fn class(letter: char) -> Option<&'static str> {
    Some(match letter {
        'd' => "0-9",
        'w' => "a-zA-Z0-9_",
        's' => " \\t\\n\\x0B\\f\\r",
        _ => return None,
    })
}

/// A class that has a name, of ASCII.
fn named_class(reader: &mut Peekable<Chars<'_>>) -> Option<&'static str> {
    reader.next_if_eq(&'{')?;
    let mut name = String::new();
    while let Some(c) = reader.next_if(|c| c.is_ascii_alphabetic()) {
        name.push(c);
    }
    reader.next_if_eq(&'}')?;
    Some(match name.as_str() {
        "Lower" => "a-z",
        "Upper" => "A-Z",
        "Alpha" => "a-zA-Z",
        "Digit" => "0-9",
        "Alnum" => "a-zA-Z0-9",
        "Punct" => "!-/:-@\\[-`{-~",
        "Space" => " \\t\\n\\x0B\\f\\r",
        "XDigit" => "0-9a-fA-F",
        "ASCII" => "\\x00-\\x7F",
        _ => return None,
    })
}

fn escaped(c: char, reader: &mut Peekable<Chars<'_>>) -> Option<String> {
    Some(match c {
        'b' => "(?-u:\\b)".to_owned(),
        'A' | 'z' | 't' | 'n' | 'r' | 'f' => format!("\\{c}"),
        'p' => format!("[{}]", named_class(reader)?),
        'P' => format!("[^{}]", named_class(reader)?),
        c if c.is_ascii_lowercase() => format!("[{}]", class(c)?),
        c if c.is_ascii_uppercase() => format!("[^{}]", class(c.to_ascii_lowercase())?),
        c if c.is_ascii_punctuation() => plain(c),
        _ => return None,
    })
}

/// `[…]`, behind its bracket.
fn set(reader: &mut Peekable<Chars<'_>>) -> Option<String> {
    let is_negative = reader.next_if_eq(&'^').is_some();
    let mut set = if is_negative { "[^" } else { "[" }.to_owned();
    let mut is_first = true;
    loop {
        match reader.next()? {
            ']' if is_first => return None,
            ']' => break,
            '\\' => match reader.next()? {
                c @ ('t' | 'n' | 'r' | 'f') => set.push_str(&format!("\\{c}")),
                'p' => set.push_str(named_class(reader)?),
                c if c.is_ascii_punctuation() => set.push_str(&plain(c)),
                c => set.push_str(class(c)?),
            },
            // Sets within sets.
            '[' => return None,
            '&' if reader.peek() == Some(&'&') => return None,
            '-' if is_first || reader.peek() == Some(&']') => set.push_str("\\-"),
            '-' => set.push('-'),
            c => set.push_str(&plain(c)),
        }
        is_first = false;
    }
    set.push(']');
    Some(set)
}

/// What is behind `(?`.
fn group(reader: &mut Peekable<Chars<'_>>) -> Option<String> {
    match reader.next()? {
        ':' => Some("(?:".to_owned()),
        '<' if reader.peek().is_some_and(char::is_ascii_alphabetic) => {
            let mut name = String::new();
            while let Some(c) = reader.next_if(char::is_ascii_alphanumeric) {
                name.push(c);
            }
            reader.next_if_eq(&'>')?;
            Some(format!("(?<{name}>"))
        }
        _ => None,
    }
}

fn repetition(c: char, reader: &mut Peekable<Chars<'_>>) -> Option<String> {
    let mut text = c.to_string();
    if c == '{' {
        while let Some(c) = reader.next_if(|c| c.is_ascii_digit() || *c == ',') {
            text.push(c);
        }
        text.push(reader.next_if_eq(&'}')?);
    }
    Some(text)
}

/// An automaton, and how many states it has.
struct Automaton {
    regex: meta::Regex,
    states: usize,
    has_end: bool,
}

/// Those that were asked for last, with what they were made of.
type Kept = RefCell<Vec<(Vec<u8>, bool, Rc<Automaton>)>>;

fn absent(regex: &str) -> Thrown {
    format!(
        "java.lang.UnsupportedOperationException: the regular expression {regex} is not available in Helenus"
    )
}

/// The automaton of an expression, of a whole text or of a part.
fn automaton(regex: &str, is_whole: bool) -> Result<Automaton, Thrown> {
    let wrong = || absent(regex);
    let (text, has_end) = translated(regex).ok_or_else(wrong)?;
    let text = match is_whole {
        true => format!("\\A(?:{text})\\z"),
        false => text,
    };
    let limits = syntax::Config::new().nest_limit(100);
    let parsed = syntax::parse_with(&text, &limits).map_err(|_| wrong())?;
    let limits = thompson::Config::new().nfa_size_limit(Some(MAX_BYTES));
    let nfa = thompson::Compiler::new()
        .configure(limits)
        .build_from_hir(&parsed)
        .map_err(|_| wrong())?;
    let limits = meta::Config::new()
        .nfa_size_limit(Some(MAX_BYTES))
        .onepass_size_limit(Some(MAX_BYTES))
        .hybrid_cache_capacity(MAX_BYTES);
    let regex = meta::Builder::new()
        .configure(limits)
        .build_from_hir(&parsed)
        .map_err(|_| wrong())?;
    Ok(Automaton {
        regex,
        states: nfa.states().len(),
        has_end,
    })
}

/// Is it one that there is an automaton of?
pub(super) fn is_available(regex: &str) -> bool {
    automaton(regex, false).is_ok()
}

fn kept(kept: &Kept, regex: &LuaString, is_whole: bool) -> Result<Rc<Automaton>, Thrown> {
    let bytes = regex.as_bytes();
    let mut kept = kept.borrow_mut();
    let known = kept
        .iter()
        .find(|(known, of, _)| **known == *bytes && *of == is_whole);
    if let Some((_, _, automaton)) = known {
        return Ok(automaton.clone());
    }
    let made = Rc::new(automaton(&regex.to_string_lossy(), is_whole)?);
    if kept.len() >= MAX_KEPT {
        kept.remove(0);
    }
    kept.push((bytes.to_vec(), is_whole, made.clone()));
    Ok(made)
}

/// Does it end as a line does? Java's `$` is before that, too.
fn ends_a_line(text: &[u8]) -> bool {
    let ends = ["\n", "\r", "\u{85}", "\u{2028}", "\u{2029}"];
    ends.iter().any(|end| text.ends_with(end.as_bytes()))
}

impl Automaton {
    /// From where to where each group is, counted from 1, the ends with it; those that are not there are false.
    fn find(&self, lua: &Lua, text: &[u8], from: usize, anchored: bool) -> mlua::Result<Value> {
        let anchored = if anchored {
            Anchored::Yes
        } else {
            Anchored::No
        };
        let mut captures = self.regex.create_captures();
        let input = Input::new(text).range(from..).anchored(anchored);
        self.regex.search_captures(&input, &mut captures);
        if !captures.is_match() {
            return Ok(Value::Nil);
        }
        let found = lua.create_table()?;
        found.raw_set("n", captures.group_len() - 1)?;
        for group in 0..captures.group_len() {
            let (start, end) = match captures.get_group(group) {
                Some(span) => (
                    Value::Integer(span.start as i64 + 1),
                    Value::Integer(span.end as i64),
                ),
                None => (Value::Boolean(false), Value::Boolean(false)),
            };
            found.raw_set(2 * group + 1, start)?;
            found.raw_set(2 * group + 2, end)?;
        }
        Ok(Value::Table(found))
    }
}

/// Puts `find_regex(regex, text, from, kind)` and what belongs to it into a table. A kind is `find`,
/// `start` (there, and nowhere behind it) or `whole`.
pub(super) fn add(lua: &Lua, table: &Table, watch: &Rc<Watch>) -> mlua::Result<()> {
    let all: Rc<Kept> = Rc::default();
    let (of, clock) = (all.clone(), watch.clone());
    let find =
        move |lua: &Lua, (regex, text, from, kind): (LuaString, LuaString, usize, String)| {
            if clock.is_late() {
                return Err(late());
            }
            let automaton = match kept(&of, &regex, kind == "whole") {
                Ok(automaton) => automaton,
                Err(thrown) => return answer(lua, Err::<Value, _>(thrown)),
            };
            let text = text.as_bytes();
            let from = from.saturating_sub(1);
            if from > text.len() {
                return answer(lua, Ok(Value::Nil));
            }
            if automaton.has_end && ends_a_line(&text) {
                let what = "java.lang.UnsupportedOperationException: $ in a regular expression, of a text that ends a line, is not available in Helenus";
                return answer(lua, Err::<Value, _>(what.to_owned()));
            }
            if (text.len() - from).saturating_mul(automaton.states) > MAX_STEPS {
                return Err(mlua::Error::runtime("pattern too complex"));
            }
            answer(lua, Ok(automaton.find(lua, &text, from, kind == "start")?))
        };
    table.raw_set("find_regex", lua.create_function(find)?)?;
    // How many groups there are; of a name, which one it has.
    let groups = move |lua: &Lua, (regex, name): (LuaString, Option<String>)| {
        let automaton = match kept(&all, &regex, false) {
            Ok(automaton) => automaton,
            Err(thrown) => return answer(lua, Err::<Value, _>(thrown)),
        };
        let groups = automaton.regex.group_info();
        let number = match name {
            Some(name) => groups.to_index(PatternID::ZERO, &name),
            None => Some(groups.group_len(PatternID::ZERO) - 1),
        };
        answer(lua, Ok(number))
    };
    table.raw_set("groups", lua.create_function(groups)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_automaton_cannot_do_is_refused() {
        for regex in [
            "(a)\\1",
            "(?=a)",
            "(?!a)",
            "(?<=a)",
            "(?<!a)",
            "(?i)a",
            "a*+",
            "a?+",
            "a++",
            "(?>a)",
            "[a&&b]",
            "[a[b]]",
            "\\pL",
            "\\B",
            "a{1000}{1000}",
            "[",
            "(",
            "a{x",
            "\\",
            "[]a]",
        ] {
            assert!(!is_available(regex), "{regex}");
        }
        for regex in [
            "",
            "(a|b)*?c+",
            "\\Q.*\\E",
            "[^\\w.-]",
            "(?<x>a){2,3}",
            "\\p{Punct}",
            "^é$",
        ] {
            assert!(is_available(regex), "{regex}");
        }
    }
}
