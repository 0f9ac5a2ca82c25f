import { useMayAct } from "@/shell/useMayAct";
import { useGraph } from "@/state/log";
import { Loaded } from "../parts/Loaded";
import { Lost } from "./Lost";
import { SteeringForm } from "./SteeringForm";
import { useSteering } from "./useSteering";
import { effectWords, lastIteration, versionWords } from "./words";

interface SteeringNowProps {
  readonly about: string;
  readonly used: number | null;
  readonly iteration: number;
}

/** Steering that can be changed, by whoever may. */
export function SteeringNow({ about, used, iteration }: SteeringNowProps) {
  const steering = useSteering(about);
  const may = useMayAct();
  const graph = useGraph();
  const { caps } = graph.costs;
  return (
    <Loaded query={steering.query} what="the steering" rows={8}>
      {(data) => {
        const shown = steering.shown ?? data;
        const { lost } = steering;
        return (
          <>
            {lost !== null && (
              <div className="px-4 pt-3">
                <Lost newest={data} onAgain={() => steering.save(lost)} onForget={steering.forgetLost} />
              </div>
            )}
            <SteeringForm
              key={about}
              document={shown}
              inForce={steering.isSaving ? { ...shown.in_force, sliders: shown.sliders } : shown.in_force}
              policy={shown.policy_in_force}
              effect={effectWords(
                shown.from_iteration,
                lastIteration(graph, shown.in_force.sliders.iterations),
              )}
              disabled={!may.ok}
              capped={caps.get(`agent:${about}`) ?? caps.get(`membrane:${about}`) ?? null}
              used={used}
              iteration={iteration}
              onSave={steering.save}
            />
            <p role="status" className="px-4 py-2 text-11 text-ink-3">
              {steering.isSaving ? "Saving …" : versionWords(shown)} {!may.ok && may.why}
            </p>
          </>
        );
      }}
    </Loaded>
  );
}
