import { Part } from "../parts/Part";
import { IterationView } from "./IterationView";
import type { ShownIteration } from "./iterations";

/** All steps of a task, the newest open. */
export function Iterations({ items }: { readonly items: readonly ShownIteration[] }) {
  return (
    <Part title="Steps" aside={items.length === 0 ? "none yet" : String(items.length)}>
      {items.length === 0 ? (
        <p className="text-ink-2">Its agent has decided nothing yet.</p>
      ) : (
        <ol className="flex flex-col gap-2">
          {items.map((one, index) => (
            <IterationView key={one.n} iteration={one} isOpen={index === items.length - 1} />
          ))}
        </ol>
      )}
    </Part>
  );
}
