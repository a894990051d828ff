//! The words of Java.

/// One word of a body.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    Word(String),
    /// A whole number, and whether it is a `long`.
    Whole(i64, bool),
    /// A number with a fraction, and whether it is a `float`.
    Real(f64, bool),
    Text(String),
    Char(char),
    Sign(&'static str),
    End,
}

/// Those of several characters before those they begin with.
const SIGNS: [&str; 43] = [
    "==", "!=", "<=", ">=", "&&", "||", "++", "--", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=",
    "->", "::", "(", ")", "{", "}", "[", "]", ";", ",", ".", "@", "=", "<", ">", "!", "~", "?",
    ":", "+", "-", "*", "/", "&", "|", "^", "%",
];

/// The words with the lines that they are in. Errors: a line, and what is wrong there.
pub(super) fn tokens(text: &str) -> Result<Vec<(Token, usize)>, (usize, String)> {
    let mut reader = Reader {
        rest: text,
        line: 1,
    };
    let mut tokens = Vec::new();
    loop {
        let token = reader.next().map_err(|error| (reader.line, error))?;
        let is_end = token == Token::End;
        tokens.push((token, reader.line));
        if is_end {
            return Ok(tokens);
        }
    }
}

struct Reader<'t> {
    rest: &'t str,
    line: usize,
}

impl<'t> Reader<'t> {
    fn take(&mut self, bytes: usize) -> &'t str {
        let (taken, rest) = self.rest.split_at(bytes);
        self.line += taken.matches('\n').count();
        self.rest = rest;
        taken
    }

    fn take_while(&mut self, mut is_in: impl FnMut(char) -> bool) -> &'t str {
        let end = self.rest.find(|c| !is_in(c)).unwrap_or(self.rest.len());
        self.take(end)
    }

    fn skip_blank(&mut self) -> Result<(), String> {
        loop {
            self.take_while(char::is_whitespace);
            if self.rest.starts_with("//") {
                self.take_while(|c| c != '\n');
            } else if self.rest.starts_with("/*") {
                let end = self.rest.find("*/").ok_or("Unexpected end of comment")?;
                self.take(end + 2);
            } else {
                return Ok(());
            }
        }
    }

    fn next(&mut self) -> Result<Token, String> {
        self.skip_blank()?;
        let Some(first) = self.rest.chars().next() else {
            return Ok(Token::End);
        };
        let second = self.rest[first.len_utf8()..].chars().next();
        if first.is_alphabetic() || first == '_' || first == '$' {
            let word = self.take_while(|c| c.is_alphanumeric() || c == '_' || c == '$');
            return Ok(Token::Word(word.to_owned()));
        }
        if first.is_ascii_digit() || first == '.' && second.is_some_and(|c| c.is_ascii_digit()) {
            return self.number();
        }
        if first == '"' || first == '\'' {
            self.take(1);
            let text = self.quoted(first)?;
            return match (first, text.chars().next()) {
                ('"', _) => Ok(Token::Text(text)),
                (_, Some(c)) if text.len() == c.len_utf8() => Ok(Token::Char(c)),
                _ => Err("Invalid character constant".to_owned()),
            };
        }
        match SIGNS.iter().find(|sign| self.rest.starts_with(**sign)) {
            Some(sign) => {
                self.take(sign.len());
                Ok(Token::Sign(sign))
            }
            None => Err(format!(
                "Syntax error on token \"{first}\", delete this token"
            )),
        }
    }

    fn number(&mut self) -> Result<Token, String> {
        let is_hex = self.rest.starts_with("0x") || self.rest.starts_with("0X");
        let mut last = ' ';
        let text = self.take_while(|c| {
            let is_sign_of_exponent =
                !is_hex && matches!(c, '+' | '-') && matches!(last, 'e' | 'E');
            last = c;
            c.is_ascii_alphanumeric() || c == '.' || c == '_' || is_sign_of_exponent
        });
        let text = text.replace('_', "").to_lowercase();
        let invalid = || format!("The literal {text} is out of range");
        if let Some(digits) = text.strip_prefix("0x") {
            let is_long = digits.ends_with('l');
            let bits = u64::from_str_radix(digits.trim_end_matches('l'), 16);
            let bits = bits.map_err(|_| invalid())?;
            return match (is_long, u32::try_from(bits)) {
                (true, _) => Ok(Token::Whole(bits as i64, true)),
                (false, Ok(bits)) => Ok(Token::Whole((bits as i32).into(), false)),
                (false, Err(_)) => Err(invalid()),
            };
        }
        if text.contains(['.', 'e']) || text.ends_with(['f', 'd']) {
            let digits = text.trim_end_matches(['f', 'd']);
            return match digits.parse() {
                Ok(number) if f64::is_finite(number) => {
                    Ok(Token::Real(number, text.ends_with('f')))
                }
                _ => Err(invalid()),
            };
        }
        let is_long = text.ends_with('l');
        let number: i64 = text.trim_end_matches('l').parse().map_err(|_| invalid())?;
        // Of what is negative the sign is a word of its own.
        match is_long || number <= 1 << 31 {
            true => Ok(Token::Whole(number, is_long)),
            false => Err(invalid()),
        }
    }

    fn quoted(&mut self, quote: char) -> Result<String, String> {
        let mut text = String::new();
        loop {
            let unclosed = || "String literal is not properly closed by a double-quote".to_owned();
            let c = self.rest.chars().next().ok_or_else(unclosed)?;
            self.take(c.len_utf8());
            match c {
                _ if c == quote => return Ok(text),
                '\n' => return Err(unclosed()),
                '\\' => text.push(self.escape()?),
                _ => text.push(c),
            }
        }
    }

    fn escape(&mut self) -> Result<char, String> {
        let invalid = || {
            "Invalid escape sequence (valid ones are  \\b  \\t  \\n  \\f  \\r  \\\"  \\'  \\\\ )"
                .to_owned()
        };
        let c = self.rest.chars().next().ok_or_else(invalid)?;
        self.take(c.len_utf8());
        Ok(match c {
            'n' => '\n',
            't' => '\t',
            'r' => '\r',
            'b' => '\u{8}',
            'f' => '\u{c}',
            '0' => '\0',
            '"' | '\'' | '\\' => c,
            'u' => {
                let digits = self.rest.get(..4).ok_or_else(invalid)?;
                let code = u32::from_str_radix(digits, 16).map_err(|_| invalid())?;
                self.take(4);
                char::from_u32(code).ok_or_else(invalid)?
            }
            _ => return Err(invalid()),
        })
    }
}
