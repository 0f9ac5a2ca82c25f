import { useQuery } from "@tanstack/react-query";
import { lazy, Suspense, useRef } from "react";
import { api, path } from "@/client/http";
import type { Shape } from "@/client/types";
import { unless } from "@/commands/command";
import { inWords } from "@/client/http";
import { dollars, whole } from "@/ui/amounts";
import { ActionButton } from "@/shell/ActionButton";
import { loadPart } from "@/shell/loadPart";
import { Button } from "@/ui/Button";
import { Dialog } from "@/ui/Dialog";
import { ErrorState } from "@/ui/ErrorState";
import { Skeleton } from "@/ui/Skeleton";
import type { Graph } from "@/projection/graph";
import { useProjection } from "@/state/log";
import { useUi } from "@/state/ui";
import { type Draft, draftOf } from "./draft";
import { type Kept, useKeptDraft } from "./keptDraft";
import { focusField, MistakeList } from "./MistakeList";
import { PlanForm } from "./PlanForm";
import { useLaunch } from "./useLaunch";

/** With the library that draws it, which the first visit does not need. */
const PlanGraph = lazy(() => loadPart(() => import("./PlanGraph")));

type Mission = Shape<"MissionShown">;

/** A plan that was made anew is another one. */
const plannedAt = (graph: Graph) => (mission: string) => graph.missions.get(mission)?.plannedUs ?? 0;

interface PlanDialogProps {
  readonly mission: string;
  readonly onClose: () => void;
}

/** A plan before its launch: all of it can be changed, and nothing of it has begun. */
export function PlanDialog({ mission, onClose }: PlanDialogProps) {
  const plannedUs = useProjection(plannedAt)(mission);
  const user = useUi((state) => state.me?.name ?? "");
  const { data, error, refetch } = useQuery({
    queryKey: ["missions", mission, "plan", plannedUs],
    queryFn: ({ signal }) => api.get<Mission>(path("missions", mission), undefined, signal),
    staleTime: Infinity,
  });
  const plan = data?.plan ?? null;
  if (data !== undefined && plan !== null) {
    return (
      <Editor
        key={JSON.stringify([user, mission, plannedUs])}
        mission={data}
        initial={draftOf(plan)}
        onClose={onClose}
      />
    );
  }
  return (
    <Dialog title="Plan" width="wide" onClose={onClose}>
      {error !== null ? (
        <ErrorState
          title={inWords(error).title}
          advice={inWords(error).advice}
          onRetry={() => void refetch()}
        />
      ) : data === undefined ? (
        <Skeleton label="the plan" rows={8} />
      ) : (
        <ErrorState
          title="This plan cannot be shown"
          advice="Another version of Artelier wrote it. Discard the goal and plan it again."
        />
      )}
    </Dialog>
  );
}

interface EditorProps {
  readonly mission: Mission;
  readonly initial: Draft;
  readonly onClose: () => void;
}

function Editor({ mission, initial, onClose }: EditorProps) {
  const { draft, kept, isChanged, change, reset, close, forget } = useKeptDraft(mission.id, initial);
  const ground = useRef<HTMLDivElement>(null);
  const onDone = () => {
    forget();
    onClose();
  };
  const { mistakes, refusals, busy, may, launch, discard } = useLaunch(mission.id, draft, isChanged, onDone);
  return (
    <Dialog
      title="Plan"
      width="wide"
      onClose={() => {
        close();
        onClose();
      }}
      footer={
        <>
          <p className="mr-auto self-center text-12 text-ink-2">
            {may.ok ? "Nothing begins before you launch it." : may.why}
          </p>
          <ActionButton
            label="Discard"
            variant="danger"
            may={unless(may, busy === "launch" && "It is being launched.")}
            busy={busy === "discard"}
            onClick={() => void discard()}
          />
          <ActionButton
            label="Launch"
            variant="primary"
            busy={busy === "launch"}
            may={unless(may, busy === "discard" && "It is being discarded.")}
            onClick={() => void launch()}
          />
        </>
      }
    >
      <div ref={ground} className="flex flex-col gap-4">
        <p className="text-15">{mission.goal}</p>
        <EstimateLine mission={mission} isChanged={isChanged} />
        <KeptNote kept={kept} onReset={reset} />
        <MistakeList draft={draft} mistakes={mistakes} refusals={refusals} />
        <Suspense fallback={<Skeleton label="the graph" rows={4} />}>
          <PlanGraph draft={draft} onChange={change} onShow={(path) => focusField(ground.current, path)} />
        </Suspense>
        <PlanForm draft={draft} mistakes={mistakes} onChange={change} />
      </div>
    </Dialog>
  );
}

/** Says that the plan is not the one that was proposed, or not the one that was edited here. */
function KeptNote({ kept, onReset }: { readonly kept: Kept; readonly onReset: () => void }) {
  if (kept === "nothing") return null;
  return (
    <div role="status" className="flex flex-wrap items-center gap-x-3 gap-y-1.5 text-warn">
      <p>
        {kept === "restored"
          ? "You have changed this plan before, in this browser; it is shown with your changes."
          : "The plan was made anew. It is shown as it is now; your changes were to the one before, and are gone."}
      </p>
      {kept === "restored" && (
        <Button size="small" onClick={onReset}>
          Take it as proposed
        </Button>
      )}
    </div>
  );
}

function EstimateLine({ mission, isChanged }: { readonly mission: Mission; readonly isChanged: boolean }) {
  const { estimate, budget_microusd: budget } = mission;
  if (estimate === null || estimate === undefined) return null;
  const cost = estimate.cost_microusd;
  return (
    <p className="text-ink-2">
      About <span className="num">{whole(estimate.calls)}</span> calls of models,{" "}
      {cost === null || cost === undefined ? (
        "at a price that nobody knows"
      ) : (
        <>
          {estimate.is_limit === true ? "at most" : "about"} <span className="num">{dollars(cost)}</span>
        </>
      )}
      {budget !== null && budget !== undefined && (
        <>
          {" "}
          of a budget of <span className="num">{dollars(budget)}</span>
        </>
      )}
      . {isChanged && "That was the plan as it was proposed; you have changed it since."}
    </p>
  );
}
