import { defineConfig } from "vite";

/** Where `npm run dev` finds the api; the page itself comes from Vite then, and is loaded anew with every edit. */
const api = process.env["HORA_URL"] ?? "http://127.0.0.1:8400";

export default defineConfig(({ command }) => ({
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  // Names of classes are a tenth of the page; only who works on it reads them.
  css: command === "build" ? { modules: { generateScopedName: "[hash:base64:5]" } } : {},
  build: {
    outDir: "../api/dashboard",
    emptyOutDir: true,
    target: "es2023",
    modulePreload: { polyfill: false },
    cssCodeSplit: false, // all styles together pack to half of what they do page by page
    assetsInlineLimit: 0, // data: addresses would need a wider Content-Security-Policy
  },
  server: {
    host: "127.0.0.1",
    proxy: Object.fromEntries(
      ["/v1", "/login", "/logout", "/docs", "/help", "/openapi.json", "/readyz"].map((path) => [path, { target: api }]),
    ),
  },
}));
