import { render, screen } from "@testing-library/react";
import { expect, test } from "vitest";
import { expectAccessible } from "../../../tests/axe";
import { Markdown } from "./Markdown";
import { parseMarkdown } from "./parse";

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
