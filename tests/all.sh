#!/usr/bin/env bash
# Everything that this project calls a test, part by part (each is a target of the Makefile).
#
# A part whose toolchain is missing is skipped and named at the end; with CI=true that is a failure.
# A part that fails does not stop the others. The last lines are the parts' own counts.
set -uo pipefail
cd "$(dirname "$0")/.."

# part -> the commands it needs
parts=(
    "format cargo"
    "tidy cargo"
    "lint cargo"
    "unit cargo"
    "sim cargo"
    "binary cargo python3"
    "bench-report python3"
    "protocol cargo python3"
    "python cargo python3"
    "cqlsh cargo python3"
    "rust cargo python3"
    "go cargo python3 go"
    "java cargo python3 java mvn"
    "cluster-drivers cargo python3"
    "differential-recorded cargo python3"
    "crash cargo python3"
    "crash-cluster cargo python3"
    "test-corpus cargo python3"
    "sstables cargo python3 java mvn"
    "test-corpus-reverse cargo python3 java mvn"
    "in-place cargo python3 java mvn"
    "differential cargo python3 java mvn"
)
logs=.cache/test-logs
mkdir -p "$logs"
summary=() skipped=() failed=()

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

for entry in "${parts[@]}"; do
    read -r part needs <<<"$entry"
    missing=
    for tool in $needs; do
        command -v "$tool" >/dev/null || missing="$missing $tool"
    done
    if [ -n "$missing" ]; then
        skipped+=("$part (no$missing)")
        continue
    fi
    echo "=== $part"
    began=$SECONDS
    if make --no-print-directory "$part" 2>&1 | tee "$logs/$part.log"; then
        verdict=ok
    else
        verdict=FAILED
        failed+=("$part")
    fi
    summary+=("$(printf '%-19s %-7s %5d s  %s' "$part" "$verdict" $((SECONDS - began)) "$(counts "$part" "$logs/$part.log" | cut -c1-160)")")
done

echo
echo "=== make test: $SECONDS s"
printf '%s\n' "${summary[@]}"
code=0
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
