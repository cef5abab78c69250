// The two windows, as fields.
import { useRef, useState } from "preact/hooks";
import { Link } from "../../parts/link";
import { isKept, windowOf } from "../../parts/timebar";
import { windowFrom, windowText, type Times } from "../../parts/windows";
import { change, param } from "../../state/route";
import type { Kept } from "../../state/series";

export function Windows({ times, kept }: { times: Times; kept: Kept | null }) {
  const [a, b] = [param("a"), param("b")];
  const window = windowOf(a);
  return (
    <div class="tools windows">
      <Field name="a" times={times} />
      <Field name="b" times={times} />
      {window === null || !isKept(window, kept, times.last) ? null : <Link to="diff">{b === "" ? "Compare its ends" : "Compare A with B"}</Link>}
      {a === "" && b === "" ? null : (
        <button type="button" class="plain" onClick={() => change({ a: "", b: "" })}>
          Clear
        </button>
      )}
    </div>
  );
}

function Field({ name, times }: { name: "a" | "b"; times: Times }) {
  const window = param(name);
  const shown = windowText(window, times);
  const [draft, keep] = useState<{ window: string; text: string; isWrong: boolean } | null>(null);
  // Another window in the address ends what is being typed.
  const typed = draft?.window === window ? draft : null;
  const isWrong = typed?.isWrong ?? false;
  const take = (text: string) => {
    if (text === shown) return;
    const next = text.trim() === "" ? "" : windowFrom(text, times);
    keep(next === null ? { window, text, isWrong: true } : null);
    if (next !== null) change({ [name]: next });
  };
  const input = useRef<HTMLInputElement>(null);
  const label = `Window ${name.toUpperCase()}`;
  return (
    <form
      class="group"
      onSubmit={(event) => {
        event.preventDefault();
        take(input.current!.value);
      }}
    >
      <label for={`window-${name}`}>{label}</label>
      <input
        ref={input}
        id={`window-${name}`}
        class="field"
        type="text"
        spellcheck={false}
        autocomplete="off"
        placeholder={name === "a" ? "01:00–02:00, @-2h..-1h" : "@mark:deploy.."}
        title="A time of day, a time ago or a mark: 01:00–02:00, @-2h..-1h, @mark:deploy.."
        value={typed?.text ?? shown}
        aria-invalid={isWrong}
        aria-describedby={isWrong ? `wrong-${name}` : undefined}
        onInput={(event) => keep({ window: param(name), text: event.currentTarget.value, isWrong })}
        onBlur={(event) => take(event.currentTarget.value)}
      />
      {isWrong ? (
        <span id={`wrong-${name}`} class="up" role="alert">
          not understood: pass a time within {windowText(`${Math.round((times.last - times.first) / 1e9)}-0`, times)}, or a mark
        </span>
      ) : null}
    </form>
  );
}
