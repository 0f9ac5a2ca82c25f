import { useState } from "react";
import { inWords } from "@/client/http";
import { cx } from "@/ui/cx";
import { ErrorState } from "@/ui/ErrorState";
import { Skeleton } from "@/ui/Skeleton";
import { currentBranch, isBusy } from "./api";
import { turnsAt } from "./chatAt";
import { ChatHead } from "./ChatHead";
import { Composer } from "./Composer";
import { SidePanel } from "./SidePanel";
import { Thread } from "./Thread";
import { useAsOf } from "./useAsOf";
import { useChat } from "./useChat";
import { useTurn } from "./useTurn";

interface ChatViewProps {
  readonly chat: string;
  readonly branch: string;
}

/** One branch of a chat: what was said, what is being written, and what it keeps. */
export function ChatView({ chat: id, branch }: ChatViewProps) {
  const place = { chat: id, branch };
  const { chat, turns, error, refetch, earlier, isLoadingEarlier } = useChat(place);
  const asOf = useAsOf();
  const [chosenRun, setChosenRun] = useState("");
  const [isSideOpen, setSideOpen] = useState(false);
  const newest = chat === undefined ? undefined : currentBranch(chat);
  const isOpen = chat !== undefined && isBusy(chat);
  const live = useTurn(place, newest?.run_id ?? "", isOpen);

  if (chat === undefined) {
    if (error === null) return <Skeleton label={`the chat ${id}`} rows={8} />;
    const { title, advice } = inWords(error);
    return <ErrorState title={title} advice={advice} onRetry={refetch} />;
  }
  const run = chosenRun === "" ? (newest?.run_id ?? "") : chosenRun;
  return (
    <section aria-label={`Chat ${id}`} className="flex min-h-0 min-w-0 flex-col">
      <ChatHead chat={chat} isSideOpen={isSideOpen} onSide={() => setSideOpen(!isSideOpen)} />
      {error !== null && (
        <p role="alert" className="border-b border-line px-4 py-1.5 text-12 text-warn">
          What is shown is old: {inWords(error).title}
        </p>
      )}
      <div className="grid min-h-0 flex-1 grid-cols-1 @min-[960px]:grid-cols-[minmax(0,1fr)_20rem]">
        <div className={cx("min-h-0 min-w-0 flex-col", isSideOpen ? "hidden @min-[960px]:flex" : "flex")}>
          <Thread
            chat={chat}
            turns={turnsAt(turns, asOf)}
            live={asOf === null && isOpen ? live : null}
            isOpen={asOf === null && isOpen}
            earlier={earlier}
            isLoadingEarlier={isLoadingEarlier}
            onOperations={(chosen) => {
              setChosenRun(chosen);
              setSideOpen(true);
            }}
          />
          <Composer chat={chat} />
        </div>
        <div
          className={cx(
            "min-h-0 min-w-0 border-line bg-panel @min-[960px]:block @min-[960px]:border-l",
            !isSideOpen && "hidden",
          )}
        >
          <SidePanel
            chat={chat}
            asOf={asOf}
            run={run}
            live={run === newest?.run_id ? live : null}
            isRunOpen={isOpen && run === newest?.run_id}
            isChosen={chosenRun !== ""}
            onNewest={() => setChosenRun("")}
          />
        </div>
      </div>
    </section>
  );
}
