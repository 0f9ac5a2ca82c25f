// Prints what a first visit loads, and fails the build when that is more than it may be.
import { readFileSync } from "node:fs";
import { gzipSync } from "node:zlib";

const FIRST_GZIP_BYTES_MAX = 200_000;
const out = new URL("../../src/artelier/server/static/", import.meta.url);
const manifest = JSON.parse(readFileSync(new URL(".vite/manifest.json", out), "utf8"));

const first = new Set();
const visit = (name) => {
  const chunk = manifest[name];
  if (first.has(chunk.file)) return;
  first.add(chunk.file);
  chunk.css?.forEach((file) => first.add(file));
  chunk.imports?.forEach(visit);
};
visit("index.html");

let total = 0;
for (const file of first) {
  const bytes = gzipSync(readFileSync(new URL(file, out))).length;
  total += bytes;
  console.log(`first load: ${file} ${(bytes / 1000).toFixed(1)} kB gzip`);
}
console.log(`first load: ${(total / 1000).toFixed(1)} kB gzip of ${FIRST_GZIP_BYTES_MAX / 1000}`);
if (total > FIRST_GZIP_BYTES_MAX) {
  console.error("first load: too large; import what a screen needs in that screen's own folder");
  process.exit(1);
}
