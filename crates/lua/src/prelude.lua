-- Makes environments for functions: what they find in them cannot reach beyond them, and runs in Lua,
-- where it can be broken off, or takes little time. `check` raises an error once the time of the call is
-- over, so that nothing that catches errors goes on then. `scan` finds a pattern.
--
-- No function here calls back from C: there a call could not be left. `metamethod` finds one of a value.
local check, scan, metamethod = ...
local type, error, rawget, select, pairs, next = type, error, rawget, select, pairs, next
local tostring, math_type, floor = tostring, math.type, math.floor
local raw_setmetatable, raw_pcall, raw_load = setmetatable, pcall, load
local raw_collectgarbage = collectgarbage
local string, table, coroutine, math, utf8 = string, table, coroutine, math, utf8
local sub, raw_rep, raw_format = string.sub, string.rep, string.format
local raw_concat, raw_unpack = table.concat, table.unpack

local function checked(...)
    check()
    return ...
end

local base = {}
for _, name in next, {
    "assert", "error", "getmetatable", "next", "pairs", "rawequal", "rawget", "rawlen", "rawset",
    "select", "tonumber", "type", "_VERSION",
} do
    base[name] = _G[name]
end

function base.pcall(...)
    return checked(raw_pcall(...))
end

-- A handler that the library calls runs within the hook that broke a call off, where no hook is called.
function base.xpcall(f, handler, ...)
    local function done(fine, ...)
        check()
        if fine then
            return true, ...
        end
        return false, select(2, base.pcall(handler, ...))
    end
    return done(raw_pcall(f, ...))
end

function base.print() end

function base.tostring(value)
    local method = metamethod(value, "__tostring")
    if type(method) ~= "function" then
        return tostring(value)
    end
    local shown = method(value)
    if type(shown) ~= "string" then
        error("'__tostring' must return a string", 2)
    end
    return shown
end

local function next_index(t, i)
    local value = t[i + 1]
    if value ~= nil then
        return i + 1, value
    end
end

function base.ipairs(t)
    return next_index, t, 0
end

-- Finalizers run where no hook is called.
function base.setmetatable(t, metatable)
    if type(metatable) == "table" and rawget(metatable, "__gc") ~= nil then
        error("'__gc' is not allowed in a metatable", 2)
    end
    return raw_setmetatable(t, metatable)
end

function base.collectgarbage(what)
    return what == "count" and raw_collectgarbage("count") or 0
end

local strings = {}
for _, name in next, {
    "byte", "char", "len", "lower", "pack", "packsize", "reverse", "sub", "unpack", "upper",
} do
    strings[name] = string[name]
end

function strings.format(form, ...)
    local values = table.pack(...)
    for i = 1, values.n do
        if type(values[i]) == "table" or type(values[i]) == "userdata" then
            values[i] = base.tostring(values[i])
        end
    end
    return raw_format(form, raw_unpack(values, 1, values.n))
end

local function text(s, index, name)
    if type(s) == "number" then
        return tostring(s)
    elseif type(s) ~= "string" then
        error("bad argument #" .. index .. " to '" .. name .. "' (string expected, got " .. type(s) .. ")", 3)
    end
    return s
end

-- The library repeats nothing as often as it is told.
function strings.rep(s, n, separator)
    s, separator = text(s, 1, "rep"), text(separator or "", 3, "rep")
    if #s + #separator == 0 then
        return ""
    end
    return raw_rep(s, n, separator)
end

local function start_of(s, init)
    init = init or 1
    if init > 0 then
        return init
    elseif init == 0 or init < -#s then
        return 1
    end
    return #s + init + 1
end

function strings.find(s, pattern, init, plain)
    s, pattern = text(s, 1, "find"), text(pattern, 2, "find")
    return scan(s, pattern, start_of(s, init), plain and "plain" or "find")
end

function strings.match(s, pattern, init)
    s, pattern = text(s, 1, "match"), text(pattern, 2, "match")
    return scan(s, pattern, start_of(s, init), "match")
end

function strings.gmatch(s, pattern, init)
    s, pattern = text(s, 1, "gmatch"), text(pattern, 2, "gmatch")
    local at, last = start_of(s, init), nil
    local function found(from, to, ...)
        if not from then
            at = #s + 2
            return nil
        elseif to + 1 == last then
            -- An empty match where the one before ended.
            at = at + 1
            return found(scan(s, pattern, at, "step"))
        end
        at, last = to + 1, to + 1
        return ...
    end
    return function()
        return found(scan(s, pattern, at, "step"))
    end
end

local function expand(replacement, whole, ...)
    local out, from = {}, 1
    while true do
        local at = scan(replacement, "%", from, "plain")
        if not at then
            out[#out + 1] = sub(replacement, from)
            return raw_concat(out)
        end
        out[#out + 1] = sub(replacement, from, at - 1)
        local what = sub(replacement, at + 1, at + 1)
        if what == "%" then
            out[#out + 1] = "%"
        elseif what == "0" then
            out[#out + 1] = whole
        elseif what >= "1" and what <= "9" and #what == 1 then
            local index = what + 0
            if index > select("#", ...) then
                error("invalid capture index %" .. what .. " in replacement string", 3)
            end
            out[#out + 1] = tostring((select(index, ...)))
        else
            error("invalid use of '%' in replacement string", 3)
        end
        from = at + 2
    end
end

function strings.gsub(s, pattern, replacement, limit)
    s, pattern = text(s, 1, "gsub"), text(pattern, 2, "gsub")
    local kind = type(replacement)
    if kind == "number" then
        replacement, kind = tostring(replacement), "string"
    elseif kind ~= "string" and kind ~= "table" and kind ~= "function" then
        error("bad argument #3 to 'gsub' (string/function/table expected, got " .. kind .. ")", 2)
    end
    limit = limit or #s + 1
    local out, at, last, count = {}, 1, nil, 0
    local anchored = sub(pattern, 1, 1) == "^"
    local function replace(from, to, ...)
        local whole, value = sub(s, from, to), nil
        if kind == "string" then
            value = expand(replacement, whole, ...)
        elseif kind == "table" then
            value = replacement[(...)]
        else
            value = replacement(...)
        end
        if not value then
            value = whole
        elseif type(value) ~= "string" and type(value) ~= "number" then
            error("invalid replacement value (a " .. type(value) .. ")", 3)
        end
        out[#out + 1] = value
        count = count + 1
    end
    local function step(from, to, ...)
        if not from then
            return false
        elseif to + 1 == last then
            if at > #s then
                return false
            end
            out[#out + 1] = sub(s, at, at)
            at, last = at + 1, nil
            return true
        end
        out[#out + 1] = sub(s, at, from - 1)
        replace(from, to, ...)
        at, last = to + 1, to + 1
        return true
    end
    while count < limit and at <= #s + 1 and step(scan(s, pattern, at, "step")) do
        if anchored then
            break
        end
    end
    out[#out + 1] = sub(s, at)
    return raw_concat(out), count
end

local tables = { pack = table.pack }

local function list(t, name)
    if type(t) ~= "table" then
        error("bad argument #1 to '" .. name .. "' (table expected, got " .. type(t) .. ")", 3)
    end
    return #t
end

function tables.insert(t, ...)
    local last, given = list(t, "insert") + 1, select("#", ...)
    if given == 1 then
        t[last] = (...)
        return
    elseif given ~= 2 then
        error("wrong number of arguments to 'insert'", 2)
    end
    local at, value = ...
    if math_type(at) ~= "integer" and floor(at) ~= at or at < 1 or at > last then
        error("bad argument #2 to 'insert' (position out of bounds)", 2)
    end
    for i = last, at + 1, -1 do
        t[i] = t[i - 1]
    end
    t[at] = value
end

function tables.remove(t, at)
    local size = list(t, "remove")
    if at == nil then
        at = size
    elseif size + 1 ~= at and (at < 1 or at > size + 1) and not (size == 0 and at == 0) then
        error("bad argument #2 to 'remove' (position out of bounds)", 2)
    end
    local value = t[at]
    for i = at, size - 1 do
        t[i] = t[i + 1]
    end
    t[at < size and size or at] = nil
    return value
end

function tables.move(from, first, last, at, to)
    to = to or from
    if at > last or at <= first or from ~= to then
        for i = 0, last - first do
            to[at + i] = from[first + i]
        end
    else
        for i = last - first, 0, -1 do
            to[at + i] = from[first + i]
        end
    end
    return to
end

function tables.concat(t, separator, first, last)
    local out = {}
    first, last = first or 1, last or list(t, "concat")
    for i = first, last do
        local value = t[i]
        if type(value) ~= "string" and type(value) ~= "number" then
            error("invalid value (at index " .. i .. ") in table for 'concat'", 2)
        end
        out[#out + 1] = value
    end
    return raw_concat(out, separator)
end

function tables.unpack(t, first, last)
    first, last = first or 1, last or #t
    if last - first >= 100000 then
        error("too many results to unpack", 2)
    end
    local out = {}
    for i = first, last do
        out[i - first + 1] = t[i]
    end
    return raw_unpack(out, 1, last - first + 1)
end

-- Runs of elements in order are merged into longer ones.
function tables.sort(t, before)
    before = before or function(a, b) return a < b end
    local size = list(t, "sort")
    local from, to, run = {}, {}, 1
    for i = 1, size do
        from[i] = t[i]
    end
    while run < size do
        for low = 1, size, 2 * run do
            local a, b = low, low + run
            local middle, high = b, low + 2 * run
            if middle > size + 1 then middle = size + 1 end
            if high > size + 1 then high = size + 1 end
            for i = low, high - 1 do
                if a < middle and (b >= high or not before(from[b], from[a])) then
                    to[i], a = from[a], a + 1
                else
                    to[i], b = from[b], b + 1
                end
            end
        end
        from, to, run = to, from, 2 * run
    end
    for i = 1, size do
        t[i] = from[i]
    end
end

local coroutines = {}
for name, value in next, coroutine do
    coroutines[name] = value
end

function coroutines.resume(...)
    return checked(coroutine.resume(...))
end

-- What a coroutine has to close would run without hooks if it was one of these that ended it.
function coroutines.close(...)
    check()
    return checked(coroutine.close(...))
end

function coroutines.wrap(f)
    local made = coroutine.create(f)
    local function unwrap(fine, ...)
        if fine then
            return ...
        end
        error((...), 0)
    end
    return function(...)
        return unwrap(coroutines.resume(made, ...))
    end
end

local maths = {}
for name, value in next, math do
    maths[name] = value
end
-- The same arguments give the same result.
maths.random, maths.randomseed = nil, nil

local function copy(of)
    local own = {}
    for name, value in next, of do
        own[name] = value
    end
    return own
end

local of_strings = getmetatable("")
of_strings.__index = copy(strings)
of_strings.__metatable = false

-- Errors leave as text.
local function finish(fine, ...)
    local thrown = ...
    if fine or type(thrown) == "string" then
        return fine, ...
    end
    return false, base.tostring(thrown)
end

local function run(chunk, ...)
    return finish(raw_pcall(chunk, ...))
end

local function new_environment()
    local environment = copy(base)
    environment._G = environment
    environment.string = copy(strings)
    environment.table = copy(tables)
    environment.coroutine = copy(coroutines)
    environment.math = copy(maths)
    environment.utf8 = copy(utf8)
    -- Text only: byte code that nobody checked may do anything.
    function environment.load(chunk, name, _, ...)
        local of = environment
        if select("#", ...) > 0 then
            of = ...
        end
        if type(chunk) == "function" then
            local pieces = {}
            for piece in chunk do
                if piece == "" then
                    break
                end
                pieces[#pieces + 1] = piece
            end
            chunk = raw_concat(pieces)
        end
        return raw_load(chunk, name, "t", of)
    end
    return environment
end

return run, new_environment
