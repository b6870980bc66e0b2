// Packs the built files with Brotli, once and as well as it can: a tenth less than gzip. The last part of the build.
// The api sends the packed file to browsers that take it (`api/pages/packed.py`). Terser shortens the page's scripts
// first: what Vite has minified becomes a thirtieth smaller.

import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { brotliCompressSync } from "node:zlib";
import { minify } from "terser";

const ASSETS = new URL("../api/dashboard/assets/", import.meta.url);
const DOCS = new URL("../api/dashboard/docs/", import.meta.url);

/** The files of a folder that are packed. */
const files = (folder: URL, ending: RegExp): URL[] =>
  readdirSync(folder)
    .filter((name) => ending.test(name))
    .map((name) => new URL(name, folder));

for (const file of files(ASSETS, /\.js$/)) {
  const { code = "" } = await minify(readFileSync(file, "utf8"), {
    module: true,
    compress: { passes: 3, unsafe_arrows: true },
  });
  writeFileSync(file, code);
}
for (const file of [ASSETS, DOCS].flatMap((folder) => files(folder, /\.(js|css)$/)))
  writeFileSync(new URL(`${file}.br`), brotliCompressSync(readFileSync(file)));
