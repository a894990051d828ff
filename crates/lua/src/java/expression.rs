//! Expressions, and how values of one type become those of another.

use super::token::Token;
use super::types::Type;
use super::{Expression, MAX_NESTING, Translator, Wrong, mangled};

/// The operators of two operands, those that bind less before the others.
const LEVELS: [&[&str]; 9] = [
    &["||"],
    &["&&"],
    &["|"],
    &["^"],
    &["&"],
    &["==", "!="],
    &["<", ">", "<=", ">="],
    &["+", "-"],
    &["*", "/", "%"],
];

/// What is said of a value that is of another type than is asked for.
fn mismatch(value: &Expression, ty: &Type, is_boxed: bool) -> Wrong {
    format!(
        "Type mismatch: cannot convert from {} to {}",
        value.type_name(),
        ty.named(is_boxed)
    )
}

impl Expression {
    /// Is it a literal that Java makes a `byte`, `short` or `char` by itself?
    pub(super) fn is_small_literal(&self, ty: &Type) -> bool {
        let digits = self.code.trim_matches(['(', ')', '-']);
        let is_small = matches!(ty, Type::Byte | Type::Short | Type::Char);
        is_small && self.ty == Type::Int && digits.bytes().all(|byte| byte.is_ascii_digit())
    }
}

/// A text of Lua.
pub(super) fn quoted(text: &str) -> String {
    let bytes = text.bytes().map(|byte| match byte {
        b' '..=b'~' if byte != b'"' && byte != b'\\' => char::from(byte).to_string(),
        _ => format!("\\{byte:03}"),
    });
    format!("\"{}\"", bytes.collect::<String>())
}

impl Translator<'_> {
    pub(super) fn expression(&mut self) -> Result<Expression, Wrong> {
        self.nested(Self::conditional)
    }

    fn conditional(&mut self) -> Result<Expression, Wrong> {
        let condition = self.binary(0)?;
        if !self.takes("?") {
            return Ok(condition);
        }
        let condition = self.assigned(condition, &Type::Boolean, false)?;
        let mut yes = self.expression()?;
        self.expect(":")?;
        let mut no = self.expression()?;
        let ty = match (&yes.ty, &no.ty) {
            (Type::Null, ty) | (ty, Type::Null) => ty.clone(),
            (a, b) if a.is_number() && b.is_number() && a != b => common(a, b),
            (a, b) if a.is_raw() => b.clone(),
            (a, _) => a.clone(),
        };
        // A box stays one only where there is no value beside it.
        let is_boxed = match (yes.is_primitive(), no.is_primitive()) {
            (true, true) => false,
            (true, false) => no.ty == Type::Null || no.ty != ty,
            (false, true) => yes.ty == Type::Null || yes.ty != ty,
            (false, false) => yes.ty == no.ty || yes.ty == Type::Null || no.ty == Type::Null,
        };
        if !is_boxed && ty.has_primitive() {
            yes = self.assigned(yes, &ty, false)?;
            no = self.assigned(no, &ty, false)?;
        }
        yes = self.converted(yes, &ty)?;
        no = self.converted(no, &ty)?;
        let code = format!(
            "(function() if {} then return {} else return {} end end)()",
            condition.code, yes.code, no.code
        );
        Ok(Expression {
            code,
            ty,
            may_be_null: yes.may_be_null || no.may_be_null,
            is_boxed,
        })
    }

    fn binary(&mut self, level: usize) -> Result<Expression, Wrong> {
        let Some(operators) = LEVELS.get(level) else {
            return self.unary();
        };
        let mut left = self.binary(level + 1)?;
        let mut operations = 0;
        loop {
            // Shifts bind between comparisons and sums; `>>` is two words, as in `List<List<T>>`.
            if level == 7 && self.sees_shift() {
                return Err("<<, >> and >>> are not available in Helenus".to_owned());
            }
            if level == 6 && self.takes_word("instanceof") {
                return Err("instanceof is not available in Helenus".to_owned());
            }
            let Token::Sign(sign) = *self.peek() else {
                return Ok(left);
            };
            if !operators.contains(&sign) {
                return Ok(left);
            }
            self.at += 1;
            operations += 1;
            if operations > MAX_NESTING {
                return Err(too_many("operations"));
            }
            let right = self.binary(level + 1)?;
            left = self.operation(left, sign, right)?;
        }
    }

    fn sees_shift(&self) -> bool {
        let sign = |at: usize| self.tokens.get(at).map(|(token, _)| token);
        let (first, second) = (sign(self.at), sign(self.at + 1));
        let both = |of| first == Some(&Token::Sign(of)) && second == Some(&Token::Sign(of));
        both("<") || both(">")
    }

    /// What is no null; where it may be, it is looked at.
    pub(super) fn some(&mut self, value: &Expression) -> String {
        match value.may_be_null {
            true => self.helper("some", &[&value.code]),
            false => value.code.clone(),
        }
    }

    /// As a text, as in `"" + value`.
    pub(super) fn shown(&mut self, value: &Expression) -> String {
        let kind = match &value.ty {
            Type::Text if !value.may_be_null => return value.code.clone(),
            Type::Char => "\"char\"",
            Type::Float => "\"float\"",
            Type::Double => "\"double\"",
            Type::Builder => "\"builder\"",
            _ => "nil",
        };
        self.helper("show", &[&value.code, kind])
    }

    /// An operation of two operands.
    pub(super) fn operation(
        &mut self,
        left: Expression,
        operator: &str,
        right: Expression,
    ) -> Result<Expression, Wrong> {
        let undefined = || {
            format!(
                "The operator {operator} is undefined for the argument type(s) {}, {}",
                left.type_name(),
                right.type_name()
            )
        };
        let (a, b) = (&left.ty, &right.ty);
        if operator == "+" && (*a == Type::Text || *b == Type::Text) {
            let code = format!("({} .. {})", self.shown(&left), self.shown(&right));
            return Ok(Expression::new(Type::Text, code));
        }
        if matches!(operator, "==" | "!=") {
            return self.equality(&left, operator, &right);
        }
        let booleans = *a == Type::Boolean && *b == Type::Boolean;
        let both = |this: &mut Self| (this.some(&left), this.some(&right));
        if let Some(lua) = match operator {
            "&&" | "&" if booleans => Some("and"),
            "||" | "|" if booleans => Some("or"),
            "^" if booleans => Some("~="),
            _ => None,
        } {
            let (x, y) = both(self);
            return Ok(Expression::new(Type::Boolean, format!("({x} {lua} {y})")));
        }
        if !a.is_number() || !b.is_number() {
            return Err(undefined());
        }
        let ty = common(a, b);
        let (x, y) = both(self);
        match operator {
            "<" | ">" | "<=" | ">=" => Ok(Expression::new(
                Type::Boolean,
                format!("({x} {operator} {y})"),
            )),
            "&" | "|" | "^" if ty.is_whole() => {
                let lua = if operator == "^" { "~" } else { operator };
                Ok(Expression::new(ty, format!("({x} {lua} {y})")))
            }
            "+" | "-" | "*" | "/" | "%" => {
                let code = match operator {
                    "/" if ty.is_whole() => self.helper("quotient", &[&x, &y]),
                    "%" if ty.is_whole() => self.helper("remainder", &[&x, &y]),
                    "%" => self.helper("rest", &[&x, &y]),
                    // Whole numbers beside a real one are made real, so that nothing wraps.
                    _ => format!("({} {operator} {})", real(a, &ty, x), real(b, &ty, y)),
                };
                Ok(self.rounded(ty, code))
            }
            _ => Err(undefined()),
        }
    }

    fn equality(
        &mut self,
        left: &Expression,
        operator: &str,
        right: &Expression,
    ) -> Result<Expression, Wrong> {
        let (a, b) = (&left.ty, &right.ty);
        let lua = if operator == "==" { "==" } else { "~=" };
        let are_numbers = a.is_number() && b.is_number();
        let is_one_value = left.is_primitive() || right.is_primitive();
        let fits = a == b
            || *a == Type::Object
            || *b == Type::Object
            || is_one_value && are_numbers
            || !is_one_value
                && (*a == Type::Null || *b == Type::Null || a.is_like(b) && !are_numbers);
        let (x, y) = match is_one_value && a.has_primitive() && b.has_primitive() {
            true => (self.some(left), self.some(right)),
            false => (left.code.clone(), right.code.clone()),
        };
        let names = (left.type_name(), right.type_name());
        match fits {
            true => Ok(Expression::new(Type::Boolean, format!("({x} {lua} {y})"))),
            false if is_one_value => Err(format!(
                "The operator {operator} is undefined for the argument type(s) {}, {}",
                names.0, names.1
            )),
            false => Err(format!(
                "Incompatible operand types {} and {}",
                names.0, names.1
            )),
        }
    }

    /// The result of an arithmetic, cut to what its type has room for.
    pub(super) fn rounded(&mut self, ty: Type, code: String) -> Expression {
        let code = match ty {
            Type::Int => self.helper("i32", &[&code]),
            Type::Float => self.helper("f32", &[&code]),
            _ => code,
        };
        Expression::new(ty, code)
    }

    fn unary(&mut self) -> Result<Expression, Wrong> {
        self.nested(Self::signed)
    }

    fn signed(&mut self) -> Result<Expression, Wrong> {
        if self.takes("!") {
            let value = self.unary()?;
            let value = self.assigned(value, &Type::Boolean, false)?;
            let code = format!("(not {})", self.some(&value));
            return Ok(Expression::new(Type::Boolean, code));
        }
        for sign in ["-", "+", "~"] {
            if !self.takes(sign) {
                continue;
            }
            if let (Token::Whole(number, is_long), "-") = (self.peek().clone(), sign) {
                self.at += 1;
                let ty = if is_long { Type::Long } else { Type::Int };
                return Ok(Expression::new(ty, format!("(-{number})")));
            }
            let value = self.unary()?;
            if !value.ty.is_number() || sign == "~" && value.ty.is_real() {
                return Err(format!(
                    "The operator {sign} is undefined for the argument type(s) {}",
                    value.type_name()
                ));
            }
            let ty = common(&value.ty, &Type::Int);
            let of = self.some(&value);
            return Ok(match sign {
                "+" => Expression::new(ty, of),
                _ => self.rounded(ty, format!("({sign}{of})")),
            });
        }
        if self.sees("++") || self.sees("--") {
            return Err("++ and -- within expressions are not available in Helenus".to_owned());
        }
        if self.sees("(")
            && let Some(value) = self.cast_expression()?
        {
            return Ok(value);
        }
        let value = self.primary()?;
        self.calls(value)
    }

    /// `(T) value`, if it is one.
    fn cast_expression(&mut self) -> Result<Option<Expression>, Wrong> {
        let began = self.at;
        self.at += 1;
        let is_primitive = self.sees_primitive();
        let is_value = |token: &Token| match token {
            Token::Sign(sign) => *sign == "(" || is_primitive && matches!(*sign, "-" | "+"),
            Token::End => false,
            _ => true,
        };
        match self.take_type() {
            Some(ty) if self.takes(")") && is_value(self.peek()) => {
                let value = self.unary()?;
                self.cast_to(value, &ty, !is_primitive).map(Some)
            }
            _ => {
                self.at = began;
                Ok(None)
            }
        }
    }

    fn primary(&mut self) -> Result<Expression, Wrong> {
        match self.next() {
            Token::Whole(number, is_long) => {
                let ty = if is_long { Type::Long } else { Type::Int };
                Ok(Expression::new(ty, number.to_string()))
            }
            Token::Real(number, is_float) => {
                let ty = if is_float { Type::Float } else { Type::Double };
                let number = match is_float {
                    true => f64::from(number as f32),
                    false => number,
                };
                Ok(Expression::new(ty, format!("{number:?}")))
            }
            Token::Text(text) => Ok(Expression::new(Type::Text, format!("({})", quoted(&text)))),
            Token::Char(c) => Ok(Expression::new(Type::Char, u32::from(c).to_string())),
            Token::Sign("(") => {
                let mut inner = self.expression()?;
                self.expect(")")?;
                inner.code = format!("({})", inner.code);
                Ok(inner)
            }
            Token::Word(word) => self.named(&word),
            _ => {
                self.at -= 1;
                Err(self.unexpected("delete this token"))
            }
        }
    }

    fn named(&mut self, word: &str) -> Result<Expression, Wrong> {
        match word {
            "true" | "false" => return Ok(Expression::new(Type::Boolean, word)),
            "null" => return Ok(Expression::new(Type::Null, "nil")),
            "new" => return self.made(),
            _ => {}
        }
        if let Some(variable) = self.variable(word) {
            return Ok(Expression {
                code: mangled(word),
                ty: variable.ty.clone(),
                may_be_null: variable.may_be_null,
                is_boxed: variable.is_boxed,
            });
        }
        // A class, with its package or without it.
        let mut class = word.to_owned();
        while self.takes(".") {
            let name = self.word()?;
            let is_class = name.starts_with(char::is_uppercase)
                && !name
                    .chars()
                    .all(|c| c.is_uppercase() || c == '_' || c.is_ascii_digit());
            if is_class || class.starts_with(char::is_lowercase) && class != "udfContext" {
                class = name;
                continue;
            }
            if self.takes("(") {
                let arguments = self.arguments()?;
                return self.class_method(&class, &name, &arguments);
            }
            if name == "class" {
                return Ok(Expression::new(Type::Object, "nil"));
            }
            return self.constant(&class, &name);
        }
        Err(format!("{word} cannot be resolved to a variable"))
    }

    /// The arguments of a call, after its `(`.
    pub(super) fn arguments(&mut self) -> Result<Vec<Expression>, Wrong> {
        let mut arguments = Vec::new();
        if self.takes(")") {
            return Ok(arguments);
        }
        loop {
            arguments.push(self.expression()?);
            if !self.takes(",") {
                self.expect(")")?;
                return Ok(arguments);
            }
        }
    }

    fn calls(&mut self, mut value: Expression) -> Result<Expression, Wrong> {
        let mut calls = 0;
        while self.takes(".") {
            calls += 1;
            if calls > MAX_NESTING {
                return Err(too_many("calls"));
            }
            let name = self.word()?;
            if !self.takes("(") {
                return Err(format!("{name} cannot be resolved or is not a field"));
            }
            let arguments = self.arguments()?;
            value = self.method(&value, &name, &arguments)?;
        }
        if self.sees("[") {
            return Err("Arrays are not available in Helenus".to_owned());
        }
        if self.sees("++") || self.sees("--") {
            return Err("++ and -- within expressions are not available in Helenus".to_owned());
        }
        Ok(value)
    }

    /// A value where a variable or a result has a type: no null becomes what is no object, and a
    /// number is put into no box but its own.
    pub(super) fn assigned(
        &mut self,
        value: Expression,
        ty: &Type,
        is_boxed: bool,
    ) -> Result<Expression, Wrong> {
        let wrong = mismatch(&value, ty, is_boxed);
        if !ty.has_primitive() {
            return self.converted(value, ty).map_err(|_| wrong);
        }
        if is_boxed {
            let from = &value.ty;
            let fits = from == ty || !from.has_primitive();
            if !fits && (value.is_boxed || !value.is_small_literal(ty)) {
                return Err(wrong);
            }
            let value = self.converted(value, ty).map_err(|_| wrong)?;
            return Ok(Expression {
                is_boxed: true,
                ..value
            });
        }
        if value.ty == Type::Null {
            return Err(wrong);
        }
        let value = self.converted(value, ty).map_err(|_| wrong)?;
        Ok(Expression::new(ty.clone(), self.some(&value)))
    }

    /// `(T) value`, where `T` is a class or is none.
    fn cast_to(
        &mut self,
        value: Expression,
        ty: &Type,
        is_boxed: bool,
    ) -> Result<Expression, Wrong> {
        let from = &value.ty;
        if is_boxed && from.has_primitive() && ty.has_primitive() && from != ty {
            return Err(format!("Cannot cast from {} to {ty}", value.type_name()));
        }
        let value = self.cast(value, ty)?;
        Ok(match is_boxed || !ty.has_primitive() {
            true => Expression {
                is_boxed: true,
                ..value
            },
            false => Expression::new(ty.clone(), self.some(&value)),
        })
    }

    /// A value where another type is asked for, if Java gives it by itself.
    pub(super) fn converted(&mut self, value: Expression, ty: &Type) -> Result<Expression, Wrong> {
        let from = &value.ty;
        if from == ty || *ty == Type::Object || matches!(from, Type::Null | Type::Object) {
            let ty = if *ty == Type::Object { from } else { ty };
            return Ok(Expression {
                ty: ty.clone(),
                ..value.clone()
            });
        }
        let rank = |ty: &Type| {
            use Type::{Byte, Char, Double, Float, Int, Long, Short};
            [Byte, Short, Char, Int, Long, Float, Double]
                .iter()
                .position(|each| each == ty)
        };
        let widens = match (rank(from), rank(ty)) {
            (Some(a), Some(b)) if a < b => true,
            (Some(_), Some(_)) => value.is_small_literal(ty),
            _ => false,
        };
        if widens {
            return self.cast(value, ty);
        }
        let is_user = matches!(
            ty,
            Type::Tuple(_)
                | Type::User(_)
                | Type::List(_)
                | Type::Set(_)
                | Type::Map(..)
                | Type::Entry(..)
        );
        if is_user && from.is_like(ty) {
            return Ok(Expression {
                ty: ty.clone(),
                ..value
            });
        }
        // Java's `Date` and `InetAddress` are handed through under several names of CQL.
        if matches!((from, ty), (Type::Other(_), Type::Other(_))) {
            return Ok(value);
        }
        Err(mismatch(&value, ty, false))
    }

    /// A value as `(T) value` makes it.
    pub(super) fn cast(&mut self, value: Expression, ty: &Type) -> Result<Expression, Wrong> {
        let from = value.ty.clone();
        if !from.is_number() || !ty.is_number() {
            return self.converted(value, ty);
        }
        let of = |code| Expression {
            code,
            ty: ty.clone(),
            may_be_null: false,
            is_boxed: false,
        };
        if from == *ty {
            return Ok(value);
        }
        let code = self.some(&value);
        if ty.is_real() {
            let code = real(&from, ty, code);
            return Ok(match (ty, &from) {
                (Type::Float, Type::Double | Type::Long | Type::Int) => {
                    of(self.helper("f32", &[&code]))
                }
                _ => of(code),
            });
        }
        let code = match (from.is_real(), ty) {
            (false, _) => code,
            (true, Type::Long) => {
                let ends = ["math.mininteger", "math.maxinteger"];
                self.helper("whole", &[&code, ends[0], ends[1]])
            }
            (true, _) => self.helper("whole", &[&code, "-2147483648", "2147483647"]),
        };
        Ok(of(match ty {
            Type::Int => self.helper("i32", &[&code]),
            Type::Short => self.helper("i16", &[&code]),
            Type::Byte => self.helper("i8", &[&code]),
            Type::Char => format!("({code} & 65535)"),
            _ => code,
        }))
    }
}

fn too_many(what: &str) -> Wrong {
    format!("More than {MAX_NESTING} {what} in a row are not available in Helenus")
}

/// The type that an arithmetic of two numbers has.
pub(super) fn common(a: &Type, b: &Type) -> Type {
    for ty in [Type::Double, Type::Float, Type::Long] {
        if *a == ty || *b == ty {
            return ty;
        }
    }
    Type::Int
}

/// A number where one of type `ty` is asked for.
fn real(from: &Type, ty: &Type, code: String) -> String {
    match ty.is_real() && from.is_whole() {
        true => format!("({code} + 0.0)"),
        false => code,
    }
}
