import type { Turn } from "@/projection/turn";
import { turnWords } from "@/projection/turnWords";
import { TONE_OF } from "@/shell/meaning";
import { Status } from "@/ui/Badge";
import type { Place } from "./api";
import { Waiting } from "./Waiting";

interface PendingProps {
  readonly live: Turn | null;
  readonly trigger: string;
  readonly place: Place;
}

const WHAT: Readonly<Record<string, string>> = {
  regenerate: "Another reply: ",
  continue: "More of the reply: ",
};

/** A reply of which nothing is written yet: what is done for it at the moment. */
export function Pending({ live, trigger, place }: PendingProps) {
  const words = live === null ? null : turnWords(live);
  return (
    <div role="status" className="mx-auto flex w-full max-w-190 flex-col items-start gap-2 px-3 text-12">
      <Status tone={TONE_OF[words?.meaning ?? "working"]}>
        {WHAT[trigger] ?? ""}
        {words?.word ?? "Asked; waits for its turn"}
      </Status>
      {live !== null && live.waitsFor !== "" && <Waiting turn={live} place={place} />}
    </div>
  );
}
