import { Part } from "../parts/Part";
import { RefButton } from "../parts/RefButton";

interface LinkedProps {
  readonly title: string;
  readonly kind: "task" | "artifact";
  readonly refs: readonly string[];
  readonly empty?: string;
}

/** A titled list of things that can be opened. */
export function Linked({ title, kind, refs, empty }: LinkedProps) {
  if (refs.length === 0 && empty === undefined) return null;
  return (
    <Part title={title}>
      {refs.length === 0 ? (
        <p className="text-ink-2">{empty}</p>
      ) : (
        <ul className="flex flex-col gap-1">
          {refs.map((ref) => (
            <li key={ref}>
              <RefButton kind={kind} to={ref} />
            </li>
          ))}
        </ul>
      )}
    </Part>
  );
}
