import type { Turn } from "@/projection/turn";
import { ActionButton } from "@/shell/ActionButton";
import { useAttempt } from "@/shell/useAttempt";
import { useMayAct } from "@/shell/useMayAct";
import { type Place, resume } from "./api";

const ADVICE: Readonly<Record<string, string>> = {
  approval: "Answer it above; the turn goes on by itself.",
  resume: "Resume all in the bar, or go on with this turn alone.",
  budget: "Raise the limit under Costs, then go on.",
  outcome: "Open the run and say what became of the call, then go on.",
  worker: "Go on to have this server drive it.",
};

/** What a turn waits for, what to do about it, and the way on. */
export function Waiting({ turn, place }: { readonly turn: Turn; readonly place: Place }) {
  const may = useMayAct();
  const { busy, attempt } = useAttempt();
  return (
    <div className="flex items-center gap-2 text-12 text-ink-2">
      <span>{ADVICE[turn.waitsFor]}</span>
      {turn.waitsFor !== "approval" && (
        <ActionButton
          label="Go on"
          size="small"
          may={may}
          busy={busy}
          onClick={() => void attempt(() => resume(place))}
        />
      )}
    </div>
  );
}
