import { counted } from "@/projection/counted";
import type { World } from "@/client/worlds";
import { select } from "@/state/ui";
import { whole } from "@/ui/amounts";
import { Status } from "@/ui/Badge";
import { Button } from "@/ui/Button";
import { Meter } from "@/ui/Meter";
import { WorldControls } from "./WorldControls";

/** Where a world stands, in words, and the controls of its time. */
export function WorldHead({ world, asOf }: { readonly world: World; readonly asOf: number | null }) {
  const { passing, failed } = world;
  const held = passing?.held ?? null;
  return (
    <header className="flex flex-col gap-2 border-b border-line px-4 py-2">
      <div className="flex flex-wrap items-center gap-x-4 gap-y-1.5">
        <div className="min-w-0 flex-1 basis-48">
          <h2 className="truncate text-15">
            {world.id} <span className="num text-13 text-ink-2">tick {asOf ?? world.tick}</span>
          </h2>
          <p className="truncate text-11 text-ink-3">
            {asOf !== null && "as it stood then · "}
            {counted(world.agents, "agent")} · {counted(world.artifacts, "artifact")} · {whole(world.scrip)}{" "}
            scrip
            {world.held > 0 && ` and ${whole(world.held)} set aside`} · seed {world.seed}
            {world.parent !== null && ` · fork of ${world.parent} at tick ${world.forked_at ?? 0}`}
          </p>
        </div>
        <WorldControls world={world} />
      </div>
      <div role="status" className="flex flex-wrap items-center gap-3 text-12">
        {passing !== null ? (
          <>
            <Status tone="agent">
              {passing.passed} of {passing.asked} ticks passed, {passing.acted} actions, {passing.rejected}{" "}
              refused
              {world.paused && "; pausing after the tick at work"}
            </Status>
            <Meter
              label="Ticks"
              value={passing.passed}
              max={passing.asked}
              valueText={`${passing.passed} of ${passing.asked} ticks`}
              warnFrom={2}
              className="w-32"
            />
          </>
        ) : world.paused ? (
          <Status tone="warn">Paused: no tick begins until it is resumed.</Status>
        ) : (
          <Status tone="neutral">
            {world.tick === 0
              ? "Nothing has happened yet: pass a tick to begin."
              : "At rest: no tick is passed unasked."}
          </Status>
        )}
      </div>
      {held !== null && (
        <p role="alert" className="flex flex-wrap items-center gap-2 text-12 text-warn">
          The next tick waits for run {held.run_id}: {held.reason ?? held.status.replaceAll("_", " ")}.
          <Button size="small" onClick={() => select("run", held.run_id)}>
            Show the run
          </Button>
        </p>
      )}
      {failed !== null && (
        <p role="alert" className="text-12 break-words text-bad">
          The last ticks ended early: {failed.message} {failed.hint ?? ""}
        </p>
      )}
    </header>
  );
}
