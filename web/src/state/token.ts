// The token comes in the address's fragment, which no server gets, and leaves the address at once.
const KEY = "ramson-token";

export function takeToken(): void {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (given === null) return;
  sessionStorage.setItem(KEY, given);
  history.replaceState(null, "", location.pathname + location.search);
}

export const token = {
  get: (): string | null => sessionStorage.getItem(KEY),
  set: (value: string): void => sessionStorage.setItem(KEY, value.trim()),
  drop: (): void => sessionStorage.removeItem(KEY),
};
