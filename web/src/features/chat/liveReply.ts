import type { Turn } from "@/projection/turn";
import type { ChatTurn, Variant } from "./api";

/** The run that is at work on the newest turn. */
export interface LiveRun {
  readonly run: string;
  readonly turn: Turn;
  /** `generate`, `regenerate`, `continue`, or "" if nobody knows. */
  readonly trigger: string;
}

/** The reply to show: the selected one, or what is being written in its place. */
export interface ShownReply {
  readonly variant: Variant | undefined;
  /** What is being written after it, or instead of it. */
  readonly writing: string;
  /** What its model thinks before it. */
  readonly thinking: string;
  readonly isWriting: boolean;
}

export function shownReply(turn: ChatTurn, live: LiveRun | null): ShownReply {
  const selected = turn.variants.find((one) => one.number === turn.selected);
  const still = { variant: selected, writing: "", thinking: "", isWriting: false };
  if (live === null) return still;
  const { text: writing, reasoning: thinking, isWriting } = live.turn;
  const isMine = selected?.run_id === live.run;
  if (live.trigger === "continue" && !isMine) {
    return { variant: selected, writing, thinking, isWriting };
  }
  // While operations work after it, the reply is recorded already.
  if (isMine && selected.text !== "" && !isWriting) return still;
  if (isMine || selected === undefined) return { variant: undefined, writing, thinking, isWriting };
  return still;
}

/** Whether the place of the newest turn shows what its run writes; else that stands below it. */
export function isShownByTurn(turn: ChatTurn | undefined, run: string, trigger: string): boolean {
  if (turn === undefined || turn.number === 0) return false;
  if (trigger === "continue" && turn.selected !== 0) return true;
  const selected = turn.variants.find((one) => one.number === turn.selected);
  return selected === undefined || selected.run_id === run;
}
