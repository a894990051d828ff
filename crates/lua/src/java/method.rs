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

pub(super) fn missing(ty: &impl ToString, name: &str) -> Wrong {
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
        self.check_static(class, name, arguments)?;
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
        self.check_method(on, name, arguments)?;
        let value = self.some(on);
        if let Some(known) = self.library_method(on, &value, name, arguments)? {
            return Ok(known);
        }
        if let Some(known) = self.object_method(on, &value, name, arguments) {
            return Ok(known);
        }
        let is_made_of_values = matches!(
            on.ty,
            Type::List(_)
                | Type::Set(_)
                | Type::Map(..)
                | Type::Entry(..)
                | Type::Tuple(_)
                | Type::User(_)
        );
        if is_made_of_values {
            let arguments: Vec<Expression> = arguments.iter().map(|a| self.stored(a)).collect();
            let value = self.own_method(on, value, name, &arguments)?;
            return Ok(self.taken(value));
        }
        self.own_method(on, value, name, arguments)
    }

    /// What objects of one class have.
    fn own_method(
        &mut self,
        on: &Expression,
        value: String,
        name: &str,
        arguments: &[Expression],
    ) -> Result<Expression, Wrong> {
        match &on.ty {
            ty if ty.is_number() => self.number_method(ty, value, name, arguments),
            Type::Boolean if name == "booleanValue" => Ok(Expression::new(Type::Boolean, value)),
            Type::Text => self.text_method(&value, name, arguments),
            Type::Builder => self.builder_method(&value, name, arguments),
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

    /// What objects of each class have.
    fn object_method(
        &mut self,
        on: &Expression,
        value: &str,
        name: &str,
        arguments: &[Expression],
    ) -> Option<Expression> {
        let code = match (name, arguments) {
            ("equals", [other])
                if matches!(on.ty, Type::Other(CqlType::Decimal | CqlType::Varint)) =>
            {
                format!("native.same({value}, {})", other.code)
            }
            // No number equals one of another type.
            ("equals", [other])
                if on.ty.has_primitive() && other.ty.has_primitive() && other.ty != on.ty =>
            {
                format!("({value} == {} and false)", other.code)
            }
            ("equals", [_]) if on.ty == Type::Builder => return None,
            ("equals", [other]) => self.helper("alike", &[value, &other.code]),
            ("toString", []) => {
                let code = self.shown(&Expression {
                    code: value.to_owned(),
                    may_be_null: false,
                    ..on.clone()
                });
                return Some(Expression::new(Type::Text, code));
            }
            _ => return None,
        };
        Some(Expression::new(Type::Boolean, code))
    }

    fn number_method(
        &mut self,
        ty: &Type,
        value: String,
        name: &str,
        arguments: &[Expression],
    ) -> Result<Expression, Wrong> {
        let to = match (name, arguments) {
            ("intValue", _) => Type::Int,
            ("longValue", _) => Type::Long,
            ("doubleValue", _) => Type::Double,
            ("floatValue", _) => Type::Float,
            ("shortValue", _) => Type::Short,
            ("byteValue", _) => Type::Byte,
            ("charValue", _) if *ty == Type::Char => Type::Char,
            ("compareTo", [other]) => {
                let code = self.helper(order_of(ty), &[&value, &other.code]);
                return Ok(Expression::new(Type::Int, code));
            }
            ("isNaN", _) => {
                let code = format!("({value} ~= {value})");
                return Ok(Expression::new(Type::Boolean, code));
            }
            _ => return Err(missing(ty, name)),
        };
        let number = self.cast(Expression::new(ty.clone(), value), &to)?;
        Ok(Expression {
            is_boxed: false,
            ..number
        })
    }

    /// What a builder is given: also an array of `char` is a text there.
    fn spelled(&mut self, text: &Expression) -> String {
        match text.ty == Type::Array(Type::Char.into(), false) {
            true => self.helper("spelled", &[&text.code]),
            false => self.shown(text),
        }
    }

    fn builder_method(
        &mut self,
        builder: &str,
        name: &str,
        arguments: &[Expression],
    ) -> Result<Expression, Wrong> {
        match (name, arguments) {
            ("append", [text]) => {
                let text = self.spelled(text);
                let code = self.helper("write", &[builder, &text]);
                Ok(Expression::new(Type::Builder, code))
            }
            ("append", [text, from, to]) if text.ty == Type::Text => {
                let text = self.shown(text);
                let from = self.assigned(from.clone(), &Type::Int, false)?.code;
                let to = self.assigned(to.clone(), &Type::Int, false)?.code;
                let code = self.helper("write_part", &[builder, &text, &from, &to]);
                Ok(Expression::new(Type::Builder, code))
            }
            ("insert", [at, text]) => {
                let at = self.assigned(at.clone(), &Type::Int, false)?.code;
                let text = self.spelled(text);
                let code = self.helper("inserted", &[builder, &at, &text]);
                Ok(Expression::new(Type::Builder, code))
            }
            ("equals", [other]) => {
                let code = format!("({builder} == {})", other.code);
                Ok(Expression::new(Type::Boolean, code))
            }
            _ => Err(missing(&Type::Builder, name)),
        }
    }

    pub(super) fn text_method(
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
            ("length", []) => (Type::Int, self.helper("units", &[text])),
            ("isEmpty", []) => (Type::Boolean, format!("({text} == \"\")")),
            ("trim" | "strip", []) => (Type::Text, self.helper("trim", &[text])),
            ("concat", [other]) => (Type::Text, self.helper("joined", &[text, other])),
            ("substring", [from]) => (Type::Text, self.helper("part", &[text, from])),
            ("substring", [from, to]) => (Type::Text, self.helper("part", &[text, from, to])),
            ("charAt", [at]) => (Type::Char, self.helper("char", &[text, at])),
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
}
