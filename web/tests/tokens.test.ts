/// <reference types="node" />
import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";

const css = readFileSync("src/ui/tokens.css", "utf8");

type Rgb = readonly [number, number, number];

function colours(theme: "light" | "dark"): ReadonlyMap<string, Rgb> {
  const found = new Map<string, Rgb>();
  for (const [, name, light, dark] of css.matchAll(/--([\w-]+): light-dark\(#(\w{6}), #(\w{6})\)/g)) {
    const hex = (theme === "light" ? light : dark) ?? "";
    found.set(
      name ?? "",
      [0, 2, 4].map((at) => Number.parseInt(hex.slice(at, at + 2), 16)) as unknown as Rgb,
    );
  }
  return found;
}

function luminance(rgb: Rgb): number {
  const [r, g, b] = rgb.map((channel) => {
    const share = channel / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * (r ?? 0) + 0.7152 * (g ?? 0) + 0.0722 * (b ?? 0);
}

function contrast(a: Rgb, b: Rgb): number {
  const [high, low] = [luminance(a), luminance(b)].sort((x, y) => y - x);
  return ((high ?? 0) + 0.05) / ((low ?? 0) + 0.05);
}

/** A ground with a veil of a colour over it, as zones and notices have. */
function tinted(ground: Rgb, colour: Rgb, share: number): Rgb {
  return ground.map((channel, at) => channel * (1 - share) + (colour[at] ?? 0) * share) as unknown as Rgb;
}

const TEXT = [
  "ink",
  "ink-2",
  "ink-3",
  "agent",
  "artifact",
  "membrane",
  "membrane-2",
  "money",
  "warn",
  "bad",
  "accent",
];
const GROUNDS = ["paper", "panel", "panel-2"];

describe.each(["light", "dark"] as const)("the %s theme", (theme) => {
  const of = colours(theme);
  const colour = (name: string): Rgb => {
    const found = of.get(name);
    if (found === undefined) throw new Error(`no token --${name}`);
    return found;
  };

  test.each(TEXT.flatMap((text) => GROUNDS.map((ground) => [text, ground] as const)))(
    "%s is readable on %s",
    (text, ground) => {
      expect(contrast(colour(text), colour(ground))).toBeGreaterThanOrEqual(4.5);
    },
  );

  test.each(["membrane", "membrane-2"])("text is readable within a zone of %s", (membrane) => {
    const zone = tinted(colour("paper"), colour(membrane), 0.07);
    for (const text of ["ink", "ink-2", membrane])
      expect(contrast(colour(text), zone)).toBeGreaterThanOrEqual(4.5);
  });

  test("the words on a main button are readable, and borders of controls can be seen", () => {
    expect(contrast(colour("accent-ink"), colour("accent"))).toBeGreaterThanOrEqual(4.5);
    for (const ground of GROUNDS) expect(contrast(colour("edge"), colour(ground))).toBeGreaterThanOrEqual(3);
  });
});

test("every token has a value in both themes", () => {
  expect(colours("light").size).toBe(colours("dark").size);
  expect(colours("light").size).toBeGreaterThanOrEqual(17);
});
