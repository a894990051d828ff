//! Regular expressions of Java that are patterns of Lua: classes of characters with `*`, `+` and `?`
//! behind them, without groups and alternatives.

/// The pattern that finds what a regular expression does, if there is one, and whether it may find
/// an empty text.
pub(super) fn pattern(regex: &str) -> Option<(String, bool)> {
    let mut reader = regex.chars().peekable();
    let (mut pattern, mut may_be_empty) = (String::new(), true);
    while let Some(c) = reader.next() {
        let (item, is_character) = match c {
            '\\' => (escaped(reader.next()?)?, true),
            '[' => set(&mut reader)?,
            '.' => ("[^\n\r]".to_owned(), false),
            '^' | '$' | '(' | ')' | '|' | '{' | '}' | '*' | '+' | '?' => return None,
            c => (plain(c), c.is_ascii()),
        };
        pattern.push_str(&item);
        let repeated = reader.next_if(|c| "*+?".contains(*c));
        match repeated {
            // Of Lua's characters several are one of Java's, and only a row of them is the same.
            None if c == '.' || !is_character && c == '[' => return None,
            Some(_) if !is_character && !matches!(c, '.' | '[') => return None,
            Some('?') if !is_character => return None,
            _ => {}
        }
        may_be_empty &= matches!(repeated, Some('*' | '?'));
        pattern.extend(repeated);
        // Lazy ones and possessive ones.
        match reader.next_if(|c| repeated.is_some() && "?+".contains(*c)) {
            Some('?') if repeated == Some('*') => {
                pattern.pop();
                pattern.push('-');
            }
            None => {}
            Some(_) => return None,
        }
    }
    Some((pattern, may_be_empty))
}

fn plain(c: char) -> String {
    match c.is_ascii_punctuation() {
        true => format!("%{c}"),
        false => c.to_string(),
    }
}

fn escaped(c: char) -> Option<String> {
    Some(match c {
        'd' => "[0-9]".to_owned(),
        'w' => "[a-zA-Z0-9_]".to_owned(),
        's' => "%s".to_owned(),
        't' => "\t".to_owned(),
        'n' => "\n".to_owned(),
        'r' => "\r".to_owned(),
        c if c.is_ascii_punctuation() => format!("%{c}"),
        _ => return None,
    })
}

/// `[…]`, and whether it is of ASCII only.
fn set(reader: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Option<(String, bool)> {
    let is_negative = reader.next_if_eq(&'^').is_some();
    let mut set = if is_negative { "[^" } else { "[" }.to_owned();
    let mut is_first = true;
    loop {
        let c = reader.next()?;
        match c {
            ']' if !is_first => break,
            '\\' => match reader.next()? {
                'd' => set.push_str("0-9"),
                'w' => set.push_str("a-zA-Z0-9_"),
                c => set.push_str(&escaped(c)?),
            },
            '[' | ']' | '^' | '&' => return None,
            '-' if is_first || reader.peek() == Some(&']') => set.push_str("%-"),
            '-' => set.push('-'),
            c if !c.is_ascii() => return None,
            c if c.is_ascii_alphanumeric() || c == ' ' => set.push(c),
            // The ends of what is from one to another stay as they are.
            c if reader.peek() == Some(&'-') => {
                let _ = c;
                return None;
            }
            c => set.push_str(&plain(c)),
        }
        is_first = false;
    }
    set.push(']');
    Some((set, !is_negative))
}
