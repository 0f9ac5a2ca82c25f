import { useRoute } from "@/shell/route";
import type { ScreenProps } from "@/shell/screens";
import { NewWorld } from "./NewWorld";
import { NoWorld } from "./NoWorld";
import { WorldList } from "./WorldList";
import { WorldView } from "./WorldView";

/** Worlds: their list, and the one that the address names. */
export default function WorldScreen({ id }: ScreenProps) {
  const { query } = useRoute();
  return (
    <div className="@container h-full">
      <h1 className="sr-only">World</h1>
      <div className="grid h-full grid-cols-1 grid-rows-[auto_minmax(0,1fr)] @min-[720px]:grid-cols-[11rem_minmax(0,1fr)] @min-[720px]:grid-rows-1">
        <WorldList current={id} />
        {id === null ? <NoWorld /> : <WorldView key={id} id={id} agent={query["agent"] ?? ""} />}
      </div>
      {query["new"] !== undefined && <NewWorld current={id} />}
    </div>
  );
}
