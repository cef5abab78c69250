#!/bin/sh
# limited.sh SIZE COMMAND…: runs a command in a memory control group of its own, as a container with a limit has one.
# With version 2 of control groups the limit is memory.max, with version 1 memory.limit_in_bytes.
set -eu
size=$1
shift
groups=/sys/fs/cgroup
limit=memory.max
if [ -e "$groups/memory/memory.limit_in_bytes" ]; then
  groups=$groups/memory
  limit=memory.limit_in_bytes
else
  # It may be on already.
  echo +memory > "$groups/cgroup.subtree_control" 2> /dev/null || true
fi
group=$groups/limited-$(date +%s%N)
mkdir "$group" && echo "$size" > "$group/$limit" || {
  echo "limited.sh: $groups: no control group with a limit can be made. This needs root and a writable /sys/fs/cgroup" >&2
  exit 1
}
status=0
sh -c 'echo 0 > "$0/cgroup.procs"; exec "$@"' "$group" "$@" || status=$?
# What was killed in it may still be ending.
for _ in 1 2 3 4 5 6 7 8 9 10; do
  rmdir "$group" 2> /dev/null && break
  sleep 0.1
done
exit $status
