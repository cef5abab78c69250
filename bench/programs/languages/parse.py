# Parses JSON texts and keeps what they say.
import json
import sys

TEXT = json.dumps([{"id": i, "name": "user %d" % i, "tags": ["a", "b", str(i)], "score": i * 0.5} for i in range(2000)])


def load_users(rounds):
    return [json.loads(TEXT) for _ in range(rounds)]


def main():
    kept = load_users(60)
    print("ready", flush=True)
    sys.stdin.readline()
    return kept


main()
