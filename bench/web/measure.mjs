// Opens one viewer in Chromium, looks at a profile as a user would, and prints what that took as one object of JSON.
//
//     node bench/web/measure.mjs ramson|pprof|speedscope ADDRESS [FILE]
//
// Times are from the click (or from opening the address) to the frame that shows it. A step that takes more than MOST_MS is null.
import { utimesSync } from "node:fs";
import { createRequire } from "node:module";
import { performance } from "node:perf_hooks";

const require = createRequire(new URL("../../web/package.json", import.meta.url));
const { chromium } = require("playwright-core");

const MOST_MS = Number(process.env.MOST_MS ?? 180_000);
const [viewer, address, file] = process.argv.slice(2);

/** Runs in the page before its own scripts: notes when it draws, and tells when that can be seen. `QUIET_MS` without drawing is the end. */
function probe(QUIET_MS) {
  const drawn = { count: 0, last: 0 };
  const note = () => {
    drawn.count += 1;
    drawn.last = performance.now();
  };
  const wrap = (prototype, name) => {
    const plain = prototype?.[name];
    if (plain === undefined) return;
    prototype[name] = function (...words) {
      note();
      return plain.apply(this, words);
    };
  };
  wrap(globalThis.CanvasRenderingContext2D?.prototype, "fillRect");
  wrap(globalThis.WebGLRenderingContext?.prototype, "drawArrays");
  wrap(globalThis.WebGLRenderingContext?.prototype, "drawElements");
  wrap(globalThis.WebGL2RenderingContext?.prototype, "drawArrays");
  new MutationObserver(note).observe(document, { childList: true, subtree: true, attributes: true });
  const frame = () => new Promise((wake) => requestAnimationFrame(() => wake()));
  globalThis.bench = {
    drawn,
    /** Ms until what `act` draws has been shown, and nothing more is drawn for a while. */
    async until(act, isThere = () => true) {
      const [before, begin] = [drawn.count, performance.now()];
      await act();
      for (;;) {
        await frame();
        if (drawn.count === before || !isThere() || performance.now() - drawn.last < QUIET_MS) continue;
        return drawn.last - begin;
      }
    },
    /** Frames a second in which something was drawn, while `act` is done again and again for so many ms. */
    async frames(act, time, pause) {
      const begin = performance.now();
      let [frames, acted, before] = [0, -Infinity, drawn.count];
      while (performance.now() - begin < time) {
        if (performance.now() - acted > pause) {
          acted = performance.now();
          act();
        }
        await frame();
        if (drawn.count > before) frames += 1;
        before = drawn.count;
      }
      return (frames * 1000) / (performance.now() - begin);
    },
  };
}

const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: ["--no-sandbox", "--js-flags=--max-old-space-size=8192"] });
const page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
// pprof waits for 300 ms before it searches.
await page.addInitScript(probe, viewer === "pprof" ? 500 : 100);
page.setDefaultTimeout(MOST_MS);
const session = await page.context().newCDPSession(page);
await session.send("Network.enable");
const sizes = [];
const paths = new Map();
session.on("Network.requestWillBeSent", (event) => paths.set(event.requestId, new URL(event.request.url).pathname));
session.on("Network.loadingFinished", (event) => sizes.push({ path: paths.get(event.requestId) ?? "", bytes: event.encodedDataLength }));

const found = {};
/** A step; null where it takes too long or cannot be done. */
async function step(name, act) {
  let timer;
  const late = new Promise((_, fail) => (timer = setTimeout(() => fail(new Error("too late")), MOST_MS)));
  try {
    found[name] = await Promise.race([act(), late]);
  } catch (error) {
    found[name] = null;
    process.stderr.write(`bench: ${viewer}: ${name}: ${String(error).split("\n")[0]}\n`);
  } finally {
    clearTimeout(timer);
  }
}

const median = (values) => [...values].sort((a, b) => a - b)[values.length >> 1];

/** The median of so many, and all of them. */
async function times(count, act) {
  const all = [];
  for (let time = 0; time < count; time += 1) all.push(await act(time));
  return median(all);
}

const VIEWERS = {
  async ramson() {
    const { origin, hash } = new URL(address);
    const isThere = () => document.querySelector("canvas.painted[aria-label*=cells]") !== null;
    const shown = `(${isThere})`;
    const first = async () => {
      await page.goto("about:blank");
      await page.goto(`${origin}/flame?lib=all${hash}`, { waitUntil: "commit" });
      return page.evaluate(`(async () => { const took = await bench.until(() => 0, ${shown}).catch(() => 0); return bench.drawn.last; })()`);
    };
    await step("first_started", first);
    await step("first_cold", () => {
      // Another file for the server: it has to read it.
      utimesSync(file, new Date(), new Date());
      return first();
    });
    await step("first_warm", () => times(5, async () => {
      await page.goto(`${origin}/source?lib=all`);
      await page.waitForLoadState("networkidle");
      return page.evaluate(`bench.until(() => document.querySelector("nav a[href^='/flame']").click(), ${shown})`);
    }));
    const zoomTo = (row, at) => `(() => {
      const canvas = document.querySelector("canvas.painted[aria-label*=cells]");
      const box = canvas.getBoundingClientRect();
      const point = { bubbles: true, clientX: box.left + box.width * ${at}, clientY: box.top + 21 * ${row} + 8 };
      canvas.dispatchEvent(new MouseEvent("click", point));
    })()`;
    // To the last frame; a motion on the way would be a part of it.
    await page.emulateMedia({ reducedMotion: "reduce" });
    await step("zoom", () => times(9, async (time) => {
      const took = await page.evaluate(`bench.until(() => ${zoomTo(3 + (time % 3), 0.1)})`);
      await page.evaluate(`bench.until(() => ${zoomTo(0, 0.5)})`);
      return took;
    }));
    const type = (text) => `(() => {
      const field = document.querySelector("#search");
      field.value = ${JSON.stringify(text)};
      field.dispatchEvent(new Event("input", { bubbles: true }));
    })()`;
    await step("search", () => times(5, (time) => page.evaluate(`bench.until(() => ${type(`Handler${time + 1}`)})`)));
    await page.evaluate(type(""));
    await page.emulateMedia({ reducedMotion: "no-preference" });
    await step("frames", () => page.evaluate(`(() => {
      let isIn = false;
      const act = () => { isIn = !isIn; isIn ? ${zoomTo(4, 0.1)} : ${zoomTo(0, 0.5)}; };
      // As long as one motion lasts: there is always one.
      return bench.frames(act, 3000, 150);
    })()`));
    found.bytes = Math.max(...sizes.filter((one) => one.path.endsWith("/flame") && one.path.includes("api")).map((one) => one.bytes));
  },

  async pprof() {
    const isThere = () => document.querySelectorAll(".boxbg, .box, #stack-chart div div").length > 3;
    const shown = `(${isThere})`;
    const first = async () => {
      await page.goto(`${address}ui/flamegraph?si=inuse_space`, { waitUntil: "commit" });
      return page.evaluate(`(async () => { await bench.until(() => 0, ${shown}); return bench.drawn.last; })()`);
    };
    await step("first_cold", first);
    if (found.first_cold === null) return;
    found.bytes = Math.max(...sizes.map((one) => one.bytes));
    await step("first_warm", first);
    const boxes = "[...document.querySelectorAll('#stack-chart .boxbg')]";
    await step("zoom", () => page.evaluate(`bench.until(() => ${boxes}[3].dispatchEvent(new MouseEvent("click", { bubbles: true })))`));
    await step("search", () => page.evaluate(`bench.until(() => {
      const field = document.querySelector("#search");
      field.value = "Handler1";
      field.dispatchEvent(new Event("input", { bubbles: true }));
    })`));
  },

  async speedscope() {
    await page.goto(address);
    await page.waitForSelector("input[type=file]", { state: "attached" });
    await step("first_cold", async () => {
      await page.evaluate("void (globalThis.shown = bench.until(() => 0, () => document.body.innerText.includes('Time Order')))");
      await page.setInputFiles("input[type=file]", file);
      return page.evaluate("shown");
    });
    if (found.first_cold === null) return;
    const box = { x: 600, y: 200 };
    await step("zoom", () => times(5, async () => {
      await page.mouse.move(box.x, box.y);
      const took = page.evaluate("bench.until(() => 0)");
      await page.mouse.dblclick(box.x, box.y);
      return took;
    }));
    await step("frames", async () => {
      const counted = page.evaluate("bench.frames(() => 0, 3000, 100)");
      for (let turn = 0; turn < 30; turn += 1) {
        await page.keyboard.down("Control");
        await page.mouse.wheel(0, turn % 2 === 0 ? -100 : 100);
        await page.keyboard.up("Control");
        await new Promise((wake) => setTimeout(wake, 80));
      }
      return counted;
    });
  },
};

const begin = performance.now();
await VIEWERS[viewer]();
found.seconds = (performance.now() - begin) / 1000;
await browser.close();
process.stdout.write(`${JSON.stringify(found)}\n`);
