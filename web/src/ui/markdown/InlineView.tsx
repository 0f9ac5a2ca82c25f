import type { Inline } from "./parse";

/** Text within a line. Where a link leads stands in its title. */
export function InlineView({ inner }: { readonly inner: readonly Inline[] }) {
  return inner.map((one, index) => {
    switch (one.kind) {
      case "text":
        return <span key={index}>{one.text}</span>;
      case "code":
        return (
          <code key={index} className="num rounded-[4px] bg-panel-2 px-1">
            {one.text}
          </code>
        );
      case "strong":
        return (
          <strong key={index}>
            <InlineView inner={one.inner} />
          </strong>
        );
      case "em":
        return (
          <em key={index}>
            <InlineView inner={one.inner} />
          </em>
        );
      case "link":
        return (
          <a
            key={index}
            href={one.href}
            title={one.href}
            target="_blank"
            rel="noopener noreferrer nofollow"
            className="text-accent underline"
          >
            <InlineView inner={one.inner} />
          </a>
        );
    }
  });
}
