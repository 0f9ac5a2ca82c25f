import tailwindcss from "@tailwindcss/vite";
import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

const SERVER = process.env["ARTELIER_SERVER"] ?? "http://127.0.0.1:8321";

export default defineConfig({
  plugins: [react(), tailwindcss()],
  resolve: { alias: { "@": new URL("./src", import.meta.url).pathname } },
  server: {
    // A cookie holds for a host on every port: the link of `artelier up` signs in here as well.
    host: "127.0.0.1",
    // `artelier up` checks Host and Origin, so the proxy asks as the server's own page would.
    proxy: { "/api": { target: SERVER, changeOrigin: true, headers: { origin: SERVER } } },
  },
  build: {
    outDir: "../src/artelier/server/static",
    emptyOutDir: true,
    manifest: true,
    // The page may load nothing but files of its own (CSP default-src 'self'): no data: URLs.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    // light-dark(), :has() and color-mix() as they are written.
    target: ["chrome125", "firefox128", "safari18"],
  },
  test: {
    environment: "jsdom",
    setupFiles: ["tests/setup.ts"],
    include: ["src/**/*.test.{ts,tsx}", "tests/**/*.test.{ts,tsx}"],
    maxWorkers: 2,
    testTimeout: 30_000,
    restoreMocks: true,
  },
});
