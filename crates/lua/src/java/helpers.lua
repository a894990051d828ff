-- What Java does otherwise than Lua: one function a line, each with the names of those it calls.
-- fail:
function(class, text) error("java.lang." .. class .. (text and ": " .. text or ""), 0) end
-- some: fail
function(value) if value == nil then fail("NullPointerException") end return value end
-- i32:
function(n) return (n + 2147483648 & 4294967295) - 2147483648 end
-- i16:
function(n) return (n + 32768 & 65535) - 32768 end
-- i8:
function(n) return (n + 128 & 255) - 128 end
-- f32:
function(n) return (string.unpack("f", string.pack("f", n))) end
-- quotient: fail
function(a, b) if b == 0 then fail("ArithmeticException", "/ by zero") end local q = a // b if q < 0 and q * b ~= a then q = q + 1 end return q end
-- remainder: fail
function(a, b) if b == 0 then fail("ArithmeticException", "/ by zero") end return math.fmod(a, b) end
-- rest:
function(a, b) if b == 0 or a ~= a or b ~= b or a == math.huge or a == -math.huge then return 0.0 / 0.0 end return math.fmod(a, b) end
-- whole:
function(n, low, high) if n ~= n then return 0 end if n <= low then return low end if n >= high then return high end return n >= 0 and math.floor(n) or math.ceil(n) end
-- real:
function(n, is_float) if n ~= n then return "NaN" end if n == math.huge then return "Infinity" end if n == -math.huge then return "-Infinity" end if n == 0 then return 1 / n < 0 and "-0.0" or "0.0" end local text for digits = 1, 17 do text = string.format("%." .. digits - 1 .. "e", n) local back = tonumber(text) if is_float then back = string.unpack("f", string.pack("f", back)) end if back == n then break end end local sign, first, more, exponent = string.match(text, "^(-?)(%d)%.?(%d*)e([-+]%d+)$") exponent = tonumber(exponent) if exponent < -3 or exponent >= 7 then return sign .. first .. "." .. (more == "" and "0" or more) .. "E" .. exponent end local all = first .. more if exponent < 0 then return sign .. "0." .. string.rep("0", -exponent - 1) .. all end all = all .. string.rep("0", exponent + 1 - #all) local behind = string.sub(all, exponent + 2) return sign .. string.sub(all, 1, exponent + 1) .. "." .. (behind == "" and "0" or behind) end
-- show: real fail
function(value, kind) if value == nil then return "null" end if kind == "char" then return utf8.char(value) end if kind == "float" or kind == "double" then return real(value, kind == "float") end if kind == "builder" then return value[1] end if type(value) == "table" then fail("UnsupportedOperationException", "collections, tuples and user types have no text here") end return tostring(value) end
-- part: fail
function(text, from, to) local count = utf8.len(text) to = to or count if from < 0 or to > count or from > to then fail("StringIndexOutOfBoundsException", "begin " .. from .. ", end " .. to .. ", length " .. count) end return string.sub(text, utf8.offset(text, from + 1), utf8.offset(text, to + 1) - 1) end
-- char: part
function(text, at) return utf8.codepoint(part(text, at, at + 1)) end
-- place:
function(text, of) local at = string.find(text, of, 1, true) return at and utf8.len(text, 1, at) - 1 or -1 end
-- trim:
function(text) return (string.match(text, "^%s*(.-)%s*$")) end
-- swap:
function(text, old, new) local parts, from = {}, 1 while true do local first, last = string.find(text, old, from, true) if not first or last < first then break end parts[#parts + 1] = string.sub(text, from, first - 1) from = last + 1 end parts[#parts + 1] = string.sub(text, from) return table.concat(parts, new) end
-- parse: fail
function(text, is_whole) if text == nil then if is_whole then fail("NumberFormatException", "Cannot parse null string") end fail("NullPointerException") end local number = tonumber(text) if is_whole then number = text and string.find(text, "^[-+]?%d+$") and math.tointeger(number) end if not number then fail("NumberFormatException", "For input string: \"" .. tostring(text) .. "\"") end return is_whole and number or number + 0.0 end
-- count:
function(items) local count = 0 for _ in next, items do count = count + 1 end return count end
-- keys:
function(items) local keys = {} for key in next, items do keys[#keys + 1] = key end table.sort(keys, function(a, b) if type(a) == type(b) and (type(a) == "number" or type(a) == "string") then return a < b end return tostring(a) < tostring(b) end) return keys end
-- values: keys
function(items) local values = {} for at, key in next, keys(items) do values[at] = items[key] end return values end
-- entries: keys
function(items) local entries = {} for at, key in next, keys(items) do entries[at] = {key, items[key]} end return entries end
-- elements:
function(list) local set = {} for _, value in next, list do set[value] = true end return set end
-- item: fail
function(list, at) if at < 0 or at >= #list then fail("IndexOutOfBoundsException", "Index: " .. at .. ", Size: " .. #list) end return list[at + 1] end
-- append:
function(list, value) list[#list + 1] = value return true end
-- insert:
function(list, at, value) table.insert(list, at + 1, value) end
-- include:
function(set, value) local is_new = set[value] == nil set[value] = true return is_new end
-- put:
function(items, key, value) local before = items[key] items[key] = value return before end
-- with:
function(items, key, value) items[key] = value return items end
-- without:
function(items, key) local before = items[key] items[key] = nil return before end
-- place_in:
function(list, value) for at, item in ipairs(list) do if item == value then return at - 1 end end return -1 end
-- take: fail
function(list, at) if at < 0 or at >= #list then fail("IndexOutOfBoundsException", "Index: " .. at .. ", Size: " .. #list) end return table.remove(list, at + 1) end
-- merge:
function(items, more) for key, value in next, more do items[key] = value end return true end
-- extend:
function(list, more) for _, value in ipairs(more) do list[#list + 1] = value end return true end
-- copy:
function(list) return table.move(list, 1, #list, 1, {}) end
-- write:
function(builder, text) builder[1] = builder[1] .. text return builder end
-- order:
function(a, b) return a < b and -1 or a > b and 1 or 0 end
-- shifted:
function(n, places) if places == 63 then return n < 0 and -1 or 0 end return n // (1 << places) end
-- array: fail
function(value, size, ...) if size < 0 then fail("NegativeArraySizeException", size) end if size > 16777216 then error("not enough memory", 0) end local made, is_deep = {n = size}, select("#", ...) > 0 if is_deep or value ~= nil then for i = 1, size do if is_deep then made[i] = array(value, ...) else made[i] = value end end end return made end
-- at: fail
function(array, i) if i < 0 or i >= array.n then fail("ArrayIndexOutOfBoundsException", "Index " .. i .. " out of bounds for length " .. array.n) end return array[i + 1] end
-- set_at: at
function(array, i, value) at(array, i) array[i + 1] = value return value end
-- change_at: at
function(array, i, change) local value = change(at(array, i)) array[i + 1] = value return value end
-- changed_at: at
function(array, i, change) local old = at(array, i) array[i + 1] = change(old) return old end
-- each:
function(array) local i = 0 return function() i = i + 1 if i <= array.n then return i, array[i] end end end
-- listed:
function(array) local list = {} for i = 1, array.n do list[i] = array[i] end return list end
-- fill:
function(array, value) for i = 1, array.n do array[i] = value end end
-- resized: array
function(from, size, value) local made = array(value, size) for i = 1, math.min(size, from.n) do made[i] = from[i] end return made end
-- shown_array:
function(array, show) local parts = {} for i = 1, array.n do parts[i] = show(array[i]) end return "[" .. table.concat(parts, ", ") .. "]" end
-- thrown:
function(class, text) return text == nil and class or class .. ": " .. text end
-- class_of:
function(thrown) local at = string.find(thrown, ": ", 1, true) return at and string.sub(thrown, 1, at - 1) or thrown end
-- message:
function(thrown) local at = string.find(thrown, ": ", 1, true) return at and string.sub(thrown, at + 2) or nil end
-- is_one: class_of
function(thrown, classes) return string.find(classes, " " .. class_of(thrown) .. " ", 1, true) ~= nil end
-- catchable:
function(thrown) if type(thrown) == "string" then if string.sub(thrown, 1, 5) == "java." then return thrown end if string.find(thrown, "attempt to", 1, true) and string.find(thrown, " nil", 1, true) or string.find(thrown, "got nil", 1, true) or string.find(thrown, "got no value", 1, true) then return "java.lang.NullPointerException" end end error(thrown, 0) end
-- guard: catchable
function(run) local fine, how, value = pcall(run) if not fine then how = catchable(how) end return fine, how, value end
