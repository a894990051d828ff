//! `ByteBuffer`.
//!
//! A blob is a text of Lua in collections, tuples and user types; what a variable holds is a table of its own, with
//! its bytes (a text, or an array of `byte` once one of them is put), which duplicates have in common, and with
//! its place and its end.

use model::CqlType;

use super::types::Type;
use super::{Expression, Translator, Wrong};

pub(super) const BUFFER: Type = Type::Other(CqlType::Blob);

/// What is read and written, how many bytes it has, and its name for `string.pack`.
const NUMBERS: [(&str, Type, &str, &str); 7] = [
    ("", Type::Byte, "1", "\">i1\""),
    ("Char", Type::Char, "2", "\">I2\""),
    ("Short", Type::Short, "2", "\">i2\""),
    ("Int", Type::Int, "4", "\">i4\""),
    ("Long", Type::Long, "8", "\">i8\""),
    ("Float", Type::Float, "4", "\">f\""),
    ("Double", Type::Double, "8", "\">d\""),
];

fn is_bytes(value: &Expression) -> bool {
    value.ty == Type::Array(Type::Byte.into(), false)
}

impl Translator<'_> {
    /// What a collection, a tuple or a user type is given: its bytes instead of a buffer.
    pub(super) fn stored(&mut self, value: &Expression) -> Expression {
        match value.ty == BUFFER {
            true => Expression {
                code: self.helper("bytes", &[&value.code]),
                ..value.clone()
            },
            false => value.clone(),
        }
    }

    /// What is taken out of one: a buffer instead of its bytes.
    pub(super) fn taken(&mut self, value: Expression) -> Expression {
        match value.ty == BUFFER {
            true => Expression {
                code: self.helper("buffer", &[&value.code]),
                ..value
            },
            false => value,
        }
    }

    /// `ByteBuffer.allocate` and `wrap`.
    pub(super) fn buffer_of(
        &mut self,
        name: &str,
        arguments: &[Expression],
    ) -> Result<Option<Expression>, Wrong> {
        let code = match (name, arguments) {
            ("allocate", [size]) => {
                let size = self.assigned(size.clone(), &Type::Int, false)?.code;
                self.helper("allocated", &[&size])
            }
            ("wrap", [array]) if is_bytes(array) => {
                let array = self.some(array);
                self.helper("wrapped", &[&array])
            }
            ("wrap", [array, from, count]) if is_bytes(array) => {
                let array = self.some(array);
                let from = self.assigned(from.clone(), &Type::Int, false)?.code;
                let count = self.assigned(count.clone(), &Type::Int, false)?.code;
                self.helper("wrapped", &[&array, &from, &count])
            }
            _ => return Ok(None),
        };
        Ok(Some(Expression::new(BUFFER, code)))
    }

    /// Methods of a buffer that there are several of; the others are in the tables of the library.
    pub(super) fn buffer_method(
        &mut self,
        buffer: &str,
        name: &str,
        arguments: &[Expression],
    ) -> Result<Option<Expression>, Wrong> {
        if let Some(bulk) = self.bulk(buffer, name, arguments)? {
            return Ok(Some(bulk));
        }
        let (is_get, kind) = match (name.strip_prefix("get"), name.strip_prefix("put")) {
            (Some(kind), _) => (true, kind),
            (_, Some(kind)) => (false, kind),
            _ => return Ok(None),
        };
        let number = NUMBERS.iter().find(|(known, ..)| *known == kind);
        let Some((_, ty, size, form)) = number else {
            return Ok(None);
        };
        let (at, value) = match (is_get, arguments) {
            (true, []) => (None, None),
            (true, [at]) => (Some(at), None),
            (false, [value]) => (None, Some(value)),
            (false, [at, value]) => (Some(at), Some(value)),
            _ => return Ok(None),
        };
        let at = match at {
            Some(at) => self.assigned(at.clone(), &Type::Int, false)?.code,
            None => "nil".to_owned(),
        };
        let Some(value) = value else {
            let code = self.helper("get_number", &[buffer, &at, size, form]);
            return Ok(Some(Expression::new(ty.clone(), code)));
        };
        // Java makes no byte of an argument that is an `int`.
        if *ty == Type::Byte && value.ty != Type::Byte {
            let types: Vec<String> = arguments.iter().map(Expression::type_name).collect();
            let takes = if arguments.len() == 1 {
                "byte"
            } else {
                "int, byte"
            };
            return Err(format!(
                "The method put({takes}) in the type ByteBuffer is not applicable for the arguments ({})",
                types.join(", ")
            ));
        }
        let value = self.assigned(value.clone(), ty, false)?.code;
        let code = self.helper("put_number", &[buffer, &at, size, form, &value]);
        Ok(Some(Expression::new(BUFFER, code)))
    }

    /// What moves several bytes.
    fn bulk(
        &mut self,
        buffer: &str,
        name: &str,
        arguments: &[Expression],
    ) -> Result<Option<Expression>, Wrong> {
        let code = match (name, arguments) {
            ("put", [from]) if from.ty == BUFFER => {
                let from = self.some(from);
                self.helper("put_buffer", &[buffer, &from])
            }
            ("get" | "put", [array, range @ ..])
                if is_bytes(array) && matches!(range.len(), 0 | 2) =>
            {
                let helper = if name == "get" {
                    "get_bytes"
                } else {
                    "put_bytes"
                };
                let mut codes = vec![buffer.to_owned(), self.some(array)];
                for place in range {
                    codes.push(self.assigned(place.clone(), &Type::Int, false)?.code);
                }
                let codes: Vec<&str> = codes.iter().map(String::as_str).collect();
                self.helper(helper, &codes)
            }
            ("array", []) => {
                let code = self.helper("array_of", &[buffer]);
                let ty = Type::Array(Type::Byte.into(), false);
                return Ok(Some(Expression::new(ty, code)));
            }
            ("equals", [other]) if other.ty == BUFFER => {
                let code = self.helper("same_bytes", &[buffer, &other.code]);
                return Ok(Some(Expression::new(Type::Boolean, code)));
            }
            _ => return Ok(None),
        };
        Ok(Some(Expression::new(BUFFER, code)))
    }
}
