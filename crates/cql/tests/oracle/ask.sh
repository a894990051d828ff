#!/usr/bin/env bash
# Asks Cassandra's own classes for the answers to a golden file: its statements on standard input,
# with or without answers, the same statements with answers on standard output. They are executed
# within the process that asks: no ports, no Paxos, one replica.
#
#   ask.sh <../golden/counters.cql >answered
#
# Needs a JDK 17 and the jars of Cassandra, which tests/cassandra/run.sh fetches.
set -euo pipefail
oracle=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "$oracle/../../../../tests/cassandra/lib.sh"
fetch_jars
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
javac -nowarn -cp "$CASSANDRA_LIB/*" -d "$work" "$oracle/Ask.java"
cat >"$work/cassandra.yaml" <<Y
partitioner: org.apache.cassandra.dht.Murmur3Partitioner
endpoint_snitch: SimpleSnitch
cluster_name: oracle
commitlog_sync: periodic
commitlog_sync_period: 10000ms
commitlog_segment_size: 5MiB
listen_address: 127.0.0.1
seed_provider:
  - class_name: org.apache.cassandra.locator.SimpleSeedProvider
    parameters:
      - seeds: "127.0.0.1"
Y
"$JAVA" "${JPMS[@]}" -Xmx700m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 \
    -Dcassandra.sai.vector.allow_custom_parameters=true \
    -Dcassandra.config="file://$work/cassandra.yaml" -Dcassandra.storagedir="$work/data" \
    -cp "$work:$CASSANDRA_LIB/*" Ask
