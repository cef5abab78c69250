// A function may be several suspects, a call path each: its figures are those of the largest.
import type { FrameName, Suspect } from "../types";

export const idOf = (of: FrameName) => `${of.function}\0${of.file}`;

export function byFunction(suspects: Suspect[]): Map<string, Suspect> {
  const found = new Map<string, Suspect>();
  for (const one of suspects) {
    const known = found.get(idOf(one));
    if (known === undefined || (known.inuse_space.value ?? 0) < (one.inuse_space.value ?? 0)) found.set(idOf(one), one);
  }
  return found;
}
