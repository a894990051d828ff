//! Statements. What each gives is whether the one behind it is reached.

use super::buffer::BUFFER;
use super::flow::Outcomes;
use super::jump::{Jump, Kind};
use super::token::Token;
use super::types::Type;
use super::{Expression, Translator, Variable, Write, Wrong, mangled};

/// Words that begin what is not translated.
const ABSENT: [&str; 5] = ["synchronized", "class", "assert", "enum", "interface"];

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
        if let Some((class, at)) = self.checked.first() {
            self.at = *at;
            return Err(format!("Unhandled exception type {class}"));
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
    pub(super) fn in_block(&mut self, code: &mut String) -> Result<bool, Wrong> {
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

    pub(super) fn statement(&mut self, code: &mut String) -> Result<bool, Wrong> {
        if self.takes(";") {
            return Ok(true);
        }
        if self.sees("{") {
            return self.in_block(code);
        }
        let mut is_final = false;
        if let Token::Word(word) = self.peek().clone() {
            if matches!(self.tokens.get(self.at + 1), Some((Token::Sign(":"), _))) {
                return self.labelled(code, word);
            }
            match word.as_str() {
                "return" => return self.return_statement(code),
                "throw" => return self.throw_statement(code),
                "if" => return self.if_statement(code),
                "while" => return self.while_statement(code),
                "for" => return self.for_statement(code),
                "do" => return self.do_statement(code),
                "switch" => return self.switch_statement(code),
                "try" => return self.try_statement(code),
                "break" | "continue" => return self.jump_statement(code, &word),
                "final" => {
                    self.at += 1;
                    is_final = true;
                }
                word if ABSENT.contains(&word) => {
                    return Err(format!("{word} is not available in Helenus"));
                }
                _ => {}
            }
        }
        self.simple(code, is_final)?;
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
        let value = match &ty {
            Type::Text => self.helper("told", &[&value.code]),
            _ => self.stored(&value).code,
        };
        self.lead(code, Jump::Return, &value);
        self.unassigned.clear();
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
        let (when_true, when_false) = self.outcomes(&condition);
        self.unassigned = when_true;
        let mut goes_on = self.in_block(code)?;
        let after = std::mem::replace(&mut self.unassigned, when_false);
        match self.takes_word("else") {
            true => {
                code.push_str("else ");
                goes_on |= self.in_block(code)?;
            }
            false => goes_on = true,
        }
        self.unassigned.extend(after);
        code.push_str("end ");
        Ok(goes_on)
    }

    /// A loop: how it begins, the step behind its body, where `continue` goes, and how it ends;
    /// `outcomes` are those of its condition. Whether a `break` leaves it.
    fn looped(
        &mut self,
        code: &mut String,
        open: &str,
        step: &str,
        outcomes: Outcomes,
    ) -> Result<bool, Wrong> {
        let (_, is_left) = self.leavable(code, Kind::Loop, |this, code, number| {
            code.push_str(open);
            this.unassigned = outcomes.0;
            this.in_block(code)?;
            this.unassigned = outcomes.1;
            code.push_str(&format!("::l{number}:: {step}end "));
            Ok(true)
        })?;
        Ok(is_left)
    }

    fn while_statement(&mut self, code: &mut String) -> Result<bool, Wrong> {
        self.at += 1;
        let condition = self.condition()?;
        let open = format!("while {} do ", condition.code);
        let outcomes = self.outcomes(&condition);
        let is_left = self.looped(code, &open, "", outcomes)?;
        Ok(is_left || condition.code != "true")
    }

    fn do_statement(&mut self, code: &mut String) -> Result<bool, Wrong> {
        self.at += 1;
        let (is_endless, is_left) = self.leavable(code, Kind::Loop, |this, code, number| {
            code.push_str("repeat ");
            this.in_block(code)?;
            if !this.takes_word("while") {
                return Err(this.unexpected("while expected"));
            }
            let condition = this.condition()?;
            this.unassigned = this.outcomes(&condition).1;
            let condition = condition.code;
            this.expect(";")?;
            code.push_str(&format!("::l{number}:: until not ({condition}) "));
            Ok(condition == "true")
        })?;
        Ok(is_left || !is_endless)
    }

    /// What has a name before it, to which a `break` within it may lead.
    fn labelled(&mut self, code: &mut String, name: String) -> Result<bool, Wrong> {
        self.at += 2;
        self.label = Some(name);
        if ["while", "for", "do", "switch"]
            .iter()
            .any(|word| self.sees_word(word))
        {
            return self.nested(|this| this.statement(code));
        }
        let (goes_on, is_left) =
            self.leavable(code, Kind::Block, |this, code, _| this.in_block(code))?;
        Ok(goes_on || is_left)
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
        let is_final = self.takes_word("final");
        let is_boxed = !self.sees_primitive();
        let any_class = self.sees_any_class();
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
            Type::Array(item, _) => {
                let items = self.some(&items);
                ((**item).clone(), self.helper("each", &[&items]))
            }
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
        let is_buffer = item == BUFFER;
        let mut variable = Variable::new(item, false, is_boxed);
        variable.any_class = any_class;
        if is_final {
            variable.write = Write::Loop;
        }
        self.declare(&name, variable)?;
        let mut open = format!("for _, {} in {walked} do ", mangled(&name));
        if is_buffer {
            let name = mangled(&name);
            let item = self.helper("buffer", &[&name]);
            open.push_str(&format!("{name} = {item} "));
        }
        let outcomes = (self.unassigned.clone(), self.unassigned.clone());
        self.looped(code, &open, "", outcomes)?;
        Ok(true)
    }

    fn for_counted(&mut self, code: &mut String) -> Result<bool, Wrong> {
        if !self.sees(";") {
            let is_final = self.takes_word("final");
            self.simple(code, is_final)?;
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
        let outcomes = self.outcomes(&condition);
        // It is behind the body, which is not read yet: what has a value there is not looked at.
        self.unassigned.clear();
        let mut step = String::new();
        while !self.sees(")") {
            self.simple(&mut step, false)?;
            if !self.takes(",") {
                break;
            }
        }
        self.expect(")")?;
        let open = format!("while {} do ", condition.code);
        let is_left = self.looped(code, &open, &step, outcomes)?;
        Ok(is_left || condition.code != "true")
    }

    pub(super) fn declare(&mut self, name: &str, variable: Variable) -> Result<(), Wrong> {
        if self.variable(name).is_some() {
            return Err(format!("Duplicate local variable {name}"));
        }
        self.unassigned.remove(name);
        if let Some(scope) = self.scopes.last_mut() {
            scope.insert(name.to_owned(), variable);
        }
        Ok(())
    }

    /// A declaration, an assignment or a call, without what ends it.
    fn simple(&mut self, code: &mut String, is_final: bool) -> Result<(), Wrong> {
        let began = self.at;
        let is_boxed = !self.sees_primitive();
        let any_class = self.sees_any_class();
        if let Some(ty) = self.take_type()
            && let Token::Word(_) = self.peek()
        {
            let like = Variable {
                any_class,
                write: if is_final { Write::Once } else { Write::Any },
                ..Variable::new(ty, true, is_boxed)
            };
            return self.declarations(code, &like);
        }
        self.at = began;
        let value = self.expression()?;
        match value.statement {
            Some(statement) => code.push_str(&statement),
            None => code.push_str(&format!("do local _ = {} end ", value.code)),
        }
        Ok(())
    }

    /// Variables of one type, each `like` this one.
    fn declarations(&mut self, code: &mut String, like: &Variable) -> Result<(), Wrong> {
        loop {
            let name = self.word()?;
            let mut variable = like.clone();
            while self.takes("[") {
                self.expect("]")?;
                variable.ty = Type::Array(variable.ty.into(), variable.is_boxed);
                variable.is_boxed = true;
            }
            let value = match self.takes("=") {
                true => Some(self.initial(&mut variable)?),
                false => {
                    // What is no object has a value before anything asks for it.
                    variable.may_be_null = variable.is_boxed || !variable.ty.has_primitive();
                    None
                }
            };
            self.declare(&name, variable)?;
            if value.is_none() {
                self.unassigned.insert(name.clone());
            }
            let value = value.unwrap_or_else(|| "nil".to_owned());
            let name = mangled(&name);
            let depth = self.scopes.len();
            match self
                .switches
                .last_mut()
                .filter(|(scope, _)| *scope == depth)
            {
                // The other cases know it, too.
                Some((_, names)) => {
                    code.push_str(&format!("{name} = {value} "));
                    names.push(name);
                }
                None => code.push_str(&format!("local {name} = {value} ")),
            }
            if !self.takes(",") {
                return Ok(());
            }
        }
    }

    /// What a variable is given where it is declared, and what it is then.
    fn initial(&mut self, variable: &mut Variable) -> Result<String, Wrong> {
        let given = match self.sees("{") {
            true => self.array_of_items(&variable.ty)?,
            false => self.expression()?,
        };
        let ty = &variable.ty;
        let is_known = match ty {
            Type::Object => given.ty != Type::Object,
            ty => ty.is_raw() && !given.ty.is_raw() && ty.is_like(&given.ty),
        };
        if is_known {
            variable.ty = given.ty.clone();
        }
        let given = self.assigned(given, &variable.ty, variable.is_boxed)?;
        variable.may_be_null = given.may_be_null;
        if variable.write == Write::Once {
            variable.write = Write::Never(given.constant());
        }
        Ok(given.code)
    }
}
