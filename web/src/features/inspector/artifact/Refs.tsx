import { RefButton } from "../parts/RefButton";

interface RefsProps {
  readonly refs: readonly string[];
  readonly empty: string;
}

/** Artifacts that can be opened, or a sentence that there are none. */
export function Refs({ refs, empty }: RefsProps) {
  if (refs.length === 0) return <p className="text-ink-2">{empty}</p>;
  return (
    <ul className="flex flex-col gap-1">
      {refs.map((ref) => (
        <li key={ref}>
          <RefButton kind="artifact" to={ref} />
        </li>
      ))}
    </ul>
  );
}
