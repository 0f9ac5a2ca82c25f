import { type KeyboardEvent, useRef, useState } from "react";
import { no } from "@/commands/command";
import { ActionButton } from "@/shell/ActionButton";
import { CommandButton } from "@/shell/CommandButton";
import { useAttempt } from "@/shell/useAttempt";
import { useMayAct } from "@/shell/useMayAct";
import { PlusIcon, StopIcon } from "@/ui/icons/icons";
import { type Chat, impersonate, isBusy, say, stop } from "./api";
import { AttachedFiles } from "./AttachedFiles";
import { shownRefs, withAttachments } from "./attachments";
import { QuickReplies } from "./QuickReplies";
import { useDraft } from "./useDraft";
import { useUploads } from "./useUploads";

/** Where one writes. Enter says it, Shift+Enter begins a line; while a reply is written it can be stopped. */
export function Composer({ chat }: { readonly chat: Chat }) {
  const place = { chat: chat.id, branch: chat.branch };
  const [words, setWords] = useDraft(chat.id, chat.branch);
  const [isOver, setOver] = useState(false);
  const picker = useRef<HTMLInputElement>(null);
  const uploads = useUploads();
  const may = useMayAct();
  const { busy, attempt } = useAttempt();
  const isWorking = isBusy(chat);
  const mayAttach = uploads.busy ? no("The files are on their way.") : may;
  const maySay = !may.ok
    ? may
    : isWorking
      ? no("A reply is on its way. Stop it first.")
      : uploads.busy
        ? no("The files are on their way.")
        : words.trim() === ""
          ? no("Write something first.")
          : may;

  const submit = async () => {
    if (!maySay.ok) return;
    const ok = await attempt(() =>
      say(place, withAttachments(words.trim(), uploads.attachments), shownRefs(uploads.attachments)),
    );
    if (!ok) return;
    setWords("");
    uploads.clear();
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.nativeEvent.isComposing) return;
    if (event.key === "Enter" && !event.shiftKey) {
      event.preventDefault();
      void submit();
    } else if (event.key === "Escape" && isWorking && may.ok) {
      event.preventDefault();
      void attempt(() => stop(place));
    }
  };
  const hint = !may.ok
    ? may.why
    : isWorking
      ? "Escape stops the reply."
      : "Enter says it, Shift+Enter begins a line.";

  return (
    <form
      aria-label="Say something"
      className={`flex flex-col gap-2 border-t p-3 ${isOver ? "border-accent bg-panel-2" : "border-line"}`}
      onSubmit={(event) => {
        event.preventDefault();
        void submit();
      }}
      onDragOver={(event) => {
        event.preventDefault();
        setOver(mayAttach.ok);
      }}
      onDragLeave={() => setOver(false)}
      onDrop={(event) => {
        event.preventDefault();
        setOver(false);
        if (mayAttach.ok) void uploads.add([...event.dataTransfer.files]);
      }}
    >
      <QuickReplies chat={chat} may={may.ok && !isWorking} />
      <AttachedFiles attachments={uploads.attachments} onRemove={uploads.remove} />
      <textarea
        aria-label="What you say"
        rows={Math.min(8, Math.max(2, words.split("\n").length))}
        value={words}
        readOnly={!may.ok}
        placeholder={may.ok ? "Say something …" : may.why}
        onChange={(event) => setWords(event.target.value)}
        onKeyDown={onKeyDown}
        className="w-full resize-none rounded-control border border-edge bg-paper px-2.5 py-1.5 text-13 text-ink read-only:opacity-60"
      />
      <div className="flex items-center gap-2">
        <input
          ref={picker}
          type="file"
          multiple
          hidden
          aria-label="Files to attach"
          onChange={(event) => {
            void uploads.add([...(event.target.files ?? [])]);
            event.target.value = "";
          }}
        />
        <ActionButton
          label="Attach"
          size="small"
          icon={<PlusIcon size={12} />}
          may={mayAttach}
          busy={uploads.busy}
          hint="A file becomes an artifact; the model is shown an image, a sound or a PDF, and reads the beginning of a text."
          onClick={() => picker.current?.click()}
        />
        <ActionButton
          label="Write for me"
          size="small"
          may={!may.ok ? may : words.trim() === "" ? may : no("Your own words would be replaced.")}
          busy={busy}
          hint="The model drafts your next message; nothing is said before you say it."
          onClick={() => void attempt(async () => setWords((await impersonate(place)).text))}
        />
        <p className="min-w-0 flex-1 truncate text-11 text-ink-3">{hint}</p>
        {isWorking ? (
          <CommandButton id="chat.stop" label="Stop" variant="danger" icon={<StopIcon size={10} />} />
        ) : (
          <ActionButton
            label="Say it"
            variant="primary"
            may={maySay}
            busy={busy}
            onClick={() => void submit()}
          />
        )}
      </div>
    </form>
  );
}
