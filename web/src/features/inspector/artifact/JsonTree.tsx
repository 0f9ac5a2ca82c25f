const CHILDREN_MAX = 200;
const OPEN_DEPTH = 2;
const TEXT_MAX = 2_000;

interface JsonTreeProps {
  readonly value: unknown;
  readonly name?: string;
  readonly depth?: number;
}

function leaf(value: unknown): string {
  const text = JSON.stringify(value) ?? "null";
  return text.length > TEXT_MAX ? `${text.slice(0, TEXT_MAX)}… (${text.length} characters)` : text;
}

/** JSON that can be opened piece by piece. */
export function JsonTree({ value, name, depth = 0 }: JsonTreeProps) {
  const label = name === undefined ? "" : `${name}: `;
  if (typeof value !== "object" || value === null) {
    return (
      <div className="num break-words">
        <span className="text-ink-2">{label}</span>
        {leaf(value)}
      </div>
    );
  }
  const children = Object.entries(value);
  const size = Array.isArray(value) ? `[${children.length}]` : `{${children.length}}`;
  return (
    <details open={depth < OPEN_DEPTH} className="num">
      <summary>
        <span className="text-ink-2">{label}</span>
        {size}
      </summary>
      <div className="ml-2 border-l border-line pl-2">
        {children.slice(0, CHILDREN_MAX).map(([key, child]) => (
          <JsonTree key={key} name={key} value={child} depth={depth + 1} />
        ))}
        {children.length > CHILDREN_MAX && (
          <p className="text-ink-2">{children.length - CHILDREN_MAX} more; the download has them all.</p>
        )}
      </div>
    </details>
  );
}
