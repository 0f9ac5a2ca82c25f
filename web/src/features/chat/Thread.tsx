import { useEffect, useLayoutEffect, useRef } from "react";
import type { Turn } from "@/projection/turn";
import { Button } from "@/ui/Button";
import { type Chat, type ChatTurn, currentBranch } from "./api";
import { isShownByTurn } from "./liveReply";
import { Pending } from "./Pending";
import { TurnView } from "./TurnView";
import { Unanswered } from "./Unanswered";
import { useAsked } from "./useAsked";

interface ThreadProps {
  readonly chat: Chat;
  readonly turns: readonly ChatTurn[];
  /** The turn that is on its way, as far as it is. */
  readonly live: Turn | null;
  readonly isOpen: boolean;
  readonly earlier: (() => void) | null;
  readonly isLoadingEarlier: boolean;
  readonly onOperations: (run: string) => void;
}

const NEAR_PX = 120;

/** What was said, oldest first. It stays at the end while one reads the end. */
export function Thread({ chat, turns, live, isOpen, earlier, isLoadingEarlier, onOperations }: ThreadProps) {
  const box = useRef<HTMLDivElement>(null);
  const isAtEnd = useRef(true);
  const place = { chat: chat.id, branch: chat.branch };
  const run = currentBranch(chat)?.run_id ?? "";
  const trigger = useAsked(place, run);
  const last = turns.at(-1);

  useLayoutEffect(() => {
    if (isAtEnd.current && box.current !== null) box.current.scrollTop = box.current.scrollHeight;
  });
  useEffect(() => {
    isAtEnd.current = true; // whoever speaks wants to see the answer
  }, [run]);

  return (
    <div
      ref={box}
      role="region"
      tabIndex={0}
      aria-label="Conversation"
      onScroll={({ currentTarget: { scrollHeight, scrollTop, clientHeight } }) => {
        isAtEnd.current = scrollHeight - scrollTop - clientHeight < NEAR_PX;
      }}
      className="flex min-h-0 flex-1 flex-col gap-4 overflow-auto px-4 py-3 -outline-offset-2 scroll-thin"
    >
      {earlier !== null && (
        <div className="text-center">
          <Button size="small" busy={isLoadingEarlier} onClick={earlier}>
            Earlier turns
          </Button>
        </div>
      )}
      {turns.length === 0 && (
        <p className="m-auto text-ink-2">Nothing was said yet. Write the first words below.</p>
      )}
      {turns.map((turn) => (
        <TurnView
          key={turn.number}
          chat={chat}
          turn={turn}
          isLast={turn === last}
          live={turn === last && isOpen && live !== null ? { run, turn: live, trigger } : null}
          onOperations={onOperations}
        />
      ))}
      {isOpen && !isShownByTurn(last, run, trigger) && (
        <Pending live={live} trigger={trigger} place={place} />
      )}
      {!isOpen && <Unanswered chat={chat} last={last} />}
    </div>
  );
}
