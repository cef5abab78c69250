// Every screen of real profiles in a browser: nothing in the console, nothing for axe to find in either theme, the command line's figures.
import assert from "node:assert/strict";
import { stat } from "node:fs/promises";
import { after, afterEach, before, test } from "node:test";
import { Browser, Place, bytes, settled, violations, violationsInBothThemes } from "./serving.mjs";

const SCREENS = ["overview", "flame", "table", "timeline", "diff", "suspects", "allocator", "source"];

let place;
let browser;
let server;
let shop;
let grown;
let ids;

before(async () => {
  place = await Place.make();
  const program = await place.compile("shop.cc", "shop");
  await place.profiled(program, "6000");
  shop = await place.pid("shop");
  const grows = await place.profiled(program, "500", "200");
  const both = (await place.profiles()).map((entry) => String(entry.pid));
  const recorder = place.ramsonInBackground("history", ...both, "--every", "1s");
  await place.ramson("export", String(shop), "-f", "pprof", "-o", place.path("shop.pb.gz"));
  await new Promise((wake) => setTimeout(wake, 1500));
  await place.ramson("mark", String(shop), "deploy");
  await new Promise((wake) => setTimeout(wake, 2000));
  recorder.kill("SIGINT");
  grows.kill("SIGTERM");
  grown = await place.ended();
  server = await place.serve(String(shop), place.path("shop.pb.gz"), grown);
  const list = await ask("sources");
  ids = {
    live: list.sources.find((entry) => entry.is_running).id,
    file: list.sources.find((entry) => entry.pid === null).id,
    dead: list.sources.find((entry) => entry.pid !== null && !entry.is_running).id,
  };
  browser = await Browser.open();
});

afterEach(() => browser?.closePages());

after(async () => {
  await browser?.close();
  await place?.end();
});

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

const text = async (page, of = "main") => (await page.locator(of).innerText()).replaceAll(/[\u00a0\u202f]/g, " ");

for (const kind of ["live", "file", "dead"]) {
  test(`every screen of a ${kind} profile is whole in both themes`, async () => {
    const page = await open(`/?id=${ids[kind]}`);
    for (const screen of SCREENS) {
      await visit(page, `/${screen}?id=${ids[kind]}${screen === "diff" && kind === "live" ? "&a=2-0" : ""}`);
      assert.deepEqual(await violationsInBothThemes(page), [], `${screen} ${kind}`);
    }
    await page.context().close();
    clean();
  });
}

test("no screen scrolls sideways from 400 to 2560 pixels", async () => {
  const page = await open(`/?id=${ids.live}`);
  for (const screen of SCREENS) {
    await visit(page, `/${screen}?id=${ids.live}`);
    for (const width of [2560, 900, 400]) {
      await page.setViewportSize({ width, height: 800 });
      // Canvases follow a few frames later.
      const fits = page.waitForFunction(() => document.documentElement.scrollWidth <= document.documentElement.clientWidth, null, { timeout: 5_000 });
      await fits.catch(() => assert.fail(`${screen} at ${width} pixels is too wide`));
    }
  }
  clean();
});

test("the token leaves the address, and a wrong one is asked for", async () => {
  const page = await browser.page(server.address);
  await settled(page);
  assert.equal(new URL(page.url()).hash, "");
  const without = await browser.page(server.origin);
  await without.getByRole("heading", { name: "The token is missing" }).waitFor();
  const wrong = await browser.page(`${server.origin}/#token=wrong`);
  await wrong.getByRole("heading", { name: "Wrong token" }).waitFor();
  await wrong.getByLabel("Token", { exact: true }).fill(server.token);
  assert.deepEqual(await violations(wrong), []);
  await wrong.getByRole("button", { name: "Use it" }).click();
  await wrong.getByRole("link", { name: "shop" }).first().waitFor();
  clean();
});

test("the figures of all screens are those of the command line", async () => {
  const of = String(shop);
  const [top, explained, leaks, flame] = await Promise.all([
    place.json("report", of, "--view", "functions"),
    place.json("explain", of),
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
  const total = bytes(top.total);
  for (const screen of ["overview", "flame", "table"]) assert.ok(shown[screen].includes(total), `${screen} has ${total}\n${shown[screen]}`);
  for (const row of top.rows.slice(0, 3)) {
    const flat = bytes(row.flat);
    for (const screen of ["overview", "flame", "table", "suspects"]) assert.ok(shown[screen].includes(flat), `${screen} has ${flat} of ${row.function}\n${shown[screen]}`);
  }
  assert.ok(shown.overview.includes(`RSS ${bytes(explained.rss.bytes)}`), shown.overview);
  for (const screen of ["overview", "allocator"]) assert.ok(shown[screen].includes(bytes(explained.rss.terms.live)), shown[screen]);
  assert.ok(shown.overview.includes(`${bytes(explained.live)} live`), shown.overview);
  for (const arena of explained.statistics.arenas) assert.ok(shown.allocator.includes(bytes(arena.system_bytes)), shown.allocator);
  assert.ok(shown.suspects.includes(`${leaks.answer.findings} functions`), shown.suspects);
  clean();
});

test("colours say what the commands say, in words too, and are whole in both themes", async () => {
  const page = await open(`/flame?id=${ids.live}&c=age`);
  const aged = await ask(`p/${ids.live}/flame?colour=age`);
  const report = await place.json("report", String(shop), "--rows", "0");
  const sum = report.rows.reduce((total, row) => total + row.value.value * row.ages.mean_ns, 0);
  // The program waits: all of it has aged by what lies between the two questions.
  const apart = Math.abs(sum / report.total.value - aged.tint.figure.value);
  assert.ok(aged.tint.figure.value > 1e9 && apart < 20e9, `${apart}`);
  assert.match(await text(page), /mean age <1.0 s.*older/s);
  assert.match(await page.getByLabel("The largest frames of the graph").innerText(), /main, .*, mean age \d/);
  assert.deepEqual(await violations(page), []);
  await page.getByLabel("Colour").selectOption("growth");
  await page.waitForURL(/c=growth/);
  await page.getByText("no leak found").waitFor();
  await page.keyboard.press("t");
  await page.waitForFunction(() => document.documentElement.dataset.theme === "dark");
  assert.deepEqual(await violations(page), []);
  // A file of another tool has no times.
  await visit(page, `/flame?id=${ids.file}&c=age`);
  assert.deepEqual(await page.getByLabel("Colour").locator("option").allInnerTexts(), ["library", "own or library"]);
  clean();
});

test("the ages of live bytes are the same in the table, on the first screen and on the command line", async () => {
  const leaks = await place.json("leaks", String(shop));
  const report = await place.json("report", String(shop), "--rows", "0");
  const bytesOf = (ages) => ages.histogram.reduce((sum, of) => sum + of.bytes.value, 0);
  assert.ok(Math.abs(bytesOf(leaks.ages) - report.total.value) < 1, `${bytesOf(leaks.ages)}`);
  for (const row of report.rows) assert.ok(Math.abs(bytesOf(row.ages) - row.value.value) < 1, JSON.stringify(row));
  const page = await open(`/overview?id=${ids.live}`);
  await page.getByRole("img", { name: /^Live bytes by age: / }).waitFor();
  await visit(page, `/table?id=${ids.live}&e=1`);
  await page.locator("td.stack").first().waitFor();
  const labels = await page.getByRole("img", { name: /^Live bytes by age: / }).evaluateAll((all) => all.map((one) => one.getAttribute("aria-label")));
  assert.ok(labels.length >= 2 && labels[0].includes("MiB"), labels.join("\n"));
  clean();
});

test("the differential graph is of the diff's moments, and swapping it shows what is gone", async () => {
  const page = await open(`/diff?id=${ids.live}&a=2-0`);
  await page.getByRole("heading", { name: "Differential flame graph" }).waitFor();
  await page.getByRole("application").waitFor();
  assert.match(await text(page), /no change.*more, up to/s);
  await page.getByRole("button", { name: "Swap" }).click();
  await page.waitForURL(/swap=1/);
  await settled(page);
  await page.getByRole("application").waitFor();
  clean();
});

test("a window is typed as a time of day, a time ago or since a mark", async () => {
  const { rows } = await place.json("timeline", String(shop), "--rows", "0");
  const page = await open(`/timeline?id=${ids.live}`);
  const field = page.getByLabel("Window A");
  const typed = async (window) => {
    await field.fill(window);
    await field.press("Enter");
  };
  await typed("@-2s..-1s");
  await page.waitForURL((url) => url.searchParams.get("a") === "2-1");
  const [from, to] = (await field.inputValue()).split("–");
  await page.getByRole("button", { name: "Clear" }).click();
  await page.waitForURL((url) => !url.searchParams.has("a"));
  await typed(`${from}–${to}`);
  await page.waitForURL((url) => /^\d+-\d+$/.test(url.searchParams.get("a") ?? ""));
  await typed("@mark:deploy..");
  await page.waitForURL((url) => /^\d+-0$/.test(url.searchParams.get("a") ?? ""));
  const since = Number(new URL(page.url()).searchParams.get("a").split("-")[0]);
  assert.ok(since >= (Date.now() * 1e6 - rows.at(-1).time_unix_ns) / 1e9 - 5, `${since}`);
  assert.match(await text(page), /Markers.*deploy since then/s);
  await typed("@mark:nosuch..");
  await page.getByRole("alert").waitFor();
  assert.deepEqual(await violations(page), []);
  await page.getByLabel("Window B").fill("@-1s..");
  await page.getByLabel("Window B").press("Enter");
  await page.getByRole("link", { name: "Compare A with B" }).click();
  await page.waitForURL(/\/diff\?.*b=1-0/);
  clean();
});

// The program is gone: a window of seconds before now would be another.
test("what moved in a window has its change, and a curve of the moments that a history keeps", async () => {
  const page = await open(`/timeline?id=${ids.dead}&a=2-0`);
  await page.getByRole("img", { name: /^Over the window: [\d.]+ .iB, / }).first().waitFor();
  // Terms that a history kept of a program that is gone add up to RSS.
  const { rows } = await ask(`p/${ids.dead}/timeline?rows=0`);
  const read = rows.filter((row) => row.terms !== null);
  assert.ok(read.length > 0 && read.every((row) => row.rss === Object.values(row.terms).reduce((sum, bytes) => sum + bytes, 0)), JSON.stringify(rows));
  assert.match(await text(page), /code, data, files.*RSS/s);
  const last = read.at(-1);
  await visit(page, `/overview?id=${ids.dead}`);
  await page.getByRole("img", { name: /^RSS in parts: live/ }).waitFor();
  assert.ok((await text(page)).includes(`RSS ${bytes(last.rss)}`) && (await text(page)).includes(`live ${(100 * last.terms.live / last.rss).toPrecision(3)}%`), await text(page));
  await visit(page, `/timeline?id=${ids.dead}&a=2-0`);
  assert.match(await text(page), /open_session\s.*▲ \+[\d.]+ [KM]iB\s+±[\d.]+ .iB/s);
  assert.deepEqual(await violations(page), []);
  clean();
});

test("[ and ] lead through the moments of the history, and back to now", async () => {
  const { rows } = await place.json("timeline", String(shop), "--rows", "0");
  const page = await open(`/timeline?id=${ids.live}`);
  await page.getByText("history.db").waitFor();
  await page.keyboard.press("[");
  await page.waitForURL((url) => url.searchParams.has("t"));
  const at = Date.parse(new URL(page.url()).searchParams.get("t"));
  assert.equal(at, Math.ceil(rows.at(-1).time_unix_ns / 1e6));
  await page.getByText("As it was:").waitFor();
  await page.keyboard.press("[");
  await page.waitForURL((url) => Date.parse(url.searchParams.get("t")) < at);
  await page.keyboard.press("2");
  await settled(page);
  const past = await place.json("report", `${shop}@${new URL(page.url()).searchParams.get("t")}`, "--view", "functions");
  assert.ok((await text(page)).includes(bytes(past.total)), await text(page));
  await page.keyboard.press("]");
  await page.keyboard.press("]");
  await page.waitForURL((url) => !url.searchParams.has("t"));
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
  // Behind a dialog keys do nothing.
  await page.getByRole("dialog").waitFor({ state: "hidden" });
  // Until the next frame one that has closed can have the focus.
  await page.locator("dialog button").dispatchEvent("keydown", { key: "3" });
  // The screen before is whole, too, and has a table.
  await page.waitForURL(/\/table\?/);
  await page.locator("main [aria-expanded]").first().waitFor();
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
  const top = await place.json("report", String(shop), "--view", "functions");
  const page = await browser.page(`file://${file}`);
  for (const screen of SCREENS) {
    await page.goto(`file://${file}#/${screen}`);
    await settled(page);
    assert.deepEqual(await violations(page), [], screen);
    const shown = await text(page);
    assert.match(shown, /Saved/, screen);
    if (["overview", "flame", "table"].includes(screen)) assert.ok(shown.includes(bytes(top.total)), `${screen}: ${shown}`);
  }
  await page.goto(`file://${file}#/flame`);
  await settled(page);
  await page.getByRole("application").focus();
  await down(page);
  await page.keyboard.press("Enter");
  await page.waitForURL(/p=[^&]+\.[^&]+/);
  clean();
});

/** Writes the page of a comparison, and returns what it has to say: as much as the command. */
async function compared(old, source, file) {
  await place.ramson("export", source, "--old", old, "-f", "html", "-o", file);
  assert.ok((await stat(file)).size < 5 * 2 ** 20);
  return place.json("diff", old, source, "--rows", "0");
}

test("a file with a comparison has the figures of the command line, of another tool's files, too", async () => {
  await place.ramson("export", String(grown), "-f", "pprof", "-o", place.path("grown.pb.gz"));
  for (const [old, source] of [[grown, String(shop)], [place.path("grown.pb.gz"), place.path("shop.pb.gz")]]) {
    const file = place.path(`diff-${source.length}.html`);
    const diff = await compared(old, source, file);
    const page = await browser.page(`file://${file}`);
    await settled(page);
    await page.getByRole("application").waitFor();
    const shown = await text(page);
    for (const figure of [old, source, bytes(diff.old_total), bytes(diff.new_total), bytes(Math.abs(diff.total.value))]) assert.ok(shown.includes(figure), `${figure}: ${shown}`);
    assert.match(shown, diff.is_significant ? /, significant/ : /, (not significant|interval unknown)/);
    for (const row of diff.rows.filter((row) => row.flat.value !== 0 && (row.is_significant || row.flat.half_width_95 === null)).slice(0, 3)) assert.ok(shown.includes(bytes(Math.abs(row.flat.value))), `${row.function}: ${shown}`);
    assert.deepEqual(await violationsInBothThemes(page), []);
    await page.getByRole("button", { name: "Swap" }).click();
    await page.waitForURL(/swap=1/);
    await settled(page);
    await page.getByRole("application").waitFor();
    assert.ok((await text(page)).includes(`${source} → ${old}`));
    await page.context().close();
    clean();
  }
});

test("a program that ends while it is watched leaves its last picture", async () => {
  const program = await place.profiled(place.path("shop"), "300", "50");
  const pid = (await place.profiles()).find((entry) => entry.is_running && entry.command[1] === "300").pid;
  const own = await place.serve(String(pid));
  const page = await browser.page(own.address);
  await settled(page);
  await page.getByText("● Running").waitFor();
  program.kill("SIGTERM");
  await page.getByText("These are the last figures.").waitFor();
  await page.getByText("The process is gone").first().waitFor();
  await settled(page);
  assert.match(await text(page), /SIGTERM/);
  assert.deepEqual(await violations(page), []);
  clean();
});

test("a server that is gone is said to be, and the last picture can be shown", async () => {
  const own = await place.serve(String(shop));
  const page = await browser.page(own.address);
  await settled(page);
  own.child.kill("SIGTERM");
  await page.getByText("The server does not answer").waitFor();
  await page.getByRole("button", { name: "Show the last figures" }).click();
  await page.getByRole("heading", { name: "shop" }).waitFor();
  // The browser says itself that it was refused.
  browser.errors = browser.errors.filter((error) => !/ERR_CONNECTION|ERR_EMPTY|INCOMPLETE/.test(error));
  clean();
});
