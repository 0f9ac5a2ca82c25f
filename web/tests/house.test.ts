/// <reference types="node" />
import { readdirSync, readFileSync } from "node:fs";
import { expect, test } from "vitest";

interface File {
  readonly path: string;
  readonly text: string;
}

const FILES: readonly File[] = readdirSync("src", { recursive: true, encoding: "utf8" })
  .filter((name) => /\.tsx?$/.test(name) && name !== "client/schema.d.ts")
  .map((name) => ({ path: name, text: readFileSync(`src/${name}`, "utf8") }));

/** What a folder of `src/` may import from the others; features may import all but each other. */
const ARROWS: Readonly<Record<string, readonly string[]>> = {
  ui: [],
  projection: [],
  client: ["projection"],
  state: ["client", "projection"],
  canvas: ["projection", "state", "client", "ui", "shell", "commands"],
};

function importsOf(file: File): readonly string[] {
  return [...file.text.matchAll(/(?:from|import\()\s*"([^"]+)"/g)].map((match) => match[1] ?? "");
}

export function wrongArrows(files: readonly File[]): readonly string[] {
  return files.flatMap((file) => {
    if (/\.test\.tsx?$/.test(file.path)) return [];
    const [folder = "", screen = ""] = file.path.split("/");
    const targets = importsOf(file)
      .filter((name) => name.startsWith("@/"))
      .map((name) => name.slice(2).split("/"));
    return targets
      .filter(([to = "", which = ""]) => {
        if (folder === "features") return to === "features" && which !== screen;
        const allowed = ARROWS[folder];
        return allowed !== undefined && to !== folder && !allowed.includes(to);
      })
      .map((to) => `${file.path} imports ${to.join("/")}`);
  });
}

export function bannedWords(files: readonly File[]): readonly string[] {
  const banned = [
    /\bas any\b/,
    /: any\b/,
    /<any>/,
    /@ts-(ignore|nocheck)/,
    /dangerouslySetInnerHTML/,
    /\beval\(/,
    /https?:\/\/(?!www\.w3\.org|127\.0\.0\.1|x")/,
  ];
  return files
    .filter((file) => !/\.test\.tsx?$/.test(file.path))
    .flatMap((file) =>
      banned.filter((word) => word.test(file.text)).map((word) => `${file.path}: ${word.source}`),
    );
}

export function longFiles(files: readonly File[]): readonly string[] {
  const most = (path: string) => (/\.test\.tsx?$/.test(path) ? 500 : path.endsWith(".tsx") ? 200 : 400);
  return files
    .map((file) => ({ path: file.path, lines: file.text.split("\n").length }))
    .filter((file) => file.lines > most(file.path))
    .map((file) => `${file.path} has ${file.lines} lines`);
}

test("imports follow the arrows, and the projection knows no framework", () => {
  expect(wrongArrows(FILES)).toEqual([]);
  const framed = FILES.filter(
    (file) =>
      file.path.startsWith("projection/") &&
      importsOf(file).some((name) => /^(react|zustand|@tanstack|@xyflow)/.test(name)),
  );
  expect(framed.map((file) => file.path)).toEqual([]);
});

test("nothing loads from elsewhere, renders raw HTML or gives up its types", () => {
  expect(bannedWords(FILES)).toEqual([]);
});

test("files are short", () => {
  expect(longFiles(FILES)).toEqual([]);
});

test("a file that breaks a rule is found", () => {
  const planted: File[] = [
    { path: "ui/Card.tsx", text: 'import { fold } from "@/projection/fold";\nlet x: any;\n' },
    { path: "features/chat/screen.tsx", text: 'import { Row } from "@/features/runs/Row";\n' },
    {
      path: "features/runs/screen.tsx",
      text: 'import { Row } from "@/features/runs/Row";\n' + "\n".repeat(300),
    },
  ];

  expect(wrongArrows(planted)).toEqual([
    "ui/Card.tsx imports projection/fold",
    "features/chat/screen.tsx imports features/runs/Row",
  ]);
  expect(bannedWords(planted)).toHaveLength(1);
  expect(longFiles(planted)).toEqual(["features/runs/screen.tsx has 302 lines"]);
});
