# Helenus: `make run` starts a node, `make test` proves it. `make help` lists everything.
#
# Every part of the proof is a target of its own; tests/all.sh runs them, says which it
# had to skip for want of a toolchain, and prints what each of them counted.
SHELL := /bin/bash
.SHELLFLAGS := -eo pipefail -c
.DEFAULT_GOAL := help
ROOT := $(CURDIR)
TOOLS := $(ROOT)/.tools
CACHE := $(ROOT)/.cache
PYTHON := $(TOOLS)/python/cassandra-driver
PYTHON_SCYLLA := $(TOOLS)/python/scylla-driver
HELENUS := target/release/helenus

# The server that the client suites talk to: helenus or cassandra.
SERVER ?= helenus
N ?=
SEEDS ?= 1000
# Of each of the five worlds of clusters: 200 together.
WORLDS ?= 40
SECONDS ?= 600
SIZE ?= 256M
# Cassandra's offline tools take a JVM for each table and each file: minutes, so only test-long has them.
REVERSE ?= --no-tools
DATA ?= ./data
CORPUS ?= tests/data/sstables

export PYTHONPATH := $(ROOT)/tests
export PYTHONDONTWRITEBYTECODE := 1
export GOMODCACHE := $(CACHE)/go/mod
export GOCACHE := $(CACHE)/go/build
export GOFLAGS := -modcacherw -buildvcs=false
# One folder for all that cargo builds, the Rust client's own workspace too.
export CARGO_TARGET_DIR := $(ROOT)/target
SERVED := $(PYTHON)/bin/python -m harness --server $(SERVER) run --
ifeq ($(SERVER),helenus)
SERVER_NEEDS := $(HELENUS)
endif

.PHONY: help run build test test-long

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 21

run: build ## build the release binary and start a node on 127.0.0.1:9042, with its data in ./data
	exec $(HELENUS) start --data $(DATA) $(ARGUMENTS)

build: ## the release binary, target/release/helenus
	cargo build --release -p server

# Cargo decides what to build anew.
.PHONY: $(HELENUS)
$(HELENUS):
	@cargo build --release -q -p server

test: ## everything that this project calls a test; CI=true lets nothing be skipped
	@tests/all.sh

test-long: ## the long forms: 2,000 sequences, 200 kills, half an hour of kills and partitions in a cluster, 10,000 seeds, ten minutes of each fuzz target, a partition of 10 GB, Cassandra's tools on all of the corpus
	$(MAKE) differential N=2000
	$(MAKE) describe
	$(MAKE) crash N=200
	$(MAKE) crash-cluster S=1800
	$(MAKE) sim SEEDS=10000 WORLDS=2000
	$(MAKE) fuzz SECONDS=600
	$(MAKE) wide SIZE=10G
	$(MAKE) test-corpus-reverse REVERSE=

##  parts of `make test`
.PHONY: format tidy lint unit binaries sim binary bench-report python protocol cqlsh java go rust cluster-drivers differential differential-recorded describe crash crash-cluster sstables test-corpus test-corpus-reverse in-place

format: ## cargo fmt --check
	cargo fmt --all --check
	cd tests/clients/rust && cargo fmt --check

tidy: ## the house's own rules: floors, sizes, docs, features of what is built twice
	cargo xtask tidy

lint: ## clippy, warnings denied
	cargo clippy -q --workspace --all-targets -- -D warnings

unit: ## unit and property tests of every crate, fuzz corpora replayed
	cargo test --workspace --no-fail-fast

# So that parts that run beside each other find them.
binaries: build drivers ## what the parts below run: the server, the simulator, the Python drivers
	cargo build --release -q -p sim

sim: ## SEEDS=N WORLDS=M: worlds of the storage engine, and of clusters, under simulation, with crashes and failing drives and networks
	cargo run --release -q -p sim -- --seeds $(SEEDS)
	cargo run --release -q -p sim -- --world forming --seeds $(WORLDS)
	cargo run --release -q -p sim -- --world registers --seeds $(WORLDS)
	cargo run --release -q -p sim -- --world agreements --seeds $(WORLDS)
	cargo run --release -q -p sim -- --world traffic --seeds $(WORLDS)
	cargo run --release -q -p sim -- --world repairs --seeds $(WORLDS)
	cargo run --release -q -p sim -- --world views --seeds $(WORLDS)

binary: $(PYTHON)/.installed $(HELENUS) ## starting, refusing to start, stopping; the data folder
	$(PYTHON)/bin/pytest -q tests/binary

python: $(PYTHON)/.installed $(PYTHON_SCYLLA)/.installed $(SERVER_NEEDS) ## the application over cassandra-driver and scylla-driver
	$(SERVED) $(PYTHON)/bin/pytest -q tests/clients/python
	$(SERVED) $(PYTHON_SCYLLA)/bin/pytest -q tests/clients/python

bench-report: $(PYTHON)/.installed ## what bench/compare makes of what it measured
	$(PYTHON)/bin/pytest -q tests/bench_report

protocol: $(PYTHON)/.installed $(SERVER_NEEDS) ## sockets: malformed frames, slow readers, corners of requests
	$(SERVED) $(PYTHON)/bin/pytest -q tests/clients/protocol

cqlsh: $(PYTHON)/.installed $(SERVER_NEEDS) ## cqlsh from PyPI
	$(SERVED) $(PYTHON)/bin/pytest -q tests/clients/cqlsh

java: $(PYTHON)/.installed $(SERVER_NEEDS) ## the application over the Java driver 4
	$(SERVED) mvn -B -ntp -f tests/clients/java/pom.xml verify

go: $(PYTHON)/.installed $(SERVER_NEEDS) ## the application over gocql
	cd tests/clients/go && $(SERVED) go test -count=1 -v ./... | grep -vE '^=== '

rust: $(PYTHON)/.installed $(SERVER_NEEDS) ## the application over the Rust scylla driver
	$(SERVED) cargo test --manifest-path tests/clients/rust/Cargo.toml

cluster-drivers: $(PYTHON)/.installed $(PYTHON_SCYLLA)/.installed $(HELENUS) ## Python drivers on a cluster: requests go to replicas, nodes that die or restart under load give no error, one of those that compete wins
	$(PYTHON)/bin/pytest -q tests/clients/cluster
	$(PYTHON_SCYLLA)/bin/pytest -q tests/clients/cluster -k "routing or rolling"

differential: $(PYTHON)/.installed $(HELENUS) ## N=count: statement sequences answered as Cassandra answers them
	$(PYTHON)/bin/python -m differential --seeds $(or $(N),100) $(DIFFERENTIAL)

differential-recorded: $(PYTHON)/.installed $(HELENUS) ## the same with answers that Cassandra gave before: needs none
	$(PYTHON)/bin/python -m differential --replay

describe: $(PYTHON)/.installed $(HELENUS) ## what DESCRIBE prints makes the same on Cassandra, and the other way round
	$(PYTHON)/bin/python -m describe

crash: $(PYTHON)/.installed $(HELENUS) ## N=rounds: kill -9 under load, every acknowledged write found
	$(PYTHON)/bin/python -m crash --rounds $(or $(N),20)

crash-cluster: $(PYTHON)/.installed $(HELENUS) ## S=seconds: the nodes of a cluster are killed, halted and cut off from each other under load; every write acknowledged at QUORUM found
	$(PYTHON)/bin/pytest -q tests/crash
	$(PYTHON)/bin/python -m crash.cluster --seconds $(or $(S),45)

sstables: $(PYTHON)/.installed $(HELENUS) ## Cassandra's tools and Cassandra itself read what Helenus wrote
	$(PYTHON)/bin/python -m sstables_check

test-corpus: $(PYTHON)/.installed $(HELENUS) ## CORPUS=DIR: sstables that Cassandra wrote are opened in place and read as it reads them
	$(PYTHON)/bin/python -m corpus $(CORPUS)

test-corpus-reverse: $(PYTHON)/.installed $(HELENUS) ## CORPUS=DIR: Cassandra reads what Helenus made of them by compaction; REVERSE= has its offline tools look too
	$(PYTHON)/bin/python -m corpus --reverse big $(REVERSE) $(CORPUS)
	$(PYTHON)/bin/python -m corpus --reverse bti $(REVERSE) $(CORPUS)

in-place: $(PYTHON)/.installed $(HELENUS) ## a Cassandra's folder is opened in place, and by Cassandra again afterwards
	$(PYTHON)/bin/python -m in_place

##  beside `make test`
.PHONY: fuzz compare soak wide bench-check bench-record valgrind perf drivers tools clean

fuzz: ## SECONDS=N: each fuzz target for so long
	tests/fuzz.sh $(SECONDS)

compare: build perf ## PARTS=names: Helenus, Cassandra and the limit of the machine side by side; a report with plots
	cargo build --release -p bench -p limit
	bench/compare $(if $(PARTS),--parts $(PARTS))

soak: build ## an hour of YCSB A on ten times more data than memory: does the speed hold?
	cargo build --release -p bench
	bench/soak

wide: ## SIZE=bytes: one partition so large (10G needs 6 GB of disk), written, compacted, read in all ways within 256 MiB
	cargo build --release -q -p storage --example wide
	for format in big bti; do \
		rm -rf $(CACHE)/wide && target/release/examples/wide $(CACHE)/wide $(SIZE) $$format 256M; \
	done
	rm -rf $(CACHE)/wide

bench-check: valgrind ## instructions of a request's way, beside those recorded: fails if one has risen by more than 3 %
	cargo xtask bench-check

bench-record: valgrind ## the same, recorded in bench/instructions.txt: for a commit that says why
	cargo xtask bench-check --record

valgrind:
	@command -v valgrind >/dev/null || { \
		[ "$$(id -u)" = 0 ] || sudo=sudo; \
		$$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends valgrind; \
	}

# Debian's name, and Ubuntu's. Without it the comparison is the same, but for what it says of targets that are missed.
perf:
	@command -v perf >/dev/null || { \
		[ "$$(id -u)" = 0 ] || sudo=sudo; \
		install="$$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends"; \
		$$install linux-perf || $$install linux-tools-generic || echo "no perf, so no profiles"; \
	}

drivers: $(PYTHON)/.installed $(PYTHON_SCYLLA)/.installed ## the Python drivers, into .tools

tools: drivers ## the same, and Cassandra's jars
	tests/cassandra/run.sh fetch

clean: ## what builds and tests left behind
	cargo clean
	rm -rf $(CACHE)/servers tests/clients/java/target

# A virtual environment each, as both drivers are called `cassandra`.
$(TOOLS)/python/%/.installed: tests/requirements/%.txt
	python3 -m venv $(@D)
	$(@D)/bin/pip install -q --disable-pip-version-check -r $<
	touch $@
