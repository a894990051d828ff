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
function(n, is_float) return native.show_real(n, is_float) end
-- show: real fail
function(value, kind) if value == nil then return "null" end if kind == "char" then return utf8.char(value) end if kind == "float" or kind == "double" then return real(value, kind == "float") end if kind == "builder" then return value[1] end if type(value) == "userdata" then return native.text(value) end if type(value) == "table" then fail("UnsupportedOperationException", "collections, tuples and user types have no text here") end return tostring(value) end
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
function(text, is_whole, low, high) if text == nil then if is_whole then fail("NumberFormatException", "Cannot parse null string") end fail("NullPointerException") end if is_whole then local number = string.find(text, "^[-+]?%d+$") and math.tointeger(tonumber(text)) if not number or low and (number < low or number > high) then fail("NumberFormatException", "For input string: \"" .. text .. "\"") end return number end return native.read_real(text) or fail("NumberFormatException", "For input string: \"" .. text .. "\"") end
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
-- place_in: alike
function(list, value) for at, item in ipairs(list) do if alike(item, value) then return at - 1 end end return -1 end
-- take: fail
function(list, at) if at < 0 or at >= #list then fail("IndexOutOfBoundsException", "Index: " .. at .. ", Size: " .. #list) end return table.remove(list, at + 1) end
-- merge:
function(items, more) for key, value in next, more do items[key] = value end return true end
-- extend:
function(list, more) for i = 1, #more do list[#list + 1] = more[i] end return true end
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
-- given:
function(value, what) if what ~= nil then error(what, 0) end return value end
-- uuid:
function(high, low) local hex = string.format("%016x%016x", high, low) return string.sub(hex, 1, 8) .. "-" .. string.sub(hex, 9, 12) .. "-" .. string.sub(hex, 13, 16) .. "-" .. string.sub(hex, 17, 20) .. "-" .. string.sub(hex, 21) end
-- uuid_of: uuid fail
function(text) local a, b, c, d, e if #text <= 36 then a, b, c, d, e = string.match(text, "^(%x+)-(%x+)-(%x+)-(%x+)-(%x+)$") end if not a then fail("IllegalArgumentException", (#text > 36 and "UUID string too large" or "Invalid UUID string: " .. text)) end local function bits(hex, mask) return tonumber(hex, 16) & mask end return uuid(bits(a, 0xffffffff) << 32 | bits(b, 0xffff) << 16 | bits(c, 0xffff), bits(d, 0xffff) << 48 | bits(e, 0xffffffffffff)) end
-- uuid_bits:
function(uuid, from) local hex = string.gsub(uuid, "-", "") return tonumber(string.sub(hex, from, from + 15), 16) end
-- uuid_order: uuid_bits order
function(a, b) local high = order(uuid_bits(a, 1), uuid_bits(b, 1)) if high ~= 0 then return high end return order(uuid_bits(a, 17), uuid_bits(b, 17)) end
-- radix:
function(n, base) if base < 2 or base > 36 then base = 10 end if n == 0 then return "0" end local digits, is_negative = "", n < 0 while n ~= 0 do local digit = math.abs(math.fmod(n, base)) digits = string.sub("0123456789abcdefghijklmnopqrstuvwxyz", digit + 1, digit + 1) .. digits n = (n - math.fmod(n, base)) // base end return (is_negative and "-" or "") .. digits end
-- magnitude:
function(n) if n < 0 then return -n end return n end
-- characters:
function(text) local codes = {n = 0} for _, code in utf8.codes(text) do codes.n = codes.n + 1 codes[codes.n] = code end return codes end
-- hash: i32
function(value, kind) if value == nil then return 0 end if kind == "boolean" then return value and 1231 or 1237 end if kind == "int" then return value end if kind == "text" then local sum = 0 for _, code in utf8.codes(value) do if code > 65535 then sum = sum * 31 + 55296 + (code - 65536 >> 10) & 4294967295 code = 56320 + (code - 65536 & 1023) end sum = sum * 31 + code & 4294967295 end return i32(sum) end if kind == "float" then return (string.unpack("<i4", string.pack("<f", value))) end if kind == "double" then value = string.unpack("<i8", string.pack("<d", value)) end return i32((value ~ value >> 32) & 4294967295) end
-- shown_or:
function(value, shown, default) if value == nil then return default end return shown end
-- present:
function(value) if value == nil then error("java.util.NoSuchElementException: No value present", 0) end return value end
-- or_else:
function(value, default) if value == nil then return default end return value end
-- counted:
function(list) list.n = #list return list end
-- join:
function(separator, list) local parts = {} for i = 1, list.n do parts[i] = list[i] == nil and "null" or list[i] end return table.concat(parts, separator) end
-- split:
function(text, pattern, limit) local parts, index, from = {n = 0}, 1, 1 local function add(part) parts.n = parts.n + 1 parts[parts.n] = part end while from <= #text + 1 and (limit <= 0 or parts.n < limit - 1) do local first, last = string.find(text, pattern, from) if not first then break end if last >= first then from = last + 1 else from = first > #text and first + 1 or utf8.offset(text, 2, first) end if index ~= 1 or first ~= 1 or last >= first then add(string.sub(text, index, first - 1)) index = last + 1 end end if parts.n == 0 then return {n = 1, text} end add(string.sub(text, index)) while limit == 0 and parts.n > 0 and parts[parts.n] == "" do parts[parts.n] = nil parts.n = parts.n - 1 end return parts end
-- place_from:
function(text, of, from) local count = utf8.len(text) if from < 0 then from = 0 end if from > count then return of == "" and count or -1 end local at = string.find(text, of, utf8.offset(text, from + 1), true) return at and utf8.len(text, 1, at) - 1 or -1 end
-- last_place:
function(text, of) for at = #text - #of + 1, 1, -1 do if string.sub(text, at, at + #of - 1) == of then return utf8.len(text, 1, at) - 1 end end return -1 end
-- repeated: fail
function(text, count) if count < 0 then fail("IllegalArgumentException", "count is negative: " .. count) end return string.rep(text, count) end
-- spelled:
function(codes) local parts = {} for i = 1, codes.n do parts[i] = utf8.char(codes[i]) end return table.concat(parts) end
-- same_items:
function(a, b) if a == nil or b == nil then return a == b end if a.n ~= b.n then return false end for i = 1, a.n do if a[i] ~= b[i] then return false end end return true end
-- show_date:
function(millis) if millis == nil then return "null" end local seconds = millis // 1000 local days = seconds // 86400 local shifted = days + 719468 local era = shifted // 146097 local day = shifted - era * 146097 local year = (day - day // 1460 + day // 36524 - day // 146096) // 365 day = day - (365 * year + year // 4 - year // 100) local month = (5 * day + 2) // 153 day = day - (153 * month + 2) // 5 + 1 year = year + era * 400 + (month >= 10 and 1 or 0) local names = {"Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec", "Jan", "Feb"} local week = {"Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"} return string.format("%s %s %02d %02d:%02d:%02d UTC %04d", week[days % 7 + 1], names[month + 1], day, seconds // 3600 % 24, seconds // 60 % 60, seconds % 60, year) end
-- alike:
function(a, b) if a == b then return math.type(a) ~= "float" or a ~= 0 or 1 / a == 1 / b end if type(a) == "number" then return a ~= a and type(b) == "number" and b ~= b end if type(a) == "userdata" then return native.same(a, b) end if type(a) ~= "table" or type(b) ~= "table" then return false end for key, value in next, a do local other = b[key] if other == nil or not alike(value, other) then return false end end for key in next, b do if a[key] == nil then return false end end return true end
-- real_order:
function(a, b) if a < b then return -1 end if a > b then return 1 end if a ~= a or b ~= b then return (a ~= a and 1 or 0) - (b ~= b and 1 or 0) end if a ~= 0 then return 0 end return (1 / a > 0 and 1 or 0) - (1 / b > 0 and 1 or 0) end
-- nearest:
function(n) local below = math.floor(n) + 0.0 return n - below >= 0.5 and below + 1.0 or below end
-- text_order:
function(a, b) local function units(text) local all = {} for _, code in utf8.codes(text) do if code > 65535 then all[#all + 1] = 55296 + (code - 65536 >> 10) code = 56320 + (code - 65536 & 1023) end all[#all + 1] = code end return all end local x, y = units(a), units(b) for i = 1, math.min(#x, #y) do if x[i] ~= y[i] then return x[i] - y[i] end end return #x - #y end
