#!/usr/bin/env bash
# fuzz.sh [SECONDS]: runs every cargo-fuzz target for so long (default 600), on half of the cores.
# What it finds stays in the corpus, which `cargo test` replays. Needs a nightly toolchain.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-600}
root=$PWD
export PATH="$root/.tools/bin:$PATH"
unset CARGO_TARGET_DIR
command -v cargo-fuzz >/dev/null || cargo install -q --root .tools cargo-fuzz
rustup toolchain list | grep -q nightly || rustup toolchain install nightly --profile minimal
jobs=$(($(nproc) / 2 > 0 ? $(nproc) / 2 : 1))
found=
while read -r manifest; do
    folder=$(dirname "$manifest")
    for target in $(cargo +nightly fuzz list --fuzz-dir "$folder"); do
        found=1
        echo "=== $folder: $target, $seconds s"
        cargo +nightly fuzz run --fuzz-dir "$folder" -j "$jobs" "$target" -- -max_total_time="$seconds" \
            -timeout=10 -rss_limit_mb=2048 -print_final_stats=1
    done
done < <(find fuzz crates -path '*fuzz/Cargo.toml' -not -path '*/target/*')
[ -n "$found" ] || { echo "fuzz: no targets" >&2; exit 1; }
