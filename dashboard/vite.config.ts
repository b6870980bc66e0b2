import { readdirSync } from "node:fs";
import { dirname, relative, resolve } from "node:path";
import { defineConfig, type Plugin } from "vite";

/** Where `npm run dev` finds the api; the page itself comes from Vite then, and is loaded anew with every edit. */
const api = process.env["HORA_URL"] ?? "http://127.0.0.1:8400";

interface Modules {
  getModuleInfo(id: string): { importedIds: readonly string[]; dynamicallyImportedIds: readonly string[] } | null;
}

/** All modules that these load at once, and they themselves. */
function loadedWith(ids: readonly string[], modules: Modules): ReadonlySet<string> {
  const loaded = new Set<string>();
  for (const todo = [...ids]; todo.length > 0; ) {
    const id = todo.pop() as string;
    if (loaded.has(id)) continue;
    loaded.add(id);
    todo.push(...(modules.getModuleInfo(id)?.importedIds ?? []));
  }
  return loaded;
}

/**
 * The file of a module: what the list of jobs needs, what the other pages of runs need, and the rest. A file for each
 * page would be an eighth more in all, because small files pack badly.
 */
function fileOf(id: string, modules: Modules): string {
  const folder = new URL(".", import.meta.url).pathname;
  const pages = modules.getModuleInfo(`${folder}src/pages.tsx`)?.dynamicallyImportedIds ?? [];
  const showRuns = (page: string): boolean => /\/pages\/(job|compare|studies|articles)\//.test(page);
  const start = loadedWith([`${folder}index.html`, `${folder}src/pages/jobs/page.tsx`], modules);
  const runs = loadedWith(pages.filter(showRuns), modules);
  const rest = loadedWith(
    pages.filter((page) => !showRuns(page)),
    modules,
  );
  if (start.has(id) || (runs.has(id) && rest.has(id))) return "start";
  return runs.has(id) || showRuns(id) ? "runs" : "rest";
}

const styles = readdirSync("src", { recursive: true })
  .map(String)
  .filter((path) => path.endsWith(".module.css"))
  .sort();
const classes = new Map<string, string[]>();

/**
 * Two characters for the file and one for the class: names of classes are a tenth of the page, and those that count up
 * pack better than hashes. Only who works on the page reads them.
 */
function shortName(name: string, file: string): string {
  const known = classes.get(file) ?? [];
  classes.set(file, known);
  if (!known.includes(name)) known.push(name);
  return `${(styles.indexOf(relative("src", file)) + 360).toString(36)}${known.indexOf(name).toString(36)}`; // 360: a0
}

/** Writes the short names of classes where they are used; a table of all names would be a fiftieth of the page. */
const WRITES_CLASSES: Plugin = {
  name: "writes-classes",
  apply: "build",
  enforce: "pre",
  transform(code, id) {
    if (!id.endsWith(".tsx")) return null;
    let written = code;
    for (const [, styles, path] of code.matchAll(/import (\w+) from "([^"]+\.module\.css)";/g)) {
      const file = resolve(dirname(id), path as string);
      const uses = new RegExp(`\\b${styles}\\["([\\w-]+)"\\]`, "g");
      written = written.replaceAll(uses, (_, name: string) => JSON.stringify(shortName(name, file)));
    }
    return written;
  },
};

/** Keeps the styles of a file whose table of classes nobody needs any more. */
const KEEPS_STYLES: Plugin = {
  name: "keeps-styles",
  apply: "build",
  enforce: "post",
  transform: (code, id) =>
    id.endsWith(".module.css") ? { code, map: null, moduleSideEffects: "no-treeshake" as const } : null,
};

export default defineConfig(({ command }) => ({
  plugins: [WRITES_CLASSES, KEEPS_STYLES],
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  css: command === "build" ? { modules: { generateScopedName: shortName } } : {},
  build: {
    outDir: "../api/dashboard",
    emptyOutDir: true,
    target: "es2023",
    modulePreload: { polyfill: false },
    cssCodeSplit: false, // all styles together pack to half of what they do page by page
    rolldownOptions: {
      output: { codeSplitting: { includeDependenciesRecursively: false, groups: [{ name: fileOf }] } },
    },
    assetsInlineLimit: 0, // data: addresses would need a wider Content-Security-Policy
  },
  server: {
    host: "127.0.0.1",
    proxy: Object.fromEntries(
      ["/v1", "/login", "/logout", "/docs", "/help", "/openapi.json", "/readyz"].map((path) => [path, { target: api }]),
    ),
  },
}));
