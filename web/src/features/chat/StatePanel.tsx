import { useState } from "react";
import { ActionButton } from "@/shell/ActionButton";
import { useAttempt } from "@/shell/useAttempt";
import { useMayAct } from "@/shell/useMayAct";
import { select, toast } from "@/state/ui";
import { Pill } from "@/ui/Badge";
import { Button } from "@/ui/Button";
import { clock } from "@/ui/time";
import { type Feed, type Panel, type Place, publish } from "./api";
import { Timeline } from "./Timeline";
import { useFeed } from "./useFeed";
import { ValueView } from "./ValueView";

type Entries = Feed["entries"];

interface StatePanelProps {
  readonly place: Place;
  readonly panel: Panel;
  /** Of a feed; null of anything else. */
  readonly entries: Entries | null;
  readonly asOf: number | null;
}

/** One artifact of the chat: its value now (or then), what wrote it, and its earlier values. */
export function StatePanel({ place, panel, entries, asOf }: StatePanelProps) {
  const [isOpen, setOpen] = useState(false);
  const isPast = asOf !== null && panel.at_us > asOf;
  const earlier = useFeed(place, panel.tag, !panel.is_feed && (isOpen || isPast));
  const may = useMayAct();
  const { busy, attempt } = useAttempt();
  const then = isPast ? earlier.data?.entries.find((one) => one.at_us <= asOf) : undefined;
  const shownEntries = entries?.filter((one) => asOf === null || one.at_us <= asOf) ?? null;
  const save = () =>
    attempt(async () => {
      const { ref } = await publish(place, panel.tag);
      const id = ref.split("@", 1)[0] ?? ref;
      toast(`art.${panel.tag} is the artifact ${ref} now`, {
        tone: "good",
        action: { label: "Show it", run: () => select("artifact", id) },
      });
    });
  return (
    <section aria-label={`art.${panel.tag}`} className="rounded-card border border-line">
      <header className="flex items-center gap-2 border-b border-line px-3 py-1.5">
        <h3 className="num min-w-0 flex-1 truncate text-artifact">art.{panel.tag}</h3>
        <Pill>{panel.is_feed ? "feed" : panel.semantics}</Pill>
      </header>
      <div className="px-3 py-2">
        {shownEntries !== null ? (
          <Timeline entries={shownEntries} empty="Nothing was added yet." />
        ) : isPast ? (
          then === undefined ? (
            <p className="text-12 text-ink-2">{earlier.isPending ? "Reading …" : "It was not there yet."}</p>
          ) : (
            <ValueView value={then.value} />
          )
        ) : (
          <ValueView value={panel.value} />
        )}
        {isOpen && shownEntries === null && asOf === null && (
          <div className="mt-2 border-t border-line pt-2">
            <p className="mb-1 text-11 text-ink-3">Earlier values, newest first</p>
            <Timeline
              entries={earlier.data?.entries ?? []}
              empty={earlier.isPending ? "Reading …" : "None is kept."}
            />
          </div>
        )}
      </div>
      <footer className="flex flex-wrap items-center gap-1 border-t border-line px-3 py-1 text-11 text-ink-3">
        <span className="min-w-0 flex-1 basis-32">
          by {panel.operation || "the model"}, {clock(panel.at_us)}, version{" "}
          <span className="num text-11">{panel.version}</span>
          {panel.usage === "ui_only" && "; no prompt sees it"}
        </span>
        {!panel.is_feed && (
          <Button size="small" variant="quiet" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
            {isOpen ? "Hide earlier" : "Earlier"}
          </Button>
        )}
        <ActionButton
          label="Publish"
          size="small"
          variant="quiet"
          hint="Makes a document of this value; later turns do not change it."
          may={may}
          busy={busy}
          onClick={() => void save()}
        />
      </footer>
    </section>
  );
}
