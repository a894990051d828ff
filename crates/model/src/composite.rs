//! Values that are made of several, as clients of Thrift had them, and as CQL has them where a column's
//! type is the name of a Java class (`AbstractCompositeType`, `CompositeType`, `DynamicCompositeType`).
//!
//! A value is a row of components; an empty one has none.
//!
//! ```text
//! component    [type] length: u16, bytes, end: u8
//! type         0x80, alias: u8  or  length: u16, class name
//! ```
//!
//! Which type a component has, the composite says (it may have fewer components than types), or the
//! component itself, where it is a dynamic one. The end is 0 but for the last component: there others
//! were bounds of what Thrift read, and sort, as signed numbers, before and behind. A `CompositeType`
//! that begins with `0xffff` is what columns of statics began with, and comes before the others.
//!
//! Where Cassandra fails on bytes that are no components, those come before what components could stand
//! there, and are ordered by their bytes.

use std::borrow::Cow;
use std::cmp::Ordering;

use crate::byte_comparable::{END, NEXT, NEXT_NULL, write_escaped, write_ordered};
use crate::key::{escape, split, unescape};
use crate::value::refuse;
use crate::{CqlType, Order, ValueError};

/// Before the components of what was static (`CompositeType.STATIC_MARKER`).
const STATIC: [u8; 2] = [0xff, 0xff];

/// Of the length of a class name: an alias follows instead.
const ALIAS: u8 = 0x80;

/// The longest class name in a value.
const MAX_NAME: usize = 0x7fff;

/// In the byte-comparable form: what follows are no components. It comes before all that does.
const BROKEN: u8 = 0x3c;

/// The type of a component, and whether its values are sorted downwards (`ReversedType`).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ComponentType {
    /// Its type.
    pub ty: CqlType,
    /// Its direction.
    pub order: Order,
}

impl ComponentType {
    /// The names of classes by which components of unlike types are ordered: of the type, and of what
    /// is in it where that is reversed.
    fn class_names(&self) -> (&str, &str) {
        let name = self.ty.class_name();
        match self.order {
            Order::Ascending => (name, name),
            Order::Descending => ("ReversedType", name),
        }
    }
}

/// Of which types the components of a composite are.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Composite {
    /// `CompositeType(type, …)`: of these, as many as there are.
    Fixed(Vec<ComponentType>),
    /// `DynamicCompositeType(alias=>type, …)`: each says its own, by the name of a class or an alias.
    Dynamic(Vec<(u8, ComponentType)>),
}

impl Composite {
    /// A dynamic composite: of several types of one alias the last one counts, and they are in the
    /// order in which Java's `HashMap` has them, as that is how Cassandra writes them down.
    pub fn dynamic(aliases: impl IntoIterator<Item = (u8, ComponentType)>) -> Composite {
        let mut found: Vec<(u8, ComponentType)> = Vec::new();
        for (alias, ty) in aliases {
            match found.iter_mut().find(|(known, _)| *known == alias) {
                Some((_, known)) => *known = ty,
                None => found.push((alias, ty)),
            }
        }
        let mut buckets = 16;
        while found.len() > buckets / 4 * 3 {
            buckets *= 2;
        }
        found.sort_by_key(|(alias, _)| usize::from(*alias) % buckets);
        Composite::Dynamic(found)
    }

    /// What a partition key of several columns of these types is one value of.
    pub fn of_key(types: &[&CqlType]) -> Composite {
        let component = |ty: &&CqlType| ComponentType {
            ty: CqlType::clone(ty),
            order: Order::Ascending,
        };
        Composite::Fixed(types.iter().map(component).collect())
    }

    /// The types, those of a dynamic one that have an alias.
    pub fn types(&self) -> impl Iterator<Item = &CqlType> {
        let (fixed, aliases): (&[ComponentType], &[(u8, ComponentType)]) = match self {
            Composite::Fixed(types) => (types, &[]),
            Composite::Dynamic(aliases) => (&[], aliases),
        };
        let aliased = aliases.iter().map(|(_, component)| component);
        fixed.iter().chain(aliased).map(|component| &component.ty)
    }

    /// With other types in the place of these.
    pub fn map_types(&self, mut of: impl FnMut(&CqlType) -> CqlType) -> Composite {
        let mut component = |component: &ComponentType| ComponentType {
            ty: of(&component.ty),
            order: component.order,
        };
        match self {
            Composite::Fixed(types) => Composite::Fixed(types.iter().map(component).collect()),
            Composite::Dynamic(aliases) => {
                let aliases = aliases.iter();
                Composite::Dynamic(aliases.map(|(alias, ty)| (*alias, component(ty))).collect())
            }
        }
    }

    /// Are values of `other` values of this one, if `fits` says for a pair of types that those of the
    /// second are values of the first? There may be more types here (`isCompatibleWith`,
    /// `isValueCompatibleWith`).
    pub fn extends(
        &self,
        other: &Composite,
        fits: impl Fn(&ComponentType, &ComponentType) -> bool,
    ) -> bool {
        match (self, other) {
            (Composite::Fixed(own), Composite::Fixed(others)) => {
                let mut pairs = own.iter().zip(others);
                own.len() >= others.len() && pairs.all(|(own, other)| fits(own, other))
            }
            // Another type of an alias would not be that of its class where it is named.
            (Composite::Dynamic(own), Composite::Dynamic(others)) => {
                others.iter().all(|other| own.contains(other))
            }
            _ => false,
        }
    }

    fn components<'a>(&'a self, value: &'a [u8]) -> Components<'a> {
        let statics = match self {
            Composite::Fixed(_) => value.strip_prefix(&STATIC),
            Composite::Dynamic(_) => None,
        };
        Components {
            composite: self,
            is_static: statics.is_some(),
            rest: statics.unwrap_or(value),
            count: 0,
        }
    }

    /// The type of an alias of a dynamic composite.
    fn aliased(&self, alias: u8) -> Option<&ComponentType> {
        match self {
            Composite::Fixed(_) => None,
            Composite::Dynamic(aliases) => {
                let mut aliases = aliases.iter();
                aliases.find_map(|(known, ty)| (*known == alias).then_some(ty))
            }
        }
    }

    /// Refuses bytes that are no value (`AbstractCompositeType.validate`).
    pub(crate) fn validate(&self, value: &[u8]) -> Result<(), ValueError> {
        let mut components = self.components(value);
        for i in 0.. {
            let Some(component) = components.next() else {
                break;
            };
            let component = component.map_err(|broken| broken.reason)?;
            component.ty.ty.validate(component.value)?;
            match component.end {
                None => {
                    return refuse!(
                        "Not enough bytes to read the end-of-component byte of component{i}"
                    );
                }
                Some(end) if end != 0 && !components.rest.is_empty() => {
                    return refuse!(
                        "Invalid bytes remaining after an end-of-component at component{i}"
                    );
                }
                Some(_) => {}
            }
        }
        Ok(())
    }

    /// The order of two values (`AbstractCompositeType.compareCustom`).
    pub(crate) fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        if a.is_empty() || b.is_empty() {
            return a.len().min(1).cmp(&b.len().min(1));
        }
        let (mut left, mut right) = (self.components(a), self.components(b));
        let statics_first = right.is_static.cmp(&left.is_static);
        if statics_first.is_ne() {
            return statics_first;
        }
        loop {
            let ordering = match (left.next_whole(), right.next_whole()) {
                (None, None) => return Ordering::Equal,
                (None, Some(_)) => Ordering::Less,
                (Some(_), None) => Ordering::Greater,
                (Some(Ok(a)), Some(Ok(b))) => a.compare(&b),
                (Some(Ok(_)), Some(Err(_))) => Ordering::Greater,
                (Some(Err(_)), Some(Ok(_))) => Ordering::Less,
                (Some(Err(a)), Some(Err(b))) => a.cmp(b),
            };
            if ordering.is_ne() {
                return ordering;
            }
        }
    }

    /// Appends the byte-comparable form of a value, if it has one: a `CompositeType` has none of an
    /// empty value (`CompositeType.asComparableBytes`, `DynamicCompositeType.asComparableBytes`).
    ///
    /// An empty value of a reversed type comes behind the others, as they are compared; Cassandra puts it
    /// before them here.
    pub(crate) fn write_byte_comparable(&self, value: &[u8], out: &mut Vec<u8>) -> bool {
        let is_dynamic = matches!(self, Composite::Dynamic(_));
        if value.is_empty() && !is_dynamic {
            return false;
        }
        let mut components = self.components(value);
        out.push(if components.is_static {
            NEXT_NULL
        } else {
            NEXT
        });
        while let Some(component) = components.next_whole() {
            match component {
                Ok(component) => {
                    if is_dynamic {
                        component.write_class(out);
                    }
                    component.write_value(out);
                    out.extend([NEXT, component.end_byte() ^ 0x80]);
                }
                Err(rest) => {
                    out.push(BROKEN);
                    write_escaped(out, rest);
                }
            }
        }
        out.push(END);
        true
    }

    /// The value of a text: components with colons between them, a colon within one behind a backslash,
    /// the name of its type and an `@` before each of a dynamic composite; `!` or `_` at the end for an
    /// end of 1 or -1 (`AbstractCompositeType.fromString`).
    pub(crate) fn parse(&self, text: &str) -> Result<Vec<u8>, ValueError> {
        let mut out = Vec::new();
        for (i, part) in split(text).into_iter().enumerate() {
            let end = match part {
                "!" => 1,
                "_" => 0xff,
                _ => {
                    self.parse_component(i, part, &mut out)?;
                    continue;
                }
            };
            match out.last_mut() {
                Some(last) => *last = end,
                None => return refuse!("There is no component before the end in '{text}'"),
            }
            break;
        }
        Ok(out)
    }

    fn parse_component(&self, i: usize, part: &str, out: &mut Vec<u8>) -> Result<(), ValueError> {
        let (ty, text) = match self {
            Composite::Fixed(types) => match types.get(i) {
                Some(ty) => (Cow::Borrowed(ty), part),
                None => {
                    return refuse!("Too many components: the type has only {}", types.len());
                }
            },
            Composite::Dynamic(_) => {
                let (name, text) = split_name(part)?;
                (self.write_name(name, out)?, text)
            }
        };
        let value = ty.ty.parse_string(&unescape(text))?;
        ty.ty.validate(&value)?;
        let Ok(len) = u16::try_from(value.len()) else {
            return refuse!("A component of {} bytes is too long", value.len());
        };
        out.extend(len.to_be_bytes());
        out.extend(&value);
        out.push(0);
        Ok(())
    }

    /// Appends the name of a type, an alias if it is one, and says which it is.
    fn write_name(
        &self,
        name: &str,
        out: &mut Vec<u8>,
    ) -> Result<Cow<'_, ComponentType>, ValueError> {
        if let [alias] = *name.as_bytes()
            && let Some(ty) = self.aliased(alias)
        {
            out.extend([ALIAS, alias]);
            return Ok(Cow::Borrowed(ty));
        }
        if name.len() > MAX_NAME {
            return refuse!("The name of a type of {} bytes is too long", name.len());
        }
        let ty = CqlType::component_from_marshal(name);
        let ty = ty.map_err(|error| ValueError::new(error.to_string()))?;
        out.extend((name.len() as u16).to_be_bytes());
        out.extend(name.as_bytes());
        Ok(Cow::Owned(ty))
    }

    /// The texts of the components each; `None` for bytes that are no value.
    pub fn component_texts(&self, value: &[u8]) -> Option<Vec<String>> {
        let mut components = self.components(value);
        let texts = std::iter::from_fn(|| components.next_whole()).map(|component| {
            let component = component.ok()?;
            Some(component.ty.ty.format_string(component.value))
        });
        texts.collect()
    }

    /// The text that [`Composite::parse`] reads (`AbstractCompositeType.getString`); `None` for bytes that
    /// are no value.
    pub(crate) fn format(&self, value: &[u8]) -> Option<String> {
        let is_dynamic = matches!(self, Composite::Dynamic(_));
        let mut texts = Vec::new();
        let mut components = self.components(value);
        while let Some(component) = components.next_whole() {
            let component = component.ok()?;
            let text = escape(&component.ty.ty.format_string(component.value));
            texts.push(match is_dynamic {
                true => format!("{}@{text}", String::from_utf8_lossy(component.name)),
                false => text,
            });
            match component.end_byte() {
                0 => continue,
                1..0x80 => texts.push("!".to_owned()),
                0x80.. => texts.push("_".to_owned()),
            }
            break;
        }
        Some(texts.join(":"))
    }
}

/// The name of a type before the value; without an `@` the value is empty. As Java's `String.split` does
/// it, which forgets empty texts at the end.
fn split_name(part: &str) -> Result<(&str, &str), ValueError> {
    let mut pieces: Vec<&str> = part.split('@').collect();
    if pieces.len() > 1 {
        while pieces.pop_if(|piece| piece.is_empty()).is_some() {}
    }
    match pieces[..] {
        [name] => Ok((name, "")),
        [name, value] => Ok((name, value)),
        _ => refuse!("Invalid component representation: {part}"),
    }
}

/// A component as it lies in a value.
struct Component<'a> {
    ty: Cow<'a, ComponentType>,
    /// Its type's alias or class name, of a dynamic composite.
    name: &'a [u8],
    value: &'a [u8],
    /// `None` where the value ends before.
    end: Option<u8>,
}

impl Component<'_> {
    fn end_byte(&self) -> u8 {
        self.end.unwrap_or(0)
    }

    /// Unlike types by the names of their classes. Of one class with other types in it Cassandra
    /// compares as the first one does, which is no order: here by their byte-comparable forms.
    fn compare(&self, other: &Component<'_>) -> Ordering {
        let by_value = || match (&self.ty, &other.ty) {
            (a, b) if a != b => {
                let (mut left, mut right) = (Vec::new(), Vec::new());
                self.write_value(&mut left);
                other.write_value(&mut right);
                left.cmp(&right)
            }
            (ty, _) => match ty.order {
                Order::Ascending => ty.ty.compare(self.value, other.value),
                Order::Descending => ty.ty.compare(other.value, self.value),
            },
        };
        let by_class = self.ty.class_names().cmp(&other.ty.class_names());
        let by_end = || (self.end_byte() as i8).cmp(&(other.end_byte() as i8));
        by_class.then_with(by_value).then_with(by_end)
    }

    fn write_value(&self, out: &mut Vec<u8>) {
        write_ordered(out, &self.ty.ty, self.ty.order, self.value, NEXT_NULL);
    }

    fn write_class(&self, out: &mut Vec<u8>) {
        let (outer, class) = self.ty.class_names();
        let full_name = self.ty.ty.full_class_name();
        let reversed = (outer != class).then_some(outer);
        for name in reversed.into_iter().chain([class, &full_name]) {
            out.push(NEXT);
            write_escaped(out, name.as_bytes());
        }
    }
}

/// Where no components are.
struct Broken<'a> {
    rest: &'a [u8],
    reason: ValueError,
}

struct Components<'a> {
    composite: &'a Composite,
    is_static: bool,
    rest: &'a [u8],
    count: usize,
}

impl<'a> Components<'a> {
    /// The next component, or what is left and is none.
    fn next_whole(&mut self) -> Option<Result<Component<'a>, &'a [u8]>> {
        let before = self.rest;
        Some(match self.next()? {
            Ok(component) if component.end.is_some() => Ok(component),
            Ok(_) => Err(before),
            Err(broken) => Err(broken.rest),
        })
    }

    fn read(&mut self) -> Result<Component<'a>, ValueError> {
        let i = self.count;
        self.count += 1;
        let (ty, name) = self.read_type(i)?;
        let Some((len, rest)) = self.rest.split_first_chunk::<2>() else {
            return refuse!("Not enough bytes to read value size of component {i}");
        };
        let len = usize::from(u16::from_be_bytes(*len));
        let Some((value, rest)) = rest.split_at_checked(len) else {
            return refuse!("Not enough bytes to read value of component {i}");
        };
        let end = rest.first().copied();
        self.rest = rest.get(1..).unwrap_or_default();
        Ok(Component {
            ty,
            name,
            value,
            end,
        })
    }

    /// What type the component has, and the name that says it.
    fn read_type(&mut self, i: usize) -> Result<(Cow<'a, ComponentType>, &'a [u8]), ValueError> {
        if let Composite::Fixed(types) = self.composite {
            return match types.get(i) {
                Some(ty) => Ok((Cow::Borrowed(ty), &[])),
                None => refuse!("Too many bytes for comparator"),
            };
        }
        let unknown = || ValueError::new(format!("Cannot find comparator for component {i}"));
        let Some((header, rest)) = self.rest.split_first_chunk::<2>() else {
            return refuse!("Not enough bytes to header of the comparator part of component {i}");
        };
        if header[0] & ALIAS != 0 {
            self.rest = rest;
            let ty = self.composite.aliased(header[1]).ok_or_else(unknown)?;
            return Ok((Cow::Borrowed(ty), &header[1..]));
        }
        let len = usize::from(u16::from_be_bytes(*header));
        let Some((name, rest)) = rest.split_at_checked(len) else {
            return refuse!("Not enough bytes to read comparator name of component {i}");
        };
        self.rest = rest;
        let text = std::str::from_utf8(name).map_err(|_| unknown())?;
        let ty = CqlType::component_from_marshal(text).map_err(|_| unknown())?;
        Ok((Cow::Owned(ty), name))
    }
}

impl<'a> Iterator for Components<'a> {
    type Item = Result<Component<'a>, Broken<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        let before = self.rest;
        if before.is_empty() {
            return None;
        }
        Some(self.read().map_err(|reason| {
            self.rest = &[];
            Broken {
                rest: before,
                reason,
            }
        }))
    }
}
