// The token comes in the address's fragment, which no server gets, and leaves the address at once.
import { signal } from "@preact/signals";
import { hasProof } from "./proof";

const KEY = "ramson-token";

/** This server failed to prove that it has the token, which the page has then deleted. */
export const isUnproven = signal(false);

let known = sessionStorage.getItem(KEY);

export function takeToken(): void {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (given === null) return;
  setToken(given);
  history.replaceState(null, "", location.pathname + location.search);
}

export function setToken(given: string): void {
  known = given.trim();
  // At once: the page may be left before the server has answered.
  sessionStorage.setItem(KEY, known);
  isUnproven.value = false;
}

/** Whether there is one, known to the server or not. */
export function hasToken(): boolean {
  return known !== null;
}

/** How long a page stays that its user has left. The requests that were under way end then, which says nothing about the server. */
const LEAVING_MS = 1000;
let removal: ReturnType<typeof setTimeout> | undefined;

/** While the server does not answer, another user may take the port, whose page must not find the token in the tab's storage. */
export function unstoreToken(): void {
  removal ??= setTimeout(() => sessionStorage.removeItem(KEY), LEAVING_MS);
}

/**
 * The token for a request that follows at once. Another user may have taken the port since the last request, so the server has to
 * prove each time that it has the token.
 */
export async function provenToken(): Promise<string | null> {
  const asked = known;
  if (asked === null) return null;
  const isProven = await hasProof(asked);
  if (asked !== known) return provenToken();
  if (isProven) {
    clearTimeout(removal);
    removal = undefined;
    sessionStorage.setItem(KEY, asked);
    return asked;
  }
  sessionStorage.removeItem(KEY);
  known = null;
  isUnproven.value = true;
  return null;
}
