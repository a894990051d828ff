//! What an index makes of text before it compares it (`NonTokenizingAnalyzer`; of SASI also
//! `StandardAnalyzer` and `DelimiterAnalyzer`).

mod language;

use std::borrow::Cow;

use unicode_normalization::char::is_combining_mark;
use unicode_normalization::{UnicodeNormalization, is_nfc};
use unicode_segmentation::UnicodeSegmentation;

pub use language::Language;

/// Into which terms a text is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tokenizer {
    /// It is one.
    Whole,
    /// Its words (UAX #29).
    Words {
        /// Without those that nobody looks for in this language.
        skipped: Option<&'static Language>,
        /// Cut to their stems in this one.
        stemmed: Option<&'static Language>,
    },
    /// What lies between these.
    Between(char),
}

/// What becomes of small and capital letters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LetterCase {
    /// They stay what they are.
    Kept,
    /// All are made small.
    Lower,
    /// All are made large.
    Upper,
}

/// Longer words are no terms: units of UTF-16 (`StandardTokenizerOptions.DEFAULT_MAX_TOKEN_LENGTH`).
const LONGEST_WORD: usize = 255;

/// How texts are made alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Analyzer {
    /// In which letters?
    pub letters: LetterCase,
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
        letters: LetterCase::Kept,
        normalize: false,
        ascii: false,
        tokenizer: Tokenizer::Whole,
    };

    /// The terms of a text, in the form that is compared; what is no text is one as it is.
    pub fn terms<'t>(&self, text: &'t [u8]) -> Vec<Cow<'t, [u8]>> {
        let analyze = |part: &'t str| self.analyze(part.as_bytes());
        match (self.tokenizer, std::str::from_utf8(text)) {
            (Tokenizer::Words { skipped, stemmed }, Ok(text)) => {
                let words = text.unicode_words();
                // Units are no more than bytes.
                let is_short = |word: &str| {
                    word.len() <= LONGEST_WORD || word.encode_utf16().count() <= LONGEST_WORD
                };
                let short = words.filter(|word| is_short(word));
                let terms = short.filter_map(|word| self.term_of_word(word, skipped, stemmed));
                terms.collect()
            }
            (Tokenizer::Between(delimiter), Ok(text)) => {
                let parts = text.split(delimiter).filter(|part| !part.is_empty());
                parts.map(analyze).collect()
            }
            (Tokenizer::Whole, _) | (_, Err(_)) => vec![self.analyze(text)],
        }
    }

    /// What is looked for in place of a word (`StandardAnalyzer.getFilterPipeline`); `None`: nothing is.
    fn term_of_word<'t>(
        &self,
        word: &'t str,
        skipped: Option<&'static Language>,
        stemmed: Option<&'static Language>,
    ) -> Option<Cow<'t, [u8]>> {
        let word = self.with_letters(word);
        if skipped.is_some_and(|language| language.skips(&word)) {
            return None;
        }
        let stem = match (stemmed, word) {
            (None, word) => word,
            (Some(language), Cow::Borrowed(word)) => language.stem(word),
            (Some(language), Cow::Owned(word)) => Cow::Owned(language.stem(&word).into_owned()),
        };
        Some(bytes_of(self.composed(stem)))
    }

    fn composed<'t>(&self, text: Cow<'t, str>) -> Cow<'t, str> {
        match self.normalize && !is_nfc(&text) {
            true => Cow::Owned(text.nfc().collect()),
            false => text,
        }
    }

    fn with_letters<'t>(&self, text: &'t str) -> Cow<'t, str> {
        match self.letters {
            LetterCase::Kept => Cow::Borrowed(text),
            // As a whole: a sigma at the end of a word is another letter (`String.toLowerCase`).
            LetterCase::Lower => Cow::Owned(text.to_lowercase()),
            LetterCase::Upper => Cow::Owned(text.to_uppercase()),
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
        let mut text = self.composed(Cow::Borrowed(text));
        if self.letters != LetterCase::Kept {
            text = Cow::Owned(self.with_letters(&text).into_owned());
        }
        if self.ascii {
            text = Cow::Owned(fold(&text));
        }
        bytes_of(text)
    }
}

fn bytes_of(text: Cow<'_, str>) -> Cow<'_, [u8]> {
    match text {
        Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
        Cow::Owned(text) => Cow::Owned(text.into_bytes()),
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
            letters: LetterCase::Lower,
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
        let terms = |tokenizer, letters, text: &'static str| -> Vec<String> {
            let analyzer = Analyzer {
                tokenizer,
                letters,
                ..Analyzer::NONE
            };
            let terms = analyzer.terms(text.as_bytes()).into_iter();
            terms
                .map(|term| String::from_utf8(term.into_owned()).expect("text"))
                .collect()
        };
        let (kept, lower) = (LetterCase::Kept, LetterCase::Lower);
        let words = Tokenizer::Words {
            skipped: None,
            stemmed: None,
        };
        assert_eq!(terms(words, kept, " , -"), [""; 0]);
        assert_eq!(
            terms(Tokenizer::Between(':'), kept, "a:b c::D"),
            ["a", "b c", "D"]
        );
        assert_eq!(terms(Tokenizer::Whole, lower, "A B"), ["a b"]);
        assert_eq!(Analyzer::NONE.terms(&[0xff]), [&[0xff][..]]);
    }
}
