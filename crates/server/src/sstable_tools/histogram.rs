//! A histogram drawn on a terminal (`org.apache.cassandra.tools.Util.TermHistogram`).

use storage::sstable::EstimatedHistogram;

/// How things are drawn.
#[derive(Clone, Copy, Debug)]
pub(super) struct Style {
    /// With ANSI colours.
    pub(super) colors: bool,
    /// With Unicode blocks.
    pub(super) unicode: bool,
}

const RESET: &str = "\u{1b}[0m";
const BLUE: &str = "\u{1b}[34m";
const CYAN: &str = "\u{1b}[36m";
const WHITE: &str = "\u{1b}[37m";
/// How long the longest bar is, in characters.
const LENGTH: f64 = 30.0;
/// The buckets of the histogram that the percentiles are taken from.
const PERCENTILE_BUCKETS: usize = 165;

impl Style {
    fn code(self, code: &'static str) -> &'static str {
        if self.colors { code } else { "" }
    }

    pub(super) fn blue(self) -> &'static str {
        self.code(BLUE)
    }

    pub(super) fn cyan(self) -> &'static str {
        self.code(CYAN)
    }

    pub(super) fn white(self) -> &'static str {
        self.code(WHITE)
    }

    pub(super) fn reset(self) -> &'static str {
        self.code(RESET)
    }

    /// In brackets, if there is something.
    pub(super) fn aside(self, text: Option<&str>) -> String {
        match text {
            None | Some("") => String::new(),
            Some(text) => format!("{}({text}){}", self.white(), self.reset()),
        }
    }

    /// The bar of a count where `most` is the largest.
    fn bar(self, count: i64, most: i64) -> String {
        let length = count as f64 / most.max(1) as f64 * LENGTH;
        let rest = length - length.floor();
        let steps: &[(f64, char)] = match self.unicode {
            false => &[(0.3, '.'), (0.75, 'o'), (1.0, 'O')],
            true => &[
                (0.125, '\u{258f}'),
                (0.25, '\u{258e}'),
                (0.375, '\u{258d}'),
                (0.625, '\u{258b}'),
                (0.75, '\u{258a}'),
                (0.875, '\u{2589}'),
                (1.0, '\u{2589}'),
            ],
        };
        let full = if self.unicode { '\u{2589}' } else { 'O' };
        let mut bar: String = std::iter::repeat_n(full, length as usize).collect();
        bar.extend(
            steps
                .iter()
                .rev()
                .find(|(from, _)| *from <= rest)
                .map(|s| s.1),
        );
        format!("{}{bar}{}", self.white(), self.reset())
    }
}

/// How many characters are seen of a text.
fn seen(text: &str) -> usize {
    let codes = [RESET, BLUE, CYAN, WHITE];
    codes
        .iter()
        .fold(text.to_owned(), |text, code| text.replace(code, ""))
        .chars()
        .count()
}

/// `text`, filled with blanks up to so many characters that are seen.
fn padded(text: &str, width: usize) -> String {
    let missing = width.saturating_sub(seen(text));
    format!("{text}{}", " ".repeat(missing))
}

/// The lines of a histogram of these values and counts.
pub(super) fn draw(
    bins: &[(i64, i64)],
    title: &str,
    name: impl Fn(i64) -> String,
    style: Style,
) -> String {
    let (blue, cyan, reset) = (style.blue(), style.cyan(), style.reset());
    let names: Vec<String> = bins.iter().map(|(value, _)| name(*value)).collect();
    let widest = names.iter().map(|n| seen(n)).max().unwrap_or(0);
    let widest = widest.max(seen(title));
    let counts = bins.iter().map(|(_, count)| count.to_string().len()).max();
    let count_width = counts.unwrap_or(0).max(5);
    let most = bins.iter().map(|(_, count)| *count).max().unwrap_or(0);
    let sum: f64 = bins.iter().map(|(_, count)| *count as f64).sum();

    let bar = if style.colors {
        format!("{CYAN}|{BLUE}")
    } else {
        "|".to_owned()
    };
    let mut out = format!(
        "   {} {bar} {:count_width$}  {}  {blue}Histogram{reset} \n",
        padded(&format!("{blue}{title}"), widest),
        "Count",
        style.aside(Some("%")),
    );
    for ((_, count), name) in bins.iter().zip(&names) {
        let part = (100.0 * (*count as f64 / sum)) as i64;
        out.push_str(&format!(
            "   {} {cyan}|{reset} {count:>count_width$} {} {}\n",
            padded(name, widest),
            style.aside(Some(&format!("{part:>3}"))),
            style.bar(*count, most),
        ));
    }
    out.push_str(&percentiles(bins, name, style));
    out
}

fn percentiles(bins: &[(i64, i64)], name: impl Fn(i64) -> String, style: Style) -> String {
    let (blue, reset) = (style.blue(), style.reset());
    let mut histogram = EstimatedHistogram::new(PERCENTILE_BUCKETS);
    for (value, count) in bins {
        histogram.add_many(*value, *count);
    }
    let rows = [
        ("50th", histogram.upper_percentile(0.5)),
        ("75th", histogram.upper_percentile(0.75)),
        ("95th", histogram.upper_percentile(0.95)),
        ("98th", histogram.upper_percentile(0.98)),
        ("99th", histogram.upper_percentile(0.99)),
        ("Min", histogram.min()),
        ("Max", histogram.max()),
    ];
    let mut out = format!("{blue}   Percentiles{reset}\n");
    for (what, value) in rows {
        out.push_str(&format!("   {blue}{what:10}{reset}{}\n", name(value)));
    }
    out
}
