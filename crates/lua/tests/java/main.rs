//! Functions in Java do what Java does.

mod answers;
mod bodies;
mod golden;

use std::sync::Arc;

use bodies::{call, call_bytes};
use bytes::Bytes;
use model::{CqlType, UserType, collection};

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
    assert_eq!(call(set, &[("1", Int)], Text), "[1]");
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
        "! Line 1: The method exit of the type System is not available in Helenus\n"
    );
    assert_eq!(
        int("return os.exit(1);"),
        "! Line 1: os cannot be resolved to a variable\n"
    );
}

#[test]
fn boxes_and_values_meet() {
    use CqlType::{Bigint, Boolean, Double, Int, Text};
    let raw = "List l = new ArrayList(); l.add(a); return (int) l.get(0) + (Integer) l.get(0);";
    for (value, ty, gives, body, expected) in [
        ("1", Int, Int, "Object o = a; return (Integer) o;", "1"),
        (
            "1",
            Int,
            Int,
            "int x = a; Object o = x; return ((Integer) o) + 1;",
            "2",
        ),
        ("1", Int, Int, raw, "2"),
        ("null", Bigint, Bigint, "return a == null ? 0L : a;", "0"),
        ("null", Bigint, Bigint, "return a == null ? 0 : a;", "0"),
        (
            "null",
            Bigint,
            Bigint,
            "return a == null ? null : a + 1;",
            "null",
        ),
        ("null", Double, Double, "return a == null ? 0 : a;", "0.0"),
        ("1", Int, Bigint, "return Math.max(a, 3L);", "3"),
        ("1", Int, Bigint, "return Long.parseLong(\"5\") + a;", "6"),
        ("1", Int, Bigint, "return Math.round(a * 1.5);", "2"),
        ("1", Int, Int, "return Math.round(a * 1.5f);", "2"),
        ("true", Boolean, Boolean, "return !a;", "false"),
        ("null", Boolean, Boolean, "return a == null || a;", "true"),
        (
            "null",
            Boolean,
            Boolean,
            "if (a) return false; return true;",
            "! java.lang.NullPointerException",
        ),
        ("5", Int, Int, "return a != 5 ? a : 7;", "7"),
        (
            "1",
            Int,
            Text,
            "return a.toString() + 'x' + (char) (a + 64) + 1.0f;",
            "1xA1.0",
        ),
        ("0", Int, Text, "return (a > 0) ? \"p\" : null;", "null"),
        (
            "1",
            Int,
            Int,
            "java.util.Map<String, Long> m = new java.util.HashMap<>(); m.put(\"x\", m.getOrDefault(\"x\", 0L) + 1); Long v = m.get(\"x\"); if (v == null) v = 1L; else v = v + 1; return v.intValue();",
            "2",
        ),
        (
            "1",
            Int,
            Text,
            "List l = Arrays.asList(1, \"b\"); return (String) l.get(1) + l.get(0) + List.of(2, a).get(0).intValue();",
            "b12",
        ),
        (
            "1",
            Int,
            Int,
            "List<Integer> l = new ArrayList<>(); l.add(1); l.add(l.size(), 7); l.set(0, 5); return l.get(0) + l.remove(1) + l.size();",
            "13",
        ),
    ] {
        assert_eq!(call(body, &[(value, ty)], gives), expected, "{body}");
    }
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

    let objects = "Integer n = a.get(0, Integer.class); Long l = a.get(1, Long.class); return n == null ? -1 : n.intValue() + l.intValue();";
    assert_eq!(run(objects, &state, &expected, &Int), some("10"));
    let half: Bytes = collection::pack_tuple([None, Some(5i64.to_be_bytes().to_vec())]).into();
    assert_eq!(run(objects, &state, &half, &Int), some("-1"));
    let values = "return a.getInt(0) + (a.isNull(0) ? 100 : 0);";
    assert_eq!(run(values, &state, &half, &Int), some("100"));

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
