// Builds dist/ from src/. The same source and locked dependencies give the same bytes.
import { build, context } from "esbuild";
import { copyFile, mkdir, readFile, writeFile } from "node:fs/promises";

const to = process.env.RAMSON_WEB_DIST ?? "dist";
const options = {
  entryPoints: { app: "src/main.tsx" },
  bundle: true,
  outdir: to,
  format: "iife",
  target: ["chrome110", "firefox115", "safari16"],
  jsx: "automatic",
  jsxImportSource: "preact",
  minify: true,
  charset: "utf8",
  legalComments: "none",
  logLevel: "warning",
};
/** The licences of what is in app.js, which a copy of it must keep. */
async function notices() {
  const texts = ["preact", "@preact/signals", "@preact/signals-core", "uplot", "@tanstack/virtual-core"].map(async (name) => {
    const { version, license } = JSON.parse(await readFile(`node_modules/${name}/package.json`, "utf8"));
    const text = await readFile(`node_modules/${name}/LICENSE`, "utf8");
    return `${name} ${version}: ${license}\n\n${text.trim()}\n`;
  });
  return (await Promise.all(texts)).join(`\n${"=".repeat(100)}\n`);
}

await mkdir(to, { recursive: true });
for (const file of ["index.html", "icon.svg"]) await copyFile(file, `${to}/${file}`);
await writeFile(`${to}/notices.txt`, await notices());
if (process.argv.includes("--watch")) {
  const watching = await context(options);
  await watching.watch();
  console.log(`watching src/; what is built is in ${to}`);
} else {
  await build(options);
}
