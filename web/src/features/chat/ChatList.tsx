import { SideList } from "@/shell/SideList";
import { dayAndTime } from "@/ui/time";
import { useChats } from "./useChats";

/** All chats: a column, or where there is little room a list to choose from. */
export function ChatList({ current }: { readonly current: string | null }) {
  const { data, error, refetch } = useChats();
  return (
    <SideList
      noun="chat"
      lines={data}
      error={error}
      onRetry={refetch}
      current={current}
      titleOf={(one) => one.title}
      about={(one) => (
        <>
          {one.archived && "archived · "}
          {one.runs} {one.runs === 1 ? "run" : "runs"}
          {one.branches > 1 && `, ${one.branches} branches`} · {dayAndTime(one.changed_us)}
        </>
      )}
    />
  );
}
