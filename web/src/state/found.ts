import { signal } from "@preact/signals";

/** What the search found on this screen, as the field says it. */
export const found = signal("");
/** How many suspects grow, as last heard. */
export const suspectCount = signal(0);
