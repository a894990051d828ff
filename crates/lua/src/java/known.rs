//! The names of the methods that classes of Java 17 have, be they available here or not: whoever calls
//! another one is told that there is none.

use super::types::Type;
use super::{Expression, Translator, Wrong};

/// What each object has.
const OBJECT: &str = "equals getClass hashCode notify notifyAll toString wait";

/// By class, or by what several have together, the names; a list may be any collection that has an order.
const METHODS: [(&str, &str); 23] = [
    (
        "String",
        "charAt chars codePointAt codePointBefore codePointCount codePoints compareTo compareToIgnoreCase concat contains \
         contentEquals copyValueOf describeConstable endsWith equalsIgnoreCase format formatted getBytes getChars indent \
         indexOf intern isBlank isEmpty join lastIndexOf length lines matches offsetByCodePoints regionMatches repeat \
         replace replaceAll replaceFirst resolveConstantDesc split startsWith strip stripIndent stripLeading \
         stripTrailing subSequence substring toCharArray toLowerCase toUpperCase transform translateEscapes trim valueOf",
    ),
    (
        "number",
        "bitCount byteValue compare compareTo compareUnsigned decode describeConstable divideUnsigned doubleToLongBits \
         doubleToRawLongBits doubleValue floatToIntBits floatToRawIntBits floatValue getInteger getLong highestOneBit \
         intBitsToFloat intValue isFinite isInfinite isNaN longBitsToDouble longValue lowestOneBit max min \
         numberOfLeadingZeros numberOfTrailingZeros parseByte parseDouble parseFloat parseInt parseLong parseShort \
         parseUnsignedInt parseUnsignedLong remainderUnsigned resolveConstantDesc reverse reverseBytes rotateLeft \
         rotateRight shortValue signum sum toBinaryString toHexString toOctalString toUnsignedInt toUnsignedLong \
         toUnsignedString valueOf",
    ),
    (
        "Boolean",
        "booleanValue compare compareTo describeConstable getBoolean logicalAnd logicalOr logicalXor parseBoolean valueOf",
    ),
    (
        "List",
        "add addAll addFirst addLast clear clone contains containsAll copyOf descendingIterator element ensureCapacity \
         forEach get getFirst getLast indexOf isEmpty iterator lastIndexOf listIterator of offer offerFirst offerLast \
         parallelStream peek peekFirst peekLast poll pollFirst pollLast pop push remove removeAll removeFirst \
         removeFirstOccurrence removeIf removeLast removeLastOccurrence replaceAll retainAll set size sort spliterator \
         stream subList toArray trimToSize",
    ),
    (
        "Set",
        "add addAll ceiling clear clone comparator contains containsAll copyOf descendingIterator descendingSet first \
         floor forEach headSet higher isEmpty iterator last lower of parallelStream pollFirst pollLast remove removeAll \
         removeIf retainAll size spliterator stream subSet tailSet toArray",
    ),
    (
        "Map",
        "ceilingEntry ceilingKey clear clone comparator compute computeIfAbsent computeIfPresent containsKey \
         containsValue copyOf descendingKeySet descendingMap entry entrySet firstEntry firstKey floorEntry floorKey \
         forEach get getOrDefault headMap higherEntry higherKey isEmpty keySet lastEntry lastKey lowerEntry lowerKey \
         merge navigableKeySet of ofEntries pollFirstEntry pollLastEntry put putAll putIfAbsent remove replace \
         replaceAll size subMap tailMap values",
    ),
    (
        "Entry",
        "comparingByKey comparingByValue copyOf getKey getValue setValue",
    ),
    (
        "StringBuilder",
        "append appendCodePoint capacity charAt chars codePointAt codePointBefore codePointCount codePoints compareTo \
         delete deleteCharAt ensureCapacity getChars indexOf insert isEmpty lastIndexOf length offsetByCodePoints \
         replace reverse setCharAt setLength subSequence substring trimToSize",
    ),
    (
        "UUID",
        "clockSequence compareTo fromString getLeastSignificantBits getMostSignificantBits nameUUIDFromBytes node \
         randomUUID timestamp variant version",
    ),
    (
        "Date",
        "UTC after before clone compareTo from getDate getDay getHours getMinutes getMonth getSeconds getTime \
         getTimezoneOffset getYear parse setDate setHours setMinutes setMonth setSeconds setTime setYear toGMTString \
         toInstant toLocaleString",
    ),
    (
        "exact",
        "abs add and andNot bitCount bitLength byteValue byteValueExact clearBit compareTo divide divideAndRemainder \
         divideToIntegralValue doubleValue flipBit floatValue gcd getLowestSetBit intValue intValueExact isProbablePrime \
         longValue longValueExact max min mod modInverse modPow movePointLeft movePointRight multiply negate \
         nextProbablePrime not or plus pow precision probablePrime remainder round scale scaleByPowerOfTen setBit \
         setScale shiftLeft shiftRight shortValue shortValueExact signum sqrt stripTrailingZeros subtract testBit \
         toBigInteger toBigIntegerExact toByteArray toEngineeringString toPlainString ulp unscaledValue valueOf xor",
    ),
    (
        "ByteBuffer",
        "alignedSlice alignmentOffset allocate allocateDirect array arrayOffset asCharBuffer asDoubleBuffer \
         asFloatBuffer asIntBuffer asLongBuffer asReadOnlyBuffer asShortBuffer capacity clear compact compareTo \
         duplicate flip get getChar getDouble getFloat getInt getLong getShort hasArray hasRemaining isDirect isReadOnly \
         limit mark mismatch order position put putChar putDouble putFloat putInt putLong putShort remaining reset \
         rewind slice wrap",
    ),
    (
        "Optional",
        "empty filter flatMap get ifPresent ifPresentOrElse isEmpty isPresent map of ofNullable or orElse orElseGet \
         orElseThrow stream",
    ),
    (
        "exception",
        "addSuppressed fillInStackTrace getCause getLocalizedMessage getMessage getStackTrace getSuppressed initCause \
         printStackTrace setStackTrace",
    ),
    (
        "Math",
        "IEEEremainder abs absExact acos addExact asin atan atan2 cbrt ceil copySign cos cosh decrementExact exp expm1 \
         floor floorDiv floorMod fma getExponent hypot incrementExact log log10 log1p max min multiplyExact multiplyFull \
         multiplyHigh negateExact nextAfter nextDown nextUp pow random rint round scalb signum sin sinh sqrt \
         subtractExact tan tanh toDegrees toIntExact toRadians ulp",
    ),
    (
        "System",
        "arraycopy clearProperty console currentTimeMillis exit gc getLogger getProperties getProperty \
         getSecurityManager getenv identityHashCode inheritedChannel lineSeparator load loadLibrary mapLibraryName \
         nanoTime runFinalization setErr setIn setOut setProperties setProperty setSecurityManager",
    ),
    (
        "Objects",
        "checkFromIndexSize checkFromToIndex checkIndex compare deepEquals hash isNull nonNull requireNonNull \
         requireNonNullElse requireNonNullElseGet",
    ),
    (
        "Arrays",
        "asList binarySearch compare compareUnsigned copyOf copyOfRange deepEquals deepHashCode deepToString fill \
         mismatch parallelPrefix parallelSetAll parallelSort setAll sort spliterator stream",
    ),
    (
        "Collections",
        "addAll asLifoQueue binarySearch checkedCollection checkedList checkedMap checkedNavigableMap \
         checkedNavigableSet checkedQueue checkedSet checkedSortedMap checkedSortedSet copy disjoint emptyEnumeration \
         emptyIterator emptyList emptyListIterator emptyMap emptyNavigableMap emptyNavigableSet emptySet emptySortedMap \
         emptySortedSet enumeration fill frequency indexOfSubList lastIndexOfSubList list max min nCopies \
         newSetFromMap replaceAll reverse reverseOrder rotate shuffle singleton singletonList singletonMap sort swap \
         synchronizedCollection synchronizedList synchronizedMap synchronizedNavigableMap synchronizedNavigableSet \
         synchronizedSet synchronizedSortedMap synchronizedSortedSet unmodifiableCollection unmodifiableList \
         unmodifiableMap unmodifiableNavigableMap unmodifiableNavigableSet unmodifiableSet unmodifiableSortedMap \
         unmodifiableSortedSet",
    ),
    (
        "Number",
        "byteValue doubleValue floatValue intValue longValue shortValue",
    ),
    (
        "Pattern",
        "asMatchPredicate asPredicate compile flags matcher matches pattern quote split splitAsStream",
    ),
    (
        "Matcher",
        "appendReplacement appendTail end find group groupCount hasAnchoringBounds hasTransparentBounds hitEnd \
         lookingAt matches pattern quoteReplacement region regionEnd regionStart replaceAll replaceFirst requireEnd \
         reset results start toMatchResult useAnchoringBounds usePattern useTransparentBounds",
    ),
    ("Object", ""),
];

fn is_listed(names: &str, name: &str) -> bool {
    names.split_whitespace().any(|known| known == name)
}

/// Has a class of [`METHODS`] a method of the name? One that is not among them may have any.
fn has_method(class: &str, name: &str) -> bool {
    let names = METHODS.iter().find(|(known, _)| *known == class);
    is_listed(OBJECT, name) || names.is_none_or(|(_, names)| is_listed(names, name))
}

/// What a type is in [`METHODS`].
fn class_of(ty: &Type) -> String {
    let class = match ty {
        Type::Char => "Character",
        ty if ty.is_number() => "number",
        Type::List(_) => "List",
        Type::Set(_) => "Set",
        Type::Map(..) => "Map",
        Type::Entry(..) => "Entry",
        Type::Optional(_) => "Optional",
        // Some of those of `java.util` have more.
        Type::Exception(class) if class.contains("Format") || class.contains("Syntax") => "",
        Type::Exception(_) => "exception",
        ty => match ty.to_string().as_str() {
            "BigDecimal" | "BigInteger" => "exact",
            "Object" => "",
            class => return class.to_owned(),
        },
    };
    class.to_owned()
}

fn undefined(name: &str, arguments: &[Expression], class: &str) -> Wrong {
    let types: Vec<String> = arguments.iter().map(Expression::type_name).collect();
    let types = types.join(", ");
    format!("The method {name}({types}) is undefined for the type {class}")
}

impl Translator<'_> {
    /// Refuses the call of a method that Java does not have either.
    pub(super) fn check_method(
        &self,
        on: &Expression,
        name: &str,
        arguments: &[Expression],
    ) -> Result<(), Wrong> {
        let ty = &on.ty;
        let any_class = self.declared_class(on);
        if let Some(class) = any_class.filter(|class| !has_method(class, name)) {
            return Err(undefined(name, arguments, class));
        }
        if let Type::Array(..) = ty {
            if name == "clone" || is_listed(OBJECT, name) {
                return Ok(());
            }
            let types: Vec<String> = arguments.iter().map(Expression::type_name).collect();
            let types = types.join(", ");
            return Err(format!(
                "Cannot invoke {name}({types}) on the array type {ty}"
            ));
        }
        let is_known = match ty {
            Type::Tuple(_) | Type::User(_) => {
                let beginnings = ["get", "set", "is", "to", "size", "contains", "copy"];
                let is_field = beginnings.iter().any(|word| name.starts_with(word));
                is_field || is_listed(OBJECT, name)
            }
            ty => has_method(&class_of(ty), name),
        };
        match is_known {
            true => Ok(()),
            false => Err(undefined(name, arguments, &ty.to_string())),
        }
    }

    /// As [`Self::check_method`], of a static one.
    pub(super) fn check_static(
        &self,
        class: &str,
        name: &str,
        arguments: &[Expression],
    ) -> Result<(), Wrong> {
        let of = match class {
            "Integer" | "Long" | "Short" | "Byte" | "Float" | "Double" => "number",
            "BigDecimal" | "BigInteger" => "exact",
            class => class,
        };
        match has_method(of, name) {
            true => Ok(()),
            false => Err(undefined(name, arguments, class)),
        }
    }
}
