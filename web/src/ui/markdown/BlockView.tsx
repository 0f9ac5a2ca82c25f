import { cx } from "../cx";
import { InlineView } from "./InlineView";
import type { Block } from "./parse";
import { TableView } from "./TableView";

const SIZE = ["text-20", "text-15", "text-13", "text-13", "text-12", "text-12"] as const;

/** One block. Headings keep their level for screen readers, below the headings of the page. */
export function BlockView({ block }: { readonly block: Block }) {
  switch (block.kind) {
    case "heading":
      return (
        <p
          role="heading"
          aria-level={Math.min(6, block.level + 2)}
          className={cx("font-semibold", SIZE[block.level - 1])}
        >
          <InlineView inner={block.inner} />
        </p>
      );
    case "paragraph":
      return (
        <p>
          <InlineView inner={block.inner} />
        </p>
      );
    case "code":
      return (
        <pre
          tabIndex={0}
          className="num overflow-x-auto rounded-control border border-line bg-paper p-2 scroll-thin"
        >
          <code>{block.text}</code>
        </pre>
      );
    case "list": {
      const List = block.ordered ? "ol" : "ul";
      return (
        <List
          {...(block.ordered ? { start: block.start } : {})}
          className={cx("flex flex-col gap-1 pl-5", block.ordered ? "list-decimal" : "list-disc")}
        >
          {block.items.map((item, index) => (
            <li key={index}>
              {item.map((inner, at) => (
                <BlockView key={at} block={inner} />
              ))}
            </li>
          ))}
        </List>
      );
    }
    case "quote":
      return (
        <blockquote className="flex flex-col gap-2 border-l-2 border-edge pl-3 text-ink-2">
          {block.blocks.map((inner, index) => (
            <BlockView key={index} block={inner} />
          ))}
        </blockquote>
      );
    case "table":
      return <TableView table={block} />;
    case "rule":
      return <hr className="border-line" />;
  }
}
