// The pictures in docs/web: a server that grows for some minutes, as a history has it. "make web-pictures" writes them.
import { join } from "node:path";
import { Browser, Place, root, settled } from "./serving.mjs";

/** Until it is judged whether it leaks, and some more. */
const GROWS_MS = 150_000;
const to = join(root, "docs/web");
const place = await Place.make();
let browser;
try {
  const program = await place.compile("shop.cc", "shop");
  await place.profiled(program, "1500", "60");
  const shop = String(await place.pid("shop"));
  place.ramsonInBackground("history", shop, "--every", "1s");
  await new Promise((wake) => setTimeout(wake, GROWS_MS / 2));
  await place.ramson("mark", shop, "deploy");
  await new Promise((wake) => setTimeout(wake, GROWS_MS / 2));
  const server = await place.serve(shop, "--source-root", join(root, "web/test/programs"));
  browser = await Browser.open();
  const page = await browser.page(server.address, { height: 760 });
  await settled(page);
  // Waits until there are parts of RSS to be seen.
  await new Promise((wake) => setTimeout(wake, 20_000));
  for (const [name, path] of [
    ["overview", "overview?"],
    ["flame", "flame?lib=all"],
    ["flame-age", "flame?lib=all&c=age"],
    ["table", "table?e=1"],
    ["timeline", "timeline?a=90-0"],
    ["diff", "diff?a=90-0"],
    ["suspects", "suspects?"],
    ["allocator", "allocator?"],
    ["source", "source?"],
  ]) {
    await page.goto(`${server.origin}/${path}`);
    await settled(page);
    if (name === "timeline") await page.getByRole("img", { name: /^Over the window: / }).first().waitFor();
    // The canvas shows the new content a frame later.
    await page.waitForTimeout(500);
    await page.screenshot({ path: join(to, `${name}.png`) });
  }
  const dark = await browser.page(server.address, { height: 760, theme: "dark" });
  await settled(dark);
  await dark.screenshot({ path: join(to, "overview-dark.png") });
} finally {
  await browser?.close();
  await place.end();
}
