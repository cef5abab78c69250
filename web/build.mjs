// Builds dist/ from src/. The same source and locked dependencies give the same bytes.
import { build, context } from "esbuild";
import { copyFile, mkdir } from "node:fs/promises";

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
await mkdir(to, { recursive: true });
for (const file of ["index.html", "icon.svg"]) await copyFile(file, `${to}/${file}`);
if (process.argv.includes("--watch")) {
  const watching = await context(options);
  await watching.watch();
  console.log(`watching src/; what is built is in ${to}`);
} else {
  await build(options);
}
