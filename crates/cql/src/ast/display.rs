//! Terms and selectors as text, in Cassandra's form: it names columns of results and stands in
//! messages.

use std::fmt::{self, Display, Formatter};

use model::quote_identifier;

use super::{
    FunctionName, InValues, LiteralKind, NEGATION, Relation, RelationTarget, RelationValue,
    Selector, Term, WriteTimeKind,
};

/// Items with commas between.
fn list<T: Display>(f: &mut Formatter<'_>, open: &str, items: &[T], close: &str) -> fmt::Result {
    f.write_str(open)?;
    for (i, item) in items.iter().enumerate() {
        f.write_str(if i == 0 { "" } else { ", " })?;
        item.fmt(f)?;
    }
    f.write_str(close)
}

/// A function as CQL writes it.
fn called(name: &FunctionName) -> String {
    match &name.keyspace {
        Some(keyspace) => format!(
            "{}.{}",
            quote_identifier(keyspace),
            quote_identifier(&name.name)
        ),
        None => quote_identifier(&name.name),
    }
}

/// Pairs with commas between.
fn entries<K: Display, V: Display>(f: &mut Formatter<'_>, entries: &[(K, V)]) -> fmt::Result {
    f.write_str("{")?;
    for (i, (key, value)) in entries.iter().enumerate() {
        f.write_str(if i == 0 { "" } else { ", " })?;
        key.fmt(f)?;
        f.write_str(": ")?;
        value.fmt(f)?;
    }
    f.write_str("}")
}

/// With `{:#}` as CQL that means the same; else as Cassandra shows it, where a quote in a text is one.
impl Display for Term {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Term::Literal(literal) if literal.kind == LiteralKind::String && f.alternate() => {
                write!(f, "'{}'", literal.text.replace('\'', "''"))
            }
            Term::Literal(literal) if literal.kind == LiteralKind::String => {
                write!(f, "'{}'", literal.text)
            }
            Term::Literal(literal) => f.write_str(&literal.text),
            Term::Null => f.write_str("NULL"),
            Term::Marker(_) => f.write_str("?"),
            Term::List(items) => list(f, "[", items, "]"),
            Term::Set(items) => list(f, "{", items, "}"),
            Term::Map(pairs) => entries(f, pairs),
            Term::User(fields) => {
                let quoted: Vec<(String, &Term)> = fields
                    .iter()
                    .map(|(name, term)| (quote_identifier(name), term))
                    .collect();
                entries(f, &quoted)
            }
            Term::Tuple(items) => list(f, "(", items, ")"),
            Term::Function { name, arguments } => {
                list(f, &format!("{}(", called(name)), arguments, ")")
            }
            // As calls of the functions that the operators have.
            Term::Operation {
                operator,
                left,
                right,
            } => {
                let open = format!("system.\"{}\"(", operator.function());
                list(f, &open, &[left, right], ")")
            }
            Term::Negation(term) => list(f, &format!("system.\"{NEGATION}\"("), &[term], ")"),
            Term::TypeHint(ty, term) => {
                write!(f, "({ty})")?;
                term.fmt(f)
            }
            Term::Cast(term, ty) => {
                f.write_str("cast(")?;
                term.fmt(f)?;
                write!(f, " as {ty})")
            }
        }
    }
}

impl Display for InValues {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            InValues::Terms(terms) => list(f, "(", terms, ")"),
            InValues::Marker(_) => f.write_str("?"),
        }
    }
}

impl Display for WriteTimeKind {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            WriteTimeKind::WriteTime => "writetime",
            WriteTimeKind::MaxWriteTime => "maxwritetime",
            WriteTimeKind::MinWriteTime => "minwritetime",
            WriteTimeKind::Ttl => "ttl",
        })
    }
}

impl Display for Selector {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Selector::Column(name) => f.write_str(&quote_identifier(name)),
            Selector::Term(term) => term.fmt(f),
            Selector::TypeHint(ty, selector) => write!(f, "({ty}){selector}"),
            Selector::Parentheses(items) => list(f, "(", items, ")"),
            Selector::List(items) => list(f, "[", items, "]"),
            Selector::Set(items) => list(f, "{", items, "}"),
            Selector::Map(pairs) => entries(f, pairs),
            Selector::CountRows => f.write_str("count(*)"),
            Selector::WriteTime(kind, selector) => write!(f, "{kind}({selector})"),
            Selector::Cast(selector, ty) => write!(f, "cast({selector} as {ty})"),
            Selector::Function { name, arguments } => list(f, &format!("{name}("), arguments, ")"),
            Selector::Operation {
                operator,
                left,
                right,
            } => write!(f, "{left} {} {right}", operator.symbol()),
            Selector::Negation(selector) => write!(f, "-{selector}"),
            Selector::Field(selector, field) => {
                write!(f, "{selector}.{}", quote_identifier(field))
            }
            Selector::Element(selector, key) => write!(f, "{selector}[{key}]"),
            Selector::Slice(selector, from, to) => {
                let text = |end: &Option<Box<Term>>| {
                    end.as_ref()
                        .map(|term| term.to_string())
                        .unwrap_or_default()
                };
                write!(f, "{selector}[{}..{}]", text(from), text(to))
            }
        }
    }
}

impl Display for RelationTarget {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let names = |f: &mut Formatter<'_>, open: &str, names: &[String]| {
            let quoted: Vec<String> = names.iter().map(|name| quote_identifier(name)).collect();
            list(f, open, &quoted, ")")
        };
        match self {
            RelationTarget::Column(name) => f.write_str(&quote_identifier(name)),
            RelationTarget::Element(name, key) => {
                write!(f, "{}[", quote_identifier(name))?;
                key.fmt(f)?;
                f.write_str("]")
            }
            RelationTarget::Columns(columns) => names(f, "(", columns),
            RelationTarget::Token(columns) => names(f, "token(", columns),
            RelationTarget::Expression(index) => write!(f, "expr({}, …)", index.name),
        }
    }
}

/// With `{:#}` as CQL that means the same, as [`Term`].
impl Display for Relation {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.target.fmt(f)?;
        write!(f, " {} ", self.comparison.symbol())?;
        match &self.value {
            RelationValue::Term(term) => term.fmt(f),
            RelationValue::In(values) => values.fmt(f),
            RelationValue::Between(ends) => {
                ends.0.fmt(f)?;
                f.write_str(" AND ")?;
                ends.1.fmt(f)
            }
        }
    }
}
