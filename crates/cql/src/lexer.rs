//! From text to tokens (`Lexer.g` of Cassandra 5.0).
//!
//! A token is a kind and a piece of the text. What is no token becomes [`TokenKind::Invalid`]: the
//! parser reports it when it gets there, so that the first mistake of a statement is the one that
//! is reported. Two things may surprise: `-1` is one token, so that `a -1` is no subtraction; and
//! a comment to the end of the line needs that end of line.

use crate::CqlError;

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenKind {
    /// A name without quotes, or a keyword.
    Word(Option<Keyword>),
    /// `"name"`
    QuotedName,
    /// `""`
    EmptyQuotedName,
    /// `'text'`
    String,
    /// `$$text$$`
    DollarString,
    /// `-12`
    Integer,
    /// `1.5`
    Float,
    /// `true`
    Boolean,
    /// `1y2mo`
    Duration,
    /// A uuid.
    Uuid,
    /// `0xcafe`
    Hex,
    /// `-NaN`
    NegativeNan,
    /// `-Infinity`
    NegativeInfinity,
    /// Punctuation.
    Symbol(Symbol),
    /// No token; the second field says what is wrong.
    Invalid(Mistake),
    /// The end of the text.
    End,
}

/// Why a piece of text is no token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mistake {
    /// A character that starts nothing.
    Character,
    /// What has begun goes on with this.
    Expected(&'static str),
}

/// A token: bytes `start..end` of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) kind: TokenKind,
    pub(crate) start: u32,
    pub(crate) end: u32,
}

macro_rules! symbols {
    ($($name:ident $text:literal),* $(,)?) => {
        /// Punctuation.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Symbol { $($name),* }

        impl Symbol {
            /// As it is written.
            pub(crate) fn text(self) -> &'static str {
                match self { $(Symbol::$name => $text),* }
            }
        }

        /// Longer ones before their beginnings.
        const SYMBOLS: &[(&str, Symbol)] = &[$(($text, Symbol::$name)),*];
    };
}

symbols! {
    Range "..", LessOrEqual "<=", GreaterOrEqual ">=", NotEqual "!=", PlusEqual "+=",
    MinusEqual "-=", Open "(", Close ")", OpenBracket "[", CloseBracket "]", OpenBrace "{",
    CloseBrace "}", Comma ",", Semicolon ";", Colon ":", Dot ".", Equal "=", Less "<",
    Greater ">", Plus "+", Minus "-", Star "*", Slash "/", Percent "%", Question "?",
}

macro_rules! keywords {
    ($($name:ident $text:literal $class:ident),* $(,)?) => {
        /// A word of the grammar.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub(crate) enum Keyword { $($name),* }

        /// Sorted by text.
        const KEYWORDS: &[(&str, Keyword, Class)] =
            &[$(($text, Keyword::$name, Class::$class)),*];
    };
}

/// Where a keyword may stand as a name, in the words of the grammar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// Nowhere.
    Reserved,
    /// `basic_unreserved_keyword`: everywhere.
    Basic,
    /// `native_type`: everywhere but as the name of a type.
    Native,
    /// Of `unreserved_keyword` only: not as a function.
    Special,
    /// `COUNT`: as a column and as a function, not as a type.
    Count,
    /// `TOKEN`: as a function only.
    Token,
}

keywords! {
    Access "access" Basic, Add "add" Reserved, Aggregate "aggregate" Basic,
    Aggregates "aggregates" Basic, All "all" Basic, Allow "allow" Reserved,
    Alter "alter" Reserved, And "and" Reserved, Ann "ann" Basic, Apply "apply" Reserved,
    As "as" Basic, Asc "asc" Reserved, Ascii "ascii" Native, Authorize "authorize" Reserved,
    Batch "batch" Reserved, Begin "begin" Reserved, Between "between" Basic, Bigint "bigint" Native,
    Blob "blob" Native, Boolean "boolean" Native, By "by" Reserved, Called "called" Basic,
    Cast "cast" Special, Cidrs "cidrs" Basic, Cluster "cluster" Basic,
    Clustering "clustering" Basic, ColumnFamilies "columnfamilies" Basic,
    ColumnFamily "columnfamily" Reserved, Compact "compact" Basic,
    Contains "contains" Basic, Count "count" Count, Counter "counter" Native,
    Create "create" Reserved, Custom "custom" Basic, Datacenters "datacenters" Basic,
    Date "date" Native, Decimal "decimal" Native, Default "default" Basic,
    Delete "delete" Reserved, Desc "desc" Reserved, Describe "describe" Reserved,
    Distinct "distinct" Special, Double "double" Native, Drop "drop" Reserved,
    Duration "duration" Native, Entries "entries" Reserved, Execute "execute" Reserved,
    Exists "exists" Basic, Filtering "filtering" Basic, FinalFunc "finalfunc" Basic,
    Float "float" Native, From "from" Reserved, Frozen "frozen" Basic, Full "full" Reserved,
    Function "function" Basic, Functions "functions" Basic, Grant "grant" Reserved,
    Group "group" Basic, Hashed "hashed" Basic, Identity "identity" Basic, If "if" Reserved,
    In "in" Reserved, Index "index" Reserved, Inet "inet" Native,
    Infinity "infinity" Reserved, InitCond "initcond" Basic, Input "input" Basic,
    Insert "insert" Reserved, Int "int" Native, Internals "internals" Basic,
    Into "into" Reserved, Is "is" Reserved, Json "json" Special, Key "key" Special,
    Keys "keys" Basic, Keyspace "keyspace" Reserved, Keyspaces "keyspaces" Basic,
    Language "language" Basic, Like "like" Basic, Limit "limit" Reserved, List "list" Basic,
    Login "login" Basic, Map "map" Basic, Masked "masked" Basic,
    Materialized "materialized" Reserved, MaxWriteTime "maxwritetime" Special,
    Mbean "mbean" Basic, Mbeans "mbeans" Basic, MinWriteTime "minwritetime" Special,
    Modify "modify" Reserved, Nan "nan" Reserved,
    NoLogin "nologin" Basic, NoRecursive "norecursive" Reserved,
    NoSuperuser "nosuperuser" Basic, Not "not" Reserved, Null "null" Reserved,
    Of "of" Reserved, On "on" Reserved, Only "only" Basic, Options "options" Basic,
    Or "or" Reserved, Order "order" Reserved, Partition "partition" Basic,
    Password "password" Basic, Per "per" Basic, Permission "permission" Basic,
    Permissions "permissions" Basic, Primary "primary" Reserved, Rename "rename" Reserved,
    Replace "replace" Basic, Returns "returns" Basic, Revoke "revoke" Reserved,
    Role "role" Basic, Roles "roles" Basic, Schema "schema" Reserved,
    Select "select" Reserved, SelectMasked "select_masked" Basic, Set "set" Reserved,
    StateFunc "sfunc" Basic, Smallint "smallint" Native, Static "static" Basic,
    Storage "storage" Basic, StateType "stype" Basic, Superuser "superuser" Basic,
    Table "table" Reserved, Tables "tables" Basic, Text "text" Native, Time "time" Native,
    Timestamp "timestamp" Native, Timeuuid "timeuuid" Native, Tinyint "tinyint" Native,
    To "to" Reserved, Token "token" Token, Trigger "trigger" Basic,
    Truncate "truncate" Reserved, Ttl "ttl" Special, Tuple "tuple" Basic,
    Type "type" Basic, Types "types" Basic, Unlogged "unlogged" Reserved,
    Unmask "unmask" Basic, Unset "unset" Basic, Update "update" Reserved, Use "use" Reserved,
    User "user" Basic, Users "users" Basic, Using "using" Reserved, Uuid "uuid" Native,
    Values "values" Basic, Varchar "varchar" Native, Varint "varint" Native,
    Vector "vector" Basic, View "view" Reserved, Where "where" Reserved,
    With "with" Reserved, WriteTime "writetime" Special,
}

impl Keyword {
    /// Where it may stand as a name.
    pub(crate) fn class(self) -> Class {
        KEYWORDS[self as usize].2
    }

    /// In lower case.
    pub(crate) fn text(self) -> &'static str {
        KEYWORDS[self as usize].0
    }

    fn of(word: &str) -> Option<Keyword> {
        const LONGEST: usize = 14;
        if word.len() > LONGEST {
            return None;
        }
        let mut lower = [0u8; LONGEST];
        let lower = &mut lower[..word.len()];
        lower.copy_from_slice(word.as_bytes());
        lower.make_ascii_lowercase();
        KEYWORDS
            .binary_search_by(|(text, ..)| text.as_bytes().cmp(lower))
            .ok()
            .map(|at| KEYWORDS[at].1)
    }
}

/// How many words, values and signs a statement may have, or the statements of a batch together.
/// While it is parsed and analysed each takes more than 100 bytes, however short it is.
pub const MAX_TOKENS: usize = 500_000;

/// All tokens of a text, the last one [`TokenKind::End`]. Nothing follows the first invalid one.
/// Errors: a text that is longer than 2 GiB, and more tokens than are `left`.
pub(crate) fn tokens(text: &str, left: &mut usize) -> Result<Vec<Token>, CqlError> {
    if text.len() > i32::MAX as usize {
        return Err(CqlError::Syntax(
            "the statement is longer than 2147483647 bytes; split it".to_owned(),
        ));
    }
    let mut tokens = Vec::with_capacity((text.len() / 4 + 1).min(*left));
    let mut at = 0;
    loop {
        let rest = &text[at..];
        let (kind, length) = match skipped(rest) {
            Ok(0) => token(rest),
            Ok(length) => {
                at += length;
                continue;
            }
            Err((length, expected)) => (TokenKind::Invalid(Mistake::Expected(expected)), length),
        };
        *left = left.checked_sub(1).ok_or_else(|| {
            CqlError::Syntax(format!(
                "the statement, or the batch, has more than {MAX_TOKENS} words, values and signs; \
                 bind collections as values, or split it"
            ))
        })?;
        tokens.push(Token {
            kind,
            start: at as u32,
            end: (at + length) as u32,
        });
        if matches!(kind, TokenKind::End | TokenKind::Invalid(_)) {
            return Ok(tokens);
        }
        at += length;
    }
}

/// The length of the white space or comment that the text begins with; or how far a comment goes
/// that never ends.
fn skipped(text: &str) -> Result<usize, (usize, &'static str)> {
    let spaces = text
        .bytes()
        .take_while(|b| matches!(b, b' ' | b'\t' | b'\n' | b'\r'))
        .count();
    if spaces > 0 {
        return Ok(spaces);
    }
    if text.starts_with("--") || text.starts_with("//") {
        return match text.find(['\n', '\r']) {
            Some(end) => Ok(end + 1),
            None => Err((text.len(), "set null")),
        };
    }
    if let Some(comment) = text.strip_prefix("/*") {
        return match comment.find("*/") {
            Some(end) => Ok(end + 4),
            None => Err((text.len(), "'*'")),
        };
    }
    Ok(0)
}

/// The token that the text begins with, and its length.
fn token(text: &str) -> (TokenKind, usize) {
    let Some(first) = text.chars().next() else {
        return (TokenKind::End, 0);
    };
    if let Some(found) = number(text) {
        return found;
    }
    match first {
        '\'' => quoted(text, '\'', TokenKind::String),
        '"' if text.starts_with("\"\"") && !text.starts_with("\"\"\"") => {
            (TokenKind::EmptyQuotedName, 2)
        }
        '"' => quoted(text, '"', TokenKind::QuotedName),
        '$' => dollar_string(text),
        'a'..='z' | 'A'..='Z' => word(text),
        _ => SYMBOLS
            .iter()
            .find(|(symbol, _)| text.starts_with(symbol))
            .map(|(symbol, kind)| (TokenKind::Symbol(*kind), symbol.len()))
            .unwrap_or_else(|| match first {
                '!' => (TokenKind::Invalid(Mistake::Expected("'='")), 1),
                _ => (TokenKind::Invalid(Mistake::Character), 0),
            }),
    }
}

fn word(text: &str) -> (TokenKind, usize) {
    let length = text
        .bytes()
        .take_while(|b| b.is_ascii_alphanumeric() || *b == b'_')
        .count();
    let word = &text[..length];
    let kind = if word.eq_ignore_ascii_case("true") || word.eq_ignore_ascii_case("false") {
        TokenKind::Boolean
    } else {
        TokenKind::Word(Keyword::of(word))
    };
    (kind, length)
}

/// A text in quotes, where the quote itself is doubled.
fn quoted(text: &str, quote: char, kind: TokenKind) -> (TokenKind, usize) {
    let mut at = 1;
    while let Some(found) = text[at..].find(quote) {
        at += found + 1;
        if !text[at..].starts_with(quote) {
            return (kind, at);
        }
        at += 1;
    }
    let expected = if quote == '"' { "'\"'" } else { "'''" };
    (TokenKind::Invalid(Mistake::Expected(expected)), text.len())
}

fn dollar_string(text: &str) -> (TokenKind, usize) {
    if !text.starts_with("$$") {
        return (TokenKind::Invalid(Mistake::Expected("'$'")), 1);
    }
    match text[2..].find("$$") {
        Some(end) => (TokenKind::DollarString, end + 4),
        None => (TokenKind::Invalid(Mistake::Expected("'$'")), text.len()),
    }
}

/// What begins with a digit, or looks like a word but is a number: uuids, hexadecimal blobs,
/// durations, floats, integers, and the negative special floats.
fn number(text: &str) -> Option<(TokenKind, usize)> {
    let bytes = text.as_bytes();
    if is_uuid(bytes) {
        return Some((TokenKind::Uuid, 36));
    }
    if bytes.len() >= 2 && bytes[0] == b'0' && bytes[1].eq_ignore_ascii_case(&b'x') {
        let digits = count(&bytes[2..], u8::is_ascii_hexdigit);
        return Some((TokenKind::Hex, 2 + digits));
    }
    if let Some(length) = duration(text) {
        return Some((TokenKind::Duration, length));
    }
    let sign = usize::from(bytes.first() == Some(&b'-'));
    let digits = count(&bytes[sign..], u8::is_ascii_digit);
    if digits > 0 {
        return Some(decimal(bytes, sign + digits));
    }
    if sign == 1 {
        for (name, kind) in [
            ("nan", TokenKind::NegativeNan),
            ("infinity", TokenKind::NegativeInfinity),
        ] {
            let end = 1 + name.len();
            if text
                .get(1..end)
                .is_some_and(|word| word.eq_ignore_ascii_case(name))
                && !bytes.get(end).is_some_and(u8::is_ascii_alphanumeric)
            {
                return Some((kind, end));
            }
        }
    }
    None
}

/// An integer of `length` bytes, or the float that it begins.
fn decimal(bytes: &[u8], length: usize) -> (TokenKind, usize) {
    let mut end = length;
    // `1..2` is a range between integers, `1...2` one that begins with a float.
    let range = bytes[end..].starts_with(b"..") && !bytes[end..].starts_with(b"...");
    if bytes.get(end) == Some(&b'.') && !range {
        end += 1;
        if !bytes[end..].starts_with(b"..") {
            end += count(&bytes[end..], u8::is_ascii_digit);
        }
    }
    if bytes
        .get(end)
        .is_some_and(|b| b.eq_ignore_ascii_case(&b'e'))
    {
        let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        let digits = count(&bytes[end + 1 + sign..], u8::is_ascii_digit);
        if digits > 0 {
            end += 1 + sign + digits;
        }
    }
    if end == length {
        (TokenKind::Integer, end)
    } else {
        (TokenKind::Float, end)
    }
}

fn count(bytes: &[u8], test: impl Fn(&u8) -> bool) -> usize {
    bytes.iter().take_while(|b| test(b)).count()
}

fn is_uuid(bytes: &[u8]) -> bool {
    bytes.len() >= 36
        && bytes[..36].iter().enumerate().all(|(i, b)| match i {
            8 | 13 | 18 | 23 => *b == b'-',
            _ => b.is_ascii_hexdigit(),
        })
}

/// The length of the duration that the text begins with: `1y2mo3w4d5h6m7s8ms9us10ns`, or ISO 8601.
fn duration(text: &str) -> Option<usize> {
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    let sign = text.len() - unsigned.len();
    let length = match unsigned.as_bytes().first()? {
        b'P' => iso_alternative(unsigned)
            .or_else(|| iso(unsigned))
            .filter(|length| {
                let next = unsigned.as_bytes().get(*length);
                !next.is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'_')
            })?,
        b'0'..=b'9' => units(unsigned)?,
        _ => return None,
    };
    Some(sign + length)
}

fn units(text: &str) -> Option<usize> {
    const UNITS: [&str; 11] = [
        "mo", "ms", "us", "\u{b5}s", "ns", "y", "w", "d", "h", "m", "s",
    ];
    let mut length = 0;
    loop {
        let rest = &text[length..];
        let digits = count(rest.as_bytes(), u8::is_ascii_digit);
        let unit = UNITS.iter().find(|unit| {
            rest[digits..]
                .get(..unit.len())
                .is_some_and(|text| text.eq_ignore_ascii_case(unit))
        });
        match unit {
            Some(unit) if digits > 0 => length += digits + unit.len(),
            _ => return (length > 0).then_some(length),
        }
    }
}

/// `P0001-02-03T04:05:06`
fn iso_alternative(text: &str) -> Option<usize> {
    const FORM: &[u8] = b"P0000-00-00T00:00:00";
    let bytes = text.as_bytes().get(..FORM.len())?;
    let fits = bytes.iter().zip(FORM).all(|(b, form)| match form {
        b'0' => b.is_ascii_digit(),
        other => b == other,
    });
    fits.then_some(FORM.len())
}

/// `P1Y2M3DT4H5M6S`, `P1W`
fn iso(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let designators = |mut at: usize, designators: &[u8]| {
        for designator in designators {
            let digits = count(&bytes[at..], u8::is_ascii_digit);
            if digits > 0 && bytes.get(at + digits) == Some(designator) {
                at += digits + 1;
            }
        }
        at
    };
    let weeks = designators(1, b"W");
    if weeks > 1 {
        return Some(weeks);
    }
    let date = designators(1, b"YMD");
    let end = match bytes.get(date) {
        Some(b'T') => match designators(date + 1, b"HMS") {
            time if time > date + 1 => time,
            _ => date,
        },
        _ => date,
    };
    (end > 1).then_some(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Vec<(TokenKind, &str)> {
        tokens(text, &mut { MAX_TOKENS })
            .expect("short")
            .into_iter()
            .map(|t| (t.kind, &text[t.start as usize..t.end as usize]))
            .collect()
    }

    #[test]
    fn tokens_are_counted_over_all_statements() {
        let mut left = 10;
        assert_eq!(tokens("a, b,,,,,", &mut left).map(|t| t.len()), Ok(9));
        assert!(tokens("a", &mut left).is_err(), "one and the end");
        let ones = "1,".repeat(MAX_TOKENS / 2);
        assert!(tokens(&ones[2..], &mut { MAX_TOKENS }).is_ok());
        assert!(tokens(&ones, &mut { MAX_TOKENS }).is_err());
    }

    #[test]
    fn keywords_are_sorted_and_stand_at_their_number() {
        assert!(KEYWORDS.is_sorted_by_key(|(text, ..)| *text));
        for (i, (text, keyword, _)) in KEYWORDS.iter().enumerate() {
            assert_eq!(*keyword as usize, i);
            assert_eq!(Keyword::of(&text.to_uppercase()), Some(*keyword));
        }
        assert_eq!(Keyword::of("selects"), None);
    }

    #[test]
    fn reserved_words_are_those_that_names_must_quote() {
        for (text, _, class) in KEYWORDS {
            let reserved = matches!(class, Class::Reserved | Class::Token);
            // Cassandra's list of words to quote is a little longer and a little shorter.
            let listed = model::RESERVED.binary_search(text).is_ok();
            if reserved && !listed {
                panic!("{text} is reserved by the grammar, but printed without quotes");
            }
        }
    }

    #[test]
    fn numbers_of_all_forms() {
        for (text, kind) in [
            ("0", TokenKind::Integer),
            ("-12", TokenKind::Integer),
            ("1.", TokenKind::Float),
            ("-1.5E-7", TokenKind::Float),
            ("2e9", TokenKind::Float),
            ("0x", TokenKind::Hex),
            ("0XcaFe", TokenKind::Hex),
            ("1y2MO3w4d5h6m7s8ms9us10ns", TokenKind::Duration),
            ("-1\u{b5}s", TokenKind::Duration),
            ("P1Y2M", TokenKind::Duration),
            ("-P3W", TokenKind::Duration),
            ("PT1H2S", TokenKind::Duration),
            ("P1DT5M", TokenKind::Duration),
            ("P0001-00-02T01:02:03", TokenKind::Duration),
            ("p1y", TokenKind::Word(None)),
            ("P1Yx", TokenKind::Word(None)),
            ("abcdef01-2345-6789-ABCD-ef0123456789", TokenKind::Uuid),
            ("12345678-2345-6789-abcd-ef0123456789", TokenKind::Uuid),
            ("-NaN", TokenKind::NegativeNan),
            ("-infinity", TokenKind::NegativeInfinity),
        ] {
            assert_eq!(kinds(text), [(kind, text), (TokenKind::End, "")], "{text}");
        }
    }

    #[test]
    fn a_range_between_integers() {
        let range = TokenKind::Symbol(Symbol::Range);
        let int = TokenKind::Integer;
        assert_eq!(
            kinds("1..2"),
            [(int, "1"), (range, ".."), (int, "2"), (TokenKind::End, "")]
        );
        assert_eq!(
            kinds("1...2"),
            [
                (TokenKind::Float, "1."),
                (range, ".."),
                (int, "2"),
                (TokenKind::End, "")
            ]
        );
    }

    #[test]
    fn quotes_comments_and_what_never_ends() {
        assert_eq!(
            kinds("'it''s' \"a\"\"b\" \"\" $$a$b$$ -- x\n/* y */ // z\r"),
            [
                (TokenKind::String, "'it''s'"),
                (TokenKind::QuotedName, "\"a\"\"b\""),
                (TokenKind::EmptyQuotedName, "\"\""),
                (TokenKind::DollarString, "$$a$b$$"),
                (TokenKind::End, "")
            ]
        );
        for (text, expected) in [
            ("'abc", "'''"),
            ("\"abc", "'\"'"),
            ("$$abc$", "'$'"),
            ("-- abc", "set null"),
            ("/* abc *", "'*'"),
            ("!", "'='"),
        ] {
            assert_eq!(
                kinds(text)[0].0,
                TokenKind::Invalid(Mistake::Expected(expected)),
                "{text}"
            );
        }
        assert_eq!(kinds("@")[0].0, TokenKind::Invalid(Mistake::Character));
    }
}
