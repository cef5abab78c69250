#!/bin/sh
# [--follow] DIRECTORY: fills it with small real profiles: whole, of a killed process, and cut; --follow: behind one patch of nothing.
set -eu
patch=
if [ "$1" = --follow ]; then
    patch='\001\000\377\377\377\377\000\000\000\000\000\000\000\000'
    shift
fi
cd "$(dirname "$0")"
library=${RAMSON_LIBRARY:-../target/guest/libramson.so}
[ -e "$library" ] || cargo build --quiet --manifest-path ../Cargo.toml -p libramson --profile guest
library=$(realpath "$library")
corpus=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$corpus"
gcc -O1 -g -pthread -fno-builtin -o "$work/stacks" ../tests/programs/stacks.c

run() { # NAME COMMAND…
    name=$1
    shift
    env LD_PRELOAD="$library" RAMSON_INTERVAL=64 RAMSON_KEEP=1 RAMSON_MAX_FILE=1M RAMSON_OUTPUT="$work/$name" "$@" || true
}
run few "$work/stacks" stacks 2
run many "$work/stacks" stacks 5
run killed timeout -s KILL 0.05 "$work/stacks" busy 2
for name in few many killed; do
    [ -e "$work/$name" ] || continue
    { printf "$patch" && cat "$work/$name"; } >"$corpus/$name"
    for bytes in 64 1024 4096 8192 300000; do
        { printf "$patch" && head -c "$bytes" "$work/$name"; } >"$corpus/$name-$bytes"
    done
done
ls "$corpus"
