import { useMemo } from "react";
import { counted } from "@/projection/counted";
import { actionWords, outcomeWords, reasonWords, sourceWords } from "@/projection/worldWords";
import { Link } from "@/shell/Link";
import { href } from "@/shell/route";
import { useGraph } from "@/state/log";
import { select } from "@/state/ui";
import { useWorldFigures } from "@/state/useWorldFigures";
import { whole } from "@/ui/amounts";
import { IconButton } from "@/ui/IconButton";
import { CloseIcon } from "@/ui/icons/icons";
import { LineChart } from "@/ui/LineChart";
import { Read } from "./Read";
import { balanceSeries } from "./series";
import type { WorldPart } from "./tab";
import { useAgents } from "./useAgents";
import { useWorldEvents } from "./useWorldEvents";

const EVENTS = 100;
const MANY = 100;

/** One agent of a world: its money, what it did and why, and the prompts that it was asked with. */
export function AgentPane({ world, asOf, agent, onClose }: WorldPart & { readonly onClose: () => void }) {
  const one = useAgents(world.id).data?.find((other) => other.id === agent);
  const events = useWorldEvents(world.id, { agent, limit: EVENTS });
  const figures = useWorldFigures(world.id, { span: 200, ...(world.agents > MANY && { agent }) });
  const run = `${world.id}/${agent}`;
  const hasRun = useGraph().runs.has(run);
  const series = useMemo(
    () =>
      balanceSeries(
        (figures.data ?? []).filter(({ tick }) => asOf === null || tick <= asOf),
        agent,
      ).filter((line) => line.id === agent || line.id === " median"),
    [figures.data, asOf, agent],
  );
  return (
    <aside
      aria-label={`Agent ${agent}`}
      className="flex min-h-0 flex-col gap-3 overflow-auto border-line bg-panel p-3 scroll-thin @min-[960px]:border-l"
    >
      <header className="flex items-center gap-2">
        <h3 className="min-w-0 flex-1 truncate text-15 text-agent">{agent}</h3>
        <IconButton label="Close" icon={<CloseIcon />} onClick={onClose} />
      </header>
      {one !== undefined && asOf === null && (
        <p className="text-12 text-ink-2">
          {whole(one.balance)} scrip, {counted(one.owns, "artifact")}
          {one.state !== null && `, in state ${one.state} for ${counted(one.ticks_in_state, "tick")}`}
        </p>
      )}
      {hasRun ? (
        <p className="text-12">
          <Link to={href("runs", run)} onClick={() => select("run", run)} className="text-accent underline">
            Its run, with the prompt of each tick
          </Link>
        </p>
      ) : (
        <p className="text-12 text-ink-2">
          No model was asked: a policy or a reflex decides, so there is no prompt.
        </p>
      )}
      <LineChart label="Balance in scrip" xName="tick" series={series} from={0} height={160} format={whole} />
      <h4 className="text-12 text-ink-2">What it did, the newest first</h4>
      <Read what={`what ${agent} did`} query={events}>
        {(found) => (
          <ol className="flex flex-col divide-y divide-line rounded-card border border-line">
            {found
              .filter(({ tick }) => asOf === null || tick <= asOf)
              .map((event) => (
                <li key={event.seq} className="px-3 py-1.5 text-12">
                  <p className="flex justify-between gap-2">
                    <span className="min-w-0 break-words">
                      {actionWords(event)}
                      {event.kind === "action.rejected" && <span className="text-bad"> refused</span>}
                    </span>
                    <span className="num shrink-0 text-11 text-ink-3">
                      tick {event.tick} {sourceWords(event)}
                    </span>
                  </p>
                  {reasonWords(event) !== "" && (
                    <p className="break-words text-ink-2">{reasonWords(event)}</p>
                  )}
                  <p className="line-clamp-3 break-words text-ink-3">{outcomeWords(event)}</p>
                </li>
              ))}
          </ol>
        )}
      </Read>
    </aside>
  );
}
