//! Methods of the classes that there are.

use model::CqlType;

use super::types::Type;
use super::{Expression, Translator, Wrong};

/// `Math`'s functions of a `double`, and what they are in Lua.
const REAL_FUNCTIONS: [(&str, &str); 14] = [
    ("sin", "math.sin(%)"),
    ("cos", "math.cos(%)"),
    ("tan", "math.tan(%)"),
    ("asin", "math.asin(%)"),
    ("acos", "math.acos(%)"),
    ("atan", "math.atan(%)"),
    ("exp", "math.exp(%)"),
    ("log", "math.log(%)"),
    ("log10", "math.log(%, 10)"),
    ("sqrt", "(% ^ 0.5)"),
    ("floor", "(math.floor(%) + 0.0)"),
    ("ceil", "(math.ceil(%) + 0.0)"),
    ("toRadians", "math.rad(%)"),
    ("toDegrees", "math.deg(%)"),
];

/// Classes that are nothing but their static methods.
const CLASSES: [&str; 5] = ["Math", "System", "Objects", "Arrays", "Collections"];

fn missing(ty: &impl ToString, name: &str) -> Wrong {
    format!(
        "The method {name} of the type {} is not available in Helenus",
        ty.to_string()
    )
}

/// The function that compares numbers of a type: real ones have an order of NaN and of both zeros.
fn order_of(ty: &Type) -> &'static str {
    match ty.is_real() {
        true => "real_order",
        false => "order",
    }
}

impl Translator<'_> {
    pub(super) fn class_method(
        &mut self,
        class: &str,
        name: &str,
        arguments: &[Expression],
    ) -> Result<Expression, Wrong> {
        if class == "Arrays"
            && let Some(value) = self.array_method(name, arguments)
        {
            return Ok(value);
        }
        if let Some(value) = self.library_static(class, name, arguments)? {
            return Ok(value);
        }
        if let Some(collection) = self.collection_of(class, name, arguments) {
            return Ok(collection);
        }
        let first = arguments.first().cloned();
        match (class, name, first, arguments.len()) {
            ("Math", _, Some(first), 1) if first.ty.is_number() => self.math(name, first),
            ("Math", "max" | "min" | "pow", Some(first), 2) => {
                let ty = match name {
                    "pow" => Type::Double,
                    _ => super::operator::common(&first.ty, &arguments[1].ty),
                };
                let a = self.converted(first, &ty)?;
                let b = self.converted(arguments[1].clone(), &ty)?;
                let (a, b) = (self.some(&a), self.some(&b));
                let code = match name {
                    "pow" => format!("({a} ^ {b})"),
                    _ => format!("math.{name}({a}, {b})"),
                };
                Ok(Expression::new(ty, code))
            }
            ("String", "valueOf", Some(first), 1) => {
                let code = self.shown(&first);
                Ok(Expression::new(Type::Text, code))
            }
            ("udfContext", "newReturnUDTValue" | "newReturnTupleValue", None, 0) => {
                let ty = Type::of(&self.function.return_type);
                Ok(Expression::new(ty, "{}"))
            }
            ("Objects", "equals", Some(first), 2) => {
                let code = self.helper("alike", &[&first.code, &arguments[1].code]);
                Ok(Expression::new(Type::Boolean, code))
            }
            _ => self.box_method(class, name, arguments),
        }
    }

    /// The static methods of `Integer` and the like.
    fn box_method(
        &mut self,
        class: &str,
        name: &str,
        arguments: &[Expression],
    ) -> Result<Expression, Wrong> {
        let absent = || missing(&class, name);
        let ty = match Type::of_class(class, Vec::new()) {
            Some(ty) => ty,
            None if CLASSES.contains(&class) => return Err(absent()),
            None => return Err(format!("{class} cannot be resolved")),
        };
        let is_box = ty.is_number() || ty == Type::Boolean;
        match (name, arguments) {
            ("valueOf", [value]) if is_box && value.ty != Type::Text => {
                let value = self.assigned(value.clone(), &ty, false)?;
                Ok(Expression::boxed(ty, value.code))
            }
            ("valueOf" | "parseInt" | "parseLong" | "parseDouble" | "parseFloat", [value])
                if ty.is_number() && value.ty == Type::Text =>
            {
                let is_whole = ty.is_whole().to_string();
                let (low, high) = match ty {
                    Type::Int => ("-2147483648", "2147483647"),
                    Type::Short => ("-32768", "32767"),
                    Type::Byte => ("-128", "127"),
                    _ => ("nil", "nil"),
                };
                let code = self.helper("parse", &[&value.code, &is_whole, low, high]);
                let number = self.rounded(ty, code);
                Ok(Expression {
                    is_boxed: name == "valueOf",
                    ..number
                })
            }
            ("toString", [value]) if is_box => {
                let value = self.converted(value.clone(), &ty)?;
                let code = self.shown(&value);
                Ok(Expression::new(Type::Text, code))
            }
            ("compare", [a, b]) if ty.is_number() => {
                let (a, b) = (self.some(a), self.some(b));
                let code = self.helper(order_of(&ty), &[&a, &b]);
                Ok(Expression::new(Type::Int, code))
            }
            ("max" | "min" | "sum", [a, b]) if ty.is_number() => match name {
                "sum" => self.operation(a.clone(), "+", b.clone()),
                _ => self.class_method("Math", name, &[a.clone(), b.clone()]),
            },
            ("isNaN", [value]) if ty.is_real() => {
                let value = self.some(value);
                Ok(Expression::new(
                    Type::Boolean,
                    format!("({value} ~= {value})"),
                ))
            }
            _ => Err(absent()),
        }
    }

    fn math(&mut self, name: &str, value: Expression) -> Result<Expression, Wrong> {
        if let Some((_, lua)) = REAL_FUNCTIONS.iter().find(|(java, _)| *java == name) {
            let value = self.converted(value, &Type::Double)?;
            let value = self.some(&value);
            return Ok(Expression::new(Type::Double, lua.replace('%', &value)));
        }
        let of = self.some(&value);
        match name {
            "abs" => {
                let ty = super::operator::common(&value.ty, &Type::Int);
                Ok(self.rounded(ty, format!("math.abs({of})")))
            }
            "round" => {
                let ty = if value.ty == Type::Float {
                    Type::Int
                } else {
                    Type::Long
                };
                let code = self.helper("nearest", &[&of]);
                self.cast(Expression::new(Type::Double, code), &ty)
            }
            "signum" => {
                let code = self.helper("order", &[&of, "0"]);
                Ok(Expression::new(Type::Double, format!("({code} + 0.0)")))
            }
            _ => Err(missing(&"Math", name)),
        }
    }

    pub(super) fn method(
        &mut self,
        on: &Expression,
        name: &str,
        arguments: &[Expression],
    ) -> Result<Expression, Wrong> {
        if on.is_primitive() {
            let of: Vec<String> = arguments.iter().map(Expression::type_name).collect();
            return Err(format!(
                "Cannot invoke {name}({}) on the primitive type {}",
                of.join(", "),
                on.type_name()
            ));
        }
        let value = self.some(on);
        let codes: Vec<&str> = arguments
            .iter()
            .map(|argument| argument.code.as_str())
            .collect();
        if let Some(known) = self.library_method(on, &value, name, arguments)? {
            return Ok(known);
        }
        match (name, &codes[..]) {
            ("equals", [other])
                if matches!(on.ty, Type::Other(CqlType::Decimal | CqlType::Varint)) =>
            {
                let code = format!("native.same({value}, {other})");
                return Ok(Expression::new(Type::Boolean, code));
            }
            // No number equals one of another type.
            ("equals", [other])
                if on.ty.has_primitive()
                    && arguments[0].ty.has_primitive()
                    && arguments[0].ty != on.ty =>
            {
                return Ok(Expression::new(
                    Type::Boolean,
                    format!("({value} == {other} and false)"),
                ));
            }
            ("equals", [other]) => {
                let code = self.helper("alike", &[&value, other]);
                return Ok(Expression::new(Type::Boolean, code));
            }
            ("toString", []) => {
                let code = self.shown(&Expression {
                    code: value,
                    may_be_null: false,
                    ..on.clone()
                });
                return Ok(Expression::new(Type::Text, code));
            }
            _ => {}
        }
        match &on.ty {
            ty if ty.is_number() => {
                let to = match name {
                    "intValue" => Type::Int,
                    "longValue" => Type::Long,
                    "doubleValue" => Type::Double,
                    "floatValue" => Type::Float,
                    "shortValue" => Type::Short,
                    "byteValue" => Type::Byte,
                    "compareTo" if codes.len() == 1 => {
                        let code = self.helper(order_of(ty), &[&value, codes[0]]);
                        return Ok(Expression::new(Type::Int, code));
                    }
                    "isNaN" => {
                        return Ok(Expression::new(
                            Type::Boolean,
                            format!("({value} ~= {value})"),
                        ));
                    }
                    _ => return Err(missing(ty, name)),
                };
                let number = self.cast(Expression::new(ty.clone(), value), &to)?;
                Ok(Expression {
                    is_boxed: false,
                    ..number
                })
            }
            Type::Boolean if name == "booleanValue" => Ok(Expression::new(Type::Boolean, value)),
            Type::Text => self.text_method(&value, name, arguments),
            Type::Builder => match (name, arguments) {
                ("append", [text]) => {
                    let text = self.shown(text);
                    let code = self.helper("write", &[&value, &text]);
                    Ok(Expression::new(Type::Builder, code))
                }
                ("length", []) => Ok(Expression::new(Type::Int, format!("utf8.len({value}[1])"))),
                _ => Err(missing(&on.ty, name)),
            },
            Type::List(item) => self.list_method(&value, &item.clone(), name, arguments),
            Type::Set(item) => self.set_method(&value, &item.clone(), name, arguments),
            Type::Map(key, of) => {
                self.map_method(&value, (&key.clone(), &of.clone()), name, arguments)
            }
            Type::Entry(key, of) => match name {
                "getKey" => Ok(Expression::boxed((**key).clone(), format!("{value}[1]"))),
                "getValue" => Ok(Expression::boxed((**of).clone(), format!("{value}[2]"))),
                _ => Err(missing(&on.ty, name)),
            },
            Type::Array(..) if name == "clone" && arguments.is_empty() => {
                let code = self.helper("resized", &[&value, &format!("{value}.n"), "nil"]);
                Ok(Expression::new(on.ty.clone(), code))
            }
            Type::Exception(class) => self.exception_method(&value, class, name, arguments),
            Type::Tuple(_) | Type::User(_) => self.fields(on, &value, name, arguments),
            ty => Err(missing(ty, name)),
        }
    }

    fn text_method(
        &mut self,
        text: &str,
        name: &str,
        arguments: &[Expression],
    ) -> Result<Expression, Wrong> {
        let codes: Vec<String> = arguments
            .iter()
            .map(|argument| match argument.ty {
                Type::Char => format!("utf8.char({})", argument.code),
                _ => argument.code.clone(),
            })
            .collect();
        let codes: Vec<&str> = codes.iter().map(String::as_str).collect();
        let (ty, code) = match (name, &codes[..]) {
            ("length", []) => (Type::Int, format!("utf8.len({text})")),
            ("isEmpty", []) => (Type::Boolean, format!("({text} == \"\")")),
            ("trim" | "strip", []) => (Type::Text, self.helper("trim", &[text])),
            ("concat", [other]) => (Type::Text, format!("({text} .. {other})")),
            ("substring", [from]) => (Type::Text, self.helper("part", &[text, from])),
            ("substring", [from, to]) => (Type::Text, self.helper("part", &[text, from, to])),
            ("charAt", [at]) => (Type::Char, self.helper("char", &[text, at])),
            ("indexOf", [of]) => (Type::Int, self.helper("place", &[text, of])),
            ("contains", [of]) => (
                Type::Boolean,
                format!("({} >= 0)", self.helper("place", &[text, of])),
            ),
            ("startsWith", [of]) => (
                Type::Boolean,
                format!("(string.sub({text}, 1, #{of}) == {of})"),
            ),
            ("endsWith", [of]) => (
                Type::Boolean,
                format!("({of} == \"\" or string.sub({text}, -#{of}) == {of})"),
            ),
            ("replace", [old, new]) => (Type::Text, self.helper("swap", &[text, old, new])),
            ("equalsIgnoreCase", [other]) => (
                Type::Boolean,
                format!("(native.lower({text}) == native.lower({other}))"),
            ),
            ("compareTo", [other]) => (Type::Int, self.helper("text_order", &[text, other])),
            _ => return Err(missing(&Type::Text, name)),
        };
        Ok(Expression::new(ty, code))
    }

    /// Arguments that a collection is to hold or to look for.
    fn items(&mut self, arguments: &[Expression], types: &[&Type]) -> Result<Vec<String>, Wrong> {
        let each = arguments.iter().zip(types);
        each.map(|(argument, ty)| {
            let item = match argument.ty.is_like(ty) {
                true => argument.clone(),
                false => self.converted(argument.clone(), ty)?,
            };
            Ok(item.code)
        })
        .collect()
    }

    fn list_method(
        &mut self,
        list: &str,
        item: &Type,
        name: &str,
        arguments: &[Expression],
    ) -> Result<Expression, Wrong> {
        let (ty, code) = match (name, arguments) {
            ("size", []) => (Type::Int, format!("#{list}")),
            ("isEmpty", []) => (Type::Boolean, format!("(#{list} == 0)")),
            ("get", [at]) => {
                let code = self.helper("item", &[list, &at.code]);
                return Ok(Expression::boxed(item.clone(), code));
            }
            ("remove", [at]) if at.ty == Type::Int && !at.is_boxed => {
                let code = self.helper("take", &[list, &at.code]);
                return Ok(Expression::boxed(item.clone(), code));
            }
            ("add", [_]) => {
                let items = self.items(arguments, &[item])?;
                (Type::Boolean, self.helper("append", &[list, &items[0]]))
            }
            ("add", [at, value]) => {
                let items = self.items(std::slice::from_ref(value), &[item])?;
                (
                    Type::Void,
                    self.helper("insert", &[list, &at.code, &items[0]]),
                )
            }
            ("set", [at, value]) => {
                let items = self.items(std::slice::from_ref(value), &[item])?;
                let at = format!("{} + 1", at.code);
                let code = self.helper("put", &[list, &at, &items[0]]);
                return Ok(Expression::boxed(item.clone(), code));
            }
            ("addAll", [more]) if matches!(more.ty, Type::List(_)) => {
                let more = self.some(more);
                (Type::Boolean, self.helper("extend", &[list, &more]))
            }
            ("addAll", [more]) if matches!(more.ty, Type::Set(_)) => {
                let more = self.some(more);
                let keys = self.helper("keys", &[&more]);
                (Type::Boolean, self.helper("extend", &[list, &keys]))
            }
            ("indexOf", [value]) => (Type::Int, self.helper("place_in", &[list, &value.code])),
            ("contains", [value]) => (
                Type::Boolean,
                format!("({} >= 0)", self.helper("place_in", &[list, &value.code])),
            ),
            _ => return Err(missing(&Type::List(item.clone().into()), name)),
        };
        Ok(Expression::new(ty, code))
    }

    fn set_method(
        &mut self,
        set: &str,
        item: &Type,
        name: &str,
        arguments: &[Expression],
    ) -> Result<Expression, Wrong> {
        let (ty, code) = match (name, arguments) {
            ("size", []) => (Type::Int, self.helper("count", &[set])),
            ("isEmpty", []) => (Type::Boolean, format!("(next({set}) == nil)")),
            ("contains", [value]) => (Type::Boolean, format!("({set}[{}] ~= nil)", value.code)),
            ("add", [_]) => {
                let items = self.items(arguments, &[item])?;
                (Type::Boolean, self.helper("include", &[set, &items[0]]))
            }
            ("remove", [value]) => (
                Type::Boolean,
                format!("({} ~= nil)", self.helper("without", &[set, &value.code])),
            ),
            ("addAll", [more]) if matches!(more.ty, Type::Set(_)) => {
                let more = self.some(more);
                (Type::Boolean, self.helper("merge", &[set, &more]))
            }
            _ => return Err(missing(&Type::Set(item.clone().into()), name)),
        };
        Ok(Expression::new(ty, code))
    }

    fn map_method(
        &mut self,
        map: &str,
        (key, of): (&Type, &Type),
        name: &str,
        arguments: &[Expression],
    ) -> Result<Expression, Wrong> {
        let list = |ty: &Type| Type::List(ty.clone().into());
        let (ty, code) = match (name, arguments) {
            ("size", []) => (Type::Int, self.helper("count", &[map])),
            ("isEmpty", []) => (Type::Boolean, format!("(next({map}) == nil)")),
            ("get", [at]) => {
                return Ok(Expression::or_null(
                    of.clone(),
                    format!("{map}[{}]", at.code),
                ));
            }
            ("getOrDefault", [at, or]) => {
                let or = self.items(std::slice::from_ref(or), &[of])?;
                let code = format!("({map}[{}] or {})", at.code, or[0]);
                return Ok(Expression::boxed(of.clone(), code));
            }
            ("containsKey", [at]) => (Type::Boolean, format!("({map}[{}] ~= nil)", at.code)),
            ("put", [_, _]) => {
                let items = self.items(arguments, &[key, of])?;
                let code = self.helper("put", &[map, &items[0], &items[1]]);
                return Ok(Expression::or_null(of.clone(), code));
            }
            ("remove", [at]) => {
                return Ok(Expression::or_null(
                    of.clone(),
                    self.helper("without", &[map, &at.code]),
                ));
            }
            ("putAll", [more]) if matches!(more.ty, Type::Map(..)) => {
                let more = self.some(more);
                (Type::Void, self.helper("merge", &[map, &more]))
            }
            // What is walked through; nobody sees that it is a list.
            ("keySet", []) => (list(key), self.helper("keys", &[map])),
            ("values", []) => (list(of), self.helper("values", &[map])),
            ("entrySet", []) => {
                let entry = Type::Entry(key.clone().into(), of.clone().into());
                (list(&entry), self.helper("entries", &[map]))
            }
            _ => {
                return Err(missing(
                    &Type::Map(key.clone().into(), of.clone().into()),
                    name,
                ));
            }
        };
        Ok(Expression::new(ty, code))
    }

    /// What a tuple or a user type has at a place, by the name of a method.
    fn fields(
        &mut self,
        on: &Expression,
        value: &str,
        name: &str,
        arguments: &[Expression],
    ) -> Result<Expression, Wrong> {
        let absent = || missing(&on.ty, name);
        let [place, rest @ ..] = arguments else {
            return Err(absent());
        };
        let known = self.type_at(&on.ty, place);
        let at = match (&on.ty, &place.ty) {
            (Type::User(Some(definition)), Type::Int) => {
                let at = place.code.parse().ok();
                let field = at.and_then(|at: usize| definition.fields.get(at));
                let (name, _) = field.ok_or_else(absent)?;
                super::expression::quoted(name)
            }
            (_, Type::Int) => format!("{} + 1", place.code),
            _ => place.code.clone(),
        };
        let named = |kind: &str| -> Option<Type> {
            Some(match kind {
                "Int" => Type::Int,
                "Long" | "Time" => Type::Long,
                "Short" => Type::Short,
                "Byte" => Type::Byte,
                "Float" => Type::Float,
                "Double" => Type::Double,
                "Bool" => Type::Boolean,
                "String" => Type::Text,
                "List" => Type::List(Type::Object.into()),
                "Set" => Type::Set(Type::Object.into()),
                "Map" => Type::Map(Type::Object.into(), Type::Object.into()),
                "UDTValue" => Type::User(None),
                "TupleValue" => Type::Tuple(None),
                "Varint" => Type::Other(CqlType::Varint),
                "Decimal" => Type::Other(CqlType::Decimal),
                "UUID" => Type::Other(CqlType::Uuid),
                "Inet" => Type::Other(CqlType::Inet),
                "Timestamp" => Type::Other(CqlType::Timestamp),
                "Date" => Type::Other(CqlType::Date),
                "Bytes" | "BytesUnsafe" => Type::Other(CqlType::Blob),
                "Object" | "" => Type::Object,
                _ => return None,
            })
        };
        if name == "isNull" {
            return Ok(Expression::new(
                Type::Boolean,
                format!("({value}[{at}] == nil)"),
            ));
        }
        if name == "setToNull" {
            let code = self.helper("with", &[value, &at, "nil"]);
            return Ok(Expression::new(on.ty.clone(), code));
        }
        if let Some(ty) = name.strip_prefix("get").and_then(named) {
            // An object, which may be null: `get(0, Integer.class)`.
            if ty == Type::Object {
                let ty = known.unwrap_or(ty);
                return Ok(Expression::or_null(ty, format!("{value}[{at}]")));
            }
            let ty = match known {
                Some(known) if known.is_like(&ty) => known,
                _ => ty,
            };
            let read = format!("{value}[{at}]");
            // What is primitive has a value also where there is none.
            return Ok(match &ty {
                Type::Boolean => Expression::new(ty, format!("({read} or false)")),
                _ if ty.is_real() => Expression::new(ty, format!("({read} or 0.0)")),
                _ if ty.is_whole() => Expression::new(ty, format!("({read} or 0)")),
                Type::List(_) | Type::Set(_) | Type::Map(..) => {
                    Expression::new(ty, format!("({read} or {{}})"))
                }
                _ => Expression::or_null(ty, read),
            });
        }
        let (Some(ty), Some(given)) = (name.strip_prefix("set").and_then(named), rest.first())
        else {
            return Err(absent());
        };
        let given = match ty == Type::Object {
            true => given.clone(),
            false => self.converted(given.clone(), &ty)?,
        };
        let code = self.helper("with", &[value, &at, &given.code]);
        Ok(Expression::new(on.ty.clone(), code))
    }

    /// The type of a field, where it is named by a literal.
    fn type_at(&self, ty: &Type, place: &Expression) -> Option<Type> {
        let literal = place.code.trim_start_matches('(').trim_end_matches(')');
        match (ty, place.ty.clone()) {
            (Type::Tuple(Some(types)), Type::Int) => {
                types.get(literal.parse::<usize>().ok()?).map(Type::of)
            }
            (Type::User(Some(definition)), Type::Int) => {
                let field = definition.fields.get(literal.parse::<usize>().ok()?);
                field.map(|(_, ty)| Type::of(ty))
            }
            (Type::User(Some(definition)), Type::Text) => {
                let name = literal.trim_matches('"');
                let field = definition.fields.iter().find(|(field, _)| &**field == name);
                field.map(|(_, ty)| Type::of(ty))
            }
            _ => None,
        }
    }
}
