// Every screen of real profiles in a browser: nothing in the console, nothing for axe to find in either theme, the command line's figures.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { Browser, Place, root, settled, violations } from "./serving.mjs";

const SCREENS = ["overview", "flame", "table", "timeline", "diff", "suspects", "allocator", "source"];
/** Where the pictures of docs/web.md are. They are made anew when this is set. */
const PICTURES = process.env.RAMSON_PICTURES;
const IN_DOCUMENT = new Set(["overview", "flame", "table", "allocator"]);

let place;
let browser;
let server;
let shop;
let ids;

before(async () => {
  place = await Place.make();
  const program = await place.compile("shop.cc", "shop");
  await place.profiled(program, "6000");
  shop = await place.pid("shop");
  const recorder = place.spawn(process.env.RAMSON ?? join(root, "target/release/ramson"), ["record", String(shop), "--every", "1s"]);
  const grows = await place.profiled(program, "500", "200");
  await place.ramson("export", String(shop), "-f", "pprof", "-o", place.path("shop.pb.gz"));
  await new Promise((wake) => setTimeout(wake, 3500));
  recorder.kill("SIGINT");
  grows.kill("SIGTERM");
  server = await place.serve(String(shop), place.path("shop.pb.gz"), ...(await ended()));
  const list = await ask("sources");
  ids = {
    live: list.sources.find((entry) => entry.is_running).id,
    file: list.sources.find((entry) => entry.pid === null).id,
    dead: list.sources.find((entry) => entry.pid !== null && !entry.is_running).id,
  };
  browser = await Browser.open();
});

after(async () => {
  await browser?.close();
  await place?.end();
});

/** The profile of a program that is gone. */
async function ended() {
  for (let tries = 0; tries < 50; tries += 1) {
    const dead = (await place.profiles()).find((entry) => !entry.is_running);
    if (dead) return [dead.profile];
    await new Promise((wake) => setTimeout(wake, 100));
  }
  throw new Error("no program ended");
}

async function ask(path) {
  const reply = await fetch(`${server.origin}/api/v1/${path}`, { headers: { Authorization: `Bearer ${server.token}` } });
  return reply.json();
}

async function open(path, options) {
  const page = await browser.page(server.address, options);
  await visit(page, path);
  return page;
}

async function visit(page, path) {
  await page.goto(server.origin + path);
  await settled(page);
}

function clean() {
  const errors = browser.errors.splice(0);
  assert.deepEqual(errors, []);
}

/** As the command line writes it. */
function bytes(value) {
  const units = ["B", "KiB", "MiB", "GiB"];
  let unit = 0;
  while (Math.round(value) >= 1024) {
    value /= 1024;
    unit += 1;
  }
  return unit === 0 ? `${Math.round(value)} B` : `${value.toFixed(value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2)} ${units[unit]}`;
}

const text = async (page, of = "main") => (await page.locator(of).innerText()).replaceAll(/[\u00a0\u202f]/g, " ");

for (const theme of ["light", "dark"]) {
  for (const kind of ["live", "file", "dead"]) {
    test(`every screen of a ${kind} profile is whole in the ${theme} theme`, async () => {
      const page = await open(`/?id=${ids[kind]}`, { theme });
      for (const screen of SCREENS) {
        await visit(page, `/${screen}?id=${ids[kind]}${screen === "diff" && kind === "live" ? "&a=2-0" : ""}`);
        assert.deepEqual(await violations(page), [], `${screen} ${kind} ${theme}`);
        if (PICTURES && kind === "live" && theme === "light" && IN_DOCUMENT.has(screen)) {
          await mkdir(PICTURES, { recursive: true });
          await page.screenshot({ path: join(PICTURES, `${screen}.png`) });
        }
      }
      await page.context().close();
      clean();
    });
  }
}

test("no screen scrolls sideways from 400 to 2560 pixels", async () => {
  const page = await open(`/?id=${ids.live}`);
  for (const screen of SCREENS) {
    await visit(page, `/${screen}?id=${ids.live}`);
    for (const width of [2560, 900, 400]) {
      await page.setViewportSize({ width, height: 800 });
      // Canvases follow a frame later.
      await page.evaluate(() => new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn))));
      const excess = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
      assert.ok(excess <= 0, `${screen} at ${width} is ${excess} pixels too wide`);
    }
  }
  clean();
});

test("the token leaves the address, and a wrong one is asked for", async () => {
  const page = await browser.page(server.address);
  await settled(page);
  assert.equal(new URL(page.url()).hash, "");
  const wrong = await browser.page(`${server.origin}/#token=wrong`);
  await wrong.getByLabel("Token", { exact: true }).fill(server.token);
  assert.deepEqual(await violations(wrong), []);
  await wrong.getByRole("button", { name: "Use it" }).click();
  await wrong.getByRole("link", { name: "shop" }).first().waitFor();
  clean();
});

test("the figures of all screens are those of the command line", async () => {
  const of = String(shop);
  const [top, doctor, leaks, flame] = await Promise.all([
    place.json("report", of, "--view", "top"),
    place.json("doctor", of),
    place.json("leaks", of),
    ask(`p/${ids.live}/flame?width=1200`),
  ]);
  assert.equal(flame.total.value.value, top.total.value);
  assert.equal(flame.total.value.half_width_95, top.total.half_width_95);
  const sum = flame.nodes.cum.reduce((total, cum, at) => total + (flame.nodes.depth[at] === 0 ? cum : 0), 0);
  assert.ok(Math.abs(sum - top.total.value) <= flame.nodes.cum.length, `${sum}`);
  const shown = {};
  const page = await open(`/?id=${ids.live}`);
  for (const screen of SCREENS) {
    await visit(page, `/${screen}?id=${ids.live}`);
    shown[screen] = await text(page);
  }
  const total = bytes(top.total.value);
  for (const screen of ["overview", "flame", "table"]) assert.ok(shown[screen].includes(total), `${screen} has ${total}\n${shown[screen]}`);
  for (const row of top.rows.slice(0, 3)) {
    const flat = bytes(row.flat.value);
    for (const screen of ["overview", "flame", "table", "suspects"]) assert.ok(shown[screen].includes(flat), `${screen} has ${flat} of ${row.function}\n${shown[screen]}`);
  }
  assert.ok(shown.overview.includes(`RSS ${bytes(doctor.rss.bytes)}`), shown.overview);
  for (const screen of ["overview", "allocator"]) assert.ok(shown[screen].includes(bytes(doctor.rss.terms.live.value)), shown[screen]);
  for (const arena of doctor.statistics.arenas) assert.ok(shown.allocator.includes(bytes(arena.system_bytes)), shown.allocator);
  assert.ok(shown.suspects.includes(`${leaks.answer.findings} functions`), shown.suspects);
  clean();
});

/** From the whole to main, and to handle; each key when the one before is seen. */
async function down(page) {
  for (const name of ["main", "handle"]) {
    await page.keyboard.press("ArrowDown");
    await page.locator(".detail b", { hasText: name }).waitFor();
  }
}

test("keys alone lead through the screens, the graph and back", async () => {
  const page = await open(`/overview?id=${ids.live}`);
  await page.keyboard.press("2");
  await page.waitForURL(/\/flame\?/);
  const graph = page.getByRole("application");
  await graph.focus();
  await down(page);
  await page.keyboard.press("Enter");
  await page.waitForURL(/[?&]p=[^&]+\.[^&]+/);
  await settled(page);
  await page.keyboard.press("Escape");
  await page.waitForURL((url) => !url.searchParams.has("p"));
  await page.goBack();
  await page.waitForURL(/[?&]p=/);
  await page.keyboard.press("/");
  await page.keyboard.type("open_session");
  await page.waitForFunction(() => /1 frame/.test(document.querySelector(".found")?.textContent ?? ""));
  await page.waitForURL(/f=open_session/);
  await page.keyboard.press("Escape");
  await page.keyboard.press("t");
  await page.waitForFunction(() => document.documentElement.dataset.theme === "dark");
  await page.keyboard.press("?");
  await page.getByRole("dialog").waitFor();
  assert.deepEqual(await violations(page), []);
  await page.keyboard.press("Escape");
  await page.keyboard.press("3");
  // The screen before is whole, too.
  await page.locator("main table").first().waitFor();
  await settled(page);
  await page.keyboard.press("e");
  await page.locator("td.stack").first().waitFor();
  assert.deepEqual(await violations(page), []);
  clean();
});

test("an expression that is none is searched for as a text, and markup in a name stays text", async () => {
  const page = await open(`/table?id=${ids.live}&f=${encodeURIComponent("open_session(")}`);
  assert.match(await text(page), /open_session/);
  await page.locator("#search").fill("<img src=x onerror=alert(1)>");
  await page.waitForFunction(() => /^0 rows/.test(document.querySelector(".found")?.textContent ?? ""));
  assert.equal(await page.locator("main img").count(), 0);
  clean();
});

test("a file is the same application, asks for nothing, and has the command line's figures", async () => {
  const file = place.path("shop.html");
  await place.ramson("export", String(shop), "-f", "html", "-o", file);
  const top = await place.json("report", String(shop), "--view", "top");
  const page = await browser.page(`file://${file}`);
  for (const screen of SCREENS) {
    await page.goto(`file://${file}#/${screen}`);
    await settled(page);
    assert.deepEqual(await violations(page), [], screen);
    const shown = await text(page);
    assert.match(shown, /Saved/, screen);
    if (["overview", "flame", "table"].includes(screen)) assert.ok(shown.includes(bytes(top.total.value)), `${screen}: ${shown}`);
  }
  await page.goto(`file://${file}#/flame`);
  await settled(page);
  await page.getByRole("application").focus();
  await down(page);
  await page.keyboard.press("Enter");
  await page.waitForURL(/p=[^&]+\.[^&]+/);
  clean();
});

test("a program that ends while it is watched leaves its last picture", async () => {
  const program = await place.profiled(place.path("shop"), "300", "50");
  const pid = (await place.profiles()).find((entry) => entry.is_running && entry.command[1] === "300").pid;
  const own = await place.serve(String(pid));
  const page = await browser.page(own.address);
  await settled(page);
  await page.getByText("● Running").waitFor();
  program.kill("SIGTERM");
  await page.getByText("This is the last picture.").waitFor();
  await settled(page);
  assert.match(await text(page), /SIGTERM/);
  assert.match(await text(page), /The process is gone/);
  assert.deepEqual(await violations(page), []);
  clean();
});

test("a server that is gone is said to be, and the last picture can be shown", async () => {
  const own = await place.serve(String(shop));
  const page = await browser.page(own.address);
  await settled(page);
  own.child.kill("SIGTERM");
  await page.getByText("The server does not answer").waitFor();
  await page.getByRole("button", { name: "Show the last picture" }).click();
  await page.getByRole("heading", { name: "shop" }).waitFor();
  // The browser says itself that it was refused.
  browser.errors = browser.errors.filter((error) => !/ERR_CONNECTION|ERR_EMPTY|INCOMPLETE/.test(error));
  clean();
});
