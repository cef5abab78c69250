// A saved page in Firefox.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Firefox } from "./firefox.mjs";
import { Place, bytes } from "./serving.mjs";

const SCREENS = ["overview", "flame", "table", "timeline", "diff", "suspects", "allocator", "source"];

let place;
let shop;
let grown;

before(async () => {
  place = await Place.make();
  const program = await place.compile("shop.cc", "shop");
  await place.profiled(program, "6000");
  shop = await place.pid("shop");
  const grows = await place.profiled(program, "500", "200");
  await new Promise((wake) => setTimeout(wake, 1500));
  grows.kill("SIGTERM");
  grown = await place.ended();
});

after(() => place?.end());

test("a file opens in Firefox, too, which finds nothing wrong and asks for nothing", async () => {
  const file = place.path("firefox.html");
  await place.ramson("export", String(shop), "-f", "html", "-o", file);
  const top = await place.json("report", String(shop), "--view", "functions");
  const firefox = await Firefox.open();
  try {
    for (const screen of SCREENS) {
      await firefox.go(`file://${file}#/${screen}`);
      await firefox.shows(/Saved profile/);
      // \s is a narrow or fixed space, too.
      if (["overview", "flame", "table"].includes(screen)) await firefox.shows(new RegExp(bytes(top.total).replace(" ", "\\s")));
    }
    await firefox.go(`file://${file}#/flame?c=age`);
    await firefox.shows(/mean age/);
    const diffs = place.path("firefox-diff.html");
    await place.ramson("export", String(shop), "--old", grown, "-f", "html", "-o", diffs);
    const { new_total } = await place.json("diff", grown, String(shop), "--rows", "0");
    await firefox.go(`file://${diffs}`);
    await firefox.shows(new RegExp(`${bytes(new_total).replace(" ", "\\s")}[^]*Differential flame graph`));
    assert.deepEqual([firefox.errors, firefox.requests], [[], []]);
  } finally {
    await firefox.close();
  }
});
