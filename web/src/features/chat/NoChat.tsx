import { CommandButton } from "@/shell/CommandButton";
import { EmptyState } from "@/ui/EmptyState";
import { ChatIcon, PlusIcon } from "@/ui/icons/icons";

export function NoChat() {
  return (
    <EmptyState
      title="No chat is open"
      icon={<ChatIcon size={28} />}
      action={
        <CommandButton id="chat.new" variant="primary" label="New chat" icon={<PlusIcon size={14} />} />
      }
    >
      Choose one from the list, or begin a new one with a character and a profile of operations.
    </EmptyState>
  );
}
