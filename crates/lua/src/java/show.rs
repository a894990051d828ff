//! `toString` and `hashCode`, which are known by the type of a value.

use model::CqlType;

use super::expression::quoted;
use super::types::Type;
use super::{Expression, Translator};

/// The code that two equal values have in common, of a value that is one itself: what
/// [`native`](super::native) calls its kind.
fn kind_of_hash(ty: &Type) -> Option<&'static str> {
    Some(match ty {
        Type::Text => "\"text\"",
        Type::Boolean => "\"boolean\"",
        Type::Long | Type::Other(CqlType::Timestamp) => "\"long\"",
        Type::Float => "\"float\"",
        Type::Double => "\"double\"",
        ty if ty.is_whole() => "\"int\"",
        Type::Null => "\"null\"",
        Type::Other(CqlType::Uuid | CqlType::Timeuuid) => "\"uuid\"",
        Type::Other(CqlType::Decimal) => "\"decimal\"",
        Type::Other(CqlType::Varint) => "\"whole\"",
        _ => return None,
    })
}

impl Translator<'_> {
    /// As a text, as in `"" + value`.
    pub(super) fn shown(&mut self, value: &Expression) -> String {
        let code = &value.code;
        let kind = match &value.ty {
            Type::Text if !value.may_be_null => return code.clone(),
            Type::Char => "\"char\"",
            Type::Float => "\"float\"",
            Type::Double => "\"double\"",
            Type::Builder => "\"builder\"",
            Type::Other(CqlType::Timestamp) => return self.helper("show_date", &[code]),
            Type::Other(CqlType::Blob) => return self.helper("show_buffer", &[code]),
            Type::Other(CqlType::Inet) => return self.helper("show_address", &[code]),
            Type::Other(CqlType::Date) => "\"date\"",
            Type::Other(CqlType::Duration) => "\"duration\"",
            Type::List(item) => {
                let item = self.shower(item);
                return self.helper("show_list", &[code, &item]);
            }
            Type::Set(item) => {
                let item = self.shower(item);
                return self.helper("show_set", &[code, &item]);
            }
            Type::Map(key, of) => {
                let (key, of) = (self.shower(key), self.shower(of));
                return self.helper("show_map", &[code, &key, &of]);
            }
            Type::Entry(key, of) => {
                let (key, of) = (self.shower(key), self.shower(of));
                return self.helper("show_entry", &[code, &key, &of]);
            }
            Type::Optional(of) => {
                let of = self.shower(of);
                return self.helper("show_optional", &[code, &of]);
            }
            Type::Tuple(Some(types)) => {
                let types = types.iter().map(|ty| self.teller(ty)).collect::<Vec<_>>();
                let types = format!("{{n = {}, {}}}", types.len(), types.join(", "));
                return self.helper("show_tuple", &[code, &types]);
            }
            Type::User(Some(definition)) => {
                let fields = definition.fields.iter();
                let fields = fields.map(|(name, ty)| {
                    let teller = self.teller(ty);
                    format!("{{{}, {teller}}}", quoted(name))
                });
                let fields = fields.collect::<Vec<_>>().join(", ");
                return self.helper("show_user", &[code, &format!("{{{fields}}}")]);
            }
            _ => "nil",
        };
        self.helper("show", &[code, kind])
    }

    /// The function of Lua that shows values of a type.
    fn shower(&mut self, ty: &Type) -> String {
        // An element of a collection is no buffer, and how Java would show it is told by what is around it.
        if *ty == Type::Other(CqlType::Blob) {
            self.helpers.insert("no_text");
            return "no_text".to_owned();
        }
        let item = Expression::or_null(ty.clone(), "Item");
        format!("function(Item) return {} end", self.shown(&item))
    }

    /// The function of Lua that writes a field of a tuple or a user type, as CQL has it.
    fn teller(&mut self, ty: &CqlType) -> String {
        let item = Expression::or_null(Type::of(ty), "Item");
        let code = match ty {
            CqlType::Ascii | CqlType::Text => self.helper("tell_text", &["Item"]),
            CqlType::Timestamp => "tostring(Item)".to_owned(),
            CqlType::Date => format!("\"'\" .. {} .. \"'\"", self.shown(&item)),
            CqlType::Time => {
                self.helpers.insert("show");
                "\"'\" .. show(Item, \"time\") .. \"'\"".to_owned()
            }
            CqlType::Inet => {
                let shown = self.shown(&item);
                format!("\"'\" .. string.sub({shown}, 2) .. \"'\"")
            }
            CqlType::Blob => self.helper("tell_blob", &["Item"]),
            CqlType::List { element, .. } => {
                let element = self.teller(element);
                return self.helper("tell_items", &["\"[\"", "\"]\"", "false", &element]);
            }
            CqlType::Set { element, .. } => {
                let element = self.teller(element);
                return self.helper("tell_items", &["\"{\"", "\"}\"", "true", &element]);
            }
            CqlType::Map { key, value, .. } => {
                let (key, value) = (self.teller(key), self.teller(value));
                return self.helper("tell_items", &["\"{\"", "\"}\"", "true", &key, &value]);
            }
            _ => self.shown(&item),
        };
        format!("function(Item) if Item == nil then return \"NULL\" end return {code} end")
    }

    /// `hashCode()`, if it is known.
    pub(super) fn hash(&mut self, ty: &Type, value: &str) -> Option<Expression> {
        let code = match ty {
            Type::List(item) => {
                let item = self.hasher(item)?;
                self.helper("hash_list", &[value, &item])
            }
            Type::Set(item) => {
                let item = self.hasher(item)?;
                self.helper("hash_set", &[value, &item])
            }
            Type::Map(key, of) => {
                let (key, of) = (self.hasher(key)?, self.hasher(of)?);
                self.helper("hash_map", &[value, &key, &of])
            }
            Type::Entry(key, of) => {
                let (key, of) = (self.hasher(key)?, self.hasher(of)?);
                format!("({key}({value}[1]) ~ {of}({value}[2]))")
            }
            Type::Other(CqlType::Blob) => self.helper("hash_buffer", &[value]),
            Type::Optional(of) => format!("{}({value}[1])", self.hasher(of)?),
            ty => self.helper("hash", &[value, kind_of_hash(ty)?]),
        };
        Some(Expression::new(Type::Int, code))
    }

    /// The function of Lua that has the hash of values of a type, 0 of null.
    fn hasher(&mut self, ty: &Type) -> Option<String> {
        if *ty == Type::Other(CqlType::Blob) {
            return None;
        }
        let hash = self.hash(ty, "Item")?.code;
        let code = format!("if Item == nil then return 0 end return {hash}");
        Some(format!("(function(Item) {code} end)"))
    }
}
