import { href, navigate, useRoute } from "@/shell/route";
import type { ScreenProps } from "@/shell/screens";
import { beginWithFile, MAIN, takenWords } from "./api";
import { ChatList } from "./ChatList";
import { ChatView } from "./ChatView";
import { FileDrop } from "./FileDrop";
import { NewChat } from "./NewChat";
import { NoChat } from "./NoChat";

/** Chats: their list, and the one that the address names. */
export default function ChatScreen({ id }: ScreenProps) {
  const { query } = useRoute();
  const branch = query["branch"] ?? MAIN;
  return (
    <div className="@container h-full">
      <h1 className="sr-only">Chat</h1>
      <div className="grid h-full grid-cols-1 grid-rows-[auto_minmax(0,1fr)] @min-[720px]:grid-cols-[12rem_minmax(0,1fr)] @min-[720px]:grid-rows-1">
        <FileDrop
          hint="A card, lorebook, persona, preset or .jsonl dropped here begins a chat."
          label="Begin with a file"
          onFile={async (file) => {
            const taken = await beginWithFile(file);
            navigate(href("chat", taken.chat_id));
            return takenWords(taken);
          }}
          className="flex min-h-0 items-center bg-panel @min-[720px]:flex-col @min-[720px]:items-stretch @min-[720px]:border-r @min-[720px]:border-line @min-[720px]:bg-transparent [&>nav]:min-w-0 [&>nav]:flex-1 @min-[720px]:[&>nav]:flex-initial"
        >
          <ChatList current={id} />
        </FileDrop>
        {id === null ? <NoChat /> : <ChatView key={`${id} ${branch}`} chat={id} branch={branch} />}
      </div>
      {query["new"] !== undefined && <NewChat current={id} />}
    </div>
  );
}
