import { counted } from "@/projection/counted";
import { SideList } from "@/shell/SideList";
import { useWorlds } from "@/state/useWorlds";

/** All worlds: a column, or where there is little room a list to choose from. */
export function WorldList({ current }: { readonly current: string | null }) {
  const { data, error, refetch } = useWorlds();
  return (
    <SideList
      noun="world"
      lines={data?.items}
      error={error}
      onRetry={refetch}
      current={current}
      about={(one) => (
        <>
          tick {one.tick} · {counted(one.agents, "agent")}
          {one.paused && " · paused"}
        </>
      )}
    />
  );
}
