//! Secondary indexes, as the schema knows them.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;

use crate::{
    Analyzer, Cell, Column, ColumnKind, CqlType, FilterOperator, Language, LetterCase, Order,
    Table, Tokenizer,
};

/// How the entries of a secondary index are kept (`IndexMetadata.Kind`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexKind {
    /// `KEYS`: in a hidden table, as Cassandra 2 did it for tables of Thrift.
    Keys,
    /// `COMPOSITES`: in a hidden table whose clustering leads back to the row.
    Composites,
    /// `CUSTOM`: as the class of the option `class_name` does it.
    Custom,
}

impl IndexKind {
    /// As `system_schema.indexes` calls it.
    pub fn name(self) -> &'static str {
        match self {
            IndexKind::Keys => "KEYS",
            IndexKind::Composites => "COMPOSITES",
            IndexKind::Custom => "CUSTOM",
        }
    }
}

/// A secondary index of any kind, as `system_schema.indexes` says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Index {
    /// Its name, which no other index of the keyspace has.
    pub name: Arc<str>,
    /// Its table.
    pub table: Arc<str>,
    /// The column it is on, if it is on one.
    pub column: Option<Arc<str>>,
    /// How its entries are kept; `None` for a kind that nobody knows.
    pub kind: Option<IndexKind>,
    /// What it is on (`target`: `v`, `keys("M")`), its class (`class_name`) if it is custom, and
    /// what that class was told.
    pub options: BTreeMap<String, String>,
}

impl Index {
    /// Is it the same index but for its name (`IndexMetadata.equalsWithoutName`)?
    pub fn duplicates(&self, other: &Index) -> bool {
        self.table == other.table && self.kind == other.kind && self.options == other.options
    }
}

/// What of its column an index is on (`IndexTarget.Type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IndexPart {
    /// The value of a column that is no collection.
    Simple,
    /// `keys(m)`: the keys of a map.
    Keys,
    /// `values(c)`: the values of a map, the elements of a list or a set.
    Values,
    /// `entries(m)`: the entries of a map.
    Entries,
    /// `full(f)`: a frozen collection as a whole.
    Full,
}

impl IndexPart {
    /// Its name in CQL.
    pub fn name(self) -> &'static str {
        match self {
            IndexPart::Simple => "simple",
            IndexPart::Keys => "keys",
            IndexPart::Values => "values",
            IndexPart::Entries => "entries",
            IndexPart::Full => "full",
        }
    }
}

/// What of a cell an index keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Indexed<'c> {
    /// A value, a key or an element.
    Value(&'c Bytes),
    /// The key and the value of an entry of a map.
    Entry(&'c Bytes, &'c Bytes),
}

/// The option that says what an index is on.
const TARGET: &str = "target";

/// The option that says which class keeps a custom index.
const CLASS: &str = "class_name";

/// The class of storage-attached indexes.
const STORAGE_ATTACHED: &str = "org.apache.cassandra.index.sai.StorageAttachedIndex";

/// How the terms of a SASI are kept, and so what they can be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SasiMode {
    /// By their beginnings.
    Prefix,
    /// By all their ends.
    Contains,
    /// Numbers of which each comes seldom.
    Sparse,
}

/// Its other names, in whatever case (`IndexMetadata.indexNameAliases`).
const STORAGE_ATTACHED_ALIASES: [&str; 2] = ["sai", "storageattachedindex"];

/// Does a storage-attached index find ranges of values of a type (`IndexTermType.EQ_ONLY_TYPES`)?
fn has_ranges(ty: &CqlType) -> bool {
    use CqlType::{Ascii, Boolean, Text, Uuid, Vector};
    !matches!(ty, Ascii | Boolean | Text | Uuid | Vector { .. }) && ty.parts().next().is_none()
}

impl Index {
    /// The class of indexes that search texts.
    pub const SASI: &str = "org.apache.cassandra.index.sasi.SASIIndex";

    /// What of which column a target says (`v`, `"V"`, `values(v)`: `TargetParser`).
    pub fn parse_target(target: &str) -> (IndexPart, String) {
        use IndexPart::{Entries, Full, Keys, Simple, Values};
        let found = [Keys, Entries, Values, Full].into_iter().find_map(|part| {
            let rest = target.strip_prefix(part.name())?;
            Some((part, rest.strip_prefix('(')?.strip_suffix(')')?))
        });
        let (part, name) = found.unwrap_or((Simple, target));
        let quoted = name.strip_prefix('"').and_then(|n| n.strip_suffix('"'));
        let name = quoted.map_or_else(|| name.to_owned(), |name| name.replace("\"\"", "\""));
        (part, name)
    }

    /// What of its column it is on.
    pub fn part(&self) -> IndexPart {
        let target = self.options.get(TARGET);
        target.map_or(IndexPart::Simple, |target| Index::parse_target(target).0)
    }

    /// The column it is on, if its table has that.
    pub fn column_of<'t>(&self, table: &'t Table) -> Option<&'t Column> {
        table.column_named(self.column.as_ref()?)
    }

    /// Is it a storage-attached one?
    pub fn is_storage_attached(&self) -> bool {
        let class = self.options.get(CLASS).map_or("", String::as_str);
        let mut aliases = STORAGE_ATTACHED_ALIASES.iter();
        self.kind == Some(IndexKind::Custom)
            && (class == STORAGE_ATTACHED || aliases.any(|alias| class.eq_ignore_ascii_case(alias)))
    }

    /// Is it a SASI, which searches texts (`SASIIndex`)?
    pub fn is_sasi(&self) -> bool {
        let class = self.options.get(CLASS).map_or("", String::as_str);
        self.kind == Some(IndexKind::Custom) && class == Index::SASI
    }

    /// What a SASI makes of texts (`IndexMode.getAnalyzer`).
    fn sasi_analyzer(&self) -> Analyzer {
        let is = |option: &str| self.is_on(option, false);
        let letters = |lower: bool, upper: bool| match (lower, upper) {
            (true, _) => LetterCase::Lower,
            (false, true) => LetterCase::Upper,
            (false, false) => LetterCase::Kept,
        };
        match self.sasi_analyzer_class() {
            Some("NonTokenizingAnalyzer") => {
                let given = self.options.get("case_sensitive");
                let alike = given.is_some_and(|given| !given.eq_ignore_ascii_case("true"));
                Analyzer {
                    letters: letters(
                        alike || is("normalize_lowercase"),
                        is("normalize_uppercase"),
                    ),
                    normalize: true,
                    ..Analyzer::NONE
                }
            }
            Some("DelimiterAnalyzer") => Analyzer {
                tokenizer: Tokenizer::Between(
                    self.options
                        .get("delimiter")
                        .and_then(|d| d.chars().next())
                        .unwrap_or(','),
                ),
                ..Analyzer::NONE
            },
            class if class == Some("StandardAnalyzer") || class.is_none() && is("analyzed") => {
                let locale = self.options.get("tokenization_locale");
                let language = locale.and_then(|locale| Language::of(locale));
                Analyzer {
                    tokenizer: Tokenizer::Words {
                        skipped: language.filter(|_| is("tokenization_skip_stop_words")),
                        stemmed: language.filter(|_| is("tokenization_enable_stemming")),
                    },
                    letters: letters(
                        is("tokenization_normalize_lowercase"),
                        is("tokenization_normalize_uppercase"),
                    ),
                    normalize: true,
                    ..Analyzer::NONE
                }
            }
            _ => Analyzer::NONE,
        }
    }

    /// Is a column one of texts to a SASI? Downwards it is none: its values are compared as a whole, in
    /// ranges too, and like nothing (`ColumnIndex.isLiteral` asks for the class, which is `ReversedType`).
    pub fn is_text_of_sasi(column: &Column) -> bool {
        matches!(column.ty, CqlType::Text | CqlType::Ascii) && column.order == Order::Ascending
    }

    /// The name of a SASI's analyzer, without its package.
    fn sasi_analyzer_class(&self) -> Option<&str> {
        let class = self.options.get("analyzer_class")?;
        Some(class.rsplit('.').next().unwrap_or(class))
    }

    /// Is what a SASI makes of texts known here?
    fn is_sasi_served(&self) -> bool {
        [
            None,
            Some("NoOpAnalyzer"),
            Some("NonTokenizingAnalyzer"),
            Some("StandardAnalyzer"),
            Some("DelimiterAnalyzer"),
        ]
        .contains(&self.sasi_analyzer_class())
    }

    /// How a SASI's terms are kept (`OnDiskIndexBuilder.Mode`).
    fn sasi_mode(&self) -> SasiMode {
        let mode = self.options.get("mode").map_or("", String::as_str);
        match mode.to_ascii_uppercase().as_str() {
            "CONTAINS" => SasiMode::Contains,
            "SPARSE" => SasiMode::Sparse,
            _ => SasiMode::Prefix,
        }
    }

    /// `ColumnIndex.supports`
    fn sasi_supports(&self, column: &Column, operator: FilterOperator) -> bool {
        use FilterOperator::{Equal, LikeContains, LikeMatches, LikePrefix, LikeSuffix};
        let is_text = Index::is_text_of_sasi(column);
        let tokenizes = is_text && self.sasi_analyzer().tokenizer != Tokenizer::Whole;
        let mode = self.sasi_mode();
        match operator {
            Equal => !tokenizes,
            LikePrefix if tokenizes && mode == SasiMode::Contains => false,
            LikePrefix | LikeMatches => is_text && mode != SasiMode::Sparse,
            LikeSuffix | LikeContains => is_text && mode == SasiMode::Contains,
            _ if operator.is_range() => !is_text && mode != SasiMode::Contains,
            _ => false,
        }
    }

    /// Are its entries kept here?
    pub fn is_served(&self, table: &Table) -> bool {
        let is_table = matches!(self.kind, Some(IndexKind::Keys | IndexKind::Composites));
        let is_search = self.is_sasi() && self.is_sasi_served();
        (is_table || self.is_storage_attached() || is_search) && self.column_of(table).is_some()
    }

    /// Does an option say so? `or`: what is so where it is not given.
    pub fn is_on(&self, option: &str, or: bool) -> bool {
        let given = self.options.get(option);
        given.map_or(or, |given| given.eq_ignore_ascii_case("true"))
    }

    /// What it makes of texts before it compares them.
    pub fn analyzer(&self) -> Analyzer {
        match self.is_storage_attached() {
            true => Analyzer {
                letters: match self.is_on("case_sensitive", true) {
                    true => LetterCase::Kept,
                    false => LetterCase::Lower,
                },
                normalize: self.is_on("normalize", false),
                ascii: self.is_on("ascii", false),
                ..Analyzer::NONE
            },
            false if self.is_sasi() => self.sasi_analyzer(),
            false => Analyzer::NONE,
        }
    }

    /// Does it find the rows whose column compares so with one value
    /// (`CassandraIndex.supportsExpression`, `IndexTermType.supports`)?
    pub fn supports(&self, table: &Table, column: &Column, operator: FilterOperator) -> bool {
        if self.column.as_ref() != Some(&column.name) || !self.is_served(table) {
            return false;
        }
        if self.is_sasi() {
            return self.sasi_supports(column, operator);
        }
        let simple = self.part() == IndexPart::Simple;
        if self.is_storage_attached() && simple && operator.is_range() {
            // Downwards the identities are to Cassandra others than those that it takes for such.
            let downwards = column.ty == CqlType::Uuid && column.order == Order::Descending;
            return has_ranges(&column.ty) || downwards;
        }
        if matches!(column.ty, CqlType::Vector { .. }) && self.is_storage_attached() {
            return false;
        }
        match self.part() {
            IndexPart::Simple | IndexPart::Full => operator == FilterOperator::Equal,
            IndexPart::Keys => operator == FilterOperator::ContainsKey,
            IndexPart::Values => operator == FilterOperator::Contains,
            IndexPart::Entries => operator == FilterOperator::ContainsEntry,
        }
    }

    /// Has it entries? The nearest vectors are found by looking at all.
    pub fn has_entries(&self, column: &Column) -> bool {
        !(self.is_storage_attached() && matches!(column.ty, CqlType::Vector { .. }))
    }

    /// What it keeps of a cell of its column; `None` if that has no such part.
    pub fn part_of<'c>(&self, column: &Column, cell: &'c Cell) -> Option<Indexed<'c>> {
        let of_set = matches!(column.ty, CqlType::Set { .. });
        Some(match (self.part(), cell.path.as_ref()) {
            (IndexPart::Simple | IndexPart::Full, None) => Indexed::Value(&cell.value),
            (IndexPart::Keys, Some(path)) => Indexed::Value(path),
            (IndexPart::Values, Some(path)) if of_set => Indexed::Value(path),
            (IndexPart::Values, Some(_)) => Indexed::Value(&cell.value),
            (IndexPart::Entries, Some(path)) => Indexed::Entry(path, &cell.value),
            _ => return None,
        })
    }

    /// The type of what it keeps; `None` if its column has no such part.
    pub fn value_type(&self, column: &Column) -> Option<CqlType> {
        let ty = match (self.part(), &column.ty) {
            (IndexPart::Simple | IndexPart::Full, ty) => ty.clone(),
            (IndexPart::Keys, CqlType::Map { key, .. }) => (**key).clone(),
            (IndexPart::Values, CqlType::Map { value, .. }) => (**value).clone(),
            (IndexPart::Values, CqlType::List { element, .. } | CqlType::Set { element, .. }) => {
                (**element).clone()
            }
            (IndexPart::Entries, CqlType::Map { key, value, .. }) => CqlType::Map {
                key: key.clone(),
                value: value.clone(),
                frozen: true,
            },
            _ => return None,
        };
        Some(ty)
    }

    /// Does an entry stand for all rows of a partition?
    pub fn is_of_partitions(column: &Column) -> bool {
        matches!(column.kind, ColumnKind::PartitionKey | ColumnKind::Static)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_name_their_column() {
        for (target, part, column) in [
            ("v", IndexPart::Simple, "v"),
            ("\"V\"", IndexPart::Simple, "V"),
            ("values(v)", IndexPart::Values, "v"),
            ("full(\"a\"\"b\")", IndexPart::Full, "a\"b"),
            ("keys", IndexPart::Simple, "keys"),
        ] {
            let parsed = Index::parse_target(target);
            assert_eq!(parsed, (part, column.to_owned()), "{target}");
        }
    }
}
