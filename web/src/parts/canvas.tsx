// A canvas that is drawn anew when its size, the theme or what it shows changes.
import { signal } from "@preact/signals";
import { useLayoutEffect, useRef, useState } from "preact/hooks";

export type Theme = "light" | "dark";
const system = matchMedia("(prefers-color-scheme: dark)");
const KEY = "ramson-theme";
const stored = () => {
  try {
    return localStorage.getItem(KEY);
  } catch {
    return null;
  }
};
const initial = stored();
export const theme = signal<Theme>(initial === "light" || initial === "dark" ? initial : system.matches ? "dark" : "light");

export function applyTheme(): void {
  document.documentElement.dataset["theme"] = theme.value;
}

export function switchTheme(): void {
  theme.value = theme.value === "dark" ? "light" : "dark";
  try {
    localStorage.setItem(KEY, theme.value);
  } catch {
    // A page from file:// may have no storage.
  }
  applyTheme();
}

/** A colour of the style sheet. */
export function colour(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

export const FONT = "system-ui, 'Segoe UI', Roboto, sans-serif";

export interface Painted {
  context: CanvasRenderingContext2D;
  width: number;
  height: number;
}

export function useWidth<T extends HTMLElement>(): [{ current: T | null }, number] {
  const element = useRef<T>(null);
  const [width, setWidth] = useState(0);
  useLayoutEffect(() => {
    const seen = element.current;
    if (seen === null) return;
    setWidth(seen.clientWidth);
    const observer = new ResizeObserver(() => setWidth(seen.clientWidth));
    observer.observe(seen);
    return () => observer.disconnect();
  }, []);
  return [element, width];
}

interface Pointing {
  onMouseMove?: (event: MouseEvent) => void;
  onMouseLeave?: () => void;
  onClick?: (event: MouseEvent) => void;
}

/** Paints; what it returns paints the next frame, and says whether there is another. */
export type Paint = (on: Painted) => (() => boolean) | undefined | void;

export function Canvas({ height, paint, label, ...rest }: Pointing & { height: number; paint: Paint; label: string }) {
  const [element, width] = useWidth<HTMLCanvasElement>();
  const shown = theme.value;
  // Before the frame that shows the rest of the page.
  useLayoutEffect(() => {
    const canvas = element.current;
    const context = canvas?.getContext("2d");
    if (!canvas || !context || width === 0) return;
    const scale = devicePixelRatio || 1;
    const [across, down] = [Math.round(width * scale), Math.round(height * scale)];
    if (canvas.width !== across) canvas.width = across;
    if (canvas.height !== down) canvas.height = down;
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.clearRect(0, 0, width, height);
    const more = paint({ context, width, height });
    if (typeof more !== "function") return;
    let frame = 0;
    const turn = () => {
      context.clearRect(0, 0, width, height);
      if (more()) frame = requestAnimationFrame(turn);
    };
    frame = requestAnimationFrame(turn);
    return () => cancelAnimationFrame(frame);
  }, [width, height, shown, paint]);
  return <canvas class="painted" role="img" aria-label={label} {...rest} ref={element} style={{ height: `${height}px` }} />;
}
