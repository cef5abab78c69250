import { signal } from "@preact/signals";

/** Result of the search on this screen, as the field says it. */
export const found = signal("");
/** How many suspects grow, as last heard. */
export const suspectCount = signal(0);
