// A trim from the page: what it does to the program and is predicted to return; then what it returned, or why there was none.
import { useEffect, useRef, useState } from "preact/hooks";
import { Notice } from "../../parts/notice";
import { act, Failed } from "../../state/api";
import { tick } from "../../state/documents";
import { pathOf } from "../../state/paths";
import type { Estimate, SourceEntry, Trimmed } from "../../types";
import { absolute, bytes, estimated } from "../../units";

type State = { is: "ready" } | { is: "asked" } | { is: "underway" } | { is: "done"; trimmed: Trimmed } | { is: "refused"; failed: Failed };

export interface Trim {
  state: State;
  ask: () => void;
  cancel: () => void;
  trim: () => void;
}

export function useTrim(entry: SourceEntry): Trim {
  const [state, set] = useState<State>({ is: "ready" });
  const trim = async () => {
    set({ is: "underway" });
    try {
      set({ is: "done", trimmed: await act<Trimmed>(pathOf(entry, "trim"), "trim") });
    } catch (error) {
      set({ is: "refused", failed: error instanceof Failed ? error : new Failed(String(error), 0) });
    }
    tick.value += 1;
  };
  return { state, ask: () => set({ is: "asked" }), cancel: () => set({ is: "ready" }), trim: () => void trim() };
}

export function TrimButton({ of }: { of: Trim }) {
  const isUnderway = of.state.is === "underway";
  return (
    <button type="button" class="plain" disabled={isUnderway} onClick={of.ask}>
      {isUnderway ? "Trimming …" : "Trim …"}
    </button>
  );
}

interface Of {
  of: Trim;
  entry: SourceEntry;
  /** Bytes that a trim of glibc's malloc will return; null for other allocators, because only the trim itself tells. */
  prediction: Estimate | null;
}

export function TrimDialog(of: Of) {
  return of.of.state.is === "asked" ? <Confirm {...of} /> : null;
}

function Confirm({ of, entry, prediction }: Of) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog ref={dialog} aria-labelledby="trim-title" onClose={of.cancel}>
      <h2 id="trim-title">
        Trim {entry.name} (pid {entry.pid})?
      </h2>
      <p>
        {prediction === null ? "How much it returns is not known in advance." : <>It is predicted to return <b>{estimated(prediction)}</b>{absolute(prediction) === "" ? "" : ` ${absolute(prediction)}`}.</>}
      </p>
      <p class="quiet">
        One thread that waits in a system call is stopped, makes the allocator return free memory to the kernel, and continues to wait. A thread that computes is
        used only if none waits. All others keep running; one that needs the lock of an arena waits while that arena is trimmed. Each page that the program needs again
        costs a page fault.
      </p>
      <p class="buttons">
        <button type="button" class="plain" onClick={of.cancel}>
          Cancel
        </button>
        <button type="button" class="plain main" onClick={of.trim}>
          Trim
        </button>
      </p>
    </dialog>
  );
}

const ms = (time: number) => `${time.toFixed(1)}\u00a0ms`;

/** In the words of `ramson trim`. */
export function TrimOutcome({ of: { state } }: { of: Trim }) {
  return (
    <div role="status">
      {state.is === "done" ? <Done of={state.trimmed} /> : null}
      {state.is === "refused" ? (
        <Notice kind="part" fact={state.failed.status === 0 ? "No answer; the trim may have been made:" : "Not trimmed:"}>
          {state.failed.message}
        </Notice>
      ) : null}
    </div>
  );
}

function Done({ of }: { of: Trimmed }) {
  const came = of.rss_diff >= 0 ? `${bytes(of.rss_diff)} returned` : `nothing returned; RSS grew by ${bytes(-of.rss_diff)}`;
  return (
    <Notice fact={`RSS ${bytes(of.rss_before)} → ${bytes(of.rss_after)}: ${came} in ${ms(of.elapsed_ms)}.`}>
      {of.message}, which was stopped for {ms(of.stopped_ms)}.
    </Notice>
  );
}
