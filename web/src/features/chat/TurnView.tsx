import { useState } from "react";
import { type Chat, type ChatTurn, portraitAddress } from "./api";
import { type Edited, EditWords } from "./EditWords";
import { type LiveRun, shownReply } from "./liveReply";
import { Reply } from "./Reply";
import { TurnActions } from "./TurnActions";
import { Words } from "./Words";
import { nameOf } from "./names";

interface TurnViewProps {
  readonly chat: Chat;
  readonly turn: ChatTurn;
  readonly isLast: boolean;
  readonly live: LiveRun | null;
  readonly onOperations: (run: string) => void;
}

/** What a person said, and the reply that is selected. */
export function TurnView({ chat, turn, isLast, live, onOperations }: TurnViewProps) {
  const [editing, setEditing] = useState<Edited | null>(null);
  const place = { chat: chat.id, branch: chat.branch };
  const shown = shownReply(turn, live);
  const name = shown.variant?.speaker || nameOf(chat.settings.char, "Reply");
  const label = turn.number === 0 ? "Greeting" : `Turn ${turn.number}`;
  return (
    <article aria-label={label} className="mx-auto flex w-full max-w-190 flex-col gap-2">
      {turn.said !== "" && (editing === null || editing === "assistant") && (
        <Words name={turn.persona || nameOf(chat.settings.user, "You")} place={place} turn={turn} />
      )}
      {editing !== null && (
        <EditWords key={editing} place={place} turn={turn} kind={editing} onClose={() => setEditing(null)} />
      )}
      {editing !== "assistant" && (
        <Reply name={name} portrait={portraitAddress(chat, name)} shown={shown} live={live} place={place} />
      )}
      <TurnActions chat={chat} turn={turn} isLast={isLast} onEdit={setEditing} onOperations={onOperations} />
    </article>
  );
}
