//! What functions may not do, and that whoever tries is stopped.

#![allow(clippy::disallowed_methods)] // that they are stopped in time is what is tested

mod turns;

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use lua::{Engine, Progress};
use model::{CqlType, UserFunction};
use turns::{LIMITS, engine, run};

fn function(body: &str, returns: CqlType) -> Arc<UserFunction> {
    turns::function("lua", body, returns)
}

fn text(body: &str) -> Result<String, String> {
    run(&engine(), &function(body, CqlType::Text))
}

#[test]
fn libraries_answer_as_luas_own_do() {
    for (body, result) in [
        ("return (('abc'):gsub('', '-'))", "-a-b-c-"),
        ("return (('abc def'):gsub('%w*', 'x'))", "x x"),
        ("return (('hello world'):gsub('o', {o = 0}))", "hell0 w0rld"),
        (
            "return (('hello world'):gsub('(%w+) (%w+)', '%2 %1 %0 %%'))",
            "world hello hello world %",
        ),
        (
            "return (('abc'):gsub('%w', function(c) if c == 'b' then return 'X' end end))",
            "aXc",
        ),
        ("return (('abc'):gsub('^%w', 'X'))", "Xbc"),
        ("return (('aaa'):gsub('a', 'b', 2))", "bba"),
        ("return (select(2, ('aaa'):gsub('a', 'b')))", "3"),
        (
            "return (('key = value'):match('^(%w+)%s*=%s*(%w+)$'))",
            "key",
        ),
        (
            "return select(2, ('key = value'):match('^(%w+)%s*=%s*(%w+)$'))",
            "value",
        ),
        ("return table.concat({('hello'):find('l+')}, ',')", "3,4"),
        (
            "return table.concat({('hello'):find('(l)(l)')}, ',')",
            "3,4,l,l",
        ),
        (
            "return table.concat({('a.b'):find('.', 1, true)}, ',')",
            "2,2",
        ),
        ("return table.concat({('hello'):find('', 10)}, ',')", ""),
        ("return table.concat({('hello'):find('', 6)}, ',')", "6,5"),
        ("return tostring(('hello'):match('xyz'))", "nil"),
        ("return ('hello'):match('.-(l)')", "l"),
        ("return tostring(('hello'):match('()ll()'))", "3"),
        ("return ('f(a(b)c)d'):match('%b()')", "(a(b)c)"),
        (
            "return (('THE (quick) fox'):gsub('%f[%a]%a+', 'x'))",
            "x (x) x",
        ),
        ("return ('abcabc'):match('(abc)%1')", "abc"),
        ("return ('[]]x'):match('[]]+')", "]]"),
        ("return ('a-b'):match('[a%-]+')", "a-"),
        ("return ('x9'):match('[^%d]')", "x"),
        (
            "local o = {} for k, v in ('a=1, b=2'):gmatch('(%w+)=(%w+)') do o[#o + 1] = k .. v end \
             return table.concat(o, ';')",
            "a1;b2",
        ),
        (
            "local o = {} for w in ('one two'):gmatch('%a*') do o[#o + 1] = '<' .. w .. '>' end \
             return table.concat(o)",
            "<one><two>",
        ),
        (
            "local t = {3, 1, 2} table.sort(t) return table.concat(t, ' ')",
            "1 2 3",
        ),
        (
            "local t = {5, 3, 1, 2, 4, 9, 8, 7, 6} table.sort(t, function(a, b) return a > b end) \
             return table.concat(t)",
            "987654321",
        ),
        (
            "local t = {1, 2} table.insert(t, 1, 0) table.insert(t, 3) return table.concat(t)",
            "0123",
        ),
        (
            "local t = {1, 2, 3} table.remove(t, 1) table.remove(t) return table.concat(t)",
            "2",
        ),
        ("return tostring(table.remove({}))", "nil"),
        (
            "return table.concat(table.move({1, 2, 3}, 1, 3, 2))",
            "1123",
        ),
        ("return select('#', table.unpack({1, nil, 3}, 1, 3))", "3"),
        ("return table.pack(1, 2).n", "2"),
        ("return ('ab'):rep(3, '-')", "ab-ab-ab"),
        ("return ('x'):rep(0) .. string.rep('', 1 << 62)", ""),
        (
            "return 7 // 2 .. ' ' .. 7 / 2 .. ' ' .. math.maxinteger",
            "3 3.5 9223372036854775807",
        ),
        ("return (select(2, pcall(error, 'x')))", "x"),
        (
            "return (select(2, xpcall(error, function(e) return e .. '!' end, 'x')))",
            "x!",
        ),
        ("return tostring(pcall(error))", "false"),
        (
            "local c = coroutine.wrap(function() coroutine.yield(1) end) return c()",
            "1",
        ),
        ("return load('return 1 + 1')()", "2"),
        ("return load('return x', 'c', 't', {x = 5})()", "5"),
        ("coroutine.yield() return 'after'", "after"),
    ] {
        assert_eq!(text(body).as_deref(), Ok(result), "{body}");
    }
}

#[test]
fn nothing_reaches_beyond_the_sandbox() {
    for name in [
        "io",
        "os",
        "debug",
        "package",
        "require",
        "dofile",
        "loadfile",
        "string.dump",
        "math.random",
        "getmetatable('').__index",
    ] {
        let found = text(&format!("return tostring(({name}))"));
        assert!(
            found.as_deref() == Ok("nil") || found.is_err(),
            "{name}: {found:?}"
        );
    }
    let binary = text("return tostring(load('\\27Lua'))");
    assert_eq!(binary.as_deref(), Ok("nil"));
    assert!(text("setmetatable({}, {__gc = function() end}) return 1").is_err());
}

#[test]
fn nothing_is_kept_from_call_to_call() {
    let engine = engine();
    for leave in [
        "x = (x or 0) + 1 return x",
        "string.x = (string.x or 0) + 1 return string.x",
        "table.x = (table.x or 0) + 1 return ('').x or table.x",
        "local x = y or 1 _ENV = {y = 2} return x",
        "_G.z = (_G.z or 0) + 1 return z",
    ] {
        let function = function(leave, CqlType::Int);
        for _ in 0..3 {
            assert_eq!(run(&engine, &function).as_deref(), Ok("1"), "{leave}");
        }
    }
}

/// Each of these would run for ever, or for very long.
const ENDLESS: &[&str] = &[
    "while true do end",
    "while true do pcall(function() while true do end end) end",
    "local function f() return pcall(f) end while true do f() end",
    "while true do xpcall(function() while true do end end, function() while true do end end) end",
    "while true do coroutine.resume(coroutine.create(function() while true do end end)) end",
    "while true do coroutine.close(coroutine.create(function() end)) end",
    "while true do coroutine.yield() end",
    "coroutine.wrap(function() while true do end end)()",
    "local t = setmetatable({}, {__index = function(t, k) return t[k + 1] .. '' end}) while true do pcall(function() return t[1] end) end",
    "local x <close> = setmetatable({}, {__close = function() while true do end end}) coroutine.wrap(function() local y <close> = setmetatable({}, getmetatable(x)) while true do end end)()",
    "local c = coroutine.create(function() local y <close> = setmetatable({}, {__close = function() while true do end end}) while true do end end) local x <close> = setmetatable({}, {__close = function() coroutine.close(c) end}) coroutine.resume(c)",
    "table.sort({3, 2, 1}, function() while true do end end)",
    "(('x'):rep(100)):gsub('x', function() while true do end end)",
    "load(function() return ' ' end)",
    "while true do load(function() while true do end end) end",
    "local x <close> = setmetatable({}, {__close = function() while true do end end}) while true do end",
    "table.move({}, 1, 1 << 60, 2, {})",
    "table.insert(setmetatable({}, {__len = function() return 1 << 60 end}), 1, 0)",
    "table.concat(setmetatable({}, {__index = getmetatable, __metatable = ''}), '', 1, 1 << 60)",
    "while true do (('a'):rep(30)):find(('a*'):rep(20) .. 'b') end",
    "while true do pcall(string.find, ('a'):rep(5000), ('.-'):rep(50) .. 'b') end",
    "local function f() f() end while true do pcall(f) end",
    "return tostring(setmetatable({}, {__tostring = function() while true do end end}))",
];

#[test]
fn who_runs_too_long_is_broken_off() {
    for body in ENDLESS {
        let engine = engine();
        let began = Instant::now();
        let result = run(&engine, &function(body, CqlType::Text));
        let took = began.elapsed();
        let error = result.expect_err(body);
        assert!(took < Duration::from_secs(2), "{body}: {took:?}");
        assert!(
            error.contains("ran longer than 300ms")
                || error.contains("not enough memory")
                || error.contains("too complex"),
            "{body}: {error}"
        );
    }
}

/// The thread is not held for longer than a turn, and a little.
#[test]
fn who_runs_long_gives_way() {
    let engine = engine();
    let function = function("local x = 0 while true do x = x + 1 end", CqlType::Text);
    engine.begin_turn();
    let mut held = Vec::new();
    let mut progress = engine.call(&function, &[], true);
    while let Ok(Progress::Suspended(run)) = progress {
        engine.begin_turn();
        let began = Instant::now();
        progress = run.resume();
        held.push(began.elapsed());
    }
    assert!(progress.is_err());
    assert!(held.len() > 20, "{} turns", held.len());
    // Of a thread that shares its processor a few turns are longer by no fault of ours.
    held.sort();
    let most = held[held.len() * 9 / 10];
    assert!(most < Duration::from_millis(100), "{most:?}");
}

#[test]
fn who_cannot_give_way_is_broken_off_sooner() {
    let engine = engine();
    let began = Instant::now();
    let result = engine.call(&function("while true do end", CqlType::Text), &[], false);
    assert!(result.is_err_and(|error| error.ends_with("ran longer than 50ms")));
    assert!(began.elapsed() < Duration::from_secs(1));
}

#[test]
fn who_takes_too_much_memory_is_broken_off() {
    for body in [
        "return ('x'):rep(1 << 40)",
        "local t = {} while true do t[#t + 1] = {} end",
        "local s = 'x' while true do s = s .. s end",
        "local s = 'x' while true do pcall(function() s = s .. s end) end",
        "local s = ('x'):rep(1 << 20) local t = {} for i = 1, 1000 do t[i] = s end return table.concat(t)",
    ] {
        assert!(text(body).is_err(), "{body}");
    }
    let s = "local s, t = ('x'):rep(1 << 20), {} for i = 1, 1000 do t[i] = s end return t";
    let list = CqlType::List {
        element: CqlType::Text.into(),
        frozen: false,
    };
    let result = run(&engine(), &function(s, list));
    assert_eq!(result, Err("the value is too large".to_owned()));
}

/// A call that was left does not disturb another one of the same function.
#[test]
fn calls_of_one_function_are_apart() {
    let ticks = Rc::new(Cell::new(0u64));
    let told = ticks.clone();
    let engine = Engine::new(LIMITS, move || Duration::from_micros(told.get()));
    let count = Arc::new(UserFunction {
        argument_names: vec!["a".into()],
        argument_types: vec![CqlType::Int],
        ..UserFunction::clone(&function(
            "for i = 1, 10000 do a = a + 1 end return a",
            CqlType::Int,
        ))
    });
    let call = |a: i32| {
        let argument = Some(Bytes::copy_from_slice(&a.to_be_bytes()));
        engine.begin_turn();
        // The turn is over before it begins.
        ticks.set(ticks.get() + 5_000);
        engine.call(&count, &[argument], true)
    };
    let (Ok(Progress::Suspended(a)), Ok(Progress::Suspended(b))) = (call(1), call(2)) else {
        panic!("both give way");
    };
    engine.begin_turn();
    let value = |progress: Result<Progress, String>| match progress {
        Ok(Progress::Value(Some(value))) => CqlType::Int.format_string(&value),
        other => panic!("{other:?}"),
    };
    assert_eq!(value(b.resume()), "10002");
    assert_eq!(value(a.resume()), "10001");
}

#[test]
fn errors_say_what_was_thrown() {
    for (body, message) in [
        ("error('bang')", "f:1: bang"),
        ("error('bang', 0)", "bang"),
        (
            "local x = nil; return x.y",
            "f:1: attempt to index a nil value (local 'x')",
        ),
        ("return", "0 values returned, expected 1"),
        ("return 1, 2", "2 values returned, expected 1"),
        ("return {}", "unexpected value"),
        ("return '\\xff'", "didn't validate"),
    ] {
        let error = text(body).expect_err(body);
        assert!(error.contains(message), "{body}: {error}");
    }
    let engine = engine();
    let error = engine.check(&function("return +", CqlType::Int));
    assert!(error.is_err_and(|error| error.contains("unexpected symbol")));
}
