import { useRoute } from "@/shell/route";
import type { ScreenProps } from "@/shell/screens";
import { useGraph } from "@/state/log";
import { Futures } from "./futures/Futures";
import { RunDetail } from "./RunDetail";
import { RunList } from "./RunList";

/** All runs, one, or one beside another: `/runs/a?with=b`. */
export default function Runs({ id }: ScreenProps) {
  const { query } = useRoute();
  const { runs } = useGraph();
  if (id === null) return <RunList />;
  const [run, other] = [runs.get(id), runs.get(query["with"] ?? "")];
  if (run !== undefined && other !== undefined && run !== other)
    return <Futures key={`${id} ${other.id}`} a={run} b={other} />;
  return <RunDetail key={id} id={id} />;
}
