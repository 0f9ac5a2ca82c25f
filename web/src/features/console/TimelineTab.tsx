import { unless, YES } from "@/commands/command";
import { called } from "@/state/called";
import { readEarlier } from "@/state/log";
import { dateOf, rowFor, rowTone, timeOf } from "@/shell/eventRow";
import { whole } from "@/ui/amounts";
import { Pill } from "@/ui/Badge";
import { ActionButton } from "@/shell/ActionButton";
import { useAttempt } from "@/shell/useAttempt";
import { Button } from "@/ui/Button";
import { EmptyState } from "@/ui/EmptyState";
import { Slider } from "@/ui/Slider";
import { ForkHere } from "./ForkHere";
import { Lanes } from "./Lanes";
import { useTimeline } from "./useTimeline";

/** The past, to move through: every view follows, and a run can be forked from any moment. */
export function TimelineTab() {
  const { events, marks, index, isCut, goTo, before, after } = useTimeline();
  const event = events[index];
  const last = events.length - 1;
  if (event === undefined)
    return (
      <EmptyState title="There is no past yet">
        Launch a goal; afterwards this slider takes every view back to any moment of it.
      </EmptyState>
    );
  const row = rowFor(event);
  const when = index === last ? "now" : dateOf(row);
  return (
    <div className="flex flex-col gap-1.5 px-4 py-1.5">
      <Lanes
        marks={marks}
        events={events.length}
        index={index}
        onGo={(position) => goTo(marks.find((mark) => mark.position === position)?.index ?? last)}
      />
      <div className="pl-28">
        <Slider
          label="Position in time"
          value={index}
          min={0}
          max={Math.max(1, last)}
          valueText={`event ${whole(index + 1)} of ${whole(events.length)}, ${when}`}
          onChange={goTo}
        />
      </div>
      <div className="flex flex-wrap items-center gap-2">
        <ActionButton
          label="Previous mark"
          size="small"
          may={unless(YES, before === undefined && "There is no earlier mark.")}
          onClick={() => before && goTo(before.index)}
        />
        <ActionButton
          label="Next mark"
          size="small"
          may={unless(YES, after === undefined && "There is no later mark.")}
          onClick={() => after && goTo(after.index)}
        />
        <p className="flex min-w-0 flex-1 items-center gap-2 text-12">
          <span className="num text-ink-3">{timeOf(row)}</span>
          <span className="text-agent">{called(row.agent)}</span>
          <Pill tone={rowTone(row)}>{row.word}</Pill>
          <span className="num min-w-0 truncate text-ink-2">{row.text}</span>
        </p>
      </div>
      <ForkHere />
      {isCut && <Earlier events={events.length} />}
    </div>
  );
}

/** Older events are on the server; they come a stretch at a time. */
function Earlier({ events }: { readonly events: number }) {
  const { attempt, busy } = useAttempt();
  return (
    <p className="flex items-center gap-2 text-11 text-ink-3">
      The newest {whole(events)} events are here; older ones are on the server.
      <Button size="small" variant="quiet" busy={busy} onClick={() => void attempt(readEarlier)}>
        Go further back
      </Button>
    </p>
  );
}
