import axe from "axe-core";
import { expect } from "vitest";

/** Rules that need a layout or a whole page; the browser tests check those. */
const NOT_HERE = [
  "color-contrast",
  "region",
  "page-has-heading-one",
  "landmark-one-main",
  "scrollable-region-focusable",
];

/** Fails with what is wrong and where, for the whole document (dialogs and menus are portals). */
export async function expectAccessible(): Promise<void> {
  const { violations } = await axe.run(document.body, {
    rules: Object.fromEntries(NOT_HERE.map((id) => [id, { enabled: false }])),
  });
  expect(violations.map((one) => `${one.id}: ${one.nodes.map((node) => node.html).join(" | ")}`)).toEqual([]);
}
