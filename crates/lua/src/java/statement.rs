//! Statements. What each gives is whether the one behind it is reached.

use super::token::Token;
use super::types::Type;
use super::{Expression, Translator, Variable, Wrong, mangled};

/// Words that begin what is not translated.
const ABSENT: [&str; 8] = [
    "try",
    "switch",
    "synchronized",
    "class",
    "do",
    "assert",
    "enum",
    "interface",
];

impl Translator<'_> {
    pub(super) fn body(&mut self) -> Result<String, Wrong> {
        let mut code = String::new();
        let goes_on = self.statements(&mut code)?;
        if !matches!(self.peek(), Token::End) {
            return Err(self.unexpected("delete this token"));
        }
        if goes_on {
            let ty = Type::of(&self.function.return_type);
            let ty = ty.named(self.function.called_on_null_input);
            return Err(format!("This method must return a result of type {ty}"));
        }
        Ok(code)
    }

    /// Up to the end of a block.
    fn statements(&mut self, code: &mut String) -> Result<bool, Wrong> {
        let mut goes_on = true;
        while !self.sees("}") && !matches!(self.peek(), Token::End) {
            if !goes_on {
                return Err("Unreachable code".to_owned());
            }
            goes_on = self.statement(code)?;
        }
        Ok(goes_on)
    }

    /// A statement in a block of Lua's, with variables of its own.
    fn in_block(&mut self, code: &mut String) -> Result<bool, Wrong> {
        self.nested(|this| this.block(code))
    }

    fn block(&mut self, code: &mut String) -> Result<bool, Wrong> {
        self.scopes.push(Default::default());
        code.push_str("do ");
        let goes_on = match self.takes("{") {
            true => {
                let goes_on = self.statements(code)?;
                self.expect("}")?;
                goes_on
            }
            false => self.statement(code)?,
        };
        code.push_str("end ");
        self.scopes.pop();
        Ok(goes_on)
    }

    fn statement(&mut self, code: &mut String) -> Result<bool, Wrong> {
        if self.takes(";") {
            return Ok(true);
        }
        if self.sees("{") {
            return self.in_block(code);
        }
        if let Token::Word(word) = self.peek().clone() {
            match word.as_str() {
                "return" => return self.return_statement(code),
                "throw" => return self.throw_statement(code),
                "if" => return self.if_statement(code),
                "while" => return self.while_statement(code),
                "for" => return self.for_statement(code),
                "break" | "continue" => return self.jump(code, &word),
                "final" => self.at += 1,
                word if ABSENT.contains(&word) => {
                    return Err(format!("{word} is not available in Helenus"));
                }
                _ => {}
            }
        }
        self.simple(code)?;
        self.expect(";")?;
        Ok(true)
    }

    fn return_statement(&mut self, code: &mut String) -> Result<bool, Wrong> {
        self.at += 1;
        let ty = Type::of(&self.function.return_type);
        let is_boxed = self.function.called_on_null_input;
        if self.sees(";") {
            let ty = ty.named(is_boxed);
            return Err(format!("This method must return a result of type {ty}"));
        }
        let value = self.expression()?;
        let value = self.assigned(value, &ty, is_boxed)?;
        self.expect(";")?;
        code.push_str(&format!("do return {} end ", value.code));
        Ok(false)
    }

    fn throw_statement(&mut self, code: &mut String) -> Result<bool, Wrong> {
        self.at += 1;
        if !self.takes_word("new") {
            return Err("throw of what is not new is not available in Helenus".to_owned());
        }
        let mut class = self.word()?;
        while self.takes(".") {
            class = format!("{class}.{}", self.word()?);
        }
        let class = match class.contains('.') {
            true => class,
            false => format!("java.lang.{class}"),
        };
        self.expect("(")?;
        let arguments = self.arguments()?;
        let text = match arguments.first() {
            Some(text) => format!(" .. \": \" .. {}", self.shown(text)),
            None => String::new(),
        };
        self.expect(";")?;
        code.push_str(&format!("error({class:?}{text}, 0) "));
        Ok(false)
    }

    fn condition(&mut self) -> Result<Expression, Wrong> {
        self.expect("(")?;
        let condition = self.expression()?;
        let condition = self.assigned(condition, &Type::Boolean, false)?;
        self.expect(")")?;
        Ok(condition)
    }

    fn if_statement(&mut self, code: &mut String) -> Result<bool, Wrong> {
        self.at += 1;
        let condition = self.condition()?;
        code.push_str(&format!("if {} then ", condition.code));
        let mut goes_on = self.in_block(code)?;
        match self.takes_word("else") {
            true => {
                code.push_str("else ");
                goes_on |= self.in_block(code)?;
            }
            false => goes_on = true,
        }
        code.push_str("end ");
        Ok(goes_on)
    }

    /// The body of a loop and `step` behind it, where `continue` goes. Whether a `break` leaves it.
    fn loop_body(&mut self, code: &mut String, step: &str) -> Result<bool, Wrong> {
        self.labels += 1;
        let label = self.labels;
        self.loops.push((label, false));
        self.in_block(code)?;
        code.push_str(&format!("::l{label}:: {step}"));
        Ok(self.loops.pop().is_some_and(|(_, is_left)| is_left))
    }

    fn while_statement(&mut self, code: &mut String) -> Result<bool, Wrong> {
        self.at += 1;
        let condition = self.condition()?;
        code.push_str(&format!("while {} do ", condition.code));
        let is_left = self.loop_body(code, "")?;
        code.push_str("end ");
        Ok(is_left || condition.code != "true")
    }

    fn for_statement(&mut self, code: &mut String) -> Result<bool, Wrong> {
        self.at += 1;
        self.expect("(")?;
        self.scopes.push(Default::default());
        code.push_str("do ");
        let goes_on = match self.for_each(code)? {
            true => true,
            false => self.for_counted(code)?,
        };
        code.push_str("end ");
        self.scopes.pop();
        Ok(goes_on)
    }

    /// `for (T x : items)`; whether it is one.
    fn for_each(&mut self, code: &mut String) -> Result<bool, Wrong> {
        let began = self.at;
        self.takes_word("final");
        let is_boxed = !self.sees_primitive();
        let name = match (self.take_type(), self.next()) {
            (Some(ty), Token::Word(name)) if self.takes(":") => Some((ty, name)),
            _ => None,
        };
        let Some((ty, name)) = name else {
            self.at = began;
            return Ok(false);
        };
        let items = self.expression()?;
        self.expect(")")?;
        let (item, walked) = match &items.ty {
            Type::List(item) => ((**item).clone(), format!("ipairs({})", self.some(&items))),
            Type::Set(item) => {
                let items = self.some(&items);
                let keys = self.helper("keys", &[&items]);
                ((**item).clone(), format!("ipairs({keys})"))
            }
            _ => {
                return Err(
                    "Can only iterate over an array or an instance of java.lang.Iterable"
                        .to_owned(),
                );
            }
        };
        let item = if ty == Type::Object { item } else { ty };
        let variable = Variable {
            ty: item,
            may_be_null: false,
            is_boxed,
        };
        self.declare(&name, variable)?;
        code.push_str(&format!("for _, {} in {walked} do ", mangled(&name)));
        self.loop_body(code, "")?;
        code.push_str("end ");
        Ok(true)
    }

    fn for_counted(&mut self, code: &mut String) -> Result<bool, Wrong> {
        if !self.sees(";") {
            self.simple(code)?;
        }
        self.expect(";")?;
        let condition = match self.sees(";") {
            true => Expression::new(Type::Boolean, "true"),
            false => {
                let condition = self.expression()?;
                self.assigned(condition, &Type::Boolean, false)?
            }
        };
        self.expect(";")?;
        let mut step = String::new();
        while !self.sees(")") {
            self.simple(&mut step)?;
            if !self.takes(",") {
                break;
            }
        }
        self.expect(")")?;
        code.push_str(&format!("while {} do ", condition.code));
        let is_left = self.loop_body(code, &step)?;
        code.push_str("end ");
        Ok(is_left || condition.code != "true")
    }

    fn jump(&mut self, code: &mut String, word: &str) -> Result<bool, Wrong> {
        self.at += 1;
        self.expect(";")?;
        let Some((label, is_left)) = self.loops.last_mut() else {
            return Err(format!("{word} cannot be used outside of a loop"));
        };
        match word {
            "break" => {
                *is_left = true;
                code.push_str("break ");
            }
            _ => code.push_str(&format!("goto l{label} ")),
        }
        Ok(false)
    }

    fn declare(&mut self, name: &str, variable: Variable) -> Result<(), Wrong> {
        if self.variable(name).is_some() {
            return Err(format!("Duplicate local variable {name}"));
        }
        if let Some(scope) = self.scopes.last_mut() {
            scope.insert(name.to_owned(), variable);
        }
        Ok(())
    }

    /// A declaration, an assignment or a call, without what ends it.
    fn simple(&mut self, code: &mut String) -> Result<(), Wrong> {
        let began = self.at;
        let is_boxed = !self.sees_primitive();
        if let Some(ty) = self.take_type()
            && let Token::Word(_) = self.peek()
        {
            return self.declarations(code, &ty, is_boxed);
        }
        self.at = began;
        for step in ["++", "--"] {
            if self.takes(step) {
                let name = self.word()?;
                return self.assign(code, &name, &step[..1], &mut |_| {
                    Ok(Expression::new(Type::Int, "1"))
                });
            }
        }
        if let Token::Word(name) = self.peek().clone() {
            self.at += 1;
            if let Token::Sign(sign) = *self.peek() {
                let operator = match sign {
                    "=" => Some(""),
                    "++" => Some("+"),
                    "--" => Some("-"),
                    _ if sign.ends_with('=') && !matches!(sign, "==" | "!=" | "<=" | ">=") => {
                        Some(&sign[..sign.len() - 1])
                    }
                    _ => None,
                };
                if let Some(operator) = operator {
                    self.at += 1;
                    return self.assign(code, &name, operator, &mut |this| match sign {
                        "++" | "--" => Ok(Expression::new(Type::Int, "1")),
                        _ => this.expression(),
                    });
                }
            }
            self.at = began;
        }
        let call = self.expression()?;
        code.push_str(&format!("do local _ = {} end ", call.code));
        Ok(())
    }

    fn declarations(&mut self, code: &mut String, ty: &Type, is_boxed: bool) -> Result<(), Wrong> {
        loop {
            let name = self.word()?;
            let (mut ty, mut may_be_null) = (ty.clone(), true);
            let mut value = "nil".to_owned();
            if self.takes("=") {
                let given = self.expression()?;
                if ty.is_raw()
                    && !given.ty.is_raw()
                    && (ty == Type::Object || ty.is_like(&given.ty))
                {
                    ty = given.ty.clone();
                }
                let given = self.assigned(given, &ty, is_boxed)?;
                may_be_null = given.may_be_null;
                value = given.code;
            }
            let variable = Variable {
                ty,
                may_be_null,
                is_boxed,
            };
            self.declare(&name, variable)?;
            code.push_str(&format!("local {} = {value} ", mangled(&name)));
            if !self.takes(",") {
                return Ok(());
            }
        }
    }

    fn assign(
        &mut self,
        code: &mut String,
        name: &str,
        operator: &str,
        value: &mut dyn FnMut(&mut Self) -> Result<Expression, Wrong>,
    ) -> Result<(), Wrong> {
        let Some(known) = self.variable(name).cloned() else {
            return Err(format!("{name} cannot be resolved to a variable"));
        };
        let place = mangled(name);
        let mut value = value(self)?;
        let value = match operator {
            "" => {
                // A variable that is null once may be so on the next round of a loop, too.
                value = self.assigned(value, &known.ty, known.is_boxed)?;
                if let Some(scope) = self.scopes.iter_mut().rev().find(|s| s.contains_key(name))
                    && let Some(variable) = scope.get_mut(name)
                {
                    variable.may_be_null |= value.may_be_null;
                }
                value
            }
            _ => {
                let old = Expression {
                    code: place.clone(),
                    ty: known.ty.clone(),
                    may_be_null: known.may_be_null,
                    is_boxed: known.is_boxed,
                };
                value = self.operation(old, operator, value)?;
                self.cast(value, &known.ty)?
            }
        };
        code.push_str(&format!("{place} = {} ", value.code));
        Ok(())
    }
}
