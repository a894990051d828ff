//! Functions in Java do what Java does.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use lua::{Engine, Limits, Progress};
use model::{CqlType, UserFunction, UserType, collection};

fn engine() -> Engine {
    let limits = Limits {
        call: Duration::from_secs(5),
        unyielding: Duration::from_secs(5),
        turn: Duration::from_secs(5),
        memory_bytes: 8 << 20,
    };
    Engine::new(limits, || Duration::ZERO)
}

fn function(body: &str, takes: &[CqlType], gives: &CqlType) -> UserFunction {
    let names = ["a", "b", "end"];
    UserFunction {
        keyspace: "k".into(),
        name: "f".into(),
        argument_names: names
            .iter()
            .take(takes.len())
            .map(|n| (*n).into())
            .collect(),
        argument_types: takes.to_vec(),
        return_type: gives.clone(),
        called_on_null_input: true,
        language: "java".into(),
        body: body.into(),
    }
}

fn call_bytes(
    body: &str,
    takes: &[CqlType],
    values: &[Option<Bytes>],
    gives: &CqlType,
) -> Result<Option<Bytes>, String> {
    call_function(function(body, takes, gives), values)
}

fn call_function(
    function: UserFunction,
    values: &[Option<Bytes>],
) -> Result<Option<Bytes>, String> {
    let function = Arc::new(function);
    engine().check(&function)?;
    match engine().call(&function, values, false)? {
        Progress::Value(value) => Ok(value),
        Progress::Suspended(run) => panic!("{run:?} cannot give way"),
    }
}

/// The result as text, of arguments as text.
fn call(body: &str, arguments: &[(&str, CqlType)], gives: CqlType) -> String {
    call_as(true, body, arguments, gives)
}

/// As [`call`], of a function that null is passed on to, or of one that returns null on null.
fn call_as(
    called_on_null_input: bool,
    body: &str,
    arguments: &[(&str, CqlType)],
    gives: CqlType,
) -> String {
    let value = |(text, ty): &(&str, CqlType)| match *text {
        "null" => None,
        text => Some(ty.parse_string(text).expect("a value")),
    };
    let values: Vec<Option<Bytes>> = arguments.iter().map(value).collect();
    let takes: Vec<CqlType> = arguments.iter().map(|(_, ty)| ty.clone()).collect();
    let function = UserFunction {
        called_on_null_input,
        ..function(body, &takes, &gives)
    };
    match call_function(function, &values) {
        Ok(Some(value)) => gives.format_string(&value),
        Ok(None) => "null".to_owned(),
        Err(error) => format!("! {error}"),
    }
}

#[test]
fn numbers_are_those_of_java() {
    use CqlType::{Bigint, Double, Float, Int, Text, Tinyint};
    let int = |body: &str, a: &str, b: &str| call(body, &[(a, Int), (b, Int)], Int);
    assert_eq!(int("return a + b;", "2147483647", "1"), "-2147483648");
    assert_eq!(int("return a / b;", "-7", "2"), "-3");
    assert_eq!(int("return a % b;", "-7", "2"), "-1");
    assert_eq!(
        int("return a / b;", "1", "0"),
        "! java.lang.ArithmeticException: / by zero"
    );
    assert_eq!(
        int("return a + b;", "1", "null"),
        "! java.lang.NullPointerException"
    );
    assert_eq!(int("return a * 2 - -b;", "3", "4"), "10");
    assert_eq!(int("return Math.max(a, b) & 0x6;", "3", "7"), "6");
    assert_eq!(int("return (int) (a / 2.0 + b);", "5", "1"), "3");
    assert_eq!(int("a += 1.7; a++; --b; return a * b;", "1", "4"), "9");
    assert_eq!(int("return b == null ? -1 : a;", "1", "null"), "-1");
    let bigint = |body: &str, a: &str| call(body, &[(a, Bigint)], Bigint);
    assert_eq!(
        bigint("return a + 1;", "9223372036854775807"),
        "-9223372036854775808"
    );
    assert_eq!(
        bigint("return a == 3L ? Long.MAX_VALUE : 0;", "3"),
        "9223372036854775807"
    );
    assert_eq!(bigint("return Math.round(2.5) + a.intValue();", "4"), "7");
    let double = |body: &str, a: &str| call(body, &[(a, Double)], Double);
    assert_eq!(double("return Math.sqrt(a) / 0;", "4.0"), "Infinity");
    assert_eq!(
        double(
            "double r = 0; r = 7; r /= 2; return Double.valueOf(r);",
            "0"
        ),
        "3.5"
    );
    assert_eq!(
        call("return (byte) (a + 200);", &[("100", Int)], Tinyint),
        "44"
    );
    assert!(call("return a / 3;", &[("1", Float)], Text).starts_with("! Line 1: Type mismatch"));
    assert_eq!(
        call(
            "return \"\" + a / 3 + ' ' + 1.0 / 3;",
            &[("1", Float)],
            Text
        ),
        "0.33333334 0.3333333333333333"
    );
    let shown = "return \"\" + 100.0 + \" \" + 1.0E7 + \" \" + 0.001 + \" \" + 1.5e-5 + a + (char) 65 + 'b' + true;";
    assert_eq!(
        call(shown, &[("null", Int)], Text),
        "100.0 1.0E7 0.001 1.5E-5nullAbtrue"
    );
}

#[test]
fn statements_run() {
    use CqlType::{Int, Text};
    let int = |body: &str, a: &str| call(body, &[(a, Int)], Int);
    let sum = "int s = 0; for (int i = 1; i <= a; i++) { if (i % 2 == 0) continue; if (i > 7) break; s += i; } return s;";
    assert_eq!(int(sum, "100"), "16");
    assert_eq!(
        int(
            "int i = 0; while (true) { if (++a > 10) return i; i++; }",
            "4"
        ),
        "6"
    );
    assert_eq!(
        int(
            "int i = 0; while (true) { a++; if (a > 10) return i; i++; }",
            "4"
        ),
        "6"
    );
    assert_eq!(
        int(
            "if (a > 1) return 1; else if (a == 1) { return 2; } else return 3;",
            "1"
        ),
        "2"
    );
    assert_eq!(
        int("throw new IllegalStateException(\"no \" + a);", "1"),
        "! java.lang.IllegalStateException: no 1"
    );
    let text = "StringBuilder b = new StringBuilder(); for (int i = 0; i < 3; i++) b.append(a.charAt(i)).append(i); return b.toString();";
    assert_eq!(call(text, &[("xyzé", Text)], Text), "x0y1z2");
    let texts = "return a.substring(1, 3).toUpperCase() + a.indexOf(\"é\") + a.length() + a.replace(\"y\", \"--\") + a.equals(\"xyzé\");";
    assert_eq!(call(texts, &[("xyzé", Text)], Text), "YZ34x--zétrue");
    // Boxes as they were made before `valueOf`.
    let boxes = "return new String(\"n\") + new Integer(a) + new Long(2) + new Double(0.5) + new Boolean(true) + new Integer(\"7\");";
    assert_eq!(call(boxes, &[("1", Int)], Text), "n120.5true7");
    let at_once = "java.util.List<Integer> l = java.util.Arrays.asList(a, 5); int s = 0; for (int i : List.of(1, 2)) s += i; return s + l.get(1) + Collections.singletonMap(\"k\", a).get(\"k\") + new java.util.HashSet<Integer>(Arrays.asList(a, a, 9)).size();";
    assert_eq!(int(at_once, "20"), "30");
    assert_eq!(int("return Collections.emptyList().size();", "1"), "0");
    assert_eq!(
        int("return List.of(a).size();", "null"),
        "! java.lang.NullPointerException"
    );
    let nothing = "Object o = null; return o.toString();";
    assert_eq!(
        call(nothing, &[("1", Int)], Text),
        "! java.lang.NullPointerException"
    );
    let set = "java.util.Set<Integer> s = new java.util.LinkedHashSet<Integer>(); s.add(a); return s.toString();";
    assert_eq!(
        call(set, &[("1", Int)], Text),
        "! java.lang.UnsupportedOperationException: collections, tuples and user types have no text here"
    );
    // Names that are words of Lua.
    assert_eq!(
        call(
            "int local = end + a; /* no\n */ return local; // done",
            &[("1", Int), ("2", Int), ("3", Int)],
            Int
        ),
        "4"
    );
}

#[test]
fn mistakes_are_found_when_it_is_made() {
    use CqlType::Int;
    let int = |body: &str| call(body, &[("1", Int)], Int);
    assert_eq!(
        int("return x;"),
        "! Line 1: x cannot be resolved to a variable\n"
    );
    assert_eq!(
        int("\nreturn \"a\";"),
        "! Line 2: Type mismatch: cannot convert from String to Integer\n"
    );
    assert_eq!(
        int("return 5L;"),
        "! Line 1: Type mismatch: cannot convert from long to Integer\n"
    );
    assert_eq!(
        int("return a"),
        "! Line 1: Syntax error, insert \";\" to complete BlockStatements\n"
    );
    assert_eq!(
        int("a++;"),
        "! Line 1: This method must return a result of type Integer\n"
    );
    assert_eq!(
        int("int a = 1; return a;"),
        "! Line 1: Duplicate local variable a\n"
    );
    assert_eq!(
        int("synchronized (this) { return a; }"),
        "! Line 1: synchronized is not available in Helenus\n"
    );
    assert_eq!(
        int("return System.exit(1);"),
        "! Line 1: System cannot be resolved\n"
    );
    assert_eq!(
        int("return os.exit(1);"),
        "! Line 1: os cannot be resolved to a variable\n"
    );
}

/// Where null is not passed on, arguments and the result are `int` and the like, not `Integer`.
#[test]
fn values_are_no_objects_where_null_is_not_passed_on() {
    use CqlType::{Bigint, Boolean, Double, Float, Int, Text, Time, Timestamp, Tinyint};
    let refused = |why: &str| format!("! Line 1: {why}\n");
    let cases: &[(bool, (&str, CqlType), CqlType, &str, Result<&str, &str>)] = &[
        (
            false,
            ("1.5", Float),
            Text,
            "return a.toString();",
            Err("Cannot invoke toString() on the primitive type float"),
        ),
        (
            true,
            ("1.5", Float),
            Text,
            "return a.toString();",
            Ok("1.5"),
        ),
        (
            false,
            ("1", Int),
            Int,
            "return a.intValue();",
            Err("Cannot invoke intValue() on the primitive type int"),
        ),
        (
            false,
            ("1", Int),
            Int,
            "if (a == null) return 1; return 2;",
            Err("The operator == is undefined for the argument type(s) int, null"),
        ),
        (
            false,
            ("10:00:00", Time),
            Int,
            "return a == null ? 1 : 2;",
            Err("The operator == is undefined for the argument type(s) long, null"),
        ),
        (
            false,
            ("1970-01-01", Timestamp),
            Int,
            "return a == null ? 1 : 2;",
            Ok("2"),
        ),
        (
            false,
            ("1", Int),
            Int,
            "return null;",
            Err("Type mismatch: cannot convert from null to int"),
        ),
        (true, ("1", Int), Int, "return null;", Ok("null")),
        (false, ("1", Int), Text, "return null;", Ok("null")),
        (
            false,
            ("1", Int),
            Int,
            "return;",
            Err("This method must return a result of type int"),
        ),
        (
            false,
            ("1", Tinyint),
            Tinyint,
            "return a + 1;",
            Err("Type mismatch: cannot convert from int to byte"),
        ),
        (
            false,
            ("1", Tinyint),
            Tinyint,
            "return (byte)(a + 1);",
            Ok("2"),
        ),
        (false, ("1", Tinyint), Tinyint, "return 1;", Ok("1")),
        (true, ("1", Tinyint), Tinyint, "return 1;", Ok("1")),
        (true, ("null", Tinyint), Tinyint, "return a;", Ok("null")),
        (false, ("1", Int), Bigint, "return a;", Ok("1")),
        (
            true,
            ("1", Int),
            Bigint,
            "return a;",
            Err("Type mismatch: cannot convert from Integer to Long"),
        ),
        (false, ("1", Int), Double, "return a;", Ok("1.0")),
        (false, ("1", Int), Double, "return 1;", Ok("1.0")),
        (
            true,
            ("1", Int),
            Double,
            "return 1;",
            Err("Type mismatch: cannot convert from int to Double"),
        ),
        (
            false,
            ("1", Int),
            Int,
            "Integer b = null; return b;",
            Ok("! java.lang.NullPointerException"),
        ),
        (
            false,
            ("1", Int),
            Int,
            "return Integer.valueOf(a);",
            Ok("1"),
        ),
        (
            false,
            ("1", Int),
            Bigint,
            "return Integer.valueOf(a);",
            Ok("1"),
        ),
        (false, ("1", Int), Int, "return a > 5 ? null : a;", Ok("1")),
        (
            false,
            ("6", Int),
            Int,
            "return a > 5 ? null : a;",
            Ok("! java.lang.NullPointerException"),
        ),
        (
            true,
            ("6", Int),
            Int,
            "return a > 5 ? null : 1;",
            Ok("null"),
        ),
        (
            true,
            ("6", Int),
            Bigint,
            "return a > 5 ? null : 1;",
            Err("Type mismatch: cannot convert from Integer to Long"),
        ),
        (
            false,
            ("6", Int),
            Int,
            "a = null; return a;",
            Err("Type mismatch: cannot convert from null to int"),
        ),
        (
            false,
            ("6", Int),
            Int,
            "int b = null; return b;",
            Err("Type mismatch: cannot convert from null to int"),
        ),
        (
            true,
            ("6", Int),
            Int,
            "Integer b = a.intValue(); return b.intValue();",
            Ok("6"),
        ),
        (
            true,
            ("6", Int),
            Int,
            "int b = a; return b.intValue();",
            Err("Cannot invoke intValue() on the primitive type int"),
        ),
        (true, ("6", Int), Boolean, "return a.equals(6);", Ok("true")),
        (
            false,
            ("6", Int),
            Boolean,
            "return a.equals(6);",
            Err("Cannot invoke equals(int) on the primitive type int"),
        ),
        (false, ("6", Int), Boolean, "return a == 6.0;", Ok("true")),
        (
            true,
            ("null", Int),
            Boolean,
            "return a == 6;",
            Ok("! java.lang.NullPointerException"),
        ),
        (
            true,
            ("6", Int),
            Boolean,
            "Long b = 10L; return b.equals(10);",
            Ok("false"),
        ),
        (
            true,
            ("6", Int),
            Boolean,
            "Integer b = 10; Long d = 10L; return b == d;",
            Err("Incompatible operand types Integer and Long"),
        ),
        (
            true,
            ("6", Int),
            Bigint,
            "Long b = a; return b;",
            Err("Type mismatch: cannot convert from Integer to Long"),
        ),
        (true, ("6", Int), Bigint, "long b = a; return b;", Ok("6")),
        (
            true,
            ("6", Int),
            Int,
            "Integer b = 5L; return b;",
            Err("Type mismatch: cannot convert from long to Integer"),
        ),
        (
            false,
            ("6", Int),
            Text,
            "return (a + 1).toString();",
            Err("Cannot invoke toString() on the primitive type int"),
        ),
        (
            false,
            ("6", Int),
            Text,
            "return \"a\".length().toString();",
            Err("Cannot invoke toString() on the primitive type int"),
        ),
        (
            false,
            ("6", Int),
            Text,
            "return ((Integer) a).toString() + ((Object) a).toString();",
            Ok("66"),
        ),
        (
            false,
            ("true", Boolean),
            Boolean,
            "return a.booleanValue();",
            Err("Cannot invoke booleanValue() on the primitive type boolean"),
        ),
        (
            false,
            ("6", Int),
            Int,
            "return 5L;",
            Err("Type mismatch: cannot convert from long to int"),
        ),
        (
            false,
            ("6", Int),
            Int,
            "return a == true ? 1 : 0;",
            Err("The operator == is undefined for the argument type(s) int, boolean"),
        ),
        (
            false,
            ("6", Int),
            Int,
            "Integer b = a; return b.compareTo(5);",
            Ok("1"),
        ),
        (
            false,
            ("6", Int),
            Int,
            "List<Integer> l = new ArrayList<>(); l.add(a); for (Integer x : l) return x.intValue() + l.get(0).intValue(); return 0;",
            Ok("12"),
        ),
        (
            false,
            ("6", Int),
            Int,
            "List<Integer> l = new ArrayList<>(); l.add(a); for (int x : l) return x.intValue(); return 0;",
            Err("Cannot invoke intValue() on the primitive type int"),
        ),
    ];
    for (called_on_null, (value, ty), gives, body, expected) in cases {
        let result = call_as(*called_on_null, body, &[(value, ty.clone())], gives.clone());
        let expected = match expected {
            Ok(value) => (*value).to_owned(),
            Err(why) => refused(why),
        };
        assert_eq!(result, expected, "{body}");
    }
}

/// Bodies with an argument, and what they give.
fn check(cases: &[(&str, CqlType, CqlType, &str, &str)]) {
    for (value, ty, gives, body, expected) in cases {
        let result = call(body, &[(value, ty.clone())], gives.clone());
        assert_eq!(result, *expected, "{body}");
    }
}

#[test]
fn what_is_thrown_is_caught() {
    use CqlType::{Int, Text};
    check(&[
        (
            "0",
            Int,
            Int,
            "try { return 10 / a; } catch (ArithmeticException e) { return -1; }",
            "-1",
        ),
        (
            "0",
            Int,
            Text,
            "try { return \"\" + 10 / a; } catch (ArithmeticException e) { return e.getMessage(); }",
            "/ by zero",
        ),
        (
            "0",
            Int,
            Text,
            "try { return \"\" + 10 / a; } catch (ArithmeticException e) { return e.toString() + e; }",
            "java.lang.ArithmeticException: / by zerojava.lang.ArithmeticException: / by zero",
        ),
        (
            "0",
            Int,
            Text,
            "try { return \"\" + 10 / a; } catch (Exception e) { return \"\" + e; } finally { a = 5; }",
            "java.lang.ArithmeticException: / by zero",
        ),
        ("1", Int, Int, "try { return a; } finally { a = 5; }", "1"),
        (
            "1",
            Int,
            Int,
            "try { return a; } finally { return 9; }",
            "9",
        ),
        (
            "1",
            Int,
            Int,
            "int r = 0; try { r += 1; } finally { r += 10; } return r;",
            "11",
        ),
        (
            "1",
            Int,
            Int,
            "int r = 0; for (int i = 0; i < 5; i++) { try { if (i == 1) continue; if (i == 3) break; r += i; } finally { r += 100; } } return r;",
            "402",
        ),
        (
            "1",
            Int,
            Int,
            "try { throw new RuntimeException(\"x\"); } finally { a = 5; }",
            "! java.lang.RuntimeException: x",
        ),
        (
            "1",
            Int,
            Int,
            "throw new RuntimeException(\"x\");",
            "! java.lang.RuntimeException: x",
        ),
        (
            "1",
            Int,
            Int,
            "throw new RuntimeException();",
            "! java.lang.RuntimeException",
        ),
        (
            "1",
            Int,
            Int,
            "throw new IllegalArgumentException(\"bad \" + a);",
            "! java.lang.IllegalArgumentException: bad 1",
        ),
        (
            "1",
            Int,
            Int,
            "throw new Exception(\"x\");",
            "! Line 1: Unhandled exception type Exception\n",
        ),
        (
            "1",
            Int,
            Int,
            "throw new java.io.IOException(\"x\");",
            "! Line 1: Unhandled exception type IOException\n",
        ),
        (
            "1",
            Int,
            Int,
            "try { throw new Exception(\"x\"); } catch (Exception e) { return 1; }",
            "1",
        ),
        (
            "1",
            Int,
            Int,
            "try { throw new Exception(\"x\"); } catch (RuntimeException e) { return 1; }",
            "! Line 1: Unhandled exception type Exception\n",
        ),
        (
            "1",
            Int,
            Int,
            "try { return a; } catch (java.io.IOException e) { return 1; }",
            "! Line 1: Unreachable catch block for IOException. This exception is never thrown from the try statement body\n",
        ),
        (
            "1",
            Int,
            Int,
            "try { return a; } catch (Exception e) { return 1; } catch (RuntimeException e) { return 2; }",
            "! Line 1: Unreachable catch block for RuntimeException. It is already handled by the catch block for Exception\n",
        ),
        (
            "0",
            Int,
            Int,
            "try { return 1 / a; } catch (IllegalStateException | ArithmeticException e) { return 1; }",
            "1",
        ),
        (
            "null",
            Int,
            Text,
            "try { return a.toString(); } catch (NullPointerException e) { return \"npe\"; }",
            "npe",
        ),
        (
            "x",
            Text,
            Int,
            "try { return Integer.parseInt(a); } catch (NumberFormatException e) { return -1; }",
            "-1",
        ),
        (
            "x",
            Text,
            Text,
            "try { return \"\" + Integer.parseInt(a); } catch (NumberFormatException e) { return e.getMessage(); }",
            "For input string: \"x\"",
        ),
        (
            "null",
            Text,
            Text,
            "try { return \"\" + Integer.parseInt(a); } catch (NumberFormatException e) { return e.getMessage(); }",
            "Cannot parse null string",
        ),
        (
            "null",
            Text,
            Text,
            "try { return \"\" + Integer.parseInt(a); } catch (IllegalArgumentException e) { return \"iae\"; }",
            "iae",
        ),
        (
            "2",
            Int,
            Text,
            "int[] x = new int[2]; try { return \"\" + x[a]; } catch (RuntimeException e) { return e.toString(); }",
            "java.lang.ArrayIndexOutOfBoundsException: Index 2 out of bounds for length 2",
        ),
        (
            "1",
            Int,
            Text,
            "try { throw new IllegalStateException(\"m\"); } catch (Exception e) { throw new RuntimeException(e); }",
            "! java.lang.RuntimeException: java.lang.IllegalStateException: m",
        ),
        (
            "1",
            Int,
            Text,
            "try { throw new IllegalStateException(\"m\"); } catch (Exception e) { throw e; }",
            "! java.lang.IllegalStateException: m",
        ),
        (
            "1",
            Int,
            Text,
            "try { throw new IllegalStateException(\"m\"); } catch (RuntimeException e) { throw e; }",
            "! java.lang.IllegalStateException: m",
        ),
        (
            "1",
            Int,
            Text,
            "RuntimeException r = new RuntimeException(\"q\"); throw r;",
            "! java.lang.RuntimeException: q",
        ),
        (
            "1",
            Int,
            Text,
            "int x = 1; try { x = 2; Object o = null; o.toString(); x = 3; } catch (Exception e) { x += 10; } finally { x += 100; } return \"\" + x;",
            "112",
        ),
    ]);
}

#[test]
fn arrays() {
    use CqlType::{Int, Text};
    check(&[
        (
            "-2",
            Int,
            Text,
            "int[] x = new int[a]; return \"\" + x.length;",
            "! java.lang.NegativeArraySizeException: -2",
        ),
        (
            "1",
            Int,
            Int,
            "int[] x = {3, 1, 2}; java.util.Arrays.sort(x); int s = 0; for (int i : x) s = s * 10 + i; x[0] += 5; x[1]++; --x[2]; return s * 1000 + x[0] * 100 + x[1] * 10 + x[2];",
            "123632",
        ),
        (
            "1",
            Int,
            Text,
            "String[] x = new String[2]; x[0] = \"a\"; return x[0] + x[1];",
            "anull",
        ),
        (
            "1",
            Int,
            Text,
            "double[] x = new double[2]; boolean[] b = new boolean[1]; char[] c = {'a', 'b'}; return \"\" + x[1] + b[0] + c[1] + c.length;",
            "0.0falseb2",
        ),
        (
            "1",
            Int,
            Int,
            "int[][] m = new int[2][3]; m[1][2] = 7; int[][] k = {{1}, {2, 3}}; return m[1][2] + m[0][0] + k[1][1];",
            "10",
        ),
        (
            "1",
            Int,
            Int,
            "int[] x = new int[]{1, 2}, y = x; y[0] = 9; return x[0];",
            "9",
        ),
        ("1", Int, Int, "int x[] = {1, 2}; return x[1];", "2"),
        (
            "1",
            Int,
            Int,
            "int[] x = {1, 2}; return java.util.Arrays.asList(1, 2).get(1) + x.length;",
            "4",
        ),
        (
            "1",
            Int,
            Int,
            "byte[] x = new byte[2]; x[0] = 5; x[1] = (byte) 200; return x[0] + x[1];",
            "-51",
        ),
        (
            "1",
            Int,
            Int,
            "byte[] x = new byte[2]; x[0] = 500; return x[0];",
            "! Line 1: Type mismatch: cannot convert from int to byte\n",
        ),
        (
            "1",
            Int,
            Int,
            "int[] x = {1, 2, 3}; int i = 0; x[i++] = x[i] + 10; return x[0] * 10 + i;",
            "121",
        ),
    ]);
}

#[test]
fn switches_fall_through() {
    use CqlType::{Bigint, Int, Text};
    check(&[
        (
            "2",
            Int,
            Int,
            "switch (a) { case 1: return 10; case 2: return 20; default: return 30; }",
            "20",
        ),
        (
            "1",
            Int,
            Int,
            "int r = 0; switch (a) { case 1: r += 1; case 2: r += 2; break; case 3: r += 4; default: r += 8; } return r;",
            "3",
        ),
        (
            "3",
            Int,
            Int,
            "int r = 0; switch (a) { case 1: r += 1; case 2: r += 2; break; case 3: r += 4; default: r += 8; } return r;",
            "12",
        ),
        (
            "5",
            Int,
            Int,
            "int r = 0; switch (a) { default: r += 8; case 1: r += 1; } return r;",
            "9",
        ),
        (
            "null",
            Int,
            Int,
            "int r = 0; switch (a) { case 1: r = 1; } return r;",
            "! java.lang.NullPointerException",
        ),
        (
            "z",
            Text,
            Int,
            "switch (a) { case \"x\": return 1; case \"y\": case \"z\": return 2; } return 3;",
            "! Line 1: Cannot switch on a value of type String. Only convertible int values, strings or enum variables are permitted\n",
        ),
        (
            "null",
            Text,
            Int,
            "switch (a) { case \"x\": return 1; } return 3;",
            "! Line 1: Cannot switch on a value of type String. Only convertible int values, strings or enum variables are permitted\n",
        ),
        (
            "1",
            Int,
            Int,
            "switch (a) { case 1: return 1; case 1: return 2; } return 3;",
            "! Line 1: Duplicate case\n",
        ),
        (
            "1",
            Bigint,
            Int,
            "switch (a) { case 1: return 1; } return 3;",
            "! Line 1: Cannot switch on a value of type Long. Only convertible int values, strings or enum variables are permitted\n",
        ),
        (
            "2",
            Int,
            Int,
            "switch (a) { case 1: int q = 4; return q; case 2: q = 6; return q; } return 3;",
            "6",
        ),
        (
            "2",
            Int,
            Int,
            "for (int i = 0; ; i++) { switch (i) { case 3: return i; case 1: continue; default: break; } }",
            "3",
        ),
    ]);
}

#[test]
fn operators_and_jumps() {
    use CqlType::{Bigint, Int, Text};
    check(&[
        (
            "-9",
            Int,
            Text,
            "return (a << 3) + \" \" + (a >> 1) + \" \" + (a >>> 1) + \" \" + (a << 33) + \" \" + (-a >>> 28) + \" \" + ((long) a << 40) + \" \" + (-5L >>> 60) + \" \" + (-5L >> 1);",
            "-72 -5 2147483643 -18 0 -9895604649984 15 -3",
        ),
        ("9", Int, Int, "a <<= 2; a >>= 1; a >>>= 1; return a;", "9"),
        (
            "9",
            Bigint,
            Text,
            "return \"\" + (a >> 65) + \" \" + (a << 63) + \" \" + (1 << 31) + \" \" + (1 << -1) + \" \" + (1 << 5L);",
            "4 -9223372036854775808 -2147483648 -2147483648 32",
        ),
        (
            "1",
            Int,
            Int,
            "int i = a; int j = i++ + ++i; return j * 100 + i;",
            "403",
        ),
        (
            "1",
            Int,
            Int,
            "int i = 0; while (i++ < 5) { } return i;",
            "6",
        ),
        ("1", Int, Int, "int x, y; x = y = 5; return x + y;", "10"),
        (
            "1",
            Int,
            Int,
            "int x; while ((x = a++) < 5) { } return x;",
            "5",
        ),
        (
            "4",
            Int,
            Int,
            "int i = 0; do { i++; if (i == 2) continue; } while (i < a); return i;",
            "4",
        ),
        (
            "4",
            Int,
            Int,
            "int i = 0; do { i++; if (i == 2) break; } while (true); return i;",
            "2",
        ),
        (
            "0",
            Int,
            Int,
            "outer: for (int i = 0; i < 5; i++) { for (int j = 0; j < 5; j++) { if (j == 2) continue outer; if (i == 3) break outer; a += 1; } } return a;",
            "6",
        ),
        (
            "1",
            Int,
            Int,
            "x: { if (a > 0) break x; a = 50; } return a;",
            "1",
        ),
    ]);
}

#[test]
fn what_is_nested_too_deep_is_refused() {
    use CqlType::Int;
    let int = |body: &str| call(body, &[("1", Int)], Int);
    let deep = |open: &str, close: &str, levels: usize| {
        format!("{}a{}", open.repeat(levels), close.repeat(levels))
    };
    assert_eq!(int(&format!("return {};", deep("(", ")", 20))), "1");
    let refusal =
        |what: &str| format!("! Line 1: More than 100 {what} are not available in Helenus\n");
    for text in [
        deep("(", ")", 100_000),
        deep("- ", "", 100_000),
        deep("a > 0 ? a : ", "", 100_000),
    ] {
        assert_eq!(int(&format!("return {text};")), refusal("levels"));
    }
    assert_eq!(int(&"{".repeat(100_000)), refusal("levels"));
    assert_eq!(
        int(&format!("return {};", deep("a + ", "", 100_000))),
        refusal("operations in a row")
    );
    let lists = format!("{}a = null;", "List<".repeat(100_000));
    assert!(int(&lists).starts_with("! Line 1:"));
}

#[test]
fn collections_tuples_and_user_types() {
    use CqlType::{Bigint, Int, Text};
    let numbers = CqlType::List {
        element: Int.into(),
        frozen: true,
    };
    let texts = CqlType::Set {
        element: Text.into(),
        frozen: true,
    };
    let counts = CqlType::Map {
        key: Text.into(),
        value: Int.into(),
        frozen: true,
    };
    let int = |n: i32| n.to_be_bytes().to_vec();
    let list: Bytes = collection::pack_elements([int(3), int(4)]).into();
    let set: Bytes = collection::pack_elements([b"a".to_vec(), b"b".to_vec()]).into();
    let map: Bytes = collection::pack_entries([(b"a".to_vec(), int(1))]).into();
    let run = |body: &str, ty: &CqlType, value: &Bytes, gives: &CqlType| {
        let value = call_bytes(
            body,
            std::slice::from_ref(ty),
            &[Some(value.clone())],
            gives,
        );
        value.map(|value| value.map(|value| gives.format_string(&value)))
    };
    let some = |text: &str| Ok(Some(text.to_owned()));
    let sum = "int s = 0; for (Integer i : a) s += i; return s + a.get(1) + a.size();";
    assert_eq!(run(sum, &numbers, &list, &Int), some("13"));
    let added = "a.add(\"c\"); return a;";
    let more: Bytes =
        collection::pack_elements([b"a".to_vec(), b"b".to_vec(), b"c".to_vec()]).into();
    assert_eq!(
        call_bytes(
            added,
            std::slice::from_ref(&texts),
            &[Some(set.clone())],
            &texts
        ),
        Ok(Some(more))
    );
    let walked = "String s = \"\"; for (String x : a) { s += x + a.contains(x); } return s;";
    assert_eq!(run(walked, &texts, &set, &Text), some("atruebtrue"));
    let put = "Integer n = a.get(\"b\"); if (n == null) a.put(\"b\", a.get(\"a\") + 1); java.util.Map<String, Integer> m = new java.util.HashMap<>(); m.put(\"z\", 5);
        int s = 0; for (java.util.Map.Entry<String, Integer> e : a.entrySet()) s += e.getValue(); return s + m.get(\"z\");";
    assert_eq!(run(put, &counts, &map, &Int), some("8"));

    let state = CqlType::Tuple(vec![Int, Bigint]);
    let tuple: Bytes =
        collection::pack_tuple([Some(int(1)), Some(5i64.to_be_bytes().to_vec())]).into();
    let step = "if (b != null) { a.setInt(0, a.getInt(0) + 1); a.setLong(1, a.getLong(1) + b.intValue()); } return a;";
    let after = call_bytes(
        step,
        &[state.clone(), Int],
        &[Some(tuple), Some(int(3).into())],
        &state,
    );
    let expected: Bytes =
        collection::pack_tuple([Some(int(2)), Some(8i64.to_be_bytes().to_vec())]).into();
    assert_eq!(after, Ok(Some(expected.clone())));
    let average = "double r = 0; if (a.getInt(0) == 0) return null; r = a.getLong(1); r/= a.getInt(0); return Double.valueOf(r);";
    assert_eq!(
        run(average, &state, &expected, &CqlType::Double),
        some("4.0")
    );

    let definition = UserType {
        keyspace: "k".into(),
        name: "t".into(),
        fields: vec![("name".into(), Text), ("tags".into(), texts)],
    };
    let user = CqlType::Udt {
        definition: Arc::new(definition),
        frozen: true,
    };
    let value: Bytes = collection::pack_tuple([Some(b"n".to_vec()), Some(set.to_vec())]).into();
    let read = "java.util.Set tags = a.getSet(\"tags\", String.class); return a.getString(0) + tags.size();";
    assert_eq!(run(read, &user, &value, &Text), some("n2"));
}
