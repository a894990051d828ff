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
-- show: real no_text
function(value, kind) if value == nil then return "null" end if kind == "char" then return utf8.char(value) end if kind == "float" or kind == "double" then return real(value, kind == "float") end if kind == "builder" then return value[1] end if kind == "date" then return native.show_day(value) end if kind == "time" then return native.show_time(value) end if kind == "duration" then return native.show_duration(value) end if type(value) == "userdata" then return native.text(value) end if type(value) == "table" then return no_text(value) end if math.type(value) == "float" then return real(value, false) end return tostring(value) end
-- units:
function(text, to) to = to or #text local count = utf8.len(text, 1, to) if count == to then return count end return native.units(text, to) end
-- part: fail units
function(text, from, to) local count = units(text) to = to or count if from < 0 or to > count or from > to then fail("StringIndexOutOfBoundsException", "begin " .. from .. ", end " .. to .. ", length " .. count) end if count == #text then return string.sub(text, from + 1, to) end return native.part(text, from, to) end
-- char: fail units
function(text, at) local count = units(text) if at < 0 or at >= count then if native.is_narrow(text) then fail("StringIndexOutOfBoundsException", "String index out of range: " .. at) end fail("StringIndexOutOfBoundsException", "index " .. at .. ", length " .. count) end if count == #text then return string.byte(text, at + 1) end return native.unit(text, at) end
-- code_at: fail units
function(text, at) local count = units(text) if at < 0 or at >= count then fail("StringIndexOutOfBoundsException", "index " .. at .. ", length " .. count) end local code = native.unit(text, at) if code & 0xfc00 == 0xd800 and at + 1 < count then local next = native.unit(text, at + 1) if next & 0xfc00 == 0xdc00 then return 65536 + (code - 55296 << 10) + next - 56320 end end return code end
-- place: units
function(text, of) local at = string.find(text, of, 1, true) return at and units(text, at - 1) or -1 end
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
-- joined:
function(a, b) if string.byte(a, -3) == 0xed then return native.joined(a, b) end return a .. b end
-- write: joined
function(builder, text) builder[1] = joined(builder[1], text) return builder end
-- inserted: fail units part joined
function(builder, at, text) local all = builder[1] local count = units(all) if at < 0 or at > count then fail("StringIndexOutOfBoundsException", "offset " .. at .. ", length " .. count) end builder[1] = joined(joined(part(all, 0, at), text), part(all, at)) return builder end
-- ranged: fail
function(from, to, count) if from < 0 or from > to or to > count then fail("StringIndexOutOfBoundsException", "start " .. from .. ", end " .. to .. ", length " .. count) end end
-- replaced: ranged units part joined
function(builder, from, to, text) local all = builder[1] local count = units(all) if to > count then to = count end ranged(from, to, count) builder[1] = joined(joined(part(all, 0, from), text), part(all, to)) return builder end
-- part_of: ranged units part
function(builder, from, to) local all = builder[1] local count = units(all) to = to or count ranged(from, to, count) return part(all, from, to) end
-- within: fail
function(at, count) if at < 0 or at >= count then fail("StringIndexOutOfBoundsException", "index " .. at .. ", length " .. count) end end
-- put_unit: within units part joined
function(builder, at, text) local all = builder[1] within(at, units(all)) builder[1] = joined(joined(part(all, 0, at), text), part(all, at + 1)) return builder end
-- unit_of: within units char
function(builder, at) within(at, units(builder[1])) return char(builder[1], at) end
-- set_length: fail units part
function(builder, count) local all = builder[1] local size = units(all) if count < 0 then fail("StringIndexOutOfBoundsException", "String index out of range: " .. count) end if count < size then builder[1] = part(all, 0, count) else builder[1] = all .. string.rep("\0", count - size) end end
-- turned:
function(builder) builder[1] = native.reversed(builder[1]) return builder end
-- write_part: fail units part write
function(builder, text, from, to) local count = units(text) if from < 0 or from > to or to > count then fail("IndexOutOfBoundsException", "start " .. from .. ", end " .. to .. ", length " .. count) end return write(builder, part(text, from, to)) end
-- told:
function(text) if text == nil or utf8.len(text) then return text end return native.told(text) end
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
function(text) local codes = {n = 0} local function add(code) codes.n = codes.n + 1 codes[codes.n] = code end for _, code in utf8.codes(text, true) do if code > 65535 then add(55296 + (code - 65536 >> 10)) add(56320 + (code - 65536 & 1023)) else add(code) end end return codes end
-- hash: i32 uuid_bits
function(value, kind) if value == nil then return 0 end if kind == "boolean" then return value and 1231 or 1237 end if kind == "int" then return value end if kind == "text" then local sum = 0 for _, code in utf8.codes(value, true) do if code > 65535 then sum = sum * 31 + 55296 + (code - 65536 >> 10) & 4294967295 code = 56320 + (code - 65536 & 1023) end sum = sum * 31 + code & 4294967295 end return i32(sum) end if kind == "float" then return (string.unpack("<i4", string.pack("<f", value))) end if kind == "decimal" or kind == "whole" then return native.hash(value, kind == "whole") end if kind == "uuid" then value = uuid_bits(value, 1) ~ uuid_bits(value, 17) end if kind == "double" then value = string.unpack("<i8", string.pack("<d", value)) end return i32((value ~ value >> 32) & 4294967295) end
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
-- split: found
function(regex, text, limit) local parts, index, from = {n = 0}, 1, 1 local function add(part) parts.n = parts.n + 1 parts[parts.n] = part end while from <= #text + 1 and (limit <= 0 or parts.n < limit - 1) do local match = found(regex, text, from, "find") if not match then break end local first, last = match[1], match[2] if last >= first then from = last + 1 else from = first > #text and first + 1 or utf8.offset(text, 2, first) end if index ~= 1 or first ~= 1 or last >= first then add(string.sub(text, index, first - 1)) index = last + 1 end end if parts.n == 0 then return {n = 1, text} end add(string.sub(text, index)) while limit == 0 and parts.n > 0 and parts[parts.n] == "" do parts[parts.n] = nil parts.n = parts.n - 1 end return parts end
-- place_from: units
function(text, of, from) local count = units(text) if from < 0 then from = 0 end if from > count then return of == "" and count or -1 end local at = string.find(text, of, count == #text and from + 1 or native.offset(text, from), true) return at and units(text, at - 1) or -1 end
-- last_place: units
function(text, of, from) local count = units(text) if from == nil or from > count then from = count end if from < 0 then return -1 end local last = count == #text and from + 1 or native.offset(text, from) for at = math.min(last, #text - #of + 1), 1, -1 do if string.sub(text, at, at + #of - 1) == of then return units(text, at - 1) end end return -1 end
-- repeated: fail
function(text, count) if count < 0 then fail("IllegalArgumentException", "count is negative: " .. count) end return string.rep(text, count) end
-- spelled:
function(codes) local parts = {} local i = 1 while i <= codes.n do local code = codes[i] local next = codes[i + 1] if code & 0xfc00 == 0xd800 and i < codes.n and next & 0xfc00 == 0xdc00 then code = 65536 + (code - 55296 << 10) + next - 56320 i = i + 1 end parts[#parts + 1] = utf8.char(code) i = i + 1 end return table.concat(parts) end
-- same_items:
function(a, b) if a == nil or b == nil then return a == b end if a.n ~= b.n then return false end for i = 1, a.n do if a[i] ~= b[i] then return false end end return true end
-- show_date:
function(millis) if millis == nil then return "null" end local seconds = millis // 1000 local days = seconds // 86400 local shifted = days + 719468 local era = shifted // 146097 local day = shifted - era * 146097 local year = (day - day // 1460 + day // 36524 - day // 146096) // 365 day = day - (365 * year + year // 4 - year // 100) local month = (5 * day + 2) // 153 day = day - (153 * month + 2) // 5 + 1 year = year + era * 400 + (month >= 10 and 1 or 0) local names = {"Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec", "Jan", "Feb"} local week = {"Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"} return string.format("%s %s %02d %02d:%02d:%02d UTC %04d", week[days % 7 + 1], names[month + 1], day, seconds // 3600 % 24, seconds // 60 % 60, seconds % 60, year) end
-- alike: is_buffer bytes
function(a, b) if a == b then return math.type(a) ~= "float" or a ~= 0 or 1 / a == 1 / b end if type(a) == "number" then return a ~= a and type(b) == "number" and b ~= b end if type(a) == "userdata" then return native.same(a, b) end if type(a) ~= "table" or type(b) ~= "table" then return false end if is_buffer(a) then return is_buffer(b) and bytes(a) == bytes(b) end for key, value in next, a do local other = b[key] if other == nil or not alike(value, other) then return false end end for key in next, b do if a[key] == nil then return false end end return true end
-- real_order:
function(a, b) if a < b then return -1 end if a > b then return 1 end if a ~= a or b ~= b then return (a ~= a and 1 or 0) - (b ~= b and 1 or 0) end if a ~= 0 then return 0 end return (1 / a > 0 and 1 or 0) - (1 / b > 0 and 1 or 0) end
-- nearest:
function(n) local below = math.floor(n) + 0.0 return n - below >= 0.5 and below + 1.0 or below end
-- text_order:
function(a, b) local function units(text) local all = {} for _, code in utf8.codes(text, true) do if code > 65535 then all[#all + 1] = 55296 + (code - 65536 >> 10) code = 56320 + (code - 65536 & 1023) end all[#all + 1] = code end return all end local x, y = units(a), units(b) for i = 1, math.min(#x, #y) do if x[i] ~= y[i] then return x[i] - y[i] end end return #x - #y end
-- no_text: fail
function() fail("UnsupportedOperationException", "a value of this class has no text here") end
-- hash_list: i32
function(list, hash) local sum = 1 for _, item in ipairs(list) do sum = i32(sum * 31 + hash(item)) end return sum end
-- hash_set: i32
function(set, hash) local sum = 0 for item in next, set do sum = i32(sum + hash(item)) end return sum end
-- hash_map: i32
function(map, hash_key, hash) local sum = 0 for key, value in next, map do sum = i32(sum + (hash_key(key) ~ hash(value))) end return sum end
-- show_list:
function(list, show) if list == nil then return "null" end local parts = {} for i, item in ipairs(list) do parts[i] = show(item) end return "[" .. table.concat(parts, ", ") .. "]" end
-- show_set: keys show_list
function(set, show) if set == nil then return "null" end return show_list(keys(set), show) end
-- show_map: keys
function(map, show_key, show) if map == nil then return "null" end local parts = {} for i, key in ipairs(keys(map)) do parts[i] = show_key(key) .. "=" .. show(map[key]) end return "{" .. table.concat(parts, ", ") .. "}" end
-- show_entry:
function(entry, show_key, show) if entry == nil then return "null" end return show_key(entry[1]) .. "=" .. show(entry[2]) end
-- show_optional:
function(optional, show) if optional == nil then return "null" end if optional[1] == nil then return "Optional.empty" end return "Optional[" .. show(optional[1]) .. "]" end
-- show_address:
function(text) if text == nil then return "null" end return "/" .. native.show_address(text) end
-- show_tuple:
function(tuple, tell) if tuple == nil then return "null" end local parts = {} for i = 1, tell.n do parts[i] = tell[i](tuple[i]) end return "(" .. table.concat(parts, ",") .. ")" end
-- show_user:
function(value, fields) if value == nil then return "null" end local parts = {} for i, field in ipairs(fields) do parts[i] = field[1] .. ":" .. field[2](value[field[1]]) end return "{" .. table.concat(parts, ",") .. "}" end
-- tell_text: swap
function(text) return "'" .. swap(text, "'", "''") .. "'" end
-- tell_blob:
function(text) local parts = {} for i = 1, #text do parts[i] = string.format("%02x", string.byte(text, i)) end return "0x" .. table.concat(parts) end
-- tell_items: keys
function(open, close, is_keyed, tell, tell_value) return function(items) local parts = {} items = items or {} for i, item in ipairs(is_keyed and keys(items) or items) do parts[i] = tell(item) .. (tell_value and ":" .. tell_value(items[item]) or "") end return open .. table.concat(parts, ",") .. close end end
-- buffer:
function(value) if type(value) ~= "string" then return value end return setmetatable({data = {text = value, n = #value}, offset = 0, position = 0, limit = #value, capacity = #value}, {__name = "ByteBuffer"}) end
-- is_buffer:
function(value) local of = type(value) == "table" and getmetatable(value) return of and of.__name == "ByteBuffer" or false end
-- exploded:
function(data) if data.text then local text = data.text data.text = nil for i = 1, #text do data[i] = (string.byte(text, i) ~ 128) - 128 end end return data end
-- text_at:
function(buffer, at, count) local data, from = buffer.data, buffer.offset + at if data.text then return string.sub(data.text, from + 1, from + count) end local parts = {} for i = 1, count do parts[i] = string.char(data[from + i] & 255) end return table.concat(parts) end
-- bytes: text_at
function(value) if type(value) ~= "table" then return value end return text_at(value, value.position, value.limit - value.position) end
-- allocated: array buffer thrown
function(size) if size < 0 then error("java.lang.IllegalArgumentException: capacity < 0: (" .. size .. " < 0)", 0) end local made = buffer("") made.data = array(0, size) made.limit, made.capacity = size, size return made end
-- wrapped: buffer fail
function(array, from, count) from, count = from or 0, count or array.n if from < 0 or count < 0 or from + count > array.n then fail("IndexOutOfBoundsException") end local made = buffer("") made.data = array made.position, made.limit, made.capacity = from, from + count, array.n return made end
-- advanced: fail
function(buffer, at, size, beyond) if at then if at < 0 or at + size > buffer.limit then fail("IndexOutOfBoundsException") end return at end at = buffer.position if at + size > buffer.limit then error(beyond, 0) end buffer.position = at + size return at end
-- get_number: advanced text_at
function(buffer, at, size, form) at = advanced(buffer, at, size, "java.nio.BufferUnderflowException") return (string.unpack(form, text_at(buffer, at, size))) end
-- put_number: advanced exploded
function(buffer, at, size, form, value) at = advanced(buffer, at, size, "java.nio.BufferOverflowException") local data, text = exploded(buffer.data), string.pack(form, value) for i = 1, size do data[buffer.offset + at + i] = (string.byte(text, i) ~ 128) - 128 end return buffer end
-- in_array: fail
function(array, from, count) if from < 0 or count < 0 or from + count > array.n then fail("IndexOutOfBoundsException", "Range [" .. from .. ", " .. from .. " + " .. count .. ") out of bounds for length " .. array.n) end end
-- get_bytes: in_array advanced exploded
function(buffer, array, from, count) from, count = from or 0, count or array.n in_array(array, from, count) local at = buffer.offset + advanced(buffer, nil, count, "java.nio.BufferUnderflowException") local data = exploded(buffer.data) table.move(data, at + 1, at + count, from + 1, array) return buffer end
-- put_bytes: in_array advanced exploded
function(buffer, array, from, count) from, count = from or 0, count or array.n in_array(array, from, count) local at = buffer.offset + advanced(buffer, nil, count, "java.nio.BufferOverflowException") table.move(array, from + 1, from + count, at + 1, exploded(buffer.data)) return buffer end
-- put_buffer: advanced exploded
function(buffer, from) if rawequal(buffer, from) then error("java.lang.IllegalArgumentException: The source buffer is this buffer", 0) end local count = from.limit - from.position local at = buffer.offset + advanced(buffer, nil, count, "java.nio.BufferOverflowException") local start = from.offset + from.position table.move(exploded(from.data), start + 1, start + count, at + 1, exploded(buffer.data)) from.position = from.limit return buffer end
-- array_of: exploded
function(buffer) return exploded(buffer.data) end
-- moved:
function(buffer, to) if to > buffer.limit then error("java.lang.IllegalArgumentException: newPosition > limit: (" .. to .. " > " .. buffer.limit .. ")", 0) end if to < 0 then error("java.lang.IllegalArgumentException: newPosition < 0: (" .. to .. " < 0)", 0) end buffer.position = to if buffer.mark and buffer.mark > to then buffer.mark = nil end return buffer end
-- limited:
function(buffer, to) if to > buffer.capacity then error("java.lang.IllegalArgumentException: newLimit > capacity: (" .. to .. " > " .. buffer.capacity .. ")", 0) end if to < 0 then error("java.lang.IllegalArgumentException: newLimit < 0: (" .. to .. " < 0)", 0) end buffer.limit = to if buffer.position > to then buffer.position = to end if buffer.mark and buffer.mark > to then buffer.mark = nil end return buffer end
-- placed:
function(buffer, position, limit) buffer.position, buffer.limit, buffer.mark = position, limit or buffer.limit, nil return buffer end
-- flipped: placed
function(buffer) return placed(buffer, 0, buffer.position) end
-- cleared: placed
function(buffer) return placed(buffer, 0, buffer.capacity) end
-- marked:
function(buffer) buffer.mark = buffer.position return buffer end
-- unmoved:
function(buffer) if not buffer.mark then error("java.nio.InvalidMarkException", 0) end buffer.position = buffer.mark return buffer end
-- twin: buffer
function(of) local made = buffer("") for name, value in next, of do made[name] = value end return made end
-- slice: twin placed
function(of) local made = twin(of) made.offset = of.offset + of.position made.capacity = of.limit - of.position return placed(made, 0, made.capacity) end
-- compacted: exploded placed
function(buffer) local count, from = buffer.limit - buffer.position, buffer.offset + buffer.position local data = exploded(buffer.data) table.move(data, from + 1, from + count, buffer.offset + 1) return placed(buffer, count, buffer.capacity) end
-- left:
function(buffer) return buffer.limit - buffer.position end
-- same_bytes: bytes
function(a, b) return a ~= nil and b ~= nil and bytes(a) == bytes(b) end
-- order_of_bytes: bytes
function(a, b) local x, y = bytes(a), bytes(b) for i = 1, math.min(#x, #y) do local p, q = string.unpack("i1", x, i), string.unpack("i1", y, i) if p ~= q then return p - q end end return #x - #y end
-- hash_buffer: bytes i32
function(buffer) local text, sum = bytes(buffer), 1 for i = #text, 1, -1 do sum = i32(sum * 31 + (string.byte(text, i) ~ 128) - 128) end return sum end
-- show_buffer:
function(buffer) if buffer == nil then return "null" end return "java.nio.HeapByteBuffer[pos=" .. buffer.position .. " lim=" .. buffer.limit .. " cap=" .. buffer.capacity .. "]" end
-- bytes_of:
function(text) local array = {n = #text} for i = 1, #text do array[i] = (string.byte(text, i) ~ 128) - 128 end return array end
-- text_of_bytes:
function(array) local parts = {} for i = 1, array.n do parts[i] = string.char(array[i] & 255) end return native.decoded(table.concat(parts)) end
-- hash_array: i32
function(array, hash) local sum = 1 for i = 1, array.n do sum = i32(sum * 31 + (array[i] == nil and 0 or hash(array[i]))) end return sum end
-- miscast: fail
function(value, why) if value ~= nil then fail("ClassCastException", why) end return nil end
-- found: given
function(regex, text, from, kind) return given(native.find_regex(regex, text, from, kind)) end
-- compiled: given
function(regex) if regex == nil then error("java.lang.NullPointerException", 0) end given(native.groups(regex)) return regex end
-- verbatim: fail
function(text) if string.find(text, "\\E", 1, true) then fail("UnsupportedOperationException", "quote of \\E is not available in Helenus") end return "\\Q" .. text .. "\\E" end
-- matched:
function(text, match, group) return match[2 * group + 1] and string.sub(text, match[2 * group + 1], match[2 * group + 2]) end
-- group_called: fail given
function(regex, name, shown) return given(native.groups(regex, name)) or fail("IllegalArgumentException", "No group with name " .. shown) end
-- reference: fail group_called
function(regex, match, new, at) local name = string.match(new, "^{(%a%w*)}", at) if name then return group_called(regex, name, "{" .. name .. "}"), at + #name + 2 end local digit = string.match(new, "^%d", at) if not digit then fail("IllegalArgumentException", at > #new and "Illegal group reference: group index is missing" or "Illegal group reference") end local group = tonumber(digit) if group > match.n then fail("IndexOutOfBoundsException", "No group " .. group) end at = at + 1 while string.find(new, "^%d", at) do local more = group * 10 + tonumber(string.sub(new, at, at)) if more > match.n then break end group, at = more, at + 1 end return group, at end
-- expanded: fail reference matched
function(regex, text, match, new) local parts, at = {}, 1 while at <= #new do local sign = string.find(new, "[\\$]", at) parts[#parts + 1] = string.sub(new, at, (sign or #new + 1) - 1) if not sign then break end if string.sub(new, sign, sign) == "$" then local group group, at = reference(regex, match, new, sign + 1) parts[#parts + 1] = matched(text, match, group) or "" else if sign == #new then fail("IllegalArgumentException", "character to be escaped is missing") end parts[#parts + 1] = string.sub(new, sign + 1, sign + 1) at = sign + 2 end end return table.concat(parts) end
-- behind:
function(text, match) if match[2] >= match[1] then return match[2] + 1 end return match[1] > #text and match[1] + 1 or utf8.offset(text, 2, match[1]) end
-- with_matches: found expanded behind
function(regex, text, new, is_once) local parts, at, from = {}, 1, 1 while from <= #text + 1 do local match = found(regex, text, from, "find") if not match then break end parts[#parts + 1] = string.sub(text, at, match[1] - 1) parts[#parts + 1] = expanded(regex, text, match, new) at, from = match[2] + 1, behind(text, match) if is_once then break end end parts[#parts + 1] = string.sub(text, at) return table.concat(parts) end
-- matcher: some
function(regex, text) return {regex = regex, text = some(text), from = 1} end
-- again:
function(matcher) matcher.from, matcher.match = 1, nil return matcher end
-- finds: found behind
function(matcher) local text = matcher.text local match = found(matcher.regex, text, matcher.from, "find") matcher.match = match matcher.from = match and behind(text, match) or #text + 2 return match ~= nil end
-- tries: found behind
function(matcher, kind) local match = found(matcher.regex, matcher.text, 1, kind) matcher.match = match if match then matcher.from = behind(matcher.text, match) end return match ~= nil end
-- match_of: fail group_called
function(matcher, group, without) if type(group) == "string" then group = group_called(matcher.regex, group, "<" .. group .. ">") end local match = matcher.match if not match then fail("IllegalStateException", without) end if group < 0 or group > match.n then fail("IndexOutOfBoundsException", "No group " .. group) end return match, group end
-- group_of: match_of matched
function(matcher, group) local match match, group = match_of(matcher, group, "No match found") return matched(matcher.text, match, group) or nil end
-- start_of: match_of units
function(matcher, group) local match match, group = match_of(matcher, group, "No match available") local at = match[2 * group + 1] return at and units(matcher.text, at - 1) or -1 end
-- end_of: match_of units
function(matcher, group) local match match, group = match_of(matcher, group, "No match available") local at = match[2 * group + 2] return at and units(matcher.text, at) or -1 end
-- replaced_of: with_matches again
function(matcher, new, is_once) again(matcher) return with_matches(matcher.regex, matcher.text, new, is_once) end
