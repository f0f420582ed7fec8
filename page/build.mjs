// Builds the page into ../src/moso/report/page/assets, and writes down which sources it was built from.
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { join, relative } from "node:path";
import { build, transform } from "esbuild";

const here = import.meta.dirname;
const out = process.argv[2] ?? join(here, "../src/moso/report/page/assets");
mkdirSync(out, { recursive: true });

const bundle = await build({
  entryPoints: [join(here, "src/main.ts")],
  bundle: true,
  minify: true,
  format: "iife",
  target: "es2022",
  charset: "utf8",
  legalComments: "none",
  write: false,
});
const style = await transform(readFileSync(join(here, "src/style.css"), "utf8"), { loader: "css", minify: true });
const files = {
  "page.js": bundle.outputFiles[0].text.trimEnd(),
  "page.css": style.code.trimEnd(),
  "page.html": readFileSync(join(here, "src/page.html"), "utf8"),
};
if (/<\/(script|style)/i.test(files["page.js"] + files["page.css"])) throw new Error("the bundle would end its element");
for (const [name, text] of Object.entries(files)) writeFileSync(join(out, name), text);

// The same list as tests/report/test_assets.py makes: every source by its path, and everything that decides the result.
const sources = [
  ...readdirSync(join(here, "src"), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => relative(here, join(entry.parentPath, entry.name))),
  "build.mjs",
  "package.json",
  "tsconfig.json",
].sort();
const digest = createHash("sha256");
for (const name of sources) digest.update(`${name}\0`).update(readFileSync(join(here, name))).update("\0");
const sha = (text) => createHash("sha256").update(text).digest("hex");
const built = Object.fromEntries(Object.entries(files).map(([name, text]) => [name, sha(text)]));
writeFileSync(join(out, "build.json"), `${JSON.stringify({ sources: digest.digest("hex"), built }, null, 2)}\n`);
console.log(Object.entries(files).map(([name, text]) => `${name} ${Buffer.byteLength(text)} bytes`).join(", "));
