//! What an index makes of text before it compares it (`NonTokenizingAnalyzer`; of SASI also
//! `StandardAnalyzer` and `DelimiterAnalyzer`).

use std::borrow::Cow;

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;
use unicode_segmentation::UnicodeSegmentation;

/// Into which terms a text is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tokenizer {
    /// It is one.
    Whole,
    /// Its words (UAX #29).
    Words,
    /// What lies between these.
    Between(char),
}

/// How texts are made alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Analyzer {
    /// Are capital letters others than small ones?
    pub case_sensitive: bool,
    /// In the composed form of Unicode (NFC)?
    pub normalize: bool,
    /// Without what ASCII does not have on Latin letters?
    pub ascii: bool,
    /// Which parts of a text are looked for.
    pub tokenizer: Tokenizer,
}

/// Latin letters that are no letter of ASCII with marks, as Lucene's `ASCIIFoldingFilter` folds them.
const FOLDED: [(char, &str); 20] = [
    ('ß', "ss"),
    ('ẞ', "SS"),
    ('æ', "ae"),
    ('Æ', "AE"),
    ('œ', "oe"),
    ('Œ', "OE"),
    ('ø', "o"),
    ('Ø', "O"),
    ('đ', "d"),
    ('Đ', "D"),
    ('ð', "d"),
    ('Ð', "D"),
    ('ł', "l"),
    ('Ł', "L"),
    ('þ', "th"),
    ('Þ', "TH"),
    ('ı', "i"),
    ('ħ', "h"),
    ('Ħ', "H"),
    ('ŋ', "n"),
];

impl Analyzer {
    /// Leaves texts as they are.
    pub const NONE: Analyzer = Analyzer {
        case_sensitive: true,
        normalize: false,
        ascii: false,
        tokenizer: Tokenizer::Whole,
    };

    /// The terms of a text, in the form that is compared; what is no text is one as it is.
    pub fn terms<'t>(&self, text: &'t [u8]) -> Vec<Cow<'t, [u8]>> {
        let analyze = |part: &'t str| self.analyze(part.as_bytes());
        match (self.tokenizer, std::str::from_utf8(text)) {
            (Tokenizer::Words, Ok(text)) => text.unicode_words().map(analyze).collect(),
            (Tokenizer::Between(delimiter), Ok(text)) => {
                let parts = text.split(delimiter).filter(|part| !part.is_empty());
                parts.map(analyze).collect()
            }
            (Tokenizer::Whole, _) | (_, Err(_)) => vec![self.analyze(text)],
        }
    }

    /// The form of a text that is compared; what is no text stays as it is.
    pub fn analyze<'t>(&self, text: &'t [u8]) -> Cow<'t, [u8]> {
        if *self == Analyzer::NONE {
            return Cow::Borrowed(text);
        }
        let Ok(text) = std::str::from_utf8(text) else {
            return Cow::Borrowed(text);
        };
        let mut text = Cow::Borrowed(text);
        if self.normalize {
            text = Cow::Owned(text.nfc().collect());
        }
        if !self.case_sensitive {
            // As a whole: a sigma at the end of a word is another letter (`String.toLowerCase`).
            text = Cow::Owned(text.to_lowercase());
        }
        if self.ascii {
            text = Cow::Owned(fold(&text));
        }
        match text {
            Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
            Cow::Owned(text) => Cow::Owned(text.into_bytes()),
        }
    }
}

fn fold(text: &str) -> String {
    let mut folded = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_ascii() {
            folded.push(c);
            continue;
        }
        if let Some((_, plain)) = FOLDED.iter().find(|(letter, _)| *letter == c) {
            folded.push_str(plain);
            continue;
        }
        let mut parts = std::iter::once(c).nfkd();
        let is_latin = parts.next().is_some_and(|first| first.is_ascii());
        let marked = parts.all(|part| part.is_ascii() || is_combining_mark(part));
        match is_latin && marked {
            true => folded.extend(std::iter::once(c).nfkd().filter(char::is_ascii)),
            false => folded.push(c),
        }
    }
    folded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_made_alike() {
        let plain = Analyzer::NONE;
        let shown = |analyzer: Analyzer, text: &str| {
            String::from_utf8(analyzer.analyze(text.as_bytes()).into_owned()).expect("text")
        };
        let small = Analyzer {
            case_sensitive: false,
            ..plain
        };
        assert_eq!(shown(small, "ÁbC"), "ábc");
        assert_eq!(shown(small, "ΣΑΣ"), "σας");
        let ascii = Analyzer {
            ascii: true,
            ..plain
        };
        assert_eq!(shown(ascii, "Ábç Straße ﬁ 漢"), "Abc Strasse fi 漢");
        let composed = Analyzer {
            normalize: true,
            ..plain
        };
        assert_eq!(shown(composed, "e\u{301}"), "\u{e9}");
        assert_eq!(shown(plain, "ÁbC"), "ÁbC");
    }

    /// As Cassandra's analyzers cut them.
    #[test]
    fn texts_are_cut_into_terms() {
        let terms = |tokenizer, case_sensitive, text: &'static str| -> Vec<String> {
            let analyzer = Analyzer {
                tokenizer,
                case_sensitive,
                ..Analyzer::NONE
            };
            let terms = analyzer.terms(text.as_bytes()).into_iter();
            terms
                .map(|term| String::from_utf8(term.into_owned()).expect("text"))
                .collect()
        };
        assert_eq!(
            terms(
                Tokenizer::Words,
                false,
                "Quick-silver, can't 3.14 a_b x@y.com 日本"
            ),
            [
                "quick", "silver", "can't", "3.14", "a_b", "x", "y.com", "日", "本"
            ]
        );
        assert_eq!(terms(Tokenizer::Words, true, " , -"), [""; 0]);
        assert_eq!(
            terms(Tokenizer::Between(':'), true, "a:b c::D"),
            ["a", "b c", "D"]
        );
        assert_eq!(terms(Tokenizer::Whole, false, "A B"), ["a b"]);
        assert_eq!(Analyzer::NONE.terms(&[0xff]), [&[0xff][..]]);
    }
}
