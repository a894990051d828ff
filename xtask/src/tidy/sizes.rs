//! Files and functions that have grown too large hide a second concept.

use syn::visit::{self, Visit};

use super::{Report, SourceFile};

/// From here on a file is listed, and from the second number on refused; in lines.
const FILE: (usize, usize) = (600, 1000);
/// The same for functions.
const FUNCTION: (usize, usize) = (70, 150);

pub(crate) fn check(files: &[SourceFile], report: &mut Report) {
    for file in files
        .iter()
        .filter(|f| f.path.extension().is_some_and(|e| e == "rs"))
    {
        let path = file.path.display();
        let lines = file.text.lines().count();
        judge(FILE, lines, || format!("{path} has {lines} lines"), report);
        match syn::parse_file(&file.text) {
            Ok(parsed) => {
                let mut functions = Functions::default();
                functions.visit_file(&parsed);
                for (name, line, lines) in functions.found {
                    let what = || format!("{path}:{line}: function `{name}` has {lines} lines");
                    judge(FUNCTION, lines, what, report);
                }
            }
            Err(error) => report
                .faults
                .push(format!("{path} does not parse: {error}")),
        }
    }
}

fn judge(
    (listed, refused): (usize, usize),
    lines: usize,
    what: impl Fn() -> String,
    report: &mut Report,
) {
    if lines > refused {
        let fault = format!(
            "{} (at most {refused}): look for the second concept in it",
            what()
        );
        report.faults.push(fault);
    } else if lines > listed {
        report
            .remarks
            .push(format!("{} (better at most {listed})", what()));
    }
}

/// Name, first line and number of lines of each function with a body.
#[derive(Default)]
struct Functions {
    found: Vec<(String, usize, usize)>,
}

impl Functions {
    fn add(&mut self, signature: &syn::Signature, body: &syn::Block) {
        let start = signature.fn_token.span.start().line;
        let end = body.brace_token.span.close().end().line;
        let name = signature.ident.to_string();
        self.found.push((name, start, end + 1 - start));
    }
}

impl<'ast> Visit<'ast> for Functions {
    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        self.add(&function.sig, &function.block);
        visit::visit_item_fn(self, function);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        self.add(&function.sig, &function.block);
        visit::visit_impl_item_fn(self, function);
    }

    fn visit_trait_item_fn(&mut self, function: &'ast syn::TraitItemFn) {
        if let Some(body) = &function.default {
            self.add(&function.sig, body);
        }
        visit::visit_trait_item_fn(self, function);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(name: &str, text: String) -> Report {
        let mut report = Report::default();
        let path = name.into();
        check(&[SourceFile { path, text }], &mut report);
        report
    }

    fn function(lines: usize) -> String {
        format!("fn long() {{\n{}}}\n", "    one();\n".repeat(lines - 2))
    }

    #[test]
    fn lines_of_functions_count_from_signature_to_brace() {
        let report = checked("a.rs", function(70));
        assert!(report.remarks.is_empty() && report.faults.is_empty());
        let report = checked(
            "a.rs",
            format!("/// About it.\n#[inline]\n{}", function(71)),
        );
        assert_eq!(report.remarks.len(), 1);
        assert!(report.remarks[0].contains("a.rs:3: function `long` has 71 lines"));
        assert_eq!(checked("a.rs", function(151)).faults.len(), 1);
        let method = format!("struct S; impl S {{\nmod_me!();\n{}}}", function(151));
        assert_eq!(checked("a.rs", method).faults.len(), 1);
    }

    #[test]
    fn long_files_are_listed_and_then_refused() {
        assert_eq!(checked("a.rs", "//\n".repeat(601)).remarks.len(), 1);
        assert_eq!(checked("a.rs", "//\n".repeat(1001)).faults.len(), 1);
        assert!(checked("a.md", "-\n".repeat(1001)).faults.is_empty());
    }

    #[test]
    fn what_does_not_parse_is_a_fault() {
        assert_eq!(checked("a.rs", "fn (".to_owned()).faults.len(), 1);
    }
}
