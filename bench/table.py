"""The tables of the report: what | plain | ramson | peers | ratio | target | met?"""

import dataclasses

EMPTY = "—"
HEAD = "| what | plain | ramson | peers | ratio | target | met? |\n|---|---|---|---|---|---|---|"


@dataclasses.dataclass
class Row:
    """`is_met` is None where there is no target. A row with `is_gate` rests on deterministic counts."""
    what: str
    plain: str = EMPTY
    ramson: str = EMPTY
    peers: str = EMPTY
    ratio: str = EMPTY
    target: str = EMPTY
    is_met: bool | None = None
    is_gate: bool = False

    def markdown(self):
        met = {None: EMPTY, True: "yes", False: "**NO**"}[self.is_met] + (" (gate)" if self.is_gate else "")
        return f"| {' | '.join([self.what, self.plain, self.ramson, self.peers, self.ratio, self.target, met])} |"


@dataclasses.dataclass
class Table:
    title: str
    rows: list
    note: str = ""

    def markdown(self):
        note = f"\n{self.note}\n" if self.note else ""
        return "\n".join([f"## {self.title}", note, HEAD, *(row.markdown() for row in self.rows), ""])

    def document(self):
        """As docs/internals/cost.md has it: what was found, without the targets, and without columns that are empty."""
        columns = [name for name in ("what", "plain", "ramson", "peers", "ratio")
                   if any(getattr(row, name) != EMPTY for row in self.rows)]
        lines = [f"| {' | '.join(getattr(row, name) for name in columns)} |" for row in self.rows]
        note = [f"\n{self.note}"] if self.note else []
        return "\n".join([f"### {self.title}", *note, "", f"| {' | '.join(columns)} |", "|---" * len(columns) + "|", *lines, ""])


def verdict(tables):
    """How many gates failed, and a closing paragraph that names every missed target."""
    judged = [(made, row) for made in tables for row in made.rows if row.is_met is not None]
    missed = [(made, row) for made, row in judged if not row.is_met]
    failed = [row for _, row in missed if row.is_gate]
    lines = [f"## Verdict: {len(judged) - len(missed)} of {len(judged)} targets met, {len(failed)} gates failed", ""]
    lines += [f"- {'gate failed' if row.is_gate else 'missed'}: {made.title}: {row.what}: {row.ramson} ({row.ratio}),"
              f" target {row.target}" for made, row in missed]
    return len(failed), "\n".join(lines)
