//! Calls whose results a real Cassandra 5.0.6 gave. A line is: function, arguments, type of the
//! result, result as JSON; or `!` and the error.

use std::fmt;

use model::CqlType;

use super::*;
use crate::ast::DataType;

const GOLDEN: &str = include_str!("golden/functions.golden");

struct Value {
    ty: CqlType,
    text: String,
}

impl Value {
    fn parse(text: &str) -> Value {
        let (ty, text) = text.split_once(' ').unwrap_or((text, ""));
        Value {
            ty: CqlType::simple_named(ty).unwrap(),
            text: text.to_owned(),
        }
    }

    fn bytes(&self) -> Option<Bytes> {
        match (&self.ty, self.text.as_str()) {
            (_, "null") => None,
            (CqlType::Text | CqlType::Ascii, text) => Some(Bytes::from(text.to_owned())),
            (CqlType::Blob, text) => Some(self.ty.parse_string(&text[2..]).unwrap()),
            (ty, text) => Some(ty.parse_string(text).unwrap()),
        }
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
        let Some(Function::Scalar(function)) = resolve_cast(&values[0], &to)? else {
            return Ok((to, arguments[0].clone()));
        };
        Some(Scalar::clone(&function))
    } else {
        let terms: Vec<&dyn Argument> = values.iter().map(|v| v as &dyn Argument).collect();
        let receiver = Receiver {
            ty: None,
            partition_key: &[],
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

#[test]
fn functions_answer_as_cassandra_does() {
    let mut wrong = Vec::new();
    for line in GOLDEN.lines() {
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
                format!("{result} | {json}")
            }
            Err(error) => {
                let text = error.to_string();
                let end = text.find(" (known").or_else(|| text.find(" (can be"));
                format!("! | {}", &text[..end.unwrap_or(text.len())])
            }
        };
        if given != format!("{ty} | {expected}") {
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
