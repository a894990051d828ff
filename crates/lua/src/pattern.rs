//! Lua's patterns, matched in a bounded number of steps: the C code of its library may take for ever
//! on a few bytes (`("a*"):rep(30) .. "b"`), and no hook is called in it.
//!
//! [`scan`] is the one thing that `find`, `match`, `gmatch` and `gsub` are made of (`prelude.lua`).
//! What patterns mean is in the Lua 5.4 manual, §6.4.1.

/// How deep a match may nest, and how many captures a pattern may have (`MAXCCALLS`,
/// `LUA_MAXCAPTURES`).
const MAX_DEPTH: u32 = 200;
const MAX_CAPTURES: usize = 32;

/// A capture: from where to where, counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Capture {
    /// Begun, not ended yet.
    Open(usize),
    /// A part of the subject.
    Part(usize, usize),
    /// `()`: a place in it.
    Position(usize),
}

/// A match.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Match {
    /// Where it begins.
    pub(crate) start: usize,
    /// Where it ends.
    pub(crate) end: usize,
    /// Its captures.
    pub(crate) captures: Vec<Capture>,
}

type Matched<T> = Result<T, &'static str>;

struct Matcher<'a> {
    subject: &'a [u8],
    pattern: &'a [u8],
    captures: Vec<Capture>,
    steps: u64,
    depth: u32,
}

/// The first match of `pattern` in `subject` from `init` on; one that begins with `^` matches only
/// there. `Err`: the pattern is malformed, or it would take more than so many steps.
pub(crate) fn scan(
    subject: &[u8],
    pattern: &[u8],
    init: usize,
    max_steps: u64,
) -> Matched<Option<Match>> {
    let (anchored, pattern) = match pattern.strip_prefix(b"^") {
        Some(rest) => (true, rest),
        None => (false, pattern),
    };
    let mut matcher = Matcher {
        subject,
        pattern,
        captures: Vec::new(),
        steps: max_steps,
        depth: MAX_DEPTH,
    };
    for start in init..=subject.len() {
        matcher.captures.clear();
        if let Some(end) = matcher.matches(start, 0)? {
            let captures = std::mem::take(&mut matcher.captures);
            if captures.iter().any(|c| matches!(c, Capture::Open(_))) {
                return Err("unfinished capture");
            }
            return Ok(Some(Match {
                start,
                end,
                captures,
            }));
        }
        if anchored {
            break;
        }
    }
    Ok(None)
}

fn class_of(byte: u8, class: u8) -> bool {
    let found = match class.to_ascii_lowercase() {
        b'a' => byte.is_ascii_alphabetic(),
        b'c' => byte.is_ascii_control(),
        b'd' => byte.is_ascii_digit(),
        b'g' => byte.is_ascii_graphic(),
        b'l' => byte.is_ascii_lowercase(),
        b'p' => byte.is_ascii_punctuation(),
        b's' => byte.is_ascii_whitespace() || byte == 0x0B,
        b'u' => byte.is_ascii_uppercase(),
        b'w' => byte.is_ascii_alphanumeric(),
        b'x' => byte.is_ascii_hexdigit(),
        _ => return class == byte,
    };
    found != class.is_ascii_uppercase()
}

impl Matcher<'_> {
    fn step(&mut self) -> Matched<()> {
        match self.steps.checked_sub(1) {
            Some(left) => self.steps = left,
            None => return Err("pattern too complex"),
        }
        Ok(())
    }

    fn byte(&self, at: usize) -> Option<u8> {
        self.pattern.get(at).copied()
    }

    /// Where the single item at `p` ends.
    fn item_end(&self, p: usize) -> Matched<usize> {
        match self.byte(p) {
            Some(b'%') => match self.byte(p + 1) {
                Some(_) => Ok(p + 2),
                None => Err("malformed pattern (ends with '%')"),
            },
            Some(b'[') => {
                let mut at = p + 1;
                if self.byte(at) == Some(b'^') {
                    at += 1;
                }
                loop {
                    // A bracket that comes first is one of the set.
                    let first = at;
                    at += match self.byte(at) {
                        None => return Err("malformed pattern (missing ']')"),
                        Some(b'%') => 2,
                        Some(_) => 1,
                    };
                    if self.byte(at) == Some(b']') && at > first {
                        return Ok(at + 1);
                    }
                }
            }
            _ => Ok(p + 1),
        }
    }

    /// Is the byte at `s` one of the item from `p` to `end`?
    fn single(&mut self, s: usize, p: usize, end: usize) -> Matched<bool> {
        self.step()?;
        let Some(byte) = self.subject.get(s).copied() else {
            return Ok(false);
        };
        Ok(match self.byte(p) {
            Some(b'.') => true,
            Some(b'%') => class_of(byte, self.byte(p + 1).unwrap_or_default()),
            Some(b'[') => self.in_set(byte, p, end - 1)?,
            other => other == Some(byte),
        })
    }

    /// `last` is the closing bracket.
    fn in_set(&mut self, byte: u8, p: usize, last: usize) -> Matched<bool> {
        let mut at = p + 1;
        let negated = self.byte(at) == Some(b'^');
        if negated {
            at += 1;
        }
        while at < last {
            self.step()?;
            let item = self.byte(at).unwrap_or_default();
            if item == b'%' {
                if class_of(byte, self.byte(at + 1).unwrap_or_default()) {
                    return Ok(!negated);
                }
                at += 2;
            } else if self.byte(at + 1) == Some(b'-') && at + 2 < last {
                let to = self.byte(at + 2).unwrap_or_default();
                if (item..=to).contains(&byte) {
                    return Ok(!negated);
                }
                at += 3;
            } else {
                if item == byte {
                    return Ok(!negated);
                }
                at += 1;
            }
        }
        Ok(negated)
    }

    /// Where the match of the pattern from `p` on, at `s`, ends.
    fn matches(&mut self, s: usize, p: usize) -> Matched<Option<usize>> {
        self.depth = match self.depth.checked_sub(1) {
            Some(left) => left,
            None => return Err("pattern too complex"),
        };
        let result = self.matches_items(s, p);
        self.depth += 1;
        result
    }

    fn matches_items(&mut self, mut s: usize, mut p: usize) -> Matched<Option<usize>> {
        loop {
            self.step()?;
            let Some(item) = self.byte(p) else {
                return Ok(Some(s));
            };
            match (item, self.byte(p + 1)) {
                (b'(', Some(b')')) => return self.open(Capture::Position(s), s, p + 2),
                (b'(', _) => return self.open(Capture::Open(s), s, p + 1),
                (b')', _) => return self.close(s, p + 1),
                (b'$', None) => return Ok((s == self.subject.len()).then_some(s)),
                (b'%', Some(b'b')) => match self.balanced(s, p + 2)? {
                    Some(end) => (s, p) = (end, p + 4),
                    None => return Ok(None),
                },
                (b'%', Some(b'f')) => match self.frontier(s, p + 2)? {
                    Some(next) => p = next,
                    None => return Ok(None),
                },
                (b'%', Some(digit @ b'0'..=b'9')) => match self.back(s, digit)? {
                    Some(end) => (s, p) = (end, p + 2),
                    None => return Ok(None),
                },
                _ => {
                    let end = self.item_end(p)?;
                    match self.byte(end) {
                        Some(b'*') => return self.longest(s, p, end, 0),
                        Some(b'+') => return self.longest(s, p, end, 1),
                        Some(b'-') => return self.shortest(s, p, end),
                        Some(b'?') => {
                            if self.single(s, p, end)?
                                && let Some(found) = self.matches(s + 1, end + 1)?
                            {
                                return Ok(Some(found));
                            }
                            p = end + 1;
                        }
                        _ => {
                            if !self.single(s, p, end)? {
                                return Ok(None);
                            }
                            (s, p) = (s + 1, end);
                        }
                    }
                }
            }
        }
    }

    fn longest(&mut self, s: usize, p: usize, end: usize, least: usize) -> Matched<Option<usize>> {
        let mut count = 0;
        while self.single(s + count, p, end)? {
            count += 1;
        }
        while count >= least {
            if let Some(found) = self.matches(s + count, end + 1)? {
                return Ok(Some(found));
            }
            match count.checked_sub(1) {
                Some(less) => count = less,
                None => break,
            }
        }
        Ok(None)
    }

    fn shortest(&mut self, mut s: usize, p: usize, end: usize) -> Matched<Option<usize>> {
        loop {
            if let Some(found) = self.matches(s, end + 1)? {
                return Ok(Some(found));
            }
            if !self.single(s, p, end)? {
                return Ok(None);
            }
            s += 1;
        }
    }

    fn open(&mut self, capture: Capture, s: usize, p: usize) -> Matched<Option<usize>> {
        if self.captures.len() >= MAX_CAPTURES {
            return Err("too many captures");
        }
        let before = self.captures.len();
        self.captures.push(capture);
        let found = self.matches(s, p)?;
        if found.is_none() {
            self.captures.truncate(before);
        }
        Ok(found)
    }

    fn close(&mut self, s: usize, p: usize) -> Matched<Option<usize>> {
        let open = self.captures.iter().enumerate().rev();
        let open = open.filter_map(|(i, capture)| match capture {
            Capture::Open(start) => Some((i, *start)),
            _ => None,
        });
        let Some((at, start)) = { open }.next() else {
            return Err("invalid pattern capture");
        };
        self.captures[at] = Capture::Part(start, s);
        let found = self.matches(s, p)?;
        if found.is_none() {
            self.captures[at] = Capture::Open(start);
        }
        Ok(found)
    }

    /// `%bxy`
    fn balanced(&mut self, s: usize, p: usize) -> Matched<Option<usize>> {
        let (Some(open), Some(close)) = (self.byte(p), self.byte(p + 1)) else {
            return Err("malformed pattern (missing arguments to '%b')");
        };
        if self.subject.get(s) != Some(&open) {
            return Ok(None);
        }
        let mut depth = 1u64;
        for at in s + 1..self.subject.len() {
            self.step()?;
            let byte = self.subject[at];
            if byte == close {
                depth -= 1;
                if depth == 0 {
                    return Ok(Some(at + 1));
                }
            } else if byte == open {
                depth += 1;
            }
        }
        Ok(None)
    }

    /// `%f[set]`; where the pattern goes on, if it matches.
    fn frontier(&mut self, s: usize, p: usize) -> Matched<Option<usize>> {
        if self.byte(p) != Some(b'[') {
            return Err("missing '[' after '%f' in pattern");
        }
        let end = self.item_end(p)?;
        let before = s.checked_sub(1).and_then(|at| self.subject.get(at));
        let before = before.copied().unwrap_or(0);
        let here = self.subject.get(s).copied().unwrap_or(0);
        let is_frontier = !self.in_set(before, p, end - 1)? && self.in_set(here, p, end - 1)?;
        Ok(is_frontier.then_some(end))
    }

    /// `%1`: the same as a capture.
    fn back(&mut self, s: usize, digit: u8) -> Matched<Option<usize>> {
        let index = usize::from(digit).checked_sub(usize::from(b'1'));
        let Some(Capture::Part(from, to)) = index.and_then(|i| self.captures.get(i)).copied()
        else {
            return Err("invalid capture index in pattern");
        };
        self.steps = self.steps.saturating_sub((to - from) as u64);
        let captured = self.subject.get(from..to).unwrap_or_default();
        let rest = self.subject.get(s..).unwrap_or_default();
        Ok(rest.starts_with(captured).then(|| s + captured.len()))
    }
}
