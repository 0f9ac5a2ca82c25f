import { useEffect, useState } from "react";
import { TurnStream } from "@/client/turnStream";
import { foldTurn, NEW_TURN, type Turn } from "@/projection/turn";
import type { Place } from "./api";

interface Followed {
  readonly run: string;
  readonly turn: Turn;
}

const NONE: Followed = { run: "", turn: NEW_TURN };

/** How far a run of a chat is, while it is open; what was written so far comes first. null before the first news. */
export function useTurn({ chat, branch }: Place, run: string, isOpen: boolean): Turn | null {
  const [followed, setFollowed] = useState<Followed>(NONE);
  useEffect(() => {
    if (!isOpen || run === "") return;
    let turn = NEW_TURN;
    const stream = new TurnStream({
      chat,
      run,
      branch,
      onEvents: (events) => {
        const wasTorn = turn.isTorn;
        turn = foldTurn(turn, events);
        if (turn.isTorn && !wasTorn) stream.restart();
        setFollowed({ run, turn });
      },
      onEnd: () => undefined,
    });
    stream.start();
    return () => stream.stop();
  }, [chat, branch, run, isOpen]);
  return followed.run === run && followed.turn.seq > 0 ? followed.turn : null;
}
