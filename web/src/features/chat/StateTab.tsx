import { EmptyState } from "@/ui/EmptyState";
import { ArtifactsIcon } from "@/ui/icons/icons";
import type { Chat } from "./api";
import { StatePanel } from "./StatePanel";

/** The artifacts of this chat that people may see, each with its newest value. */
export function StateTab({ chat, asOf }: { readonly chat: Chat; readonly asOf: number | null }) {
  if (chat.panels.length === 0) {
    return (
      <EmptyState title="Nothing is kept yet" icon={<ArtifactsIcon size={24} />}>
        {chat.settings.profile === ""
          ? "Choose a profile under Set-up: its operations keep a state beside the conversation."
          : "Say something: the operations of the profile write their artifacts with the first turn."}
      </EmptyState>
    );
  }
  return (
    <div className="flex flex-col gap-3 p-3">
      {chat.panels.map((panel) => (
        <StatePanel
          key={panel.tag}
          place={{ chat: chat.id, branch: chat.branch }}
          panel={panel}
          entries={chat.feeds.find((feed) => feed.tag === panel.tag)?.entries ?? null}
          asOf={asOf}
        />
      ))}
    </div>
  );
}
