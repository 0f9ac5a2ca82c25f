import { useState } from "react";
import { no } from "@/commands/command";
import { ActionButton } from "@/shell/ActionButton";
import { href, navigate } from "@/shell/route";
import { useAttempt } from "@/shell/useAttempt";
import { useMayAct } from "@/shell/useMayAct";
import { ConfirmDialog } from "@/ui/ConfirmDialog";
import { TextField } from "@/ui/TextField";
import type { Shape } from "@/client/types";
import { type Chat, isBusy, label, MAIN, removeBranch, removeChat, search } from "./api";
import { useChats } from "./useChats";

/** Finding words in a chat, its title, and putting it or a branch of it away. */
export function Keeping({ chat }: { readonly chat: Chat }) {
  const place = { chat: chat.id, branch: chat.branch };
  const line = useChats().data?.find((one) => one.id === chat.id);
  const [words, setWords] = useState("");
  const [title, setTitle] = useState<string | null>(null);
  const [found, setFound] = useState<Shape<"FoundMessages"> | null>(null);
  const [asking, setAsking] = useState<"chat" | "branch" | null>(null);
  const may = useMayAct();
  const { busy, attempt } = useAttempt();
  const isArchived = line?.archived ?? false;
  const mayDelete = may.ok && isBusy(chat) ? no("A reply is on its way. Stop it first.") : may;
  const go = async () => {
    const ok = await attempt(() => (asking === "chat" ? removeChat(chat.id) : removeBranch(place)));
    if (!ok) return;
    setAsking(null);
    navigate(asking === "chat" ? href("chat", null) : href("chat", chat.id, { branch: MAIN }), {
      replace: true,
    });
  };
  return (
    <section aria-label="Keeping" className="flex flex-col gap-3">
      <form
        className="flex flex-col gap-1.5"
        onSubmit={(event) => {
          event.preventDefault();
          if (words.trim() !== "") void attempt(async () => setFound(await search(place, words.trim())));
        }}
      >
        <TextField
          label="Find words in this branch"
          value={words}
          onChange={(event) => setWords(event.target.value)}
        />
        {found !== null && (
          <ul aria-label="Found" className="flex flex-col gap-1 text-12">
            {found.items.length === 0 && <li className="text-ink-3">Not found.</li>}
            {found.items.map((one) => (
              <li key={`${one.turn} ${one.variant}`} className="break-words">
                <span className="text-ink-3">
                  turn {one.turn}, {one.role === "user" ? "you" : `reply ${one.variant}`}:
                </span>{" "}
                {one.text}
              </li>
            ))}
          </ul>
        )}
      </form>
      <form
        className="flex flex-col gap-1.5"
        onSubmit={(event) => {
          event.preventDefault();
          if (may.ok && title !== null) void attempt(() => label(chat.id, { title }), "The title is stored.");
        }}
      >
        <TextField
          label="Title"
          value={title ?? line?.title ?? ""}
          disabled={!may.ok}
          onChange={(event) => setTitle(event.target.value)}
          hint="Enter stores it; an empty one takes it away."
        />
      </form>
      <div className="flex flex-wrap gap-1.5">
        <ActionButton
          label={isArchived ? "Take out of the archive" : "Archive"}
          size="small"
          may={may}
          busy={busy}
          onClick={() => void attempt(() => label(chat.id, { archived: !isArchived }))}
        />
        {chat.branch !== MAIN && (
          <ActionButton
            label="Delete this branch …"
            size="small"
            may={mayDelete}
            onClick={() => setAsking("branch")}
          />
        )}
        <ActionButton
          label="Delete the chat …"
          size="small"
          may={mayDelete}
          onClick={() => setAsking("chat")}
        />
      </div>
      {asking !== null && (
        <ConfirmDialog
          title={asking === "chat" ? `Delete the chat ${chat.id}?` : `Delete the branch ${chat.branch}?`}
          label="Delete"
          busy={busy}
          onConfirm={() => void go()}
          onClose={() => setAsking(null)}
        >
          <p>
            {asking === "chat"
              ? "No list shows it any more, and its id is not used again."
              : "Turns that no other branch shows go with it."}{" "}
            This cannot be undone. The records of its runs stay until the subject of the chat is erased.
          </p>
        </ConfirmDialog>
      )}
    </section>
  );
}
