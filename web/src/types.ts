// The documents of the server, as far as the screens use them. docs/schemas has all of them.

export type Unit = "bytes" | "objects";

export interface Estimate {
  value: number | null;
  half_width_95: number | null;
  at_least?: boolean;
}

export interface SourceEntry {
  id: string;
  source: string;
  name: string;
  pid: number | null;
  state: string | null;
  is_running: boolean;
  rss: number | null;
  /** `null`: not known, as the process was detached from. */
  live: Estimate | null;
  command: string[];
  /** How many processes are added up here; none in a file, and where it is one. */
  processes?: number | null;
}

export interface Sources {
  sources: SourceEntry[];
  unreadable: string[];
  /** Whether a process may be trimmed; a saved file does not say. */
  allows_actions?: boolean;
}

/** What came of a trim. */
export interface Trimmed {
  elapsed_ms: number;
  stopped_ms: number;
  rss_before: number;
  rss_after: number;
  rss_diff: number;
  message: string;
}

export interface Rss {
  bytes: number;
  terms: Record<string, Estimate>;
  is_settled: boolean;
  live_is_counted: boolean;
  live_by_profile: Estimate;
  allocator: string;
  /** What the allocator holds, or else the other anonymous memory, may be live. */
  may_hold_live: boolean;
  /** What the profile does not have was allocated before that. */
  before: "attach" | "fork" | "either" | null;
}

export interface End {
  way: string;
  exit_status: number | null;
  signal: number | null;
  time_unix_ns: number | null;
  cause: string;
  kernel_log: boolean;
  last_rss: number | null;
  /** When that was. */
  last_rss_is: string | null;
  peak_rss: number | null;
  memory_limit: number | null;
  cgroup: string;
  lack_of_memory: "allocation" | "abort" | null;
  failed_allocation_bytes: number | null;
}

export interface Subject {
  pid?: number;
  name?: string;
  origin?: string;
  format?: string;
  command?: string;
  is_running?: boolean;
  end?: End | null;
  rss?: Rss | null;
  /** `null`: not known, as the process was detached from. */
  live?: Estimate | null;
  history?: { time_unix_ns: number } | null;
  recording?: { interval_bytes: number; configured_interval_bytes: number; overhead_ppm: number };
  health?: Record<string, number>;
  interval_bytes: number;
  defects: string[];
  missing_symbols?: string[];
}

export interface FrameName {
  function: string;
  file: string;
  line: number;
}

/** One of several processes. */
export interface Member {
  pid: number;
  name: string;
  command_line: string[];
  is_running: boolean;
  rss: Rss | null;
  live: Estimate | null;
}

export interface TopRow extends FrameName {
  flat: Estimate;
  cum: Estimate;
  objects: Estimate;
}

export interface Top extends Subject {
  sample_type: string;
  total: Estimate;
  whole: Estimate;
  unit: Unit;
  rows: TopRow[];
  processes?: Member[];
}

export interface StackRow {
  value: Estimate;
  objects: Estimate;
  ages: Ages | null;
  growth: Growth | null;
  frames: FrameName[];
}

export interface Stacks extends Subject {
  unit: Unit;
  total: Estimate;
  rows: StackRow[];
}

export interface Ages {
  p50_ns: number;
  mean_ns: number;
  oldest_ns: number;
  histogram: { from_ns: number; to_ns: number; bytes: Estimate }[];
}

export interface Growth {
  bytes_per_hour: Estimate;
  window_ns: number;
  is_measured: boolean;
  is_significant: boolean;
}

export type Verdict = "growing" | "plateau" | "start-up" | "churn" | "not-enough-data";

export interface Suspect extends FrameName {
  verdict: Verdict;
  reason: string;
  inuse_space: Estimate;
  inuse_objects: Estimate;
  samples: number;
  ages: Ages | null;
  survival: { curve: { age_ns: number; share: number }[]; never_freed: number; interval_95: [number, number] } | null;
  persistence: { kept: number; freed: number; settled_ns: number; horizon_ns: number } | null;
  growth: Growth | null;
  growing_for_ns: number | null;
  growing_since_unix_ns: number | null;
  judged_in_ns: number | null;
  first_seen_unix_ns: number | null;
  share: number;
  lines: { line: number; inuse_space: Estimate; samples: number }[];
  stacks: number;
  frames: FrameName[];
}

export interface Leaks extends Subject {
  answer: {
    leak_suspects: number;
    growth_per_hour: Estimate;
    findings: number;
    undecided: number;
    undecided_share: number;
    judged_in_ns: number | null;
    /** And is sampled. */
    is_running: boolean;
    /** How long ago, where it has. */
    sampling_ended_ns: number | null;
    limit: DetectionLimit | null;
    cannot_tell: string | null;
  };
  suspects: Suspect[];
  groups: Group[];
  stacks: number;
  ages: Ages | null;
}

/** The smallest leak that would have been found by now. */
export interface DetectionLimit {
  bytes_per_hour: number;
  interval_bytes: number;
  observed_ns: number;
}

/** Leak suspects that rise together below one caller. */
export interface Group extends FrameName {
  /** Places among the suspects. */
  suspects: number[];
  inuse_space: Estimate;
  growth_per_hour: Estimate;
  growing_since_unix_ns: number | null;
}

export interface Advice {
  cause: string;
  needs: string;
  action: string;
  evidence: string;
  risk: string;
  saving: { bytes: number; half_width_95: number; is_at_most?: boolean } | null;
}

export interface Arena {
  is_main: boolean;
  threads: number;
  system_bytes: number;
  in_use: { bytes: number };
  free_bytes: number;
  releasable_bytes: number;
}

export interface MapCell {
  arena: number;
  address: number;
  bytes: number;
  resident_bytes: number;
  free_bytes: number;
}

export interface Explained {
  pid: number;
  name: string;
  rss: Rss;
  causes: { cause: string; bytes: Estimate; sentence: string }[];
  parts: Record<string, number>;
  limit: { group: string; limit_bytes: number; used_bytes: number } | null;
  allocators: { glibc: { name: string } | null; other: unknown };
  statistics: { arenas: Arena[]; map: MapCell[]; half_widths_95: Record<string, number> } | null;
  statistics_missing: string | null;
  pins: {
    sites: { frames: string[]; pinned: Estimate; live: Estimate; samples: number; median_age_ns: number | null }[];
    pinned: Estimate;
  } | null;
  advice: Advice[];
}

export interface TimelineRow {
  time_unix_ns: number;
  rss: number | null;
  live: Estimate;
  free_in_allocator: Estimate | null;
  held_by_allocator: Estimate | null;
  terms: Record<string, number> | null;
  rest: Estimate | null;
  live_samples: number;
  allocated: number;
  triggers: string;
}

/** Where RSS rose or fell within a short time, and live did not follow. */
export interface Step {
  from_unix_ns: number;
  to_unix_ns: number;
  rss: number;
  live: Estimate;
  sentence: string;
}

export interface Timeline {
  rows: TimelineRow[];
  marks: { name: string; time_unix_ns: number }[];
  steps: Step[];
  history: string | null;
}

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

export interface Peek {
  unit: Unit;
  functions: (FrameName & {
    flat: Estimate;
    cum: Estimate;
    callers: (FrameName & { value: Estimate })[];
    callees: (FrameName & { value: Estimate })[];
  })[];
}

export interface DiffRow extends TopRow {
  is_significant: boolean;
  old_flat: Estimate;
  new_flat: Estimate;
}

/** One of two sources that are compared. */
export interface Side {
  name: string;
  pid?: number;
}

export interface Diff {
  unit: Unit;
  old: Side;
  new: Side;
  old_total: Estimate;
  new_total: Estimate;
  total: Estimate;
  is_significant: boolean;
  rows: DiffRow[];
}

export interface SourceFile {
  file: string;
  path: string;
  is_newer: boolean;
  all_lines: number;
  left_out: number;
  lines: { line: number; text: string; flat: Estimate | null; cum: Estimate | null }[];
}
