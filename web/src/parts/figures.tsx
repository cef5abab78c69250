// Numbers with their ±, and names of functions.
import type { ComponentChildren } from "preact";
import type { Estimate, FrameName, Unit } from "../types";
import { absolute, base, estimated, isNoise, relative, signed, splitName } from "../units";

/** A value with its ± in percent behind it. */
export function Figure({ of, unit = "bytes" }: { of: Estimate; unit?: Unit }) {
  return (
    <span class="number">
      {estimated(of, unit)} <span class="pm">{relative(of)}</span>
    </span>
  );
}

/** A difference or a rate: ▲▼, sign and ± in its own unit; grey inside its interval. */
export function Change({ of, unit = "bytes", isBare = false }: { of: Estimate; unit?: Unit; isBare?: boolean }) {
  const isLost = isNoise(of);
  const isUp = (of.value ?? 0) > 0;
  return (
    <span class={`number ${isLost ? "noise" : isUp ? "up" : "down"}`}>
      {isLost ? "" : isUp ? "▲ " : "▼ "}
      {signed(of, unit)}
      {isBare ? null : <span class="pm"> {absolute(of, unit)}</span>}
    </span>
  );
}

export function Name({ of, hasPlace = true }: { of: FrameName; hasPlace?: boolean }) {
  const [space, own] = splitName(of.function);
  const place = of.file === "" ? "" : base(of.file) + (of.line > 0 ? `:${of.line}` : "");
  return (
    <span class="name" title={of.function + (of.file === "" ? "" : `\n${of.file}`)}>
      <span class="space">{space}</span>
      <b>{own}</b>
      {hasPlace && place !== "" ? <span class="place">{place}</span> : null}
    </span>
  );
}

/** A bar below a figure, as wide as its share. */
export function Under({ share, isLeft = false }: { share: number; isLeft?: boolean }) {
  const width = `${Math.max(0, Math.min(1, share)) * 100}%`;
  return (
    <div class={`under${isLeft ? " left" : ""}`}>
      <div style={{ width }} />
    </div>
  );
}

/** A sentence begins with it. */
export function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

export function Heading({ title, says, children }: { title: string; says?: ComponentChildren; children?: ComponentChildren }) {
  return (
    <header>
      <h2>{title}</h2>
      {says ? <span class="dim">{says}</span> : null}
      {children}
    </header>
  );
}
