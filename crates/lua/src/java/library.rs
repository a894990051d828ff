//! What classes of Java's library do, in tables: what is taken, what is given, and the code.
//!
//! In the code, `$0` is what a method is called on, `$1` and `$2` are the arguments.

use model::CqlType;

use super::buffer::BUFFER;
use super::types::Type;
use super::{Expression, Translator, Wrong};

const DECIMAL: Type = Type::Other(CqlType::Decimal);
const VARINT: Type = Type::Other(CqlType::Varint);
const UUID: Type = Type::Other(CqlType::Uuid);
const DATE: Type = Type::Other(CqlType::Timestamp);

/// A class, a name, what it takes and gives, the code, and the helpers in it.
type Member = (
    &'static str,
    &'static str,
    &'static [Type],
    Type,
    &'static str,
    &'static [&'static str],
);

/// Of several with one name the first is called that takes what is given.
#[rustfmt::skip]
const STATIC: &[Member] = &[
    ("System", "currentTimeMillis", &[], Type::Long, "(native.micros() // 1000)", &[]),
    ("System", "nanoTime", &[], Type::Long, "(native.micros() * 1000)", &[]),
    ("Math", "random", &[], Type::Double, "((native.random() >> 11) * 2.0 ^ -53)", &[]),
    ("UUID", "randomUUID", &[], UUID, "uuid(native.random() & ~0xf000 | 0x4000, native.random() >> 2 | 1 << 63)", &["uuid"]),
    ("UUID", "fromString", &[Type::Text], UUID, "uuid_of($1)", &["uuid_of"]),
    ("BigDecimal", "valueOf", &[Type::Long], DECIMAL, "given(native.decimal($1))", &["given"]),
    ("BigDecimal", "valueOf", &[Type::Long, Type::Int], DECIMAL, "given(native.scaled($1, $2))", &["given"]),
    ("BigDecimal", "valueOf", &[Type::Double], DECIMAL, "given(native.decimal(real($1)))", &["given", "real"]),
    ("BigInteger", "valueOf", &[Type::Long], VARINT, "given(native.decimal($1))", &["given"]),
    ("Pattern", "compile", &[Type::Text], Type::Pattern, "compiled($1)", &["compiled"]),
    ("Pattern", "matches", &[Type::Text, Type::Text], Type::Boolean, "(found($1, $2, 1, \"whole\") ~= nil)", &["found"]),
    ("Pattern", "quote", &[Type::Text], Type::Text, "verbatim($1)", &["verbatim"]),
    ("Integer", "toHexString", &[Type::Int], Type::Text, "radix($1 & 4294967295, 16)", &["radix"]),
    ("Integer", "toOctalString", &[Type::Int], Type::Text, "radix($1 & 4294967295, 8)", &["radix"]),
    ("Integer", "toBinaryString", &[Type::Int], Type::Text, "radix($1 & 4294967295, 2)", &["radix"]),
    ("Integer", "toString", &[Type::Int, Type::Int], Type::Text, "radix($1, $2)", &["radix"]),
    ("Integer", "signum", &[Type::Int], Type::Int, "order($1, 0)", &["order"]),
    ("Long", "toHexString", &[Type::Long], Type::Text, "string.format(\"%x\", $1)", &[]),
    ("Long", "toString", &[Type::Long, Type::Int], Type::Text, "radix($1, $2)", &["radix"]),
    ("Long", "signum", &[Type::Long], Type::Int, "order($1, 0)", &["order"]),
    ("Character", "isDigit", &[Type::Char], Type::Boolean, "native.is_digit($1)", &[]),
    ("Character", "isLetter", &[Type::Char], Type::Boolean, "native.is_letter($1)", &[]),
    ("Character", "isLetterOrDigit", &[Type::Char], Type::Boolean, "(native.is_letter($1) or native.is_digit($1))", &[]),
    ("Character", "isWhitespace", &[Type::Char], Type::Boolean, "native.is_blank($1)", &[]),
    ("Character", "isUpperCase", &[Type::Char], Type::Boolean, "native.is_upper($1)", &[]),
    ("Character", "isLowerCase", &[Type::Char], Type::Boolean, "native.is_lower($1)", &[]),
    ("Character", "isSurrogate", &[Type::Char], Type::Boolean, "($1 & 0xf800 == 0xd800)", &[]),
    ("Character", "isHighSurrogate", &[Type::Char], Type::Boolean, "($1 & 0xfc00 == 0xd800)", &[]),
    ("Character", "isLowSurrogate", &[Type::Char], Type::Boolean, "($1 & 0xfc00 == 0xdc00)", &[]),
    ("Character", "toUpperCase", &[Type::Char], Type::Char, "utf8.codepoint(native.upper(utf8.char($1)), 1, 1, true)", &[]),
    ("Character", "toLowerCase", &[Type::Char], Type::Char, "utf8.codepoint(native.lower(utf8.char($1)), 1, 1, true)", &[]),
];

#[rustfmt::skip]
const CONSTRUCTORS: &[Member] = &[
    ("UUID", "", &[Type::Long, Type::Long], UUID, "uuid($1, $2)", &["uuid"]),
    ("Date", "", &[], DATE, "(native.micros() // 1000)", &[]),
    ("Date", "", &[Type::Long], DATE, "($1)", &[]),
    ("BigDecimal", "", &[Type::Text], DECIMAL, "given(native.decimal($1))", &["given"]),
    ("BigDecimal", "", &[Type::Long], DECIMAL, "given(native.decimal($1))", &["given"]),
    ("BigDecimal", "", &[Type::Double], DECIMAL, "given(native.decimal($1))", &["given"]),
    ("BigDecimal", "", &[VARINT], DECIMAL, "($1)", &[]),
    ("BigDecimal", "", &[VARINT, Type::Int], DECIMAL, "given(native.scaled($1, $2))", &["given"]),
    ("BigInteger", "", &[Type::Text], VARINT, "given(native.whole($1))", &["given"]),
];

#[rustfmt::skip]
const METHODS: &[Member] = &[
    ("UUID", "getMostSignificantBits", &[], Type::Long, "uuid_bits($0, 1)", &["uuid_bits"]),
    ("UUID", "getLeastSignificantBits", &[], Type::Long, "uuid_bits($0, 17)", &["uuid_bits"]),
    ("UUID", "version", &[], Type::Int, "tonumber(string.sub($0, 15, 15), 16)", &[]),
    ("UUID", "compareTo", &[UUID], Type::Int, "uuid_order($0, $1)", &["uuid_order"]),
    ("Date", "getTime", &[], Type::Long, "($0)", &[]),
    ("Date", "before", &[DATE], Type::Boolean, "($0 < $1)", &[]),
    ("Date", "after", &[DATE], Type::Boolean, "($0 > $1)", &[]),
    ("Date", "compareTo", &[DATE], Type::Int, "order($0, $1)", &["order"]),
    ("BigDecimal", "add", &[DECIMAL], DECIMAL, "given(native.add($0, $1))", &["given"]),
    ("BigDecimal", "subtract", &[DECIMAL], DECIMAL, "given(native.subtract($0, $1))", &["given"]),
    ("BigDecimal", "multiply", &[DECIMAL], DECIMAL, "given(native.multiply($0, $1))", &["given"]),
    ("BigDecimal", "divide", &[DECIMAL], DECIMAL, "given(native.divide($0, $1))", &["given"]),
    ("BigDecimal", "divide", &[DECIMAL, Type::Rounding], DECIMAL, "given(native.divided($0, $1, nil, $2))", &["given"]),
    ("BigDecimal", "divide", &[DECIMAL, Type::Int, Type::Rounding], DECIMAL, "given(native.divided($0, $1, $2, $3))", &["given"]),
    ("BigDecimal", "setScale", &[Type::Int], DECIMAL, "given(native.rescaled($0, $1, \"UNNECESSARY\"))", &["given"]),
    ("BigDecimal", "setScale", &[Type::Int, Type::Rounding], DECIMAL, "given(native.rescaled($0, $1, $2))", &["given"]),
    ("BigDecimal", "toBigInteger", &[], VARINT, "given(native.rescaled($0, 0, \"DOWN\"))", &["given"]),
    ("BigDecimal", "toPlainString", &[], Type::Text, "tostring($0)", &[]),
    ("BigDecimal", "scale", &[], Type::Int, "native.scale($0)", &[]),
    ("BigDecimal", "precision", &[], Type::Int, "native.precision($0)", &[]),
    ("BigDecimal", "remainder", &[DECIMAL], DECIMAL, "given(native.rest($0, $1))", &["given"]),
    ("BigDecimal", "max", &[DECIMAL], DECIMAL, "given(native.max($0, $1))", &["given"]),
    ("BigDecimal", "min", &[DECIMAL], DECIMAL, "given(native.min($0, $1))", &["given"]),
    ("BigDecimal", "pow", &[Type::Int], DECIMAL, "given(native.pow($0, $1))", &["given"]),
    ("BigDecimal", "compareTo", &[DECIMAL], Type::Int, "order($0, $1)", &["order"]),
    ("BigDecimal", "negate", &[], DECIMAL, "(-$0)", &[]),
    ("BigDecimal", "abs", &[], DECIMAL, "magnitude($0)", &["magnitude"]),
    ("BigInteger", "add", &[VARINT], VARINT, "given(native.add($0, $1))", &["given"]),
    ("BigInteger", "subtract", &[VARINT], VARINT, "given(native.subtract($0, $1))", &["given"]),
    ("BigInteger", "multiply", &[VARINT], VARINT, "given(native.multiply($0, $1))", &["given"]),
    ("BigInteger", "divide", &[VARINT], VARINT, "given(native.quotient($0, $1))", &["given"]),
    ("BigInteger", "remainder", &[VARINT], VARINT, "given(native.remainder($0, $1))", &["given"]),
    ("BigInteger", "mod", &[VARINT], VARINT, "given(native.mod($0, $1))", &["given"]),
    ("BigInteger", "gcd", &[VARINT], VARINT, "given(native.gcd($0, $1))", &["given"]),
    ("BigInteger", "max", &[VARINT], VARINT, "given(native.max($0, $1))", &["given"]),
    ("BigInteger", "min", &[VARINT], VARINT, "given(native.min($0, $1))", &["given"]),
    ("BigInteger", "pow", &[Type::Int], VARINT, "given(native.pow($0, $1))", &["given"]),
    ("BigInteger", "compareTo", &[VARINT], Type::Int, "order($0, $1)", &["order"]),
    ("BigInteger", "negate", &[], VARINT, "(-$0)", &[]),
    ("BigInteger", "abs", &[], VARINT, "magnitude($0)", &["magnitude"]),
    ("Number", "signum", &[], Type::Int, "order($0, 0)", &["order"]),
    ("Number", "intValue", &[], Type::Int, "i32(native.long($0))", &["i32"]),
    ("Number", "longValue", &[], Type::Long, "native.long($0)", &[]),
    ("Number", "doubleValue", &[], Type::Double, "native.real($0)", &[]),
    ("Number", "floatValue", &[], Type::Float, "f32(native.real($0))", &["f32"]),
    ("String", "toUpperCase", &[], Type::Text, "native.upper($0)", &[]),
    ("String", "toLowerCase", &[], Type::Text, "native.lower($0)", &[]),
    ("String", "indexOf", &[Type::Text], Type::Int, "place($0, $1)", &["place"]),
    ("String", "indexOf", &[Type::Int], Type::Int, "place($0, utf8.char($1))", &["place"]),
    ("String", "indexOf", &[Type::Text, Type::Int], Type::Int, "place_from($0, $1, $2)", &["place_from"]),
    ("String", "indexOf", &[Type::Int, Type::Int], Type::Int, "place_from($0, utf8.char($1), $2)", &["place_from"]),
    ("String", "lastIndexOf", &[Type::Text], Type::Int, "last_place($0, $1)", &["last_place"]),
    ("String", "lastIndexOf", &[Type::Int], Type::Int, "last_place($0, utf8.char($1))", &["last_place"]),
    ("String", "lastIndexOf", &[Type::Text, Type::Int], Type::Int, "last_place($0, $1, $2)", &["last_place"]),
    ("String", "lastIndexOf", &[Type::Int, Type::Int], Type::Int, "last_place($0, utf8.char($1), $2)", &["last_place"]),
    ("String", "subSequence", &[Type::Int, Type::Int], Type::Text, "part($0, $1, $2)", &["part"]),
    ("String", "codePointCount", &[Type::Int, Type::Int], Type::Int, "utf8.len(part($0, $1, $2), 1, -1, true)", &["part"]),
    ("String", "contentEquals", &[Type::Builder], Type::Boolean, "($0 == $1[1])", &[]),
    ("String", "codePointAt", &[Type::Int], Type::Int, "code_at($0, $1)", &["code_at"]),
    ("String", "repeat", &[Type::Int], Type::Text, "repeated($0, $1)", &["repeated"]),
    ("String", "isBlank", &[], Type::Boolean, "(string.find($0, \"%S\") == nil)", &[]),
    ("StringBuilder", "length", &[], Type::Int, "units($0[1])", &["units"]),
    ("StringBuilder", "isEmpty", &[], Type::Boolean, "($0[1] == \"\")", &[]),
    ("StringBuilder", "charAt", &[Type::Int], Type::Char, "unit_of($0, $1)", &["unit_of"]),
    ("StringBuilder", "indexOf", &[Type::Text], Type::Int, "place($0[1], $1)", &["place"]),
    ("StringBuilder", "indexOf", &[Type::Text, Type::Int], Type::Int, "place_from($0[1], $1, $2)", &["place_from"]),
    ("StringBuilder", "lastIndexOf", &[Type::Text], Type::Int, "last_place($0[1], $1)", &["last_place"]),
    ("StringBuilder", "lastIndexOf", &[Type::Text, Type::Int], Type::Int, "last_place($0[1], $1, $2)", &["last_place"]),
    ("StringBuilder", "substring", &[Type::Int], Type::Text, "part_of($0, $1)", &["part_of"]),
    ("StringBuilder", "substring", &[Type::Int, Type::Int], Type::Text, "part_of($0, $1, $2)", &["part_of"]),
    ("StringBuilder", "subSequence", &[Type::Int, Type::Int], Type::Text, "part_of($0, $1, $2)", &["part_of"]),
    ("StringBuilder", "reverse", &[], Type::Builder, "turned($0)", &["turned"]),
    ("StringBuilder", "delete", &[Type::Int, Type::Int], Type::Builder, "replaced($0, $1, $2, \"\")", &["replaced"]),
    ("StringBuilder", "replace", &[Type::Int, Type::Int, Type::Text], Type::Builder, "replaced($0, $1, $2, $3)", &["replaced"]),
    ("StringBuilder", "deleteCharAt", &[Type::Int], Type::Builder, "put_unit($0, $1, \"\")", &["put_unit"]),
    ("StringBuilder", "setCharAt", &[Type::Int, Type::Char], Type::Void, "put_unit($0, $1, utf8.char($2))", &["put_unit"]),
    ("StringBuilder", "setLength", &[Type::Int], Type::Void, "set_length($0, $1)", &["set_length"]),
    ("StringBuilder", "compareTo", &[Type::Builder], Type::Int, "text_order($0[1], $1[1])", &["text_order"]),
    ("String", "matches", &[Type::Text], Type::Boolean, "(found($1, $0, 1, \"whole\") ~= nil)", &["found"]),
    ("String", "replaceAll", &[Type::Text, Type::Text], Type::Text, "with_matches($1, $0, $2)", &["with_matches"]),
    ("String", "replaceFirst", &[Type::Text, Type::Text], Type::Text, "with_matches($1, $0, $2, true)", &["with_matches"]),
    ("String", "split", &[Type::Text], Type::Object, "split($1, $0, 0)", &["split"]),
    ("String", "split", &[Type::Text, Type::Int], Type::Object, "split($1, $0, $2)", &["split"]),
    ("Pattern", "pattern", &[], Type::Text, "($0)", &[]),
    ("Pattern", "matcher", &[Type::Text], Type::Matcher, "matcher($0, $1)", &["matcher"]),
    ("Pattern", "split", &[Type::Text], Type::Object, "split($0, $1, 0)", &["split"]),
    ("Pattern", "split", &[Type::Text, Type::Int], Type::Object, "split($0, $1, $2)", &["split"]),
    ("Matcher", "find", &[], Type::Boolean, "finds($0)", &["finds"]),
    ("Matcher", "matches", &[], Type::Boolean, "tries($0, \"whole\")", &["tries"]),
    ("Matcher", "lookingAt", &[], Type::Boolean, "tries($0, \"start\")", &["tries"]),
    ("Matcher", "group", &[], Type::Text, "group_of($0, 0)", &["group_of"]),
    ("Matcher", "group", &[Type::Int], Type::Text, "group_of($0, $1)", &["group_of"]),
    ("Matcher", "group", &[Type::Text], Type::Text, "group_of($0, $1)", &["group_of"]),
    ("Matcher", "groupCount", &[], Type::Int, "native.groups($0.regex)", &[]),
    ("Matcher", "start", &[], Type::Int, "start_of($0, 0)", &["start_of"]),
    ("Matcher", "start", &[Type::Int], Type::Int, "start_of($0, $1)", &["start_of"]),
    ("Matcher", "end", &[], Type::Int, "end_of($0, 0)", &["end_of"]),
    ("Matcher", "end", &[Type::Int], Type::Int, "end_of($0, $1)", &["end_of"]),
    ("Matcher", "replaceAll", &[Type::Text], Type::Text, "replaced_of($0, $1)", &["replaced_of"]),
    ("Matcher", "replaceFirst", &[Type::Text], Type::Text, "replaced_of($0, $1, true)", &["replaced_of"]),
    ("Matcher", "reset", &[], Type::Matcher, "again($0)", &["again"]),
    ("ByteBuffer", "remaining", &[], Type::Int, "left($0)", &["left"]),
    ("ByteBuffer", "hasRemaining", &[], Type::Boolean, "(left($0) > 0)", &["left"]),
    ("ByteBuffer", "position", &[], Type::Int, "$0.position", &[]),
    ("ByteBuffer", "position", &[Type::Int], BUFFER, "moved($0, $1)", &["moved"]),
    ("ByteBuffer", "limit", &[], Type::Int, "$0.limit", &[]),
    ("ByteBuffer", "limit", &[Type::Int], BUFFER, "limited($0, $1)", &["limited"]),
    ("ByteBuffer", "capacity", &[], Type::Int, "$0.capacity", &[]),
    ("ByteBuffer", "arrayOffset", &[], Type::Int, "$0.offset", &[]),
    ("ByteBuffer", "hasArray", &[], Type::Boolean, "($0 ~= nil)", &[]),
    ("ByteBuffer", "isReadOnly", &[], Type::Boolean, "($0 == nil)", &[]),
    ("ByteBuffer", "isDirect", &[], Type::Boolean, "($0 == nil)", &[]),
    ("ByteBuffer", "flip", &[], BUFFER, "flipped($0)", &["flipped"]),
    ("ByteBuffer", "rewind", &[], BUFFER, "placed($0, 0)", &["placed"]),
    ("ByteBuffer", "clear", &[], BUFFER, "cleared($0)", &["cleared"]),
    ("ByteBuffer", "mark", &[], BUFFER, "marked($0)", &["marked"]),
    ("ByteBuffer", "reset", &[], BUFFER, "unmoved($0)", &["unmoved"]),
    ("ByteBuffer", "compact", &[], BUFFER, "compacted($0)", &["compacted"]),
    ("ByteBuffer", "duplicate", &[], BUFFER, "twin($0)", &["twin"]),
    ("ByteBuffer", "slice", &[], BUFFER, "slice($0)", &["slice"]),
    ("ByteBuffer", "compareTo", &[BUFFER], Type::Int, "order_of_bytes($0, $1)", &["order_of_bytes"]),
];

/// A template, with what is called on and the arguments in it.
fn filled(template: &str, codes: &[String]) -> String {
    let mut parts = template.split('$');
    let mut filled = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (place, rest) = part.split_at(part.len().min(1));
        let code = place.parse().ok().and_then(|at: usize| codes.get(at));
        filled.push_str(code.map_or("", String::as_str));
        filled.push_str(rest);
    }
    filled
}

impl Translator<'_> {
    /// What a table has for a class and a name and what is given, if anything.
    fn member(
        &mut self,
        table: &'static [Member],
        (class, name): (&str, &str),
        on: &str,
        arguments: &[Expression],
    ) -> Result<Option<Expression>, Wrong> {
        let mut wrong = None;
        for (of, called, takes, gives, template, helpers) in table {
            if *of != class || *called != name || takes.len() != arguments.len() {
                continue;
            }
            let each = arguments.iter().zip(*takes);
            let taken: Result<Vec<Expression>, Wrong> = each
                .map(|(argument, ty)| self.assigned(argument.clone(), ty, false))
                .collect();
            match taken {
                Ok(taken) => {
                    let taken = taken.iter().map(|argument| self.some(argument));
                    let codes: Vec<String> = [on.to_owned()].into_iter().chain(taken).collect();
                    let code = filled(template, &codes);
                    self.helpers.extend(*helpers);
                    return Ok(Some(Expression::new(gives.clone(), code)));
                }
                Err(error) => wrong = Some(error),
            }
        }
        wrong.map_or(Ok(None), Err)
    }

    pub(super) fn library_static(
        &mut self,
        class: &str,
        name: &str,
        arguments: &[Expression],
    ) -> Result<Option<Expression>, Wrong> {
        if let ("String", "valueOf", [array]) = (class, name, arguments)
            && array.ty == Type::Array(Type::Char.into(), false)
        {
            return Ok(Some(self.text_of_characters(array)));
        }
        if let ("hashCode", [value]) = (name, arguments)
            && let Some(ty) = Type::of_class(class, Vec::new()).filter(Type::has_primitive)
        {
            let value = self.assigned(value.clone(), &ty, false)?;
            return Ok(self.hash(&ty, &value.code));
        }
        match (class, name) {
            ("Objects", _) => self.of_objects(name, arguments),
            ("Pattern", "compile" | "matches") if !arguments.is_empty() => {
                check_regex(&arguments[0])?;
                self.member(STATIC, (class, name), "", arguments)
            }
            ("ByteBuffer", _) => self.buffer_of(name, arguments),
            ("Optional", _) => Ok(self.optional(name, arguments)),
            ("String", "join") => self.joined(arguments),
            ("String", "format") => self.formatted(arguments),
            _ => self.member(STATIC, (class, name), "", arguments),
        }
    }

    pub(super) fn library_constructor(
        &mut self,
        ty: &Type,
        arguments: &[Expression],
    ) -> Result<Option<Expression>, Wrong> {
        match (ty, arguments) {
            (Type::Text, [array]) if array.ty == Type::Array(Type::Char.into(), false) => {
                Ok(Some(self.text_of_characters(array)))
            }
            (Type::Text, [array]) if array.ty == Type::Array(Type::Byte.into(), false) => {
                let array = self.some(array);
                let code = self.helper("text_of_bytes", &[&array]);
                Ok(Some(Expression::new(Type::Text, code)))
            }
            _ => self.member(CONSTRUCTORS, (&ty.to_string(), ""), "", arguments),
        }
    }

    fn text_of_characters(&mut self, array: &Expression) -> Expression {
        let array = self.some(array);
        let code = self.helper("spelled", &[&array]);
        Expression::new(Type::Text, code)
    }

    pub(super) fn library_method(
        &mut self,
        on: &Expression,
        value: &str,
        name: &str,
        arguments: &[Expression],
    ) -> Result<Option<Expression>, Wrong> {
        let class = on.ty.to_string();
        if on.ty == DECIMAL || on.ty == VARINT {
            let known = self.member(METHODS, ("Number", name), value, arguments)?;
            if known.is_some() {
                return Ok(known);
            }
        }
        if on.ty == BUFFER
            && let Some(known) = self.buffer_method(value, name, arguments)?
        {
            return Ok(Some(known));
        }
        match (&on.ty, name, arguments) {
            (ty, "hashCode", []) => Ok(self.hash(ty, value)),
            (Type::Optional(of), _, _) => Ok(self.of_optional(value, of, name, arguments)),
            (Type::Text, "split" | "matches" | "replaceAll" | "replaceFirst", _) => {
                self.by_regex(value, name, arguments)
            }
            (Type::Text, "getBytes", []) => {
                let code = self.helper("told", &[value]);
                let code = self.helper("bytes_of", &[&code]);
                let ty = Type::Array(Type::Byte.into(), false);
                Ok(Some(Expression::new(ty, code)))
            }
            (Type::Text, "toCharArray", []) => {
                let code = self.helper("characters", &[value]);
                Ok(Some(Expression::new(
                    Type::Array(Type::Char.into(), false),
                    code,
                )))
            }
            // A group may be none of a match.
            (Type::Matcher, "group", _) => {
                let group = self.member(METHODS, (&class, name), value, arguments)?;
                Ok(group.map(|group| Expression::or_null(group.ty, group.code)))
            }
            (Type::Pattern, "split", _) => {
                let parts = self.member(METHODS, (&class, name), value, arguments)?;
                let ty = Type::Array(Type::Text.into(), true);
                Ok(parts.map(|parts| Expression::new(ty, parts.code)))
            }
            _ => self.member(METHODS, (&class, name), value, arguments),
        }
    }

    fn of_objects(
        &mut self,
        name: &str,
        arguments: &[Expression],
    ) -> Result<Option<Expression>, Wrong> {
        let (ty, code) = match (name, arguments) {
            ("toString", [value]) => (Type::Text, self.shown(value)),
            ("toString", [value, or]) => {
                let shown = self.shown(value);
                let or = self.assigned(or.clone(), &Type::Text, true)?;
                let code = self.helper("shown_or", &[&value.code, &shown, &or.code]);
                return Ok(Some(Expression::or_null(Type::Text, code)));
            }
            ("isNull", [value]) => (Type::Boolean, format!("({} == nil)", value.code)),
            ("nonNull", [value]) => (Type::Boolean, format!("({} ~= nil)", value.code)),
            ("requireNonNull", [value]) => {
                let code = self.some(value);
                return Ok(Some(Expression::boxed(value.ty.clone(), code)));
            }
            // Cassandra's classes for functions lack it, and so its compiler finds neither of the two.
            ("requireNonNull", [_, _]) => {
                return Err("The type java.util.function.Supplier cannot be resolved. It is indirectly referenced from required type java.util.Objects".to_owned());
            }
            ("hashCode", [value]) => return Ok(self.hash(&value.ty, &value.code)),
            ("hash", values) => {
                let mut code = "1".to_owned();
                for value in values {
                    let Some(hash) = self.hash(&value.ty, &value.code) else {
                        return Ok(None);
                    };
                    let sum = format!("{code} * 31 + {}", hash.code);
                    code = self.helper("i32", &[&sum]);
                }
                (Type::Int, code)
            }
            _ => return Ok(None),
        };
        Ok(Some(Expression::new(ty, code)))
    }

    fn optional(&mut self, name: &str, arguments: &[Expression]) -> Option<Expression> {
        let (of, code) = match (name, arguments) {
            ("of", [value]) => (value.ty.clone(), format!("({{{}}})", self.some(value))),
            ("ofNullable", [value]) => (value.ty.clone(), format!("({{{}}})", value.code)),
            ("empty", []) => (Type::Object, "({})".to_owned()),
            _ => return None,
        };
        Some(Expression::new(Type::Optional(of.into()), code))
    }

    fn of_optional(
        &mut self,
        optional: &str,
        of: &Type,
        name: &str,
        arguments: &[Expression],
    ) -> Option<Expression> {
        let value = format!("{optional}[1]");
        match (name, arguments) {
            ("isPresent", []) => Some(Expression::new(Type::Boolean, format!("({value} ~= nil)"))),
            ("isEmpty", []) => Some(Expression::new(Type::Boolean, format!("({value} == nil)"))),
            ("get" | "orElseThrow", []) => {
                let code = self.helper("present", &[&value]);
                Some(Expression::boxed(of.clone(), code))
            }
            ("orElse", [or]) => {
                let ty = if *of == Type::Object {
                    or.ty.clone()
                } else {
                    of.clone()
                };
                let or = self.assigned(or.clone(), &ty, true).ok()?;
                let code = self.helper("or_else", &[&value, &or.code]);
                Some(Expression::or_null(ty, code))
            }
            _ => None,
        }
    }

    fn joined(&mut self, arguments: &[Expression]) -> Result<Option<Expression>, Wrong> {
        let [separator, items @ ..] = arguments else {
            return Ok(None);
        };
        let separator = self.assigned(separator.clone(), &Type::Text, false)?;
        let separator = self.some(&separator);
        let list = match items {
            [items] if matches!(items.ty, Type::List(_)) => {
                let list = self.some(items);
                format!("{{n = #{list}, table.unpack({list})}}")
            }
            [items] if matches!(items.ty, Type::Set(_)) => {
                let set = self.some(items);
                let keys = self.helper("keys", &[&set]);
                self.helper("counted", &[&keys])
            }
            [items] if matches!(items.ty, Type::Array(..)) => self.some(items),
            items => {
                let each = items
                    .iter()
                    .map(|item| self.assigned(item.clone(), &Type::Text, true));
                let items: Vec<Expression> = each.collect::<Result<_, Wrong>>()?;
                let codes: Vec<&str> = items.iter().map(|item| item.code.as_str()).collect();
                format!("{{n = {}, {}}}", codes.len(), codes.join(", "))
            }
        };
        let code = self.helper("join", &[&separator, &list]);
        Ok(Some(Expression::new(Type::Text, code)))
    }

    fn formatted(&mut self, arguments: &[Expression]) -> Result<Option<Expression>, Wrong> {
        let [template, values @ ..] = arguments else {
            return Ok(None);
        };
        let template = self.assigned(template.clone(), &Type::Text, false)?;
        let template = self.some(&template);
        let mut items = Vec::new();
        for value in values {
            let package = match &value.ty {
                Type::Other(CqlType::Decimal | CqlType::Varint) => "java.math.",
                Type::Other(_) => "java.util.",
                _ => "java.lang.",
            };
            let class = format!("\"{package}{}\"", value.ty);
            // Each is evaluated once, and in order.
            let name = Expression {
                code: "Item".to_owned(),
                statement: None,
                ..value.clone()
            };
            let shown = self.shown(&name);
            items.push(format!(
                "(function(Item) return {{value = Item, class = {class}, shown = {shown}}} end)({})",
                value.code
            ));
        }
        let items = format!("{{{}}}", items.join(", "));
        self.helpers.insert("given");
        let code = format!("given(native.format({template}, {items}))");
        Ok(Some(Expression::new(Type::Text, code)))
    }

    /// Methods of texts that are given regular expressions.
    fn by_regex(
        &mut self,
        text: &str,
        name: &str,
        arguments: &[Expression],
    ) -> Result<Option<Expression>, Wrong> {
        if let Some(regex) = arguments.first() {
            check_regex(regex)?;
        }
        let value = self.member(METHODS, ("String", name), text, arguments)?;
        Ok(value.map(|value| match name {
            "split" => Expression::new(Type::Array(Type::Text.into(), true), value.code),
            _ => value,
        }))
    }
}

/// Refuses a literal of a regular expression that is not available.
fn check_regex(regex: &Expression) -> Result<(), Wrong> {
    match regex
        .literal()
        .filter(|regex| !super::regex::is_available(regex))
    {
        Some(regex) => Err(format!(
            "The regular expression {regex} is not available in Helenus"
        )),
        None => Ok(()),
    }
}
