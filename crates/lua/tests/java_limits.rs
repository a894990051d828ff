//! What functions in Java may not do, whatever they catch.

#![allow(clippy::disallowed_methods)] // that they are stopped in time is what is tested

mod turns;

use std::time::{Duration, Instant};

use model::CqlType;
use turns::{engine, function, run};

/// A `catch` takes nothing of what the sandbox throws.
#[test]
fn java_catches_no_limit() {
    for (body, why) in [
        (
            "int a = 1; while (true) { try { while (true) { a++; } } catch (Throwable t) { } }",
            "ran longer than 300ms",
        ),
        (
            "while (true) { try { throw new Error(); } catch (Throwable t) { } finally { continue; } }",
            "ran longer than 300ms",
        ),
        (
            "try { while (true) { } } catch (Throwable t) { return 1; } finally { return 2; }",
            "ran longer than 300ms",
        ),
        (
            "int i = 0; do { switch (i++) { default: continue; } } while (true);",
            "ran longer than 300ms",
        ),
        (
            "try { String s = \"x\"; while (true) s += s; } catch (Throwable t) { return 1; } finally { return 2; }",
            "not enough memory",
        ),
        (
            "try { return new int[2147483647].length; } catch (Throwable t) { return 1; }",
            "not enough memory",
        ),
        (
            "String[] s = new String[Integer.MAX_VALUE]; return s.length;",
            "not enough memory",
        ),
        ("return new int[10000][10000].length;", "not enough memory"),
        ("return new int[10000000].length;", "not enough memory"),
        (
            "try { return String.format(\"%1000000000d\", 1).length(); } catch (Throwable t) { return 1; }",
            "not enough memory",
        ),
        (
            "return String.format(\"%99999999999999999999d\", 1).length();",
            "not enough memory",
        ),
        (
            "try { return String.format(\"%.1000000000f\", 1.0).length(); } catch (Throwable t) { return 1; }",
            "not enough memory",
        ),
        (
            "String s = \"%9999d%9999d%9999d%9999d\"; s += s; s += s; s += s; s += s; s += s; s += s; return String.format(s, 1).length();",
            "MissingFormatArgumentException",
        ),
        (
            "String s = \"%1$9999d%1$9999d%1$9999d%1$9999d\"; s += s; s += s; s += s; s += s; s += s; s += s; return String.format(s, 1).length();",
            "not enough memory",
        ),
        (
            "List<java.math.BigInteger> l = new ArrayList<>(); java.math.BigInteger n = java.math.BigInteger.TEN.pow(9000); while (true) l.add(n.negate());",
            "not enough memory",
        ),
        (
            "return String.format(\"%10001d\", 1).length();",
            "not enough memory",
        ),
        (
            "return java.math.BigInteger.TEN.pow(9000).gcd(java.math.BigInteger.ONE).intValue();",
            "more than 8192 bits",
        ),
        (
            "return java.math.BigInteger.TEN.pow(2147483647).intValue();",
            "too many digits",
        ),
        (
            "return new java.math.BigDecimal(\"1e-2147483640\").setScale(2147483647).intValue();",
            "too many digits",
        ),
        (
            "return new java.math.BigDecimal(\"1e1000000000\").toString().length();",
            "too many digits",
        ),
        (
            "String s = \"a\"; for (int i = 0; i < 18; i++) s += s; while (true) { try { s.replaceAll(\"(a*)*(a|aa)+b\", \"$1\"); } catch (Throwable t) { } }",
            "too complex",
        ),
        (
            "String s = \"a\"; for (int i = 0; i < 14; i++) s += s; while (true) { try { s.replaceAll(\"(a*)*(a|aa)+b\", \"$1\"); } catch (Throwable t) { } }",
            "ran longer than 300ms",
        ),
        (
            "String s = \"a\"; for (int i = 0; i < 10; i++) s += s; while (true) s = s.replaceAll(\"(a+)\", \"$1$1\");",
            "not enough memory",
        ),
        (
            "int i = 0; while (true) { i++; \"x\".matches(\"(a|b){1,50}[^x]\" + i); }",
            "ran longer than 300ms",
        ),
        (
            "return ByteBuffer.allocate(2147483647).limit();",
            "not enough memory",
        ),
        (
            "ByteBuffer b = ByteBuffer.allocate(100); while (true) { b.clear(); b.putLong(b.duplicate().slice().getLong(8)); }",
            "ran longer than 300ms",
        ),
        (
            "List<ByteBuffer> l = new ArrayList<ByteBuffer>(); while (true) l.add(ByteBuffer.allocate(1000).put((byte) 1));",
            "not enough memory",
        ),
        (
            "StringBuilder b = new StringBuilder(); b.setLength(2147483647); return b.length();",
            "not enough memory",
        ),
        (
            "StringBuilder b = new StringBuilder(\"\u{1D11E}\"); while (true) b.insert(1, b.toString()).reverse();",
            "not enough memory",
        ),
        (
            "StringBuilder b = new StringBuilder(\"\u{1D11E}\"); for (int i = 0; i < 18; i++) b.append(b.toString()); while (true) b.setCharAt(b.length() - 1, b.charAt(1));",
            "ran longer than 300ms",
        ),
        (
            "StringBuilder b = new StringBuilder(\"\u{1D11E}\"); for (int i = 0; i < 18; i++) b.append(b.toString()); String s = b.toString(); while (true) { try { s.substring(1, s.length() - 1).toUpperCase(); } catch (Throwable t) { } }",
            "ran longer than 300ms",
        ),
        (
            "List<Integer> l = new ArrayList<Integer>(); while (true) { l.add(1); l.toString(); l.hashCode(); }",
            "ran longer than 300ms",
        ),
        (
            "List<String> l = new ArrayList<String>(); l.add(\"x\"); while (true) l.add(l.toString());",
            "not enough memory",
        ),
        (
            "String s = \"a\"; for (int i = 0; i < 14; i++) s += s; while (true) s.split(\"a*a*a*a*a*a*b\");",
            "too complex",
        ),
    ] {
        let began = Instant::now();
        let error = run(&engine(), &function("java", body, CqlType::Int)).expect_err(body);
        // A machine that has much else to do comes to the limit of time first.
        let is_limit = error.contains(why) || error.contains("ran longer than 300ms");
        assert!(is_limit, "{body}: {error}");
        assert!(began.elapsed() < Duration::from_secs(2), "{body}");
    }
}
