//! JSON with the line breaks of `sstabledump`: Jackson's `DefaultPrettyPrinter` with indenters
//! that can be told to stay on the line (`JsonTransformer.CompactIndenter`), or its
//! `MinimalPrettyPrinter` for JSON lines.

use model::json_string;

/// Writes JSON. Whether what follows stays on the line is a switch of its own for objects and for
/// arrays, and counts at the moment when something is written, as in Jackson.
pub(super) struct Pretty {
    out: String,
    /// No blanks and no line breaks at all, but one between the values of the root.
    minimal: bool,
    /// Do the members of objects stay on the line?
    pub(super) objects_compact: bool,
    /// Do the elements of arrays stay on the line?
    pub(super) arrays_compact: bool,
    /// The objects and arrays that are open: is it an object, and how much it holds.
    open: Vec<(bool, usize)>,
    /// Was a name written whose value is to come?
    named: bool,
    roots: usize,
}

impl Pretty {
    pub(super) fn new(minimal: bool) -> Pretty {
        Pretty {
            out: String::new(),
            minimal,
            objects_compact: false,
            arrays_compact: false,
            open: Vec::new(),
            named: false,
            roots: 0,
        }
    }

    /// What was written since the last call.
    pub(super) fn take(&mut self) -> String {
        std::mem::take(&mut self.out)
    }

    /// How much waits to be taken, in bytes.
    pub(super) fn len(&self) -> usize {
        self.out.len()
    }

    fn indent(&mut self, of_object: bool) {
        let compact = if of_object {
            self.objects_compact
        } else {
            self.arrays_compact
        };
        if self.minimal {
            return;
        }
        if compact {
            self.out.push(' ');
            return;
        }
        self.out.push('\n');
        for _ in 0..self.open.len() {
            self.out.push_str("  ");
        }
    }

    /// Goes to the place of the next value.
    fn place(&mut self) {
        if std::mem::take(&mut self.named) {
            return;
        }
        match self.open.last_mut() {
            None => {
                if self.roots > 0 {
                    self.out.push('\n');
                }
                self.roots += 1;
            }
            Some((is_object, count)) => {
                debug_assert!(!*is_object, "a member has a name");
                *count += 1;
                if *count > 1 {
                    self.out.push(',');
                }
                self.indent(false);
            }
        }
    }

    pub(super) fn name(&mut self, name: &str) {
        if let Some((_, count)) = self.open.last_mut() {
            *count += 1;
            if *count > 1 {
                self.out.push(',');
            }
        }
        self.indent(true);
        self.out.push_str(&json_string(name));
        self.out.push_str(if self.minimal { ":" } else { " : " });
        self.named = true;
    }

    /// Text that is JSON already.
    pub(super) fn raw(&mut self, json: &str) {
        self.place();
        self.out.push_str(json);
    }

    pub(super) fn string(&mut self, text: &str) {
        self.raw(&json_string(text));
    }

    pub(super) fn begin_object(&mut self) {
        self.begin('{', true);
    }

    pub(super) fn end_object(&mut self) {
        self.end('}');
    }

    pub(super) fn begin_array(&mut self) {
        self.begin('[', false);
    }

    pub(super) fn end_array(&mut self) {
        self.end(']');
    }

    fn begin(&mut self, bracket: char, is_object: bool) {
        self.place();
        self.out.push(bracket);
        self.open.push((is_object, 0));
    }

    fn end(&mut self, bracket: char) {
        if let Some((is_object, count)) = self.open.pop() {
            if count > 0 {
                self.indent(is_object);
            } else if !self.minimal {
                self.out.push(' ');
            }
        }
        self.out.push(bracket);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn switches_count_when_something_is_written() {
        let mut json = Pretty::new(false);
        json.begin_array();
        json.begin_object();
        json.name("a");
        json.objects_compact = true;
        json.begin_object();
        json.name("b");
        json.raw("1");
        json.end_object();
        json.objects_compact = false;
        json.name("c");
        json.begin_array();
        json.end_array();
        json.end_object();
        json.end_array();
        let expected = "[\n  {\n    \"a\" : { \"b\" : 1 },\n    \"c\" : [ ]\n  }\n]";
        assert_eq!(json.take(), expected);
    }

    #[test]
    fn minimal_has_lines_at_the_root_only() {
        let mut json = Pretty::new(true);
        for _ in 0..2 {
            json.begin_object();
            json.name("a");
            json.begin_array();
            json.string("x\n");
            json.string("y");
            json.end_array();
            json.end_object();
        }
        assert_eq!(
            json.take(),
            "{\"a\":[\"x\\n\",\"y\"]}\n{\"a\":[\"x\\n\",\"y\"]}"
        );
    }
}
