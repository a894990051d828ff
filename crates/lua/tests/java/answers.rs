//! What Cassandra 5.0.6 answered: a body, what it is called with, and what it gave.

use model::CqlType;

use crate::bodies;

/// Is null passed on? A value, its type, the type that is given, the body, and what it gives.
type Case = (
    bool,
    &'static str,
    CqlType,
    CqlType,
    &'static str,
    &'static str,
);

fn check(cases: &[Case]) {
    let mut wrong = String::new();
    for (called_on_null, value, ty, gives, body, expected) in cases {
        let arguments = [(*value, ty.clone())];
        let result = bodies::call_as(*called_on_null, body, &arguments, gives.clone());
        if result != *expected {
            wrong += &format!("{body}\n gives {result:?}, not {expected:?}\n");
        }
    }
    assert_eq!(wrong, "");
}

/// Where null is not passed on, arguments and the result are `int` and the like, not `Integer`.
#[test]
#[rustfmt::skip]
fn values_are_no_objects_where_null_is_not_passed_on() {
    use CqlType::{Bigint, Boolean, Double, Float, Int, Text, Time, Timestamp, Tinyint};
    check(&[
        (false, "1.5", Float, Text, "return a.toString();", "! Line 1: Cannot invoke toString() on the primitive type float\n"),
        (true, "1.5", Float, Text, "return a.toString();", "1.5"),
        (false, "1", Int, Int, "return a.intValue();", "! Line 1: Cannot invoke intValue() on the primitive type int\n"),
        (false, "1", Int, Int, "if (a == null) return 1; return 2;", "! Line 1: The operator == is undefined for the argument type(s) int, null\n"),
        (false, "10:00:00", Time, Int, "return a == null ? 1 : 2;", "! Line 1: The operator == is undefined for the argument type(s) long, null\n"),
        (false, "1970-01-01", Timestamp, Int, "return a == null ? 1 : 2;", "2"),
        (false, "1", Int, Int, "return null;", "! Line 1: Type mismatch: cannot convert from null to int\n"),
        (true, "1", Int, Int, "return null;", "null"),
        (false, "1", Int, Text, "return null;", "null"),
        (false, "1", Int, Int, "return;", "! Line 1: This method must return a result of type int\n"),
        (false, "1", Tinyint, Tinyint, "return a + 1;", "! Line 1: Type mismatch: cannot convert from int to byte\n"),
        (false, "1", Tinyint, Tinyint, "return (byte)(a + 1);", "2"),
        (false, "1", Tinyint, Tinyint, "return 1;", "1"),
        (true, "1", Tinyint, Tinyint, "return 1;", "1"),
        (true, "null", Tinyint, Tinyint, "return a;", "null"),
        (false, "1", Int, Bigint, "return a;", "1"),
        (true, "1", Int, Bigint, "return a;", "! Line 1: Type mismatch: cannot convert from Integer to Long\n"),
        (false, "1", Int, Double, "return a;", "1.0"),
        (false, "1", Int, Double, "return 1;", "1.0"),
        (true, "1", Int, Double, "return 1;", "! Line 1: Type mismatch: cannot convert from int to Double\n"),
        (false, "1", Int, Int, "Integer b = null; return b;", "! java.lang.NullPointerException"),
        (false, "1", Int, Int, "return Integer.valueOf(a);", "1"),
        (false, "1", Int, Bigint, "return Integer.valueOf(a);", "1"),
        (false, "1", Int, Int, "return a > 5 ? null : a;", "1"),
        (false, "6", Int, Int, "return a > 5 ? null : a;", "! java.lang.NullPointerException"),
        (true, "6", Int, Int, "return a > 5 ? null : 1;", "null"),
        (true, "6", Int, Bigint, "return a > 5 ? null : 1;", "! Line 1: Type mismatch: cannot convert from Integer to Long\n"),
        (false, "6", Int, Int, "a = null; return a;", "! Line 1: Type mismatch: cannot convert from null to int\n"),
        (false, "6", Int, Int, "int b = null; return b;", "! Line 1: Type mismatch: cannot convert from null to int\n"),
        (true, "6", Int, Int, "Integer b = a.intValue(); return b.intValue();", "6"),
        (true, "6", Int, Int, "int b = a; return b.intValue();", "! Line 1: Cannot invoke intValue() on the primitive type int\n"),
        (true, "6", Int, Boolean, "return a.equals(6);", "true"),
        (false, "6", Int, Boolean, "return a.equals(6);", "! Line 1: Cannot invoke equals(int) on the primitive type int\n"),
        (false, "6", Int, Boolean, "return a == 6.0;", "true"),
        (true, "null", Int, Boolean, "return a == 6;", "! java.lang.NullPointerException"),
        (true, "6", Int, Boolean, "Long b = 10L; return b.equals(10);", "false"),
        (true, "6", Int, Boolean, "Integer b = 10; Long d = 10L; return b == d;", "! Line 1: Incompatible operand types Integer and Long\n"),
        (true, "6", Int, Bigint, "Long b = a; return b;", "! Line 1: Type mismatch: cannot convert from Integer to Long\n"),
        (true, "6", Int, Bigint, "long b = a; return b;", "6"),
        (true, "6", Int, Int, "Integer b = 5L; return b;", "! Line 1: Type mismatch: cannot convert from long to Integer\n"),
        (false, "6", Int, Text, "return (a + 1).toString();", "! Line 1: Cannot invoke toString() on the primitive type int\n"),
        (false, "6", Int, Text, "return \"a\".length().toString();", "! Line 1: Cannot invoke toString() on the primitive type int\n"),
        (false, "6", Int, Text, "return ((Integer) a).toString() + ((Object) a).toString();", "66"),
        (false, "true", Boolean, Boolean, "return a.booleanValue();", "! Line 1: Cannot invoke booleanValue() on the primitive type boolean\n"),
        (false, "6", Int, Int, "return 5L;", "! Line 1: Type mismatch: cannot convert from long to int\n"),
        (false, "6", Int, Int, "return a == true ? 1 : 0;", "! Line 1: The operator == is undefined for the argument type(s) int, boolean\n"),
        (false, "6", Int, Int, "Integer b = a; return b.compareTo(5);", "1"),
        (false, "6", Int, Int, "List<Integer> l = new ArrayList<>(); l.add(a); for (Integer x : l) return x.intValue() + l.get(0).intValue(); return 0;", "12"),
        (false, "6", Int, Int, "List<Integer> l = new ArrayList<>(); l.add(a); for (int x : l) return x.intValue(); return 0;", "! Line 1: Cannot invoke intValue() on the primitive type int\n"),
    ]);
}

#[test]
#[rustfmt::skip]
fn what_is_thrown_is_caught() {
    use CqlType::{Int, Text};
    check(&[
        (true, "0", Int, Int, "try { return 10 / a; } catch (ArithmeticException e) { return -1; }", "-1"),
        (true, "0", Int, Text, "try { return \"\" + 10 / a; } catch (ArithmeticException e) { return e.getMessage(); }", "/ by zero"),
        (true, "0", Int, Text, "try { return \"\" + 10 / a; } catch (ArithmeticException e) { return e.toString() + e; }", "java.lang.ArithmeticException: / by zerojava.lang.ArithmeticException: / by zero"),
        (true, "0", Int, Text, "try { return \"\" + 10 / a; } catch (Exception e) { return \"\" + e; } finally { a = 5; }", "java.lang.ArithmeticException: / by zero"),
        (true, "1", Int, Int, "try { return a; } finally { a = 5; }", "1"),
        (true, "1", Int, Int, "try { return a; } finally { return 9; }", "9"),
        (true, "1", Int, Int, "int r = 0; try { r += 1; } finally { r += 10; } return r;", "11"),
        (true, "1", Int, Int, "int r = 0; for (int i = 0; i < 5; i++) { try { if (i == 1) continue; if (i == 3) break; r += i; } finally { r += 100; } } return r;", "402"),
        (true, "1", Int, Int, "try { throw new RuntimeException(\"x\"); } finally { a = 5; }", "! java.lang.RuntimeException: x"),
        (true, "1", Int, Int, "throw new RuntimeException(\"x\");", "! java.lang.RuntimeException: x"),
        (true, "1", Int, Int, "throw new RuntimeException();", "! java.lang.RuntimeException"),
        (true, "1", Int, Int, "throw new IllegalArgumentException(\"bad \" + a);", "! java.lang.IllegalArgumentException: bad 1"),
        (true, "1", Int, Int, "throw new Exception(\"x\");", "! Line 1: Unhandled exception type Exception\n"),
        (true, "1", Int, Int, "throw new java.io.IOException(\"x\");", "! Line 1: Unhandled exception type IOException\n"),
        (true, "1", Int, Int, "try { throw new Exception(\"x\"); } catch (Exception e) { return 1; }", "1"),
        (true, "1", Int, Int, "try { throw new Exception(\"x\"); } catch (RuntimeException e) { return 1; }", "! Line 1: Unhandled exception type Exception\n"),
        (true, "1", Int, Int, "try { return a; } catch (java.io.IOException e) { return 1; }", "! Line 1: Unreachable catch block for IOException. This exception is never thrown from the try statement body\n"),
        (true, "1", Int, Int, "try { return a; } catch (Exception e) { return 1; } catch (RuntimeException e) { return 2; }", "! Line 1: Unreachable catch block for RuntimeException. It is already handled by the catch block for Exception\n"),
        (true, "0", Int, Int, "try { return 1 / a; } catch (IllegalStateException | ArithmeticException e) { return 1; }", "1"),
        (true, "null", Int, Text, "try { return a.toString(); } catch (NullPointerException e) { return \"npe\"; }", "npe"),
        (true, "x", Text, Int, "try { return Integer.parseInt(a); } catch (NumberFormatException e) { return -1; }", "-1"),
        (true, "x", Text, Text, "try { return \"\" + Integer.parseInt(a); } catch (NumberFormatException e) { return e.getMessage(); }", "For input string: \"x\""),
        (true, "null", Text, Text, "try { return \"\" + Integer.parseInt(a); } catch (NumberFormatException e) { return e.getMessage(); }", "Cannot parse null string"),
        (true, "null", Text, Text, "try { return \"\" + Integer.parseInt(a); } catch (IllegalArgumentException e) { return \"iae\"; }", "iae"),
        (true, "2", Int, Text, "int[] x = new int[2]; try { return \"\" + x[a]; } catch (RuntimeException e) { return e.toString(); }", "java.lang.ArrayIndexOutOfBoundsException: Index 2 out of bounds for length 2"),
        (true, "1", Int, Text, "try { throw new IllegalStateException(\"m\"); } catch (Exception e) { throw new RuntimeException(e); }", "! java.lang.RuntimeException: java.lang.IllegalStateException: m"),
        (true, "1", Int, Text, "try { throw new IllegalStateException(\"m\"); } catch (Exception e) { throw e; }", "! java.lang.IllegalStateException: m"),
        (true, "1", Int, Text, "try { throw new IllegalStateException(\"m\"); } catch (RuntimeException e) { throw e; }", "! java.lang.IllegalStateException: m"),
        (true, "1", Int, Text, "RuntimeException r = new RuntimeException(\"q\"); throw r;", "! java.lang.RuntimeException: q"),
        (true, "1", Int, Text, "int x = 1; try { x = 2; Object o = null; o.toString(); x = 3; } catch (Exception e) { x += 10; } finally { x += 100; } return \"\" + x;", "112"),
        (true, "1", Int, Int, "int r = 0; l: for (int i = 0; i < 4; i++) { for (int j = 0; j < 4; j++) { try { if (j == 1) continue l; if (i == 2) break l; r += 1; } finally { r += 10; } } } return r;", "52"),
        (true, "1", Int, Int, "for (int i = 0; ; i++) { try { try { if (i == 3) return i * 100 + a; } finally { a++; } } finally { a += 10; } }", "334"),
        (true, "1", Int, Text, "String s = \"\"; try { try { s += 1; int x = 1 / (a - 1); s += 2; } catch (NullPointerException e) { s += 3; } finally { s += 4; } } catch (ArithmeticException e) { s += 5; } return s;", "145"),
        (true, "1", Int, Text, "String s = \"\"; try { try { throw new IllegalStateException(\"a\"); } finally { s += 1; throw new IllegalArgumentException(\"b\"); } } catch (RuntimeException e) { s += e.getMessage(); } return s;", "1b"),
        (true, "1", Int, Text, "try { throw new RuntimeException(); } catch (RuntimeException e) { return \"\" + e.getMessage(); }", "null"),
        (true, "1", Int, Text, "try { throw new RuntimeException((String) null); } catch (RuntimeException e) { return \"\" + e.getMessage(); }", "null"),
        (true, "1", Int, Int, "if (a == 1) throw new NullPointerException(\"x\"); else return 2;", "! java.lang.NullPointerException: x"),
    ]);
}

#[test]
#[rustfmt::skip]
fn arrays() {
    use CqlType::{Boolean, Int, Text};
    check(&[
        (true, "-2", Int, Text, "int[] x = new int[a]; return \"\" + x.length;", "! java.lang.NegativeArraySizeException: -2"),
        (true, "1", Int, Int, "int[] x = {3, 1, 2}; java.util.Arrays.sort(x); int s = 0; for (int i : x) s = s * 10 + i; x[0] += 5; x[1]++; --x[2]; return s * 1000 + x[0] * 100 + x[1] * 10 + x[2];", "123632"),
        (true, "1", Int, Text, "String[] x = new String[2]; x[0] = \"a\"; return x[0] + x[1];", "anull"),
        (true, "1", Int, Text, "double[] x = new double[2]; boolean[] b = new boolean[1]; char[] c = {'a', 'b'}; return \"\" + x[1] + b[0] + c[1] + c.length;", "0.0falseb2"),
        (true, "1", Int, Int, "int[][] m = new int[2][3]; m[1][2] = 7; int[][] k = {{1}, {2, 3}}; return m[1][2] + m[0][0] + k[1][1];", "10"),
        (true, "1", Int, Int, "int[] x = new int[]{1, 2}, y = x; y[0] = 9; return x[0];", "9"),
        (true, "1", Int, Int, "int x[] = {1, 2}; return x[1];", "2"),
        (true, "1", Int, Int, "int[] x = {1, 2}; return java.util.Arrays.asList(1, 2).get(1) + x.length;", "4"),
        (true, "1", Int, Int, "byte[] x = new byte[2]; x[0] = 5; x[1] = (byte) 200; return x[0] + x[1];", "-51"),
        (true, "1", Int, Int, "byte[] x = new byte[2]; x[0] = 500; return x[0];", "! Line 1: Type mismatch: cannot convert from int to byte\n"),
        (true, "1", Int, Int, "int[] x = {1, 2, 3}; int i = 0; x[i++] = x[i] + 10; return x[0] * 10 + i;", "121"),
        (true, "1", Int, Int, "int x = 5; int[] y = {1, 2, 3}; y[x - 4] += x++; return y[1] * 10 + x;", "76"),
        (true, "3", Int, Int, "Integer[] x = {1, null, 3}; int r = 0; for (Integer i : x) r += i == null ? 100 : i; return r;", "104"),
        (true, "3", Int, Int, "Integer[] x = new Integer[2]; return x[0] + 1;", "! java.lang.NullPointerException"),
        (true, "3", Int, Text, "int[] x = null; return \"\" + x.length;", "! java.lang.NullPointerException"),
        (true, "3", Int, Text, "int[] x = {1,2,3}; int[] y = x.clone(); y[0] = 9; return \"\" + x[0] + y[0];", "19"),
        (true, "3", Int, Boolean, "int[] x = {1,2,3}; return java.util.Arrays.equals(x, new int[]{1,2,3});", "true"),
        (true, "abc", Text, Text, "return String.join(\",\", new String[]{\"a\", \"b\"}) + String.join(\",\", a.split(\"b\"));", "a,ba,c"),
    ]);
}

#[test]
#[rustfmt::skip]
fn switches_fall_through() {
    use CqlType::{Bigint, Int, Text};
    check(&[
        (true, "2", Int, Int, "switch (a) { case 1: return 10; case 2: return 20; default: return 30; }", "20"),
        (true, "1", Int, Int, "int r = 0; switch (a) { case 1: r += 1; case 2: r += 2; break; case 3: r += 4; default: r += 8; } return r;", "3"),
        (true, "3", Int, Int, "int r = 0; switch (a) { case 1: r += 1; case 2: r += 2; break; case 3: r += 4; default: r += 8; } return r;", "12"),
        (true, "5", Int, Int, "int r = 0; switch (a) { default: r += 8; case 1: r += 1; } return r;", "9"),
        (true, "null", Int, Int, "int r = 0; switch (a) { case 1: r = 1; } return r;", "! java.lang.NullPointerException"),
        (true, "z", Text, Int, "switch (a) { case \"x\": return 1; case \"y\": case \"z\": return 2; } return 3;", "! Line 1: Cannot switch on a value of type String. Only convertible int values, strings or enum variables are permitted\n"),
        (true, "null", Text, Int, "switch (a) { case \"x\": return 1; } return 3;", "! Line 1: Cannot switch on a value of type String. Only convertible int values, strings or enum variables are permitted\n"),
        (true, "1", Int, Int, "switch (a) { case 1: return 1; case 1: return 2; } return 3;", "! Line 1: Duplicate case\n"),
        (true, "1", Bigint, Int, "switch (a) { case 1: return 1; } return 3;", "! Line 1: Cannot switch on a value of type Long. Only convertible int values, strings or enum variables are permitted\n"),
        (true, "2", Int, Int, "switch (a) { case 1: int q = 4; return q; case 2: q = 6; return q; } return 3;", "6"),
        (true, "2", Int, Int, "for (int i = 0; ; i++) { switch (i) { case 3: return i; case 1: continue; default: break; } }", "3"),
        (true, "1", Int, Text, "char c = 'a'; switch (c) { case 'a': return \"A\"; case 98: return \"B\"; } return \"?\";", "A"),
        (true, "1", Int, Int, "switch (a) { } return 1;", "1"),
        (true, "-1", Int, Int, "switch (a) { case -1: return 5; default: break; } return 1;", "5"),
    ]);
}

#[test]
#[rustfmt::skip]
fn operators_and_jumps() {
    use CqlType::{Bigint, Boolean, Decimal, Double, Float, Int, Text};
    check(&[
        (true, "-9", Int, Text, "return (a << 3) + \" \" + (a >> 1) + \" \" + (a >>> 1) + \" \" + (a << 33) + \" \" + (-a >>> 28) + \" \" + ((long) a << 40) + \" \" + (-5L >>> 60) + \" \" + (-5L >> 1);", "-72 -5 2147483643 -18 0 -9895604649984 15 -3"),
        (true, "9", Int, Int, "a <<= 2; a >>= 1; a >>>= 1; return a;", "9"),
        (true, "9", Bigint, Text, "return \"\" + (a >> 65) + \" \" + (a << 63) + \" \" + (1 << 31) + \" \" + (1 << -1) + \" \" + (1 << 5L);", "4 -9223372036854775808 -2147483648 -2147483648 32"),
        (true, "1", Int, Int, "int i = a; int j = i++ + ++i; return j * 100 + i;", "403"),
        (true, "1", Int, Int, "int i = 0; while (i++ < 5) { } return i;", "6"),
        (true, "1", Int, Int, "int x, y; x = y = 5; return x + y;", "10"),
        (true, "1", Int, Int, "int x; while ((x = a++) < 5) { } return x;", "5"),
        (true, "4", Int, Int, "int i = 0; do { i++; if (i == 2) continue; } while (i < a); return i;", "4"),
        (true, "4", Int, Int, "int i = 0; do { i++; if (i == 2) break; } while (true); return i;", "2"),
        (true, "0", Int, Int, "outer: for (int i = 0; i < 5; i++) { for (int j = 0; j < 5; j++) { if (j == 2) continue outer; if (i == 3) break outer; a += 1; } } return a;", "6"),
        (true, "1", Int, Int, "x: { if (a > 0) break x; a = 50; } return a;", "1"),
        (true, "1", Int, Int, "int x = 5; x += x++ + ++x; return x;", "17"),
        (true, "1", Int, Int, "int x = 5; return x + x++ * x-- - --x;", "31"),
        (true, "1", Int, Int, "int x = 5; x = x++; return x;", "5"),
        (true, "1", Int, Text, "char c = 'a'; c++; c += 1; byte b = 127; b++; short s = (short) 40000; long l = 1L << 40; l += 1.7; int i = 'a' + 1; return \"\" + c + b + s + l + i;", "c-128-25536109951162777798"),
        (true, "3", Int, Int, "int r = 0; for (int i = 0, j = 10; i < j; i++, j--) r += j - i; return r;", "30"),
        (true, "1.5", Decimal, Decimal, "return a.setScale(0);", "! java.lang.ArithmeticException: Rounding necessary"),
        (true, "1", Int, Int, "long l = 5; int i = l; return i;", "! Line 1: Type mismatch: cannot convert from long to int\n"),
        (true, "1", Int, Int, "int i = 5; i += 2L; i -= 0.5; return i;", "6"),
        (true, "1", Int, Int, "Integer i = 5; i++; i += 2; Long l = 3L; l++; return i + l.intValue();", "12"),
        (true, "1", Int, Int, "boolean b = false; b |= a > 0; b &= true; b ^= false; return b ? 1 : 0;", "1"),
        (true, "1", Int, Bigint, "long b = 0; for (int i = 0; i < 3; i++) b = (b << 8) | (a & 0xff); return b;", "65793"),
        (true, "1", Int, Int, "return ~a + (a ^ 3) + (a | 4);", "5"),
        (false, "1", Int, Boolean, "return a > 1 && a < 5 || a == 7;", "false"),
        (false, "1", Int, Boolean, "Boolean b = a > 0; return b;", "true"),
        (false, "1.9", Double, Int, "return (int) a;", "1"),
        (false, "1.9", Double, Int, "return a.intValue();", "! Line 1: Cannot invoke intValue() on the primitive type double\n"),
        (false, "4", Int, Double, "return Math.sqrt(a);", "2.0"),
        (false, "4", Int, Bigint, "return Long.valueOf(a);", "4"),
        (true, "4", Int, Bigint, "return Long.valueOf(a);", "4"),
        (true, "4", Int, Bigint, "return (long) a;", "4"),
        (true, "4", Int, Double, "return a * 1.5;", "6.0"),
        (true, "4", Int, Double, "return (double) a;", "4.0"),
        (true, "4", Int, Double, "return (Double) 1.0;", "1.0"),
        (true, "4", Int, Float, "return 1.5f;", "1.5"),
        (true, "4", Int, Float, "return 1.5;", "! Line 1: Type mismatch: cannot convert from double to Float\n"),
        (false, "4", Float, Float, "return a * 2;", "8.0"),
        (false, "4", Float, Float, "return a * 2.0;", "! Line 1: Type mismatch: cannot convert from double to float\n"),
    ]);
}

#[test]
#[rustfmt::skip]
fn the_library_is_that_of_java() {
    use CqlType::{Bigint, Boolean, Decimal, Double, Float, Int, Text, Timestamp, Uuid, Varint};
    check(&[
        (true, "0", Timestamp, Text, "return a.toString();", "Thu Jan 01 00:00:00 UTC 1970"),
        (true, "0", Timestamp, Text, "return \"\" + a;", "Thu Jan 01 00:00:00 UTC 1970"),
        (true, "6", Int, Boolean, "return System.currentTimeMillis() > 0;", "true"),
        (true, "6", Int, Boolean, "return System.nanoTime() != 0;", "true"),
        (true, "6", Int, Boolean, "return new java.util.Date().getTime() > 0;", "true"),
        (true, "6", Int, Boolean, "return Math.random() < 2;", "true"),
        (true, "6", Int, Uuid, "return java.util.UUID.fromString(\"1-2-3-4-5\");", "00000001-0002-0003-0004-000000000005"),
        (true, "6", Int, Uuid, "return java.util.UUID.fromString(\"x\");", "! java.lang.IllegalArgumentException: Invalid UUID string: x"),
        (true, "6", Int, Uuid, "return new java.util.UUID(1L, 2L);", "00000000-0000-0001-0000-000000000002"),
        (true, "6", Int, Uuid, "return new UUID(a, -2);", "00000000-0000-0006-ffff-fffffffffffe"),
        (true, "6", Int, Bigint, "return new java.util.UUID(1L, 2L).getMostSignificantBits();", "1"),
        (true, "6", Int, Text, "return new java.util.UUID(1L, 2L).toString();", "00000000-0000-0001-0000-000000000002"),
        (true, "123e4567-e89b-12d3-a456-426655440000", Uuid, Bigint, "return a.getLeastSignificantBits() + a.version();", "-6605018796207636479"),
        (true, "66", Int, Text, "return String.format(\"%d %s %5d|%-5d|%05d %x %X %o %c %b %% %n\", a, \"x\", a, a, a, a, a, a, 'c', true);", "66 x    66|66   |00066 42 42 102 c true % \n"),
        (true, "66", Int, Text, "return String.format(\"%.2f %f %10.3f %e %g %,d %+d %s %s\", 1.5, 2.25, 3.14159, 12345.678, 0.5, 1234567, a, 1.5, null);", "1.50 2.250000      3.142 1.234568e+04 0.500000 1,234,567 +66 1.5 null"),
        (true, "66", Int, Text, "return String.format(\"%d\", \"x\");", "! java.util.IllegalFormatConversionException: d != java.lang.String"),
        (true, "66", Int, Text, "return String.format(\"%f\", a);", "! java.util.IllegalFormatConversionException: f != java.lang.Integer"),
        (true, "66", Int, Text, "return String.format(\"%s %s\", a);", "! java.util.MissingFormatArgumentException: Format specifier '%s'"),
        (true, "66", Int, Text, "return String.format(\"%q\", a);", "! java.util.UnknownFormatConversionException: Conversion = 'q'"),
        (true, "66", Int, Text, "return String.format(\"%2$s %1$s %<s\", a, \"y\");", "y 66 66"),
        (true, "66", Int, Text, "return String.format(\"%5s|%-5s|%.2s|%S\", \"abc\", \"abc\", \"abc\", \"abc\");", "  abc|abc  |ab|ABC"),
        (true, "66", Int, Text, "return String.format(\"%x %x %d\", -1, -1L, Long.MIN_VALUE);", "ffffffff ffffffffffffffff -9223372036854775808"),
        (true, "66", Int, Text, "return String.format(\"%.3f %.0f %.1f %.1f\", 2.0005, 2.5, 0.25, 0.35);", "2.001 3 0.3 0.4"),
        (true, "66", Int, Text, "return String.format(\"%d\", a == null ? 0 : a);", "66"),
        (true, "66", Int, Text, "return String.format(\"%f %f\", Double.NaN, -1.0/0);", "NaN -Infinity"),
        (true, "a,b,,c,,", Text, Int, "return a.split(\",\").length;", "4"),
        (true, "a,b,,c,,", Text, Text, "return a.split(\",\")[1];", "b"),
        (true, "a|b|c", Text, Text, "String[] p = a.split(\"\\\\|\"); return p[p.length - 1];", "c"),
        (true, "a,b,c", Text, Text, "String s = \"\"; for (String p : a.split(\",\", 2)) s += p + \";\"; return s;", "a;b,c;"),
        (true, "a,b,,", Text, Text, "String s = \"\"; for (String p : a.split(\",\", -1)) s += p + \";\"; return s;", "a;b;;;"),
        (true, " a  b c ", Text, Text, "String s = \"\"; for (String p : a.split(\"\\\\s+\")) s += p + \";\"; return s;", ";a;b;c;"),
        (true, "abc", Text, Text, "String s = \"\"; for (String p : a.split(\"\")) s += p + \";\"; return s;", "a;b;c;"),
        (true, "", Text, Int, "return a.split(\",\").length;", "1"),
        (true, "a12b3", Text, Text, "return a.replaceAll(\"[0-9]+\", \"#\");", "a#b#"),
        (true, "null", Text, Text, "return Objects.toString(a) + Objects.toString(a, \"d\") + Objects.equals(a, null) + Objects.isNull(a) + Objects.nonNull(a);", "nulldtruetruefalse"),
        (true, "x", Text, Int, "return java.util.Objects.hash(a, 1) + java.util.Objects.hashCode(a) + \"ab\".hashCode();", "7907"),
        (true, "null", Text, Text, "return Objects.requireNonNull(a);", "! java.lang.NullPointerException"),
        (true, "null", Text, Text, "return Objects.requireNonNull(a, \"no a\");", "! Line 1: The type java.util.function.Supplier cannot be resolved. It is indirectly referenced from required type java.util.Objects\n"),
        (true, "null", Text, Text, "return java.util.Optional.ofNullable(a).orElse(\"none\");", "none"),
        (true, "x", Text, Text, "return java.util.Optional.ofNullable(a).isPresent() ? java.util.Optional.of(a).get() : \"no\";", "x"),
        (true, "x", Text, Text, "return java.util.Optional.empty().get().toString();", "! java.util.NoSuchElementException: No value present"),
        (true, "x", Text, Text, "return String.join(\"-\", \"a\", a, \"c\");", "a-x-c"),
        (true, "1", Int, Timestamp, "return new Date(5L);", "1970-01-01T00:00:00.005Z"),
        (true, "1", Int, Timestamp, "return new java.util.Date(a);", "1970-01-01T00:00:00.001Z"),
        (true, "77", Timestamp, Bigint, "return a.getTime();", "77"),
        (true, "77", Timestamp, Timestamp, "return new Date(a.getTime() + 1000);", "1970-01-01T00:00:01.077Z"),
        (true, "77", Timestamp, Boolean, "return a.before(new Date(78)) && a.compareTo(new Date(77)) == 0 && a.equals(new Date(77));", "true"),
        (true, "1", Int, Decimal, "return new java.math.BigDecimal(\"1.50\");", "1.50"),
        (true, "1", Int, Decimal, "return new java.math.BigDecimal(0.1);", "0.1000000000000000055511151231257827021181583404541015625"),
        (true, "1", Int, Decimal, "return new java.math.BigDecimal(a);", "1"),
        (true, "1", Int, Decimal, "return java.math.BigDecimal.valueOf(0.1).add(new java.math.BigDecimal(\"2\"));", "2.1"),
        (true, "1", Int, Decimal, "return java.math.BigDecimal.valueOf(2.0);", "2.0"),
        (true, "1", Int, Decimal, "return java.math.BigDecimal.valueOf(5);", "5"),
        (true, "1", Int, Decimal, "return java.math.BigDecimal.valueOf(5, 2);", "0.05"),
        (true, "1", Int, Decimal, "return new java.math.BigDecimal(\"x\");", "! java.lang.NumberFormatException: Character x is neither a decimal digit number, decimal point, nor \"e\" notation exponential mark."),
        (true, "1.25", Decimal, Decimal, "return a.multiply(a).subtract(java.math.BigDecimal.ONE).negate();", "-0.5625"),
        (true, "1.25", Decimal, Decimal, "return a.divide(new java.math.BigDecimal(3), 5, java.math.RoundingMode.HALF_UP);", "0.41667"),
        (true, "1.25", Decimal, Decimal, "return a.setScale(1, java.math.RoundingMode.HALF_UP);", "1.3"),
        (true, "1.25", Decimal, Text, "return a.toString() + \" \" + a.compareTo(java.math.BigDecimal.ZERO) + a.signum() + a.scale() + \" \" + a.intValue() + \" \" + a.doubleValue() + a.equals(new java.math.BigDecimal(\"1.250\"));", "1.25 112 1 1.25false"),
        (true, "1", Varint, Varint, "return a.add(new java.math.BigInteger(\"12345678901234567890\")).multiply(java.math.BigInteger.TEN);", "123456789012345678910"),
        (true, "10", Varint, Varint, "return a.divide(java.math.BigInteger.valueOf(3)).mod(java.math.BigInteger.valueOf(2)).pow(3).abs();", "1"),
        (true, "4294967297", Varint, Int, "return a.intValue();", "1"),
        (true, "1", Int, Varint, "return new java.math.BigInteger(\"x\");", "! java.lang.NumberFormatException: For input string: \"x\""),
        (true, "1", Int, Int, "return java.util.Collections.<Integer>emptyList().size();", "0"),
        (true, "10", Int, Text, "return Integer.toHexString(a) + Integer.toBinaryString(a) + Long.toString(5L) + Integer.toString(255, 16);", "a10105ff"),
        (true, "x", Text, Int, "return Integer.parseInt(a);", "! java.lang.NumberFormatException: For input string: \"x\""),
        (true, "1x", Text, Boolean, "return Character.isDigit(a.charAt(0)) && Character.isLetter(a.charAt(1));", "true"),
        (true, "abc", Text, Int, "int x = 0; for (char c : a.toCharArray()) x += c; return x;", "294"),
        (true, "abbc", Text, Text, "return a.replaceFirst(\"b+\", \"x\") + a.isEmpty() + a.lastIndexOf(\"b\") + a.indexOf('c') + a.indexOf(\"b\", 2) + a.repeat(2);", "axcfalse232abbcabbc"),
        (true, "a, b;c", Text, Text, "String s = \"\"; for (String p : a.split(\"[,;] *\")) s += p + \"|\"; return s;", "a|b|c|"),
        (true, "aé", Text, Text, "return a.toUpperCase() + a.hashCode() + String.valueOf(a.toCharArray()) + new String(a.toCharArray());", "AÉ3240aéaé"),
        (true, "1e10", Double, Text, "return String.format(\"%s %.3f %10.2e|%g|%G\", a, a, a, a, a);", "1.0E10 10000000000.000   1.00e+10|1.00000e+10|1.00000E+10"),
        (true, "0.1", Float, Text, "return String.format(\"%s %f %.1f\", a, a, a);", "0.1 0.100000 0.1"),
        (true, "1", Int, Text, "return String.format(\"%s %s %s\", true, 'c', new int[0].length) + String.format(\"%5b|%c|%-3c|\", true, 65, 'x');", "true c 0 true|A|x  |"),
        (true, "1", Int, Text, "return String.format(\"%-5s\", a);", "1    "),
        (true, "1", Int, Text, "return String.format(\"%-s\", a);", "! java.util.MissingFormatWidthException: %-s"),
        (true, "1", Int, Text, "return String.format(\"%5\", a);", "! java.util.UnknownFormatConversionException: Conversion = '5'"),
        (true, "1", Int, Text, "return String.format(\"%\", a);", "! java.util.UnknownFormatConversionException: Conversion = '%'"),
        (true, "1.25", Decimal, Text, "return String.format(\"%s %.1f %f %d\", a, a, a, new java.math.BigInteger(\"99\"));", "1.25 1.3 1.250000 99"),
        (true, "1.25", Decimal, Text, "return \"\" + a + new java.math.BigDecimal(\"1E+5\") + new java.math.BigDecimal(\"0.0000001\") + new java.math.BigDecimal(\"1E+5\").toPlainString();", "1.251E+51E-7100000"),
        (true, "1", Decimal, Decimal, "return a.divide(new java.math.BigDecimal(\"3\"));", "! java.lang.ArithmeticException: Non-terminating decimal expansion; no exact representable decimal result."),
        (true, "1.0", Decimal, Decimal, "return a.divide(new java.math.BigDecimal(\"8\"));", "0.125"),
        (true, "1.0", Decimal, Decimal, "return a.divide(java.math.BigDecimal.ZERO);", "! java.lang.ArithmeticException: Division by zero"),
        (true, "10.00", Decimal, Decimal, "return a.divide(new java.math.BigDecimal(\"3\"), java.math.RoundingMode.HALF_EVEN);", "3.33"),
        (true, "1.5", Decimal, Decimal, "return a.remainder(new java.math.BigDecimal(\"0.4\")).max(java.math.BigDecimal.ONE);", "1"),
        (true, "1", Varint, Varint, "return a.divide(java.math.BigInteger.ZERO);", "! java.lang.ArithmeticException: BigInteger divide by zero"),
        (true, "10", Varint, Text, "return a.toString() + a.negate().mod(java.math.BigInteger.valueOf(7)) + a.negate().remainder(java.math.BigInteger.valueOf(7)) + a.longValue() + a.pow(2);", "104-310100"),
        (true, "10", Varint, Boolean, "return a.equals(java.math.BigInteger.TEN) && !a.equals(null) && a.compareTo(java.math.BigInteger.ONE) > 0;", "true"),
        (true, "10", Int, Text, "return Objects.hash(1, \"a\", true, 5L, 1.5) + \" \" + Boolean.hashCode(true) + \" \" + Integer.hashCode(3) + \" \" + Double.valueOf(1.5).hashCode();", "1106843081 1231 3 1073217536"),
        (true, "q", Text, Text, "java.util.Optional<String> o = java.util.Optional.ofNullable(a); if (o.isPresent()) return o.get(); return o.orElse(null);", "q"),
        (true, "null", Text, Text, "return java.util.Optional.of(a).get();", "! java.lang.NullPointerException"),
        (false, "1", Int, Text, "return String.valueOf(a) + Integer.toString(a) + Integer.valueOf(a).toString();", "111"),
    ]);
}

/// What a generator of bodies found.
#[test]
#[rustfmt::skip]
fn values_are_equal_and_ordered_as_in_java() {
    use CqlType::{Bigint, Boolean, Decimal, Double, Float, Int, Text};
    let list = || CqlType::List { element: Box::new(Int), frozen: true };
    let map = || CqlType::Map { key: Box::new(Int), value: Box::new(list()), frozen: true };
    check(&[
        (true, "0000000200000004000000010000000400000002", list(), Boolean, "return a.equals(Arrays.asList(1, 2));", "true"),
        (true, "0000000200000004000000010000000400000002", list(), Boolean, "return a.equals(Arrays.asList(1, 3));", "false"),
        (true, "0000000200000004000000010000000400000002", list(), Boolean, "return a.equals(Arrays.asList(1, 2, 3));", "false"),
        (true, "0000000100000004000000010000000c000000010000000400000001", map(), Boolean, "return a.equals(a);", "true"),
        (true, "NaN", Double, Boolean, "return a.equals(Double.NaN);", "true"),
        (true, "0.0", Double, Boolean, "return a.equals(-0.0);", "false"),
        (true, "1.5", Double, Boolean, "return a.equals(1.5);", "true"),
        (true, "1.50", Decimal, Boolean, "return a.equals(new java.math.BigDecimal(\"1.5\"));", "false"),
        (true, "1", Double, Int, "return Double.compare(Double.NaN, 1);", "1"),
        (true, "1", Double, Int, "return Double.compare(0.0, -0.0);", "1"),
        (true, "1", Double, Int, "return Double.compare(-0.0, 0.0);", "-1"),
        (true, "1", Int, Int, "return Integer.parseInt(\"99999999999\");", "! java.lang.NumberFormatException: For input string: \"99999999999\""),
        (true, "1", Int, Bigint, "return Long.parseLong(\"99999999999\");", "99999999999"),
        (true, "1", Int, Double, "return Double.parseDouble(\"NaN\");", "NaN"),
        (true, "1", Int, Double, "return Double.parseDouble(\"1f\");", "1.0"),
        (true, "1", Int, Double, "return Double.parseDouble(\" -Infinity \");", "-Infinity"),
        (true, "1", Int, Double, "return Double.parseDouble(\"0x10\");", "! java.lang.NumberFormatException: For input string: \"0x10\""),
        (true, "0.49999999999999994", Double, Bigint, "return Math.round(a);", "0"),
        (true, "2.5", Double, Bigint, "return Math.round(a);", "3"),
        (true, "-2.5", Double, Bigint, "return Math.round(a);", "-2"),
        (true, "a", Text, Int, "return a.compareTo(\"é\");", "-136"),
        (true, "B", Text, Int, "return a.compareTo(\"a\");", "-31"),
        (true, "ab", Text, Int, "return a.compareTo(\"a\");", "1"),
        (true, "x", Text, Boolean, "return \"\".endsWith(\"\");", "true"),
        (true, "ÉÀ", Text, Text, "return a.toLowerCase();", "éà"),
        (true, "ß", Text, Text, "return a.toUpperCase();", "SS"),
        (true, "98712312", Float, Text, "return \"\" + a;", "9.8712312E7"),
        (true, "0000000200000004000000010000000400000002", list(), Int, "List<Integer> l = new ArrayList<Integer>(a); l.addAll(l); return l.size();", "4"),
    ]);
}
