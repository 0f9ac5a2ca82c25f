import { idOf, text, type WireEvent } from "@/projection/event";
import { eventAt } from "@/projection/timelineSteps";
import { select, setUi } from "@/state/ui";
import { useEvents } from "@/state/log";
import { IconButton } from "@/ui/IconButton";
import { CloseIcon, HistoryIcon } from "@/ui/icons/icons";
import { Button } from "@/ui/Button";
import { setConsole, useConsole } from "./consoleStore";

/** The artifact that an event is about; "" if it is about none. */
function artifactOf(event: WireEvent): string {
  if (event.kind.startsWith("artifact.")) return text(event, "id");
  return idOf(text(event, "artifact"));
}

/** The event that was chosen, whole; nothing while none is. */
export function LookedEvent() {
  const looked = useConsole((state) => state.looked);
  const events = useEvents();
  if (looked === null) return null;
  const event = eventAt(events, looked.position);
  if (event === undefined) return null;
  const artifact = artifactOf(event);
  const texts = Object.entries(event.texts);
  return (
    <section
      aria-label="Chosen event"
      className="max-h-[45%] shrink-0 overflow-auto border-b border-line px-4 py-1.5 scroll-thin"
    >
      <div className="flex items-center gap-2 text-12">
        <h2 className="num min-w-0 truncate font-normal">
          {event.kind} <span className="text-ink-3">{event.stream}</span>{" "}
          <span className="text-ink-3">#{event.position}</span>
        </h2>
        <span className="ml-auto flex shrink-0 gap-1">
          {artifact !== "" && (
            <Button size="small" variant="quiet" onClick={() => select("artifact", artifact)}>
              Select artifact
            </Button>
          )}
          {looked.runId !== "" && (
            <Button size="small" variant="quiet" onClick={() => select("run", looked.runId)}>
              Select run
            </Button>
          )}
          <IconButton
            label="Travel to this event"
            size="small"
            icon={<HistoryIcon size={14} />}
            onClick={() => setUi({ travel: event.position })}
          />
          <IconButton
            label="Close the event"
            size="small"
            icon={<CloseIcon size={14} />}
            onClick={() => setConsole({ looked: null })}
          />
        </span>
      </div>
      {texts.map(([field, value]) => (
        <pre key={field} className="num mt-1 break-words whitespace-pre-wrap text-ink-2">
          <span className="text-ink-3">{field}: </span>
          {value}
        </pre>
      ))}
      <details className="mt-1 text-11 text-ink-3">
        <summary>All fields</summary>
        <pre className="num break-words whitespace-pre-wrap text-ink-2">
          {JSON.stringify(event.data, null, 1)}
        </pre>
      </details>
    </section>
  );
}
