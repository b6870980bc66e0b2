// Packs the built files with Brotli, once and as well as it can: a tenth less than gzip. The last part of the build.
// The api sends the packed file to browsers that take it (`api/pages/packed.py`).

import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { brotliCompressSync } from "node:zlib";

const FOLDERS = ["../api/dashboard/assets/", "../api/dashboard/docs/"];

for (const folder of FOLDERS.map((path) => new URL(path, import.meta.url)))
  for (const name of readdirSync(folder).filter((each) => /\.(js|css)$/.test(each)))
    writeFileSync(new URL(`${name}.br`, folder), brotliCompressSync(readFileSync(new URL(name, folder))));
