//! What SASI knows of languages: which of their words nobody looks for, and the stems of the others
//! (`StopWordFactory`, `StemmerFactory`).

use std::borrow::Cow;
use std::cmp::Ordering;

use rust_stemmers::{Algorithm, Stemmer};

/// A language of which words are dropped or cut to their stems.
#[derive(Debug, PartialEq, Eq)]
pub struct Language {
    /// Its two letters.
    code: &'static str,
    stems: Option<Algorithm>,
    /// One a line, in the order of their bytes. Asked of Cassandra 5.0.6.
    stop_words: &'static str,
}

macro_rules! stop_words {
    ($code:literal) => {
        include_str!(concat!("stop_words/", $code, ".txt"))
    };
}

const fn language(
    code: &'static str,
    stems: Option<Algorithm>,
    stop_words: &'static str,
) -> Language {
    Language {
        code,
        stems,
        stop_words,
    }
}

/// Finnish words keep their ends: Cassandra has their stems by the name `fl`, which is no language's.
static LANGUAGES: [Language; 21] = [
    language("ar", None, stop_words!("ar")),
    language("bg", None, stop_words!("bg")),
    language("cs", None, stop_words!("cs")),
    language("da", Some(Algorithm::Danish), ""),
    language("de", Some(Algorithm::German), stop_words!("de")),
    language("en", Some(Algorithm::English), stop_words!("en")),
    language("es", Some(Algorithm::Spanish), stop_words!("es")),
    language("fi", None, stop_words!("fi")),
    language("fl", Some(Algorithm::Finnish), ""),
    language("fr", Some(Algorithm::French), stop_words!("fr")),
    language("hi", None, stop_words!("hi")),
    language("hu", Some(Algorithm::Hungarian), stop_words!("hu")),
    language("it", Some(Algorithm::Italian), stop_words!("it")),
    language("nl", Some(Algorithm::Dutch), ""),
    language("no", Some(Algorithm::Norwegian), ""),
    language("pl", None, stop_words!("pl")),
    language("pt", Some(Algorithm::Portuguese), stop_words!("pt")),
    language("ro", Some(Algorithm::Romanian), stop_words!("ro")),
    language("ru", Some(Algorithm::Russian), stop_words!("ru")),
    language("sv", Some(Algorithm::Swedish), stop_words!("sv")),
    language("tr", Some(Algorithm::Turkish), ""),
];

impl Language {
    /// That of a locale (`Locale.getLanguage`), of which the first two letters count; `None` if nothing is
    /// known of it.
    pub fn of(locale: &str) -> Option<&'static Language> {
        let code = locale.get(..2)?;
        LANGUAGES
            .iter()
            .find(|language| language.code.eq_ignore_ascii_case(code))
    }

    /// Is it a word that nobody looks for (`DefaultStopWordFilter`)?
    pub(super) fn skips(&self, word: &str) -> bool {
        let list = self.stop_words;
        let (mut low, mut high) = (0, list.len());
        while low < high {
            let middle = list.floor_char_boundary(low + (high - low) / 2);
            let start = list[..middle].rfind('\n').map_or(0, |at| at + 1);
            let end = list[middle..]
                .find('\n')
                .map_or(list.len(), |at| middle + at);
            match list[start..end].cmp(word) {
                Ordering::Equal => return true,
                Ordering::Less => low = end + 1,
                Ordering::Greater => high = start,
            }
        }
        false
    }

    /// What a word begins with in all its forms (`DefaultStemmingFilter`).
    pub(super) fn stem<'w>(&self, word: &'w str) -> Cow<'w, str> {
        let Some(algorithm) = self.stems else {
            return Cow::Borrowed(word);
        };
        let stemmer = Stemmer::create(algorithm);
        match algorithm {
            // To the algorithm of Cassandra they are one letter.
            Algorithm::Russian if word.contains('ё') => {
                let word = word.replace('ё', "е");
                Cow::Owned(stemmer.stem(&word).into_owned())
            }
            Algorithm::Turkish if is_kept_in_turkish(word) => Cow::Borrowed(word),
            Algorithm::Turkish => match stemmer.stem(word) {
                // Reserved words: the algorithm fails, and Cassandra keeps what it was asked for.
                stem if RESERVED_IN_TURKISH.contains(&&*stem) => Cow::Borrowed(word),
                stem => stem,
            },
            _ => stemmer.stem(word),
        }
    }
}

const RESERVED_IN_TURKISH: [&str; 2] = ["ad", "soyad"];

/// Of plurals the algorithm says that it failed, and Cassandra keeps them.
fn is_kept_in_turkish(word: &str) -> bool {
    word.ends_with("lar") || word.ends_with("ler")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lists_are_in_order() {
        for language in &LANGUAGES {
            let words: Vec<&str> = language.stop_words.lines().collect();
            assert!(words.is_sorted_by(|a, b| a < b), "{}", language.code);
            assert!(words.iter().all(|word| language.skips(word)));
            assert!(!language.skips("") && !language.skips("\n") && !language.skips("helenus"));
        }
    }

    #[test]
    fn locales() {
        let code = |locale| Language::of(locale).map(|language| language.code);
        assert_eq!(code("en"), Some("en"));
        assert_eq!(code("EN_us"), Some("en"));
        assert_eq!(code("english"), Some("en"));
        assert_eq!(code("xx"), None);
        assert_eq!(code("e"), None);
        assert_eq!(code("\u{1d5a}n"), None);
    }

    proptest! {
        /// The stems are of a library that was made by a compiler of another language.
        #[test]
        fn every_word_has_a_stem(word in "[\\p{L}\\p{M}']{0,40}|[a-zäöüßéèçñığ]{0,12}") {
            for language in &LANGUAGES {
                language.stem(&word);
                language.skips(&word);
            }
        }
    }
}
