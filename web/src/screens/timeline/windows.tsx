// The two windows, as fields.
import { useEffect, useState } from "preact/hooks";
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
  const shown = windowText(param(name), times);
  const [typed, type] = useState<string | null>(null);
  const [isWrong, setWrong] = useState(false);
  useEffect(() => {
    type(null);
    setWrong(false);
  }, [param(name)]);
  const take = () => {
    if (typed === null) return;
    const window = typed.trim() === "" ? "" : windowFrom(typed, times);
    setWrong(window === null);
    if (window === null) return;
    type(null);
    change({ [name]: window });
  };
  const label = `Window ${name.toUpperCase()}`;
  return (
    <form
      class="group"
      onSubmit={(event) => {
        event.preventDefault();
        take();
      }}
    >
      <label for={`window-${name}`}>{label}</label>
      <input
        id={`window-${name}`}
        class="field"
        type="text"
        spellcheck={false}
        autocomplete="off"
        placeholder={name === "a" ? "01:00–02:00, @-2h..-1h" : "@mark:deploy.."}
        title="A time of day, a time ago or a mark: 01:00–02:00, @-2h..-1h, @mark:deploy.."
        value={typed ?? shown}
        aria-invalid={isWrong}
        aria-describedby={isWrong ? `wrong-${name}` : undefined}
        onInput={(event) => type(event.currentTarget.value)}
        onBlur={take}
      />
      {isWrong ? (
        <span id={`wrong-${name}`} class="up" role="alert">
          not understood: pass a time within {windowText(`${Math.round((times.last - times.first) / 1e9)}-0`, times)}, or a mark
        </span>
      ) : null}
    </form>
  );
}
