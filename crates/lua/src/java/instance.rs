//! `instanceof`.

use model::CqlType;

use super::assignment::Place;
use super::token::Token;
use super::types::Type;
use super::{Expression, Translator, Wrong, exception};

/// Interfaces and classes that are no [`Type`] of their own.
const KINDS: [&str; 6] = [
    "Object",
    "Number",
    "Comparable",
    "CharSequence",
    "Collection",
    "Iterable",
];

/// Classes of collections: which one a value is of is not known.
const COLLECTIONS: [&str; 9] = [
    "ArrayList",
    "LinkedList",
    "HashSet",
    "LinkedHashSet",
    "TreeSet",
    "HashMap",
    "LinkedHashMap",
    "TreeMap",
    "AbstractList",
];

/// Is a value of a type one of [`KINDS`]?
fn is_kind(ty: &Type, kind: &str) -> bool {
    let is_number = ty.is_number() && *ty != Type::Char
        || matches!(ty, Type::Other(CqlType::Decimal | CqlType::Varint));
    match kind {
        "Object" => true,
        "Number" => is_number,
        "Comparable" => {
            let others = ["UUID", "Date", "ByteBuffer"].contains(&ty.to_string().as_str());
            is_number
                || others
                || matches!(ty, Type::Boolean | Type::Char | Type::Text | Type::Builder)
        }
        "CharSequence" => matches!(ty, Type::Text | Type::Builder),
        _ => matches!(ty, Type::List(_) | Type::Set(_)),
    }
}

/// May a value of one of these types also be of others?
fn is_open(ty: &Type) -> bool {
    matches!(
        ty,
        Type::List(_) | Type::Set(_) | Type::Map(..) | Type::Entry(..)
    )
}

impl Translator<'_> {
    /// Is a class written here of which everything may be?
    pub(super) fn sees_any_class(&self) -> Option<&'static str> {
        let words = self.tokens.iter().skip(self.at).map(|(token, _)| token);
        let mut path = words.take_while(|token| match token {
            Token::Word(word) => ["java", "lang", "Object", "Number"].contains(&word.as_str()),
            Token::Sign(sign) => *sign == ".",
            _ => false,
        });
        path.find_map(|token| match token {
            Token::Word(word) if word == "Object" => Some("Object"),
            Token::Word(word) if word == "Number" => Some("Number"),
            _ => None,
        })
    }

    /// Was it declared as what may be anything?
    pub(super) fn is_anything(&self, value: &Expression) -> bool {
        self.declared_class(value).is_some()
    }

    /// The class of which everything may be that it was declared.
    pub(super) fn declared_class(&self, value: &Expression) -> Option<&'static str> {
        match &value.place {
            Some(Place::Variable(name)) => self.variable(name)?.any_class,
            _ => None,
        }
    }

    /// `value instanceof T`, from the word on.
    pub(super) fn instance_of(&mut self, value: &Expression) -> Result<Expression, Wrong> {
        self.at += 1;
        let is_boxed = !self.sees_primitive();
        let (class, ty) = self.class_asked_for()?;
        if let Token::Word(_) = self.peek() {
            return Err("The Java feature 'Pattern Matching in instanceof Expressions' is only available with source level 16 and above".to_owned());
        }
        let is_primitive = ty.as_ref().is_some_and(Type::has_primitive) && !is_boxed;
        let incompatible = || {
            let of = ty.as_ref().map_or(class.clone(), |ty| ty.named(is_boxed));
            let from = value.type_name();
            format!("Incompatible conditional operand types {from} and {of}")
        };
        if value.is_primitive() || is_primitive {
            return Err(incompatible());
        }
        let is_one = match (&value.ty, &ty) {
            (Type::Null, _) => false,
            (Type::Object, Some(Type::Boolean)) => {
                let code = format!("(type({}) == \"boolean\")", value.code);
                return Ok(Expression::new(Type::Boolean, code));
            }
            (Type::Object, _) if class != "Object" => {
                return Err(
                    "instanceof of what may be anything is not available in Helenus".to_owned(),
                );
            }
            (from, None) => match is_kind(from, &class) {
                false if !is_open(from) && !self.is_anything(value) => return Err(incompatible()),
                is_kind => is_kind,
            },
            (Type::Exception(from), Some(Type::Exception(of))) => {
                if !exception::is_a(from, of) && !exception::is_a(of, from) {
                    return Err(incompatible());
                }
                let kinds = format!("\"{}\"", exception::kinds(of));
                let code = self.helper("is_one", &[&value.code, &kinds]);
                let code = format!("({} ~= nil and {code})", value.code);
                return Ok(Expression::new(Type::Boolean, code));
            }
            (from, Some(of)) if is_same_class(from, of) => true,
            (from, Some(of)) => match is_open(from) && is_open(of) || self.is_anything(value) {
                true => false,
                false => return Err(incompatible()),
            },
        };
        let code = match is_one {
            true => format!("({} ~= nil)", value.code),
            // It is evaluated all the same.
            false => format!("({} ~= nil and false)", value.code),
        };
        Ok(Expression::new(Type::Boolean, code))
    }

    /// The class behind `instanceof`, and its type, where it is one of its own.
    fn class_asked_for(&mut self) -> Result<(String, Option<Type>), Wrong> {
        let began = self.at;
        let ty = self.take_type();
        let path = self.tokens[began..self.at].iter().map(|(token, _)| token);
        let path = path.take_while(|token| !matches!(token, Token::Sign("<")));
        let words = path.filter_map(|token| match token {
            Token::Word(word) => Some(word.clone()),
            _ => None,
        });
        let Some(class) = words.last() else {
            // As a type that is not known is named: with its package.
            let mut class = self.word()?;
            while self.takes(".") {
                class = format!("{class}.{}", self.word()?);
            }
            return match KINDS.contains(&class.as_str()) {
                true => Ok((class, None)),
                false => Err(format!("{class} cannot be resolved to a type")),
            };
        };
        if COLLECTIONS.contains(&class.as_str()) {
            return Err(format!("instanceof {class} is not available in Helenus"));
        }
        let ty = ty.unwrap_or(Type::Object);
        let read = &self.tokens[began..self.at];
        let parts = read
            .iter()
            .skip_while(|(token, _)| *token != Token::Sign("<"));
        let mut parts = parts.map(|(token, _)| token);
        if parts.any(|token| matches!(token, Token::Word(_))) {
            return Err(format!(
                "Cannot perform instanceof check against parameterized type {ty}. Use the form {class}<?> instead since further generic type information will be erased at runtime"
            ));
        }
        match KINDS.contains(&class.as_str()) {
            true => Ok((class, None)),
            false => Ok((class, Some(ty))),
        }
    }
}

fn is_same_class(a: &Type, b: &Type) -> bool {
    match (a, b) {
        (Type::Other(_), Type::Other(_)) => a.to_string() == b.to_string(),
        (Type::Array(..), Type::Array(..)) => a == b,
        _ => a.is_like(b),
    }
}
