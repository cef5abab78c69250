#!/bin/sh
# Runs git on a repository with branches and a merge, packed, cloned and checked; many short processes.
# env: GIT_AUTHOR_DATE=2020-01-01T00:00:00Z
# env: GIT_COMMITTER_DATE=2020-01-01T00:00:00Z
# env: GIT_CONFIG_NOSYSTEM=1
# recorded: git
set -e
git init -q -b main one
cd one
git config user.name a
git config user.email a@example.org
for i in 1 2 3 4 5; do seq $((i * 1000)) > f$i; git add f$i; git commit -q -m "commit $i"; done
git checkout -q -b side HEAD~2
seq 500 > g
git add g
git commit -q -m side
git checkout -q main
git merge -q -m merge side
git gc -q
git fsck --full 2>&1
git log --stat --format='%H %s'
cd ..
git clone -q one two
git -C two rev-parse HEAD
