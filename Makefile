# Two commands do everything: make demo, make test. Both install what is missing (Debian packages) and may be run again.

SHELL := /bin/bash
.DEFAULT_GOAL := help

BUILD_PACKAGES := gcc g++ binutils make
DEMO_PACKAGES := $(BUILD_PACKAGES) redis-server redis-tools
TEST_PACKAGES := $(DEMO_PACKAGES) memcached nginx-light postgresql postgresql-contrib sqlite3 git python3 nodejs \
  golang-go default-jdk-headless libjemalloc2 libgoogle-perftools4 libmimalloc2.0 libc6-dbg dwz elfutils musl-tools \
  gcc-multilib util-linux procps curl
BENCH_PACKAGES := $(TEST_PACKAGES) valgrind heaptrack google-perftools

.PHONY: help build demo test lint bench fuzz install clean
help:
	@echo 'make demo   profile a real redis-server under load and show the result'
	@echo 'make test   run every test (about 5 minutes on 2 cores, building included)'
	@echo 'make lint   formatting, clippy, size ratchet, links in documents (part of make test)'
	@echo 'make bench  measure what ramson costs, side by side with its peers'
	@echo 'make fuzz   fuzz the reader of profile files for 10 minutes (needs cargo-fuzz and a nightly toolchain)'
	@echo 'make install PREFIX=/usr/local'

# The program and the library that it preloads.
build: cargo
	cargo build --release --locked --package ramson
	cargo build --profile guest --locked --package libramson

demo: packages-demo build
	demo/run

test: packages-test build lint
	tests/run

lint: cargo
	cargo fmt --all --check
	cargo clippy --locked --workspace --exclude libramson --all-targets -- -D warnings
	# By itself: together with the others its dependencies would be built with the standard library.
	cargo clippy --locked --package libramson --profile guest -- -D warnings
	cargo clippy --locked --package libramson --tests -- -D warnings
	RUSTDOCFLAGS='-D warnings' cargo doc --locked --workspace --exclude libramson --no-deps --quiet
	python3 tests/lint/sizes.py
	python3 tests/lint/links.py

bench: packages-bench build
	bench/run

fuzz:
	cd fuzz && cargo +nightly fuzz run read_profile -- -max_total_time=600

PREFIX ?= /usr/local
install: build
	install -D target/release/ramson $(DESTDIR)$(PREFIX)/bin/ramson
	install -D -m 644 target/guest/libramson.so $(DESTDIR)$(PREFIX)/lib/ramson/libramson.so

clean:
	cargo clean

.PHONY: cargo packages-demo packages-test packages-bench
# Debian 12's own cargo is too old; cargo-web, which it has for building browsers, is not.
cargo:
	@command -v cargo > /dev/null || tests/packages cargo-web rustc-web

packages-demo: ; @tests/packages $(DEMO_PACKAGES)
packages-test: ; @tests/packages $(TEST_PACKAGES)
packages-bench: ; @tests/packages $(BENCH_PACKAGES)
