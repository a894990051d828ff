//! Calls whose results a real Cassandra 5.0.6 gave. A line is: function, arguments, type of the
//! result, result as JSON; or `!` and the error.

use std::fmt;

use model::{CqlType, collection};

use super::*;
use crate::ast::{DataType, Term};

const SIMPLE: &str = include_str!("golden/functions.golden");
/// Functions of collections, masks and vectors.
const MADE: &str = include_str!("golden/factories.golden");

struct Value {
    ty: CqlType,
    text: String,
}

impl Value {
    fn parse(text: &str) -> Value {
        let (ty, text) = text.split_once(' ').unwrap_or((text, ""));
        Value {
            ty: crate::parse_type(ty)
                .unwrap()
                .resolve("ks", &Default::default())
                .unwrap()
                .freeze(),
            text: text.to_owned(),
        }
    }

    fn bytes(&self) -> Option<Bytes> {
        match (&self.ty, self.text.as_str()) {
            (_, "null") => None,
            (CqlType::Text | CqlType::Ascii, text) => Some(Bytes::from(text.to_owned())),
            (ty, text) if ty.is_collection() || matches!(ty, CqlType::Vector { .. }) => {
                Some(pack(ty, &crate::parse_term(text).unwrap()))
            }
            (CqlType::Blob, text) => Some(self.ty.parse_string(&text[2..]).unwrap()),
            (ty, text) => Some(ty.parse_string(text).unwrap()),
        }
    }
}

/// The value of a literal.
fn pack(ty: &CqlType, term: &Term) -> Bytes {
    match (ty, term) {
        (CqlType::List { element, .. }, Term::List(terms)) => {
            collection::pack_elements(terms.iter().map(|term| pack(element, term))).into()
        }
        (CqlType::Vector { element, .. }, Term::List(terms)) => {
            let elements = terms.iter().map(|term| pack(element, term));
            let packed = collection::pack_vector(element, elements);
            packed.expect("a vector").into()
        }
        (CqlType::Set { element, .. }, Term::Set(terms)) => {
            let mut elements: Vec<Bytes> = terms.iter().map(|term| pack(element, term)).collect();
            elements.sort_by(|a, b| element.compare(a, b));
            collection::pack_elements(elements).into()
        }
        (CqlType::Map { key, value, .. }, Term::Map(terms)) => {
            let each = terms.iter().map(|(k, v)| (pack(key, k), pack(value, v)));
            let mut entries: Vec<(Bytes, Bytes)> = each.collect();
            entries.sort_by(|a, b| key.compare(&a.0, &b.0));
            collection::pack_entries(entries).into()
        }
        (CqlType::Map { .. }, Term::Set(terms)) if terms.is_empty() => vec![0; 4].into(),
        (CqlType::Text, Term::Literal(literal)) => literal.text.clone().into(),
        (ty, Term::Literal(literal)) => ty.parse_string(&literal.text).unwrap(),
        (ty, term) => panic!("{term:?} is no {ty}"),
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({})", DataType::Native(self.ty.clone()))?;
        match self.ty {
            CqlType::Date => write!(f, "'{}'", self.text),
            _ => f.write_str(&self.text),
        }
    }
}

impl Argument for Value {
    fn assignment(&self, ty: &CqlType) -> Assignment {
        assign_type(&self.ty, ty)
    }

    fn exact_type(&self) -> Option<CqlType> {
        Some(self.ty.clone())
    }
}

fn call(name: &str, values: &[Value]) -> Result<(CqlType, Option<Bytes>), CqlError> {
    let arguments: Vec<Option<Bytes>> = values.iter().map(Value::bytes).collect();
    let function = if let Some(symbol) = name.strip_prefix("op ") {
        let operator = match symbol {
            "+" => Operator::Add,
            "-" => Operator::Subtract,
            "*" => Operator::Multiply,
            "/" => Operator::Divide,
            _ => Operator::Modulo,
        };
        operation(operator, &values[0].ty, &values[1].ty)
    } else if let Some(to) = name.strip_prefix("cast ") {
        let to = CqlType::simple_named(to).unwrap();
        if values[0].ty == to {
            return Ok((to, arguments[0].clone()));
        }
        let Some(Function::Scalar(function)) = resolve_cast(&values[0], &to)? else {
            return Err(no_cast(&values[0], &to));
        };
        Some(Scalar::clone(&function))
    } else {
        let terms: Vec<&dyn Argument> = values.iter().map(|v| v as &dyn Argument).collect();
        let receiver = Receiver {
            ty: None,
            partition_key: &[],
            users: None,
        };
        match resolve(None, name, &terms, receiver)? {
            Some(Function::Scalar(function)) => Some(Scalar::clone(&function)),
            _ => None,
        }
    };
    let function = function.unwrap_or_else(|| panic!("there is no {name}"));
    let result = function.execute(&FunctionContext::new(0, 1), &arguments)?;
    Ok((function.result().clone(), result))
}

/// Without what Cassandra orders by hash, and without the text of an argument.
fn comparable(error: &str) -> &str {
    let ends = [" (known", " (can be", ", but found argument"];
    let end = ends.iter().filter_map(|end| error.find(end)).min();
    &error[..end.unwrap_or(error.len())]
}

#[test]
fn functions_answer_as_cassandra_does() {
    compare(SIMPLE);
}

#[test]
fn functions_made_for_their_arguments_answer_as_cassandra_does() {
    compare(MADE);
}

/// The protocol does not tell clients what is frozen.
fn shown(ty: &CqlType) -> String {
    ty.to_string().replace("frozen<", "").replace(">>", ">")
}

fn compare(golden: &str) {
    let mut wrong = Vec::new();
    for line in golden.lines() {
        let parts: Vec<&str> = line.split(" | ").collect();
        let [name, arguments, ty, expected] = parts.as_slice() else {
            panic!("{line}");
        };
        let values: Vec<Value> = arguments.split("; ").map(Value::parse).collect();
        let given = match call(name, &values) {
            Ok((result, value)) => {
                // An empty value, which these types have besides theirs, shows as null.
                let has_empty = matches!(result, CqlType::Text | CqlType::Ascii | CqlType::Blob);
                let value = value.filter(|value| has_empty || !value.is_empty());
                let json = value.map_or("null".to_owned(), |v| result.to_json(&v));
                format!("{} | {json}", shown(&result))
            }
            Err(error) => format!("! | {}", comparable(&error.to_string())),
        };
        if given != format!("{ty} | {}", comparable(expected)) {
            wrong.push(format!("{line}\n    Helenus: {given}"));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}
