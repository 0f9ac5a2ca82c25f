import { useMemo } from "react";
import { chatSpend } from "@/projection/chatCosts";
import { CommandButton } from "@/shell/CommandButton";
import { href, navigate } from "@/shell/route";
import { useGraph } from "@/state/log";
import { Button } from "@/ui/Button";
import { Select } from "@/ui/Select";
import type { Chat } from "./api";
import { useChats } from "./useChats";
import { spendWords } from "./spendWords";

interface ChatHeadProps {
  readonly chat: Chat;
  readonly isSideOpen: boolean;
  readonly onSide: () => void;
}

/** Which chat and branch this is, who talks, and what it has cost. */
export function ChatHead({ chat, isSideOpen, onSide }: ChatHeadProps) {
  const graph = useGraph();
  const cost = useMemo(() => spendWords(chatSpend(graph, chat.id)), [graph, chat.id]);
  const { settings } = chat;
  const title = useChats().data?.find((one) => one.id === chat.id)?.title ?? "";
  const options = chat.branches.map((one) => ({
    value: one.name,
    label: `${one.name} · turn ${one.turn}${one.origin === "" ? "" : ` · from ${one.origin}`}`,
  }));
  return (
    <header className="flex flex-wrap items-center gap-x-3 gap-y-1.5 border-b border-line px-4 py-2">
      <div className="min-w-0 flex-1 basis-40">
        <h2 className="truncate text-15">{title === "" ? chat.id : title}</h2>
        <p className="truncate text-11 text-ink-3">
          {settings.profile === "" ? "no profile" : `profile ${settings.profile}`} ·{" "}
          <span className="num text-11">{settings.model}</span>
          {cost !== "" && <span className="num text-11"> · {cost}</span>}
        </p>
      </div>
      <Select
        bare
        label="Branch"
        value={chat.branch}
        options={options}
        onChange={(branch) => navigate(href("chat", chat.id, { branch }))}
        className="max-w-48"
      />
      <CommandButton id="chat.branch" label="Branch" />
      <Button aria-pressed={isSideOpen} onClick={onSide} className="@min-[960px]:hidden">
        {isSideOpen ? "Show the thread" : "State and operations"}
      </Button>
    </header>
  );
}
