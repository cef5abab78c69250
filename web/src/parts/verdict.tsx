import type { Verdict } from "../types";

const WORDS: Record<Verdict, [string, string]> = {
  growing: ["▲ leak suspect", "up"],
  "not-enough-data": ["not enough data yet", ""],
  plateau: ["looks like a cache", "down"],
  "built-once": ["built once", ""],
  churn: ["freed soon", ""],
};

export function verdictPill(verdict: Verdict) {
  const [word, kind] = WORDS[verdict];
  return <span class={`pill ${kind}`}>{word}</span>;
}
