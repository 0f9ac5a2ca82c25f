const DEPTH_MAX = 6;
const ITEMS_MAX = 200;

/** A JSON value as people read it: names beside values, lists as lists, nothing as a dash. */
export function ValueView({ value, depth = 0 }: { readonly value: unknown; readonly depth?: number }) {
  if (value === null || value === undefined || value === "") return <span className="text-ink-3">–</span>;
  if (typeof value === "string") return <span className="break-words whitespace-pre-wrap">{value}</span>;
  if (typeof value !== "object") return <span className="num">{String(value)}</span>;
  if (depth >= DEPTH_MAX) return <code className="num break-all">{JSON.stringify(value).slice(0, 500)}</code>;
  const isList = Array.isArray(value);
  const entries: readonly (readonly [string, unknown])[] = Object.entries(value);
  if (entries.length === 0) return <span className="text-ink-3">{isList ? "empty list" : "empty"}</span>;
  const shown = entries.slice(0, ITEMS_MAX);
  const rest = entries.length > ITEMS_MAX && (
    <span className="text-11 text-ink-3">{entries.length - ITEMS_MAX} more</span>
  );
  if (isList) {
    const isPlain = shown.every(([, one]) => typeof one !== "object" || one === null);
    return (
      <ul className={isPlain ? "flex flex-wrap gap-x-2" : "flex flex-col gap-1 border-l border-line pl-2"}>
        {shown.map(([at, one]) => (
          <li
            key={at}
            className={isPlain ? "not-last:after:text-ink-3 not-last:after:content-[',']" : undefined}
          >
            <ValueView value={one} depth={depth + 1} />
          </li>
        ))}
        {rest}
      </ul>
    );
  }
  return (
    <dl className="grid grid-cols-[minmax(4rem,auto)_minmax(0,1fr)] gap-x-3 gap-y-0.5">
      {shown.map(([name, one]) => (
        <div key={name} className="contents">
          <dt className="text-12 break-words text-ink-2">{name}</dt>
          <dd className="min-w-0">
            <ValueView value={one} depth={depth + 1} />
          </dd>
        </div>
      ))}
      {rest}
    </dl>
  );
}
