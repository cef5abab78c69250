// The documents of the server, by the names that the screens use.
import type { diff, explain, gc, leaks, report, source, sources, timeline, trim } from "./documents";

export type Unit = "bytes" | "objects";
export type Estimate = report.Estimate;
export type FrameName = report.FrameName;
export type Ages = report.Ages;
export type Rss = report.Rss;
export type End = report.End;

export type SourceEntry = sources.Entry;
export type Sources = sources.Document;
export type SourceFile = source.Document;
/** One that was made, of which all is known. */
export type Trimmed = { [Name in keyof trim.TrimAnswer]: NonNullable<trim.TrimAnswer[Name]> };

/** Subject of a document: a process, a file, or several of them. */
export type Subject = report.Fields & Partial<report.Summary> & Partial<Pick<report.ForeignSummary, "origin" | "format">> & { command?: string };
export type Member = report.Summary & { command_line: string[] };
export type TopRow = report.Row;
export type Top = Subject & report.TopTable & { unit: Unit; processes?: Member[] };
export type StackRow = report.StackRow;
export type Stacks = Subject & report.StackTable & { unit: Unit };
export type Peek = report.PeekTable & { unit: Unit };

export type Verdict = leaks.Verdict;
export type Suspect = leaks.Suspect;
export type Group = leaks.Group;
export type Leaks = Subject & leaks.Fields;

export type Advice = explain.Advice;
export type Arena = explain.ArenaAnswer;
export type MapCell = explain.Cell;
export type Explained = explain.Finding;

export type Gc = gc.Document;
export type Collection = gc.Collection;

export type Step = timeline.Step;
export type Timeline = timeline.Document;

export type Side = diff.Side;
export type DiffRow = diff.DiffRow;
export type Diff = diff.Document & { unit: Unit };

// Data of the flame graph: no command prints them, so they have no schema.
export interface FlameFunction extends FrameName {
  key: number;
  short: string;
  library: number | null;
  is_own: boolean;
  is_match: boolean;
}

export interface Nodes {
  depth: number[];
  function: number[];
  cum: (number | null)[];
  half_width_95: (number | null)[];
  flat: (number | null)[];
  objects: (number | null)[];
  merged: number[];
  tint?: (number | null)[];
  tint_half_width_95?: (number | null)[];
}

export interface Flame {
  sample_type: string;
  unit: Unit;
  time_unix_ns: number;
  total: { value: Estimate; objects: Estimate };
  around: { value: Estimate; objects: Estimate } | null;
  functions: FlameFunction[];
  libraries: string[];
  path: Nodes;
  nodes: Nodes;
  callers: Nodes | null;
  merged: { frames: number; value: Estimate; least_share: number };
  search: { functions: number; value: Estimate } | null;
  flat: { function: number; value: Estimate; objects: Estimate }[];
  tint: { by: "age" | "growth" | "change"; figure: Estimate } | null;
  defects: string[];
}

