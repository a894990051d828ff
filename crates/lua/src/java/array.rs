//! Arrays: tables of 1, 2, … with how many there are as `n`.

use super::assignment::Place;
use super::types::Type;
use super::{Expression, Translator, Wrong};

/// What an array is full of when it is made.
fn filling(ty: &Type, is_boxed: bool) -> &'static str {
    match ty {
        _ if is_boxed => "nil",
        Type::Boolean => "false",
        ty if ty.is_real() => "0.0",
        ty if ty.has_primitive() => "0",
        _ => "nil",
    }
}

impl Translator<'_> {
    /// What is behind `new` and the type of the elements: `[3]`, `[2][]`.
    pub(super) fn array_of_size(
        &mut self,
        mut ty: Type,
        mut is_boxed: bool,
    ) -> Result<Expression, Wrong> {
        let mut value = filling(&ty, is_boxed);
        let mut sizes = Vec::new();
        while self.takes("[") {
            if !self.takes("]") {
                let size = self.expression()?;
                sizes.push(self.assigned(size, &Type::Int, false)?.code);
                self.expect("]")?;
            } else {
                value = "nil";
            }
            ty = Type::Array(ty.into(), is_boxed);
            is_boxed = true;
        }
        let sizes = sizes.join(", ");
        let code = self.helper("array", &[value, &sizes]);
        Ok(Expression::new(ty, code))
    }

    /// `{a, b}` where an array of a type is asked for.
    pub(super) fn array_of_items(&mut self, ty: &Type) -> Result<Expression, Wrong> {
        self.nested(|this| this.items_of_array(ty))
    }

    fn items_of_array(&mut self, ty: &Type) -> Result<Expression, Wrong> {
        let Type::Array(of, is_boxed) = ty else {
            return Err(format!("Type mismatch: cannot convert from array to {ty}"));
        };
        self.expect("{")?;
        let mut items = Vec::new();
        while !self.takes("}") {
            let item = match self.sees("{") {
                true => self.array_of_items(of)?,
                false => self.expression()?,
            };
            items.push(self.assigned(item, of, *is_boxed)?.code);
            if !self.takes(",") {
                self.expect("}")?;
                break;
            }
        }
        let code = format!("({{n = {}, {}}})", items.len(), items.join(", "));
        Ok(Expression::new(ty.clone(), code))
    }

    /// `array[at]`.
    pub(super) fn element(
        &mut self,
        array: &Expression,
        at: Expression,
    ) -> Result<Expression, Wrong> {
        let Type::Array(of, is_boxed) = array.ty.clone() else {
            return Err(format!(
                "The type of the expression must be an array type but it resolved to {}",
                array.type_name()
            ));
        };
        let at = self.assigned(at, &Type::Int, false)?.code;
        let array = self.some(array);
        let code = self.helper("at", &[&array, &at]);
        Ok(Expression {
            may_be_null: is_boxed,
            is_boxed,
            place: Some(Place::Element(array, at)),
            ..Expression::new(*of, code)
        })
    }

    /// What has no `(` behind it.
    pub(super) fn field(&mut self, of: &Expression, name: &str) -> Result<Expression, Wrong> {
        if let (Type::Array(..), "length") = (&of.ty, name) {
            let array = self.some(of);
            return Ok(Expression::new(Type::Int, format!("{array}.n")));
        }
        Err(match of.is_primitive() {
            true => format!(
                "The primitive type {} does not have a field {name}",
                of.type_name()
            ),
            false => format!("{name} cannot be resolved or is not a field"),
        })
    }

    /// `Arrays.sort(array)` and the like.
    pub(super) fn array_method(
        &mut self,
        name: &str,
        arguments: &[Expression],
    ) -> Option<Expression> {
        let [
            Expression {
                ty: Type::Array(of, is_boxed),
                ..
            },
            ..,
        ] = arguments
        else {
            return None;
        };
        let array = self.some(&arguments[0]);
        let (ty, code) = match (name, arguments) {
            ("asList", [_]) if *is_boxed => {
                (Type::List(of.clone()), self.helper("listed", &[&array]))
            }
            ("sort", [_]) if of.has_primitive() || **of == Type::Text => {
                (Type::Void, format!("table.sort({array})"))
            }
            ("equals", [_, other]) if other.ty == arguments[0].ty => {
                let code = self.helper("same_items", &[&arguments[0].code, &other.code]);
                (Type::Boolean, code)
            }
            ("fill", [_, value]) => {
                let value = self.assigned(value.clone(), of, *is_boxed).ok()?.code;
                (Type::Void, self.helper("fill", &[&array, &value]))
            }
            ("copyOf", [_, size]) => {
                let size = self.assigned(size.clone(), &Type::Int, false).ok()?.code;
                let value = filling(of, *is_boxed);
                let code = self.helper("resized", &[&array, &size, value]);
                (arguments[0].ty.clone(), code)
            }
            ("hashCode", [_]) => {
                let hash = self.hash(of, "Item")?.code;
                let hash = format!("function(Item) return {hash} end");
                (Type::Int, self.helper("hash_array", &[&array, &hash]))
            }
            ("toString", [_]) => {
                let item = Expression {
                    may_be_null: *is_boxed,
                    ..Expression::new((**of).clone(), "Item")
                };
                let shown = self.shown(&item);
                let show = format!("function(Item) return {shown} end");
                (Type::Text, self.helper("shown_array", &[&array, &show]))
            }
            _ => return None,
        };
        Some(Expression::new(ty, code))
    }
}
