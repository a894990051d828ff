//! What may be a SASI (`SASIIndex.validateOptions`, `IndexMode`).

use model::{Column, ColumnKind, CqlType, Index};

use crate::CqlError;

/// What clients are warned of who make one (`SASIIndex.USAGE_WARNING`).
pub(super) const USAGE_WARNING: &str =
    "SASI indexes are experimental and are not recommended for production use.";

/// The package of the analyzers that Cassandra has.
const ANALYZERS: &str = "org.apache.cassandra.index.sasi.analyzer.";

const MODES: [&str; 3] = ["PREFIX", "CONTAINS", "SPARSE"];

/// Refuses what no such index is.
pub(super) fn check(index: &Index, columns: &[&Column]) -> Result<(), CqlError> {
    let option = |name: &str| index.options.get(name).map(String::as_str);
    let [column] = columns else {
        let target = option("target").unwrap_or_default();
        return refuse(format!("failed to retrieve target column for: {target}"));
    };
    if column.ty.is_multi_cell() {
        return refuse("complex columns are not yet supported by SASI".to_owned());
    }
    if column.kind == ColumnKind::PartitionKey {
        return refuse("partition key columns are not yet supported by SASI".to_owned());
    }
    let is_text = Index::is_text_of_sasi(column);
    let analyzer = option("analyzer_class");
    if let Some(class) = analyzer {
        check_analyzer(index, class, is_text, &column.ty)?;
    }
    let mode = option("mode").unwrap_or(MODES[0]);
    if !MODES.iter().any(|known| known.eq_ignore_ascii_case(mode)) {
        return refuse(format!("Incorrect index mode: {mode}"));
    }
    if mode.eq_ignore_ascii_case("SPARSE") {
        if is_text {
            return refuse("SPARSE mode is only supported on non-literal columns.".to_owned());
        }
        if analyzer.is_some() {
            return refuse("SPARSE mode doesn't support analyzers.".to_owned());
        }
    }
    Ok(())
}

fn check_analyzer(index: &Index, class: &str, is_text: bool, ty: &CqlType) -> Result<(), CqlError> {
    let has = |name: &str| index.options.contains_key(name);
    let name = class.strip_prefix(ANALYZERS).unwrap_or_default();
    if ![
        "NoOpAnalyzer",
        "NonTokenizingAnalyzer",
        "StandardAnalyzer",
        "DelimiterAnalyzer",
    ]
    .contains(&name)
    {
        return refuse(format!("Invalid analyzer class option specified [{class}]"));
    }
    if !is_text && name != "NoOpAnalyzer" {
        return refuse(format!("{name} does not support type {ty}"));
    }
    if name == "NonTokenizingAnalyzer" {
        let (lower, upper) = (has("normalize_lowercase"), has("normalize_uppercase"));
        if has("case_sensitive") && (lower || upper) {
            return refuse(
                "case_sensitive option cannot be specified together with either \
                 normalize_lowercase or normalize_uppercase"
                    .to_owned(),
            );
        }
        if lower && upper {
            return refuse(
                "normalize_lowercase and normalize_uppercase cannot both be specified".to_owned(),
            );
        }
    }
    let is_on = |name: &str| index.is_on(name, false);
    let knows_words =
        is_on("tokenization_enable_stemming") || is_on("tokenization_skip_stop_words");
    let locale = index.options.get("tokenization_locale");
    if name == "StandardAnalyzer" && knows_words && locale.is_some_and(|l| l.chars().count() < 2) {
        return refuse("tokenization_locale needs the two letters of a language".to_owned());
    }
    let delimiter = index
        .options
        .get("delimiter")
        .map(|delimiter| delimiter.chars().count());
    if name == "DelimiterAnalyzer" && delimiter != Some(1) {
        return refuse("DelimiterAnalyzer needs a delimiter of one character".to_owned());
    }
    Ok(())
}

fn refuse<T>(message: String) -> Result<T, CqlError> {
    Err(CqlError::Config(message))
}
