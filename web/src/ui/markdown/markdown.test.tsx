import { render, screen } from "@testing-library/react";
import { expect, test } from "vitest";
import { expectAccessible } from "../../../tests/axe";
import { Markdown } from "./Markdown";
import { NODES_MAX, parseMarkdown, plainText } from "./parse";

const REPORT = `# Findings

The \`region\` with the most is **North** (42983.02), *not* snake_case_name.

| region | total |
| --- | ---: |
| North | 42983.02 |

- one
- two
  - deeper
1. first

> quoted

\`\`\`sql
SELECT "*" FROM t
\`\`\`

---

[source](https://example.org/a) and [bad](javascript:alert)`;

test("the words of a report stand without its signs", () => {
  expect(plainText("- The total `revenue` **fell by *8* %**\n- [more](https://example.org)")).toBe(
    "The total revenue fell by 8 % more",
  );
  expect(plainText("a | b\n--- | ---\n1 | 2\n\n***\n\n> `x`")).toBe("a · b 1 · 2 x");
});

test("a report is read into its blocks", () => {
  expect(parseMarkdown(REPORT).map((block) => block.kind)).toEqual([
    "heading",
    "paragraph",
    "table",
    "list",
    "list",
    "quote",
    "code",
    "rule",
    "paragraph",
  ]);
});

test("a report is shown with headings, tables and lists, and is accessible", async () => {
  render(
    <main>
      <Markdown source={REPORT} />
    </main>,
  );

  expect(screen.getByRole("heading", { name: "Findings" })).toBeTruthy();
  expect(screen.getByRole("cell", { name: "42983.02" })).toBeTruthy();
  expect(screen.getByText("North", { selector: "strong span" })).toBeTruthy();
  expect(screen.getByText(/snake_case_name/)).toBeTruthy();
  await expectAccessible();
});

test("HTML, scripts and images of a text stay text, and only links to web and mail are links", () => {
  const hostile = `<img src=x onerror=alert(1)> <script>alert(2)</script> ![pic](https://example.org/x.png)

[a](javascript:alert(1)) [b](data:text/html,x) [c](https://example.org) [d](mailto:ada@example.org)`;
  const { container } = render(<Markdown source={hostile} />);

  expect(container.querySelector("img, script, iframe")).toBeNull();
  expect(container.textContent).toContain("<script>alert(2)</script>");
  const links = screen.getAllByRole("link");
  expect(links.map((link) => link.getAttribute("href"))).toEqual([
    "https://example.org/x.png",
    "https://example.org",
    "mailto:ada@example.org",
  ]);
  for (const link of links) expect(link.getAttribute("rel")).toContain("noopener");
});

test("texts that never close what they open end all the same", () => {
  for (const evil of [
    "*".repeat(5_000),
    "`".repeat(5_001),
    "[".repeat(5_000),
    "> ".repeat(3_000) + "x",
    "- ".repeat(3_000),
  ])
    expect(parseMarkdown(evil).length).toBeGreaterThan(0);
  expect(parseMarkdown("")).toEqual([]);
});

const LENGTH = 200_000;
const filled = (text: string) => text.repeat(Math.ceil(LENGTH / text.length)).slice(0, LENGTH);
const sizeOf = (value: unknown): number =>
  typeof value !== "object" || value === null
    ? 0
    : 1 + Object.values(value).reduce((sum: number, one) => sum + sizeOf(one), 0);

// Before it was linear, several of these took longer than the runner waits for a test (27 s for the first).
test.each([
  ["backticks", filled("`")],
  ["backticks of many lengths", Array.from({ length: 600 }, (_, at) => "`".repeat(at + 1)).join(" ")],
  ["brackets", filled("[")],
  ["links that never close", filled(`[a](https://${"x".repeat(1_990)} `)],
  ["stars", filled("*")],
  ["stars and letters", filled("*a **b ")],
  ["underscores", filled("_a __b ")],
  ["emphasis", filled("*a* ")],
  ["tags", filled("<")],
  ["quotes within quotes", filled("> ")],
  ["lists within lists", filled("- ")],
  ["lists of lists", Array.from({ length: 600 }, (_, at) => " ".repeat(at) + "- a").join("\n")],
  ["a heading of spaces", `# a${" ".repeat(LENGTH)}b`],
  ["a heading with a line separator", `#${" ".repeat(LENGTH)}\u2028`],
  ["a bullet with a line separator", `-${" ".repeat(LENGTH)}\u2028`],
  ["a table whose divider is spaces", `a|b\n${" ".repeat(LENGTH)}x`],
  [
    "a table of a wide head and many rows",
    `${filled("|a").slice(0, 80_000)}\n${"|-".repeat(40_000)}\n${"|\n".repeat(20_000)}`,
  ],
])(
  "%s cost no more than their length, and give the page no more nodes than it can lay out",
  (_, evil) => {
    const blocks = parseMarkdown(evil);
    expect(blocks.length).toBeGreaterThan(0);
    // An object for each node, one for each list of nodes, and one for each empty cell.
    expect(sizeOf(blocks)).toBeLessThan(NODES_MAX * 6);
  },
  10_000,
);

test("what goes beyond the nodes of a page is shown as it was written", () => {
  const blocks = parseMarkdown("*a*\n\n".repeat(30_000) + "the end");
  expect(blocks.at(-1)?.kind).toBe("code");
  expect(JSON.stringify(blocks.at(-1))).toContain("the end");
});

test("closing signs of headings, and dividers, are read as before", () => {
  const [first, second, table] = parseMarkdown("## Title ##  \n# C#\n\na | b\n:-- | --:\n1 | 2");
  expect(first).toEqual({ kind: "heading", level: 2, inner: [{ kind: "text", text: "Title" }] });
  expect(second).toEqual({ kind: "heading", level: 1, inner: [{ kind: "text", text: "C#" }] });
  expect(table).toMatchObject({ kind: "table", aligns: ["left", "right"] });
});
