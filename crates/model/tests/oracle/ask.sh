#!/usr/bin/env bash
# Asks Cassandra's own classes the questions of answers.tsv and rules.tsv again, and writes their
# answers back, for a new version of Cassandra. (New questions: ask them with "-" and append.)
#
#   ask.sh            answers.tsv and rules.tsv
#   ask.sh -          questions on standard input, answers on standard output
#
# A question is "operation<TAB>class<TAB>arguments…"; the answer is one more field. Needs a JDK 17
# and the jars of Cassandra, which tests/cassandra/run.sh fetches.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
lib=${CASSANDRA_LIB:-$("$here/../../../../tests/cassandra/run.sh" fetch)}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
javac -nowarn -cp "$lib/*" -d "$work" "$here/Oracle.java"
cat >"$work/cassandra.yaml" <<Y
partitioner: org.apache.cassandra.dht.Murmur3Partitioner
endpoint_snitch: SimpleSnitch
commitlog_sync: periodic
commitlog_sync_period: 10000ms
listen_address: 127.0.0.1
seed_provider:
  - class_name: org.apache.cassandra.locator.SimpleSeedProvider
    parameters:
      - seeds: "127.0.0.1"
Y
ask() {
    java --add-exports java.base/jdk.internal.ref=ALL-UNNAMED --add-exports java.base/sun.nio.ch=ALL-UNNAMED \
        --add-opens java.base/java.nio=ALL-UNNAMED --add-opens java.base/sun.nio.ch=ALL-UNNAMED \
        --add-exports java.base/jdk.internal.misc=ALL-UNNAMED -XX:TieredStopAtLevel=1 \
        -Dcassandra.config="file://$work/cassandra.yaml" -Dcassandra.storagedir="$work" \
        -cp "$work:$lib/*" Oracle
}
if [ "${1:-}" = - ]; then ask; exit; fi
for file in answers rules; do
    # An answer already there is dropped: it is the last field of a line that has one.
    sed 's/	[^	]*$//' "$here/$file.tsv" >"$work/questions"
    ask <"$work/questions" >"$work/answers"
    cp "$work/answers" "$here/$file.tsv"
done
