// Switches between few values, each of which is a parameter of the address.
import { change, param, type Params } from "../state/route";

interface Of {
  label: string;
  name: string;
  options: [string, string][];
  usual: string;
  also?: Params;
}

export function Switches({ label, name, options, usual, also = {} }: Of) {
  const now = param(name, usual);
  return (
    <div class="group" role="group" aria-label={label}>
      {label}
      <div class="set">
        {options.map(([value, text]) => (
          <button key={value} type="button" aria-pressed={now === value} onClick={() => change({ [name]: value === usual ? "" : value, ...also })}>
            {text}
          </button>
        ))}
      </div>
    </div>
  );
}

/** The same where there are many values. */
export function Selection({ label, name, options, now, usual }: Omit<Of, "also"> & { now: string }) {
  return (
    <label class="group">
      {label}
      <select value={now} onChange={(event) => change({ [name]: event.currentTarget.value === usual ? "" : event.currentTarget.value })}>
        {options.map(([value, text]) => (
          <option key={value} value={value}>
            {text}
          </option>
        ))}
      </select>
    </label>
  );
}

/** Live or allocated × bytes or objects. */
export function Choice() {
  const now = param("si", "inuse_space");
  const set = (label: string, of: [string, string][]) => (
    <div class="group" role="group" aria-label={label}>
      {label}
      <div class="set">
        {of.map(([value, text]) => (
          <button key={value} type="button" aria-pressed={now === value} onClick={() => change({ si: value === "inuse_space" ? "" : value })}>
            {text}
          </button>
        ))}
      </div>
    </div>
  );
  return (
    <>
      {set("Live", [["inuse_space", "bytes"], ["inuse_objects", "objects"]])}
      {set("Allocated", [["alloc_space", "bytes"], ["alloc_objects", "objects"]])}
    </>
  );
}
