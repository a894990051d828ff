//! What is thrown, and who catches it.
//!
//! What is thrown is a text of Lua, as it is told if nobody catches it: the class with its package, and
//! behind `: ` the message. What the sandbox itself throws, of too much memory above all, nobody catches.

use super::jump::Jump;
use super::types::Type;
use super::{Expression, Translator, Variable, Wrong, mangled};

/// The classes that there are, with their packages and what they are a kind of.
const CLASSES: [(&str, &str, &str); 32] = [
    ("Throwable", "java.lang", ""),
    ("Exception", "java.lang", "Throwable"),
    ("Error", "java.lang", "Throwable"),
    ("AssertionError", "java.lang", "Error"),
    ("CloneNotSupportedException", "java.lang", "Exception"),
    ("InterruptedException", "java.lang", "Exception"),
    ("IOException", "java.io", "Exception"),
    ("RuntimeException", "java.lang", "Exception"),
    ("ArithmeticException", "java.lang", "RuntimeException"),
    ("ArrayStoreException", "java.lang", "RuntimeException"),
    ("ClassCastException", "java.lang", "RuntimeException"),
    ("IllegalArgumentException", "java.lang", "RuntimeException"),
    ("IllegalStateException", "java.lang", "RuntimeException"),
    ("IndexOutOfBoundsException", "java.lang", "RuntimeException"),
    (
        "NegativeArraySizeException",
        "java.lang",
        "RuntimeException",
    ),
    ("NullPointerException", "java.lang", "RuntimeException"),
    ("SecurityException", "java.lang", "RuntimeException"),
    (
        "UnsupportedOperationException",
        "java.lang",
        "RuntimeException",
    ),
    (
        "ConcurrentModificationException",
        "java.util",
        "RuntimeException",
    ),
    ("NoSuchElementException", "java.util", "RuntimeException"),
    ("BufferOverflowException", "java.nio", "RuntimeException"),
    ("BufferUnderflowException", "java.nio", "RuntimeException"),
    ("InvalidMarkException", "java.nio", "IllegalStateException"),
    (
        "NumberFormatException",
        "java.lang",
        "IllegalArgumentException",
    ),
    (
        "IllegalFormatException",
        "java.util",
        "IllegalArgumentException",
    ),
    (
        "ArrayIndexOutOfBoundsException",
        "java.lang",
        "IndexOutOfBoundsException",
    ),
    (
        "StringIndexOutOfBoundsException",
        "java.lang",
        "IndexOutOfBoundsException",
    ),
    (
        "IllegalFormatConversionException",
        "java.util",
        "IllegalFormatException",
    ),
    (
        "MissingFormatWidthException",
        "java.util",
        "IllegalFormatException",
    ),
    (
        "MissingFormatArgumentException",
        "java.util",
        "IllegalFormatException",
    ),
    (
        "UnknownFormatConversionException",
        "java.util",
        "IllegalFormatException",
    ),
    (
        "PatternSyntaxException",
        "java.util.regex",
        "IllegalArgumentException",
    ),
];

/// The class of a name, if there is one.
pub(super) fn known(name: &str) -> Option<&'static str> {
    // Cassandra's compiler knows none of `java.nio` but `ByteBuffer`.
    let found = CLASSES
        .iter()
        .find(|(class, package, _)| *class == name && *package != "java.nio");
    found.map(|(class, ..)| *class)
}

pub(super) fn is_a(class: &str, of: &str) -> bool {
    let parent = CLASSES.iter().find(|(known, ..)| *known == class);
    class == of || parent.is_some_and(|(_, _, parent)| is_a(parent, of))
}

/// Must somebody catch it?
fn is_checked(class: &str) -> bool {
    !is_a(class, "RuntimeException") && !is_a(class, "Error")
}

/// What is caught as `class`: the names with their packages, each between blanks.
pub(super) fn kinds(class: &str) -> String {
    let kinds = CLASSES.iter().filter(|(kind, ..)| is_a(kind, class));
    let names = kinds.map(|(kind, package, _)| format!(" {package}.{kind}"));
    names.collect::<String>() + " "
}

/// A `catch`: what it catches, and the name it has there.
struct Handler {
    classes: Vec<&'static str>,
    name: String,
}

impl Translator<'_> {
    /// What is behind `new` and the class, with its arguments.
    pub(super) fn made_exception(
        &mut self,
        class: &'static str,
        arguments: &[Expression],
    ) -> Result<Expression, Wrong> {
        let package = CLASSES.iter().find(|(known, ..)| *known == class);
        let name = package.map_or(String::new(), |(_, package, _)| {
            format!("\"{package}.{class}\"")
        });
        let is_cause = |ty: &Type| matches!(ty, Type::Exception(_) | Type::Null);
        let code = match arguments {
            [] => format!("({name})"),
            [text] | [text, _] if text.ty == Type::Text || is_cause(&text.ty) => {
                self.helper("thrown", &[&name, &text.code])
            }
            _ => {
                let of: Vec<String> = arguments.iter().map(Expression::type_name).collect();
                let of = of.join(", ");
                return Err(format!("The constructor {class}({of}) is undefined"));
            }
        };
        Ok(Expression::new(Type::Exception(class), code))
    }

    pub(super) fn exception_method(
        &mut self,
        thrown: &str,
        class: &str,
        name: &str,
        arguments: &[Expression],
    ) -> Result<Expression, Wrong> {
        match (name, arguments) {
            ("getMessage" | "getLocalizedMessage", []) => {
                let code = self.helper("message", &[thrown]);
                Ok(Expression::or_null(Type::Text, code))
            }
            _ => Err(format!(
                "The method {name} of the type {class} is not available in Helenus"
            )),
        }
    }

    pub(super) fn throw_statement(&mut self, code: &mut String) -> Result<bool, Wrong> {
        let began = self.at;
        self.at += 1;
        let is_new = self.sees_word("new");
        let thrown = self.expression()?;
        let Type::Exception(class) = thrown.ty else {
            return Err(format!(
                "No exception of type {} can be thrown; an exception type must be a subclass of Throwable",
                thrown.type_name()
            ));
        };
        self.expect(";")?;
        // What was caught is thrown on: what it may be is known where it was thrown first.
        if is_new && is_checked(class) {
            self.checked.push((class, began));
        }
        let thrown = self.some(&thrown);
        code.push_str(&format!("error({thrown}, 0) "));
        self.unassigned.clear();
        Ok(false)
    }

    pub(super) fn try_statement(&mut self, code: &mut String) -> Result<bool, Wrong> {
        self.at += 1;
        if !self.sees("{") {
            return Err("try with resources is not available in Helenus".to_owned());
        }
        let checked = std::mem::take(&mut self.checked);
        let mut jumps = Default::default();
        code.push_str("do local Fine, How, Value = ");
        let before = self.unassigned.clone();
        let mut goes_on = self.guarded(code, None, &mut jumps)?;
        let mut after = std::mem::replace(&mut self.unassigned, before.clone());
        let mut thrown = std::mem::replace(&mut self.checked, checked);
        let mut caught: Vec<&'static str> = Vec::new();
        let mut is_first = true;
        while self.takes_word("catch") {
            let handler = self.handler(&caught, &thrown)?;
            code.push_str(match is_first {
                true => "if not Fine then local Thrown = How if ",
                false => "elseif ",
            });
            let tests: Vec<String> = handler
                .classes
                .iter()
                .map(|class| self.helper("is_one", &["Thrown", &format!("\"{}\"", kinds(class))]))
                .collect();
            code.push_str(&format!("{} then Fine, How, Value = ", tests.join(" or ")));
            thrown.retain(|(class, _)| !handler.classes.iter().any(|of| is_a(class, of)));
            caught.extend(&handler.classes);
            goes_on |= self.guarded(code, Some(&handler), &mut jumps)?;
            after.extend(std::mem::replace(&mut self.unassigned, before.clone()));
            is_first = false;
        }
        if !is_first {
            code.push_str("end end ");
        }
        self.checked.extend(thrown);
        if self.takes_word("finally") {
            goes_on &= self.in_block(code)?;
            after.retain(|name| self.unassigned.contains(name));
        } else if is_first {
            return Err("Syntax error, insert \"Finally\" to complete BlockStatements".to_owned());
        }
        self.unassigned = after;
        code.push_str("if not Fine then error(How, 0) end ");
        for jump in jumps {
            code.push_str(&format!("if How == {} then ", jump.number()));
            self.lead(code, jump, "Value");
            code.push_str("end ");
        }
        code.push_str("end ");
        Ok(goes_on)
    }

    /// A block that is a function of Lua, and what leads out of it.
    fn guarded(
        &mut self,
        code: &mut String,
        handler: Option<&Handler>,
        jumps: &mut std::collections::BTreeSet<Jump>,
    ) -> Result<bool, Wrong> {
        self.helpers.insert("guard");
        code.push_str("guard(function() ");
        self.closures.push(Default::default());
        self.scopes.push(Default::default());
        if let Some(Handler { classes, name }) = handler {
            let class = match classes[..] {
                [class] => class,
                _ => "Throwable",
            };
            let variable = Variable::new(Type::Exception(class), false, true);
            self.declare(name, variable)?;
            code.push_str(&format!("local {} = Thrown ", mangled(name)));
        }
        let goes_on = self.in_block(code);
        self.scopes.pop();
        jumps.extend(self.closures.pop().unwrap_or_default());
        code.push_str("end) ");
        goes_on
    }

    /// `(A | B name)`; `caught` is what those before it catch.
    fn handler(
        &mut self,
        caught: &[&'static str],
        thrown: &[(&'static str, usize)],
    ) -> Result<Handler, Wrong> {
        self.expect("(")?;
        self.takes_word("final");
        let mut classes = Vec::new();
        loop {
            let class = match self.take_type() {
                Some(Type::Exception(class)) => class,
                _ => {
                    let class = self.word()?;
                    return Err(format!("{class} cannot be resolved to a type"));
                }
            };
            if let Some(by) = caught.iter().find(|by| is_a(class, by)) {
                return Err(format!(
                    "Unreachable catch block for {class}. It is already handled by the catch block for {by}"
                ));
            }
            let is_any = matches!(class, "Exception" | "Throwable");
            if is_checked(class) && !is_any && !thrown.iter().any(|(each, _)| is_a(each, class)) {
                return Err(format!(
                    "Unreachable catch block for {class}. This exception is never thrown from the try statement body"
                ));
            }
            classes.push(class);
            if !self.takes("|") {
                break;
            }
        }
        let name = self.word()?;
        self.expect(")")?;
        Ok(Handler { classes, name })
    }
}
