// Links that stay in the page, and open in a new tab where that is asked for.
import type { ComponentChildren } from "preact";
import { go, hrefOf, type Params, type Screen } from "../state/route";

export function followed(screen: Screen, params: Params = {}) {
  return (event: MouseEvent) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey || event.button !== 0) return;
    event.preventDefault();
    go(screen, params);
  };
}

export function Link({ to, params = {}, children }: { to: Screen; params?: Params; children: ComponentChildren }) {
  return (
    <a href={hrefOf(to, params)} onClick={followed(to, params)}>
      {children}
    </a>
  );
}
