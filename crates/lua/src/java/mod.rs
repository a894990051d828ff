//! Functions in Java: translated to Lua, in which they then run as others do, with the same limits.
//!
//! What is translated is the part of Java that functions of databases are written in: local variables,
//! `if`, loops, `switch`, `return`, `throw`, `try`, arrays, arithmetic as Java has it (whole numbers wrap and are divided
//! without a rest), texts, `Math`, boxes of numbers, lists, sets, maps, tuples, user types and
//! `StringBuilder`. Whatever else Java has (classes, lambdas, `synchronized`) is
//! refused when the function is made, by name. Types are known, so most mistakes are found then, too.
//!
//! How values look is said in [`to_lua`](crate::to_lua); a `char` is a number (a unit of UTF-16: [`text`]), a
//! `StringBuilder` a table of one text, an entry of a map `{key, value}`, a `ByteBuffer` a table of its own ([`buffer`]),
//! a `Pattern` the text of a regular expression ([`regex`]). Sets and maps are walked through in the order of their keys.

mod array;
mod assignment;
mod buffer;
mod collection;
mod construction;
mod conversion;
mod exception;
mod expression;
mod fields;
mod flow;
mod format;
mod instance;
mod jump;
mod known;
mod library;
mod method;
pub(crate) mod native;
mod operator;
mod regex;
mod rounding;
mod show;
mod statement;
mod switch;
mod text;
mod token;
mod types;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use model::{CqlType, UserFunction};

use assignment::Place;
use flow::{Outcomes, Unassigned};
use jump::{Jump, Target};
use token::Token;
use types::Type;

/// What Java does otherwise than Lua.
const HELPERS: &str = include_str!("helpers.lua");

/// Blocks, expressions and types are nested no deeper, and no more operations follow one another: Lua's
/// own compiler goes down 200 levels (`LUAI_MAXCCALLS`), and a stack has an end.
const MAX_NESTING: usize = 100;

/// What is wrong with a body.
type Wrong = String;

/// A piece of Lua, and what it is in Java.
#[derive(Clone, Debug)]
struct Expression {
    code: String,
    ty: Type,
    /// May it be null?
    may_be_null: bool,
    /// Is a number or a `boolean` an object, as an `Integer` is and an `int` is not?
    is_boxed: bool,
    /// Where it can be put another value.
    place: Option<Place>,
    /// The statement that does what it does, where nobody asks for its value.
    statement: Option<String>,
    /// What has no value yet once it is true and once it is false, where that is not the same.
    outcomes: Option<Box<Outcomes>>,
}

impl Expression {
    fn new(ty: Type, code: impl Into<String>) -> Expression {
        let may_be_null = matches!(ty, Type::Null);
        let code = code.into();
        Expression {
            code,
            ty,
            may_be_null,
            is_boxed: false,
            place: None,
            statement: None,
            outcomes: None,
        }
    }

    fn boxed(ty: Type, code: impl Into<String>) -> Expression {
        Expression {
            is_boxed: true,
            ..Expression::new(ty, code)
        }
    }

    fn or_null(ty: Type, code: impl Into<String>) -> Expression {
        Expression {
            may_be_null: true,
            ..Expression::boxed(ty, code)
        }
    }

    /// What Java calls its type.
    fn type_name(&self) -> String {
        self.ty.named(self.is_boxed)
    }

    /// Is it a number or a `boolean` that is no object?
    fn is_primitive(&self) -> bool {
        !self.is_boxed && self.ty.has_primitive()
    }
}

/// Reads a body and writes Lua.
struct Translator<'f> {
    function: &'f UserFunction,
    tokens: Vec<(Token, usize)>,
    at: usize,
    /// The local variables, by block.
    scopes: Vec<BTreeMap<String, Variable>>,
    /// What a `break` or `continue` may lead out of.
    targets: Vec<Target>,
    /// The name before a statement, until what it names is there.
    label: Option<String>,
    /// The functions of Lua around a statement, with what leads out of each.
    closures: Vec<BTreeSet<Jump>>,
    /// By block that is a `switch`: the number of its scope, and what is declared in it.
    switches: Vec<(usize, Vec<String>)>,
    /// The local variables that may have been given no value here.
    unassigned: Unassigned,
    /// What was thrown that Java wants to be caught: the class, and where.
    checked: Vec<(&'static str, usize)>,
    /// How many names Lua was given.
    numbers: usize,
    /// How many expressions were written that change something.
    effects: usize,
    /// How deep in blocks, expressions and types it is.
    nesting: usize,
    helpers: BTreeSet<&'static str>,
}

#[derive(Clone, Debug)]
struct Variable {
    ty: Type,
    may_be_null: bool,
    is_boxed: bool,
    /// `Object` or `Number`, if it was declared one: `ty` is what it was given.
    any_class: Option<&'static str>,
    write: Write,
}

/// What may be put where a variable is.
#[derive(Clone, Debug, PartialEq)]
enum Write {
    /// Any value.
    Any,
    /// One value: it is `final`, and was declared without one.
    Once,
    /// None: it is `final`. The constant that it is, if it is one.
    Never(Option<i64>),
    /// None: it is `final`, and a loop puts another one there each time.
    Loop,
}

impl Variable {
    fn new(ty: Type, may_be_null: bool, is_boxed: bool) -> Variable {
        Variable {
            ty,
            may_be_null,
            is_boxed,
            any_class: None,
            write: Write::Any,
        }
    }
}

/// How a variable of Java is called in Lua, where other words are reserved.
fn mangled(name: &str) -> String {
    let mut mangled = "v_".to_owned();
    for c in name.chars() {
        match c.is_ascii_alphanumeric() || c == '_' {
            true => mangled.push(c),
            // `write!` to a `String` never fails.
            false => drop(write!(mangled, "_{:x}_", u32::from(c))),
        }
    }
    mangled
}

/// The helpers and those that they call, each once and after what it calls.
fn with_helpers(wanted: &BTreeSet<&'static str>) -> String {
    let mut lines = HELPERS.lines().filter(|line| !line.is_empty());
    let mut known: BTreeMap<&str, (Vec<&str>, &str)> = BTreeMap::new();
    while let Some(head) = lines.next() {
        let Some((name, calls)) = head.trim_start_matches("-- ").split_once(':') else {
            continue;
        };
        if name.contains(' ') {
            continue;
        }
        let body = lines.next().unwrap_or_default();
        known.insert(name, (calls.split_whitespace().collect(), body));
    }
    fn put<'h>(
        name: &'h str,
        known: &BTreeMap<&'h str, (Vec<&'h str>, &'h str)>,
        done: &mut BTreeSet<&'h str>,
        text: &mut String,
    ) {
        if !done.insert(name) {
            return;
        }
        let Some((calls, body)) = known.get(name) else {
            return;
        };
        for call in calls {
            put(call, known, done, text);
        }
        let body = body.trim_start_matches("function");
        text.push_str(&format!("local function {name}{body} "));
    }
    let (mut done, mut text) = (BTreeSet::new(), String::new());
    for name in wanted {
        put(name, &known, &mut done, &mut text);
    }
    text
}

/// The chunk of Lua that does what the function's body says in Java. Errors: what is wrong with the
/// body, a line each, as Cassandra's compiler says it.
pub(crate) fn to_lua(function: &UserFunction) -> Result<String, Wrong> {
    let wrong = |(line, message): (usize, String)| format!("Line {line}: {message}\n");
    let tokens = token::tokens(&function.body).map_err(wrong)?;
    let mut translator = Translator {
        function,
        tokens,
        at: 0,
        scopes: Vec::new(),
        targets: Vec::new(),
        label: None,
        closures: Vec::new(),
        switches: Vec::new(),
        unassigned: Unassigned::new(),
        checked: Vec::new(),
        numbers: 0,
        effects: 0,
        nesting: 0,
        helpers: BTreeSet::new(),
    };
    if function.argument_types.contains(&CqlType::Blob) {
        translator.helpers.insert("buffer");
    }
    let each = function.argument_names.iter().zip(&function.argument_types);
    let parameters = each.map(|(name, ty)| {
        // Where null is not passed on, numbers come without their boxes.
        let is_object = function.called_on_null_input;
        let variable = Variable::new(Type::of(ty), is_object, is_object);
        (name.to_string(), variable)
    });
    translator.scopes.push(parameters.collect());
    let body = translator.body();
    let line = translator.line();
    let body = body.map_err(|message| wrong((line, message)))?;
    let names: Vec<String> = function.argument_names.iter().map(|n| mangled(n)).collect();
    let parameters = match names.is_empty() {
        true => String::new(),
        false => format!("local {} = ... ", names.join(", ")),
    };
    let helpers = with_helpers(&translator.helpers);
    let mut buffers = String::new();
    let each = function.argument_names.iter().zip(&function.argument_types);
    for (name, _) in each.filter(|(_, ty)| **ty == CqlType::Blob) {
        let name = mangled(name);
        buffers.push_str(&format!("{name} = buffer({name}) "));
    }
    Ok(format!("{parameters}{helpers}{buffers}{body}"))
}

impl Translator<'_> {
    /// Reads what is within something else.
    fn nested<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T, Wrong>) -> Result<T, Wrong> {
        if self.nesting == MAX_NESTING {
            return Err(format!(
                "More than {MAX_NESTING} levels are not available in Helenus"
            ));
        }
        self.nesting += 1;
        let read = read(self);
        self.nesting -= 1;
        read
    }

    fn peek(&self) -> &Token {
        &self.tokens[self.at.min(self.tokens.len() - 1)].0
    }

    fn line(&self) -> usize {
        self.tokens[self.at.min(self.tokens.len() - 1)].1
    }

    fn next(&mut self) -> Token {
        let token = self.peek().clone();
        self.at += 1;
        token
    }

    fn sees(&self, sign: &str) -> bool {
        matches!(self.peek(), Token::Sign(seen) if *seen == sign)
    }

    fn takes(&mut self, sign: &str) -> bool {
        let seen = self.sees(sign);
        self.at += usize::from(seen);
        seen
    }

    /// Are these the next words?
    fn sees_signs(&self, signs: &[&str]) -> bool {
        let words = self.tokens.iter().skip(self.at).map(|(token, _)| token);
        let mut each = signs.iter().zip(words);
        each.all(|(sign, word)| matches!(word, Token::Sign(seen) if seen == sign))
    }

    fn sees_word(&self, word: &str) -> bool {
        matches!(self.peek(), Token::Word(seen) if seen == word)
    }

    fn takes_word(&mut self, word: &str) -> bool {
        let seen = self.sees_word(word);
        self.at += usize::from(seen);
        seen
    }

    fn expect(&mut self, sign: &str) -> Result<(), Wrong> {
        match self.takes(sign) {
            true => Ok(()),
            false if sign == ";" => {
                Err("Syntax error, insert \";\" to complete BlockStatements".to_owned())
            }
            false => Err(self.unexpected(&format!("\"{sign}\" expected"))),
        }
    }

    fn word(&mut self) -> Result<String, Wrong> {
        match self.next() {
            Token::Word(word) => Ok(word),
            _ => {
                self.at -= 1;
                Err(self.unexpected("Identifier expected"))
            }
        }
    }

    fn unexpected(&self, what: &str) -> Wrong {
        match self.peek() {
            Token::End => format!("Syntax error, {what} at the end"),
            Token::Word(word) => format!("Syntax error on token \"{word}\", {what}"),
            Token::Sign(sign) => format!("Syntax error on token \"{sign}\", {what}"),
            token => format!("Syntax error on token {token:?}, {what}"),
        }
    }

    /// A number that no other name of Lua has.
    fn number(&mut self) -> usize {
        self.numbers += 1;
        self.numbers
    }

    fn helper(&mut self, name: &'static str, arguments: &[&str]) -> String {
        self.helpers.insert(name);
        format!("{name}({})", arguments.join(", "))
    }

    /// Is a type written here that is of values, not of objects?
    fn sees_primitive(&self) -> bool {
        matches!(self.peek(), Token::Word(word) if Type::is_name_of_primitive(word))
    }

    fn variable(&self, name: &str) -> Option<&Variable> {
        self.scopes.iter().rev().find_map(|scope| scope.get(name))
    }

    /// A type, if one is written here; else nothing is read.
    fn take_type(&mut self) -> Option<Type> {
        let began = self.at;
        let ty = self.try_type();
        if ty.is_none() {
            self.at = began;
        }
        ty
    }

    fn try_type(&mut self) -> Option<Type> {
        let read = self.nested(|this| Ok(this.class_with_parts()));
        read.ok().flatten()
    }

    fn class_with_parts(&mut self) -> Option<Type> {
        let Token::Word(mut name) = self.next() else {
            return None;
        };
        while self.takes(".") {
            let Token::Word(part) = self.next() else {
                return None;
            };
            name = part;
        }
        let mut parts = Vec::new();
        if self.takes("<") && !self.takes(">") {
            loop {
                parts.push(self.take_part()?);
                if self.takes(",") {
                    continue;
                }
                self.close_parts()?;
                break;
            }
        }
        let mut ty = Type::of_class(&name, parts)?;
        let mut is_boxed = !Type::is_name_of_primitive(&name);
        while self.sees_signs(&["[", "]"]) {
            self.at += 2;
            ty = Type::Array(ty.into(), is_boxed);
            is_boxed = true;
        }
        Some(ty)
    }

    /// What a class is of, `?` and `? extends Number` among it.
    fn take_part(&mut self) -> Option<Type> {
        if self.takes("?") && !self.takes_word("extends") && !self.takes_word("super") {
            return Some(Type::Object);
        }
        self.try_type()
    }

    /// The end of what a class is of; those of two classes may be one word.
    fn close_parts(&mut self) -> Option<()> {
        self.takes(">").then_some(())
    }
}
