# A repository from nothing to packed; every hash is the same each time. $1: an empty directory.
set -eu
cd "$1"
export HOME=$1 GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_NAME=A GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=A GIT_COMMITTER_EMAIL=a@b
git init -q -b main repository
cd repository
for number in 1 2 3 4 5 6; do
  seq "$number" 3000 > "file$number"
  seq 1 "$((number * 100))" > changing
  export GIT_AUTHOR_DATE="2020-01-0$number 00:00:00 +0000" GIT_COMMITTER_DATE="2020-01-0$number 00:00:00 +0000"
  git add .
  git commit -q -m "commit $number"
done
git log --stat
git gc --quiet
git fsck --strict
git rev-list --objects --all | sort
git grep -c 42
git checkout -q HEAD~3
git status --short --branch
exec git diff --exit-code HEAD main --stat
