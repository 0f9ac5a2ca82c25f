import type { Shape } from "@/client/types";
import { Part } from "../parts/Part";
import { openArtifact } from "../state";

interface JudgementsProps {
  /** None from a server that knows of no judgements. */
  readonly items?: Shape<"TaskShown">["judged"];
}

/** What people have said of the outputs of a task; the newest word holds. */
export function Judgements({ items = [] }: JudgementsProps) {
  if (items.length === 0) return null;
  return (
    <Part title="Judged by people">
      <ul className="flex flex-col gap-2">
        {items.map((one) => (
          <li key={one.at_us} className="break-words">
            <button type="button" className="text-left" onClick={() => openArtifact(one.output)}>
              <span className={one.accepted ? "text-good" : "text-bad"}>
                {one.accepted ? "Accepted" : "Rejected"}
              </span>{" "}
              by {one.by} <span className="num block break-all text-ink-3">{one.output}</span>
            </button>
            {one.note !== "" && <p className="text-ink-2">{one.note}</p>}
          </li>
        ))}
      </ul>
    </Part>
  );
}
