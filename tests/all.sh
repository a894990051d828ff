#!/usr/bin/env bash
# Everything that this project calls a test, part by part (each is a target of the Makefile); or only
# the parts that are named: tests/all.sh [PART...].
#
# First what keeps all processors busy, one part after the other. Then two lanes beside each other,
# as most of their parts wait more than they work. Those that have a Cassandra are in one, as two at a
# time would take much memory, with what makes both take about as long.
#
# A part whose toolchain is missing is skipped and named at the end; with CI=true that is a failure.
# A part that fails does not stop the others. The last lines are the parts' own counts.
set -uo pipefail
cd "$(dirname "$0")/.."

# part -> the commands it needs
first=(
    "format cargo"
    "tidy cargo"
    "lint cargo"
    "unit cargo"
    "bench-report python3"
    "binaries cargo python3"
)
one=(
    "sim cargo"
    "protocol cargo python3"
    "python cargo python3"
    "cqlsh cargo python3"
    "rust cargo python3"
    "go cargo python3 go"
    "cluster-drivers cargo python3"
    "differential-recorded cargo python3"
    "crash cargo python3"
    "crash-cluster cargo python3"
    "test-corpus cargo python3"
)
other=(
    "java cargo python3 java mvn"
    "sstables cargo python3 java mvn"
    "test-corpus-reverse cargo python3 java mvn"
    "in-place cargo python3 java mvn"
    "differential cargo python3 java mvn"
    "binary cargo python3"
)
parts=("${first[@]}" "${one[@]}" "${other[@]}")
named=("$@")
logs=.cache/test-logs
mkdir -p "$logs"
rm -f "$logs"/*.log "$logs"/*.result

# The line in which a runner says what it counted.
counts() {
    case $1 in
        unit) awk '/^test result:/ {passed += $4; failed += $6; ignored += $8; n++} END {printf "%d test binaries: %d passed, %d failed, %d ignored", n, passed, failed, ignored}' "$2" ;;
        rust) grep '^test result:' "$2" | grep -v ' 0 passed; 0 failed' | tail -n 1 ;;
        go) grep -E '^(ok|FAIL|---) ' "$2" | awk '/^--- PASS/ {p++} /^--- FAIL/ {f++} /^(ok|FAIL) / {l=$0} END {printf "%d passed, %d failed; %s", p, f, l}' ;;
        java) grep -E 'Tests run:' "$2" | tail -n 1 ;;
        python|cluster-drivers) grep -E ' (passed|failed|error)' "$2" | grep -E ' in [0-9.]+s' | tr '\n' ' ' ;;
        binary|protocol|cqlsh|bench-report) grep -E ' (passed|failed|error)' "$2" | tail -n 1 ;;
        differential|differential-recorded) grep '^differential:' "$2" | tr '\n' ' ' ;;
        *) tail -n 1 "$2" ;;
    esac
}

is_named() {
    [ ${#named[@]} -eq 0 ] && return
    local name
    for name in "${named[@]}"; do
        [ "$name" = "$1" ] && return
    done
    return 1
}

# Runs parts one after the other. What one prints is shown in one piece when it is over.
run() {
    local entry part needs tool missing began verdict
    for entry in "$@"; do
        read -r part needs <<<"$entry"
        is_named "$part" || continue
        missing=
        for tool in $needs; do
            command -v "$tool" >/dev/null || missing="$missing $tool"
        done
        if [ -n "$missing" ]; then
            echo "skipped $part (no$missing)" >"$logs/$part.result"
            continue
        fi
        echo "... $part"
        began=$SECONDS
        verdict=ok
        make --no-print-directory "$part" >"$logs/$part.log" 2>&1 || verdict=FAILED
        printf '%s %-21s %-7s %5d s  %s\n' "$verdict" "$part" "$verdict" $((SECONDS - began)) \
            "$(counts "$part" "$logs/$part.log" | cut -c1-160)" >"$logs/$part.result"
        (
            flock 9
            echo "=== $part"
            cat "$logs/$part.log"
        ) 9>"$logs/shown"
    done
}

for part in "${named[@]}"; do
    if [[ " ${parts[*]%% *} " != *" $part "* ]]; then
        echo "error: there is no part \"$part\"; there are ${parts[*]%% *}" >&2
        exit 2
    fi
done
run "${first[@]}"
run "${one[@]}" &
run "${other[@]}" &
wait

echo
echo "=== make test: $SECONDS s"
code=0 skipped=() failed=()
for entry in "${parts[@]}"; do
    part=${entry%% *}
    is_named "$part" || continue
    # Without one its lane did not come to it, or to its end.
    verdict=FAILED line="$part did not end"
    [ -e "$logs/$part.result" ] && read -r verdict line <"$logs/$part.result"
    case $verdict in
        skipped) skipped+=("$line") ;;
        *) echo "$line" ;;
    esac
    [ "$verdict" = FAILED ] && failed+=("$part")
done
if [ ${#failed[@]} -gt 0 ]; then
    echo "failed: ${failed[*]}"
    code=1
fi
if [ ${#skipped[@]} -gt 0 ]; then
    printf 'skipped: %s\n' "${skipped[@]}"
    if [ "${CI:-}" = true ]; then
        echo "nothing may be skipped when CI=true"
        code=1
    fi
fi
exit $code
