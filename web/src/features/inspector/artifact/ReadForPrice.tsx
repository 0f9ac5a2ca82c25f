import { api, path } from "@/client/http";
import type { Shape } from "@/client/types";
import { Button } from "@/ui/Button";
import { EmptyState } from "@/ui/EmptyState";
import { Loaded } from "../parts/Loaded";
import { useAct, useCanAct } from "../useAct";
import { useDetail } from "../useDetail";

interface ReadForPriceProps {
  readonly id: string;
  readonly version: number | null;
  /** Why it was refused. */
  readonly reason: string;
  readonly onRead: (shown: Shape<"ArtifactShown">) => void;
}

/** What may not be read, and what may be read for a price that somebody must agree to. */
export function ReadForPrice({ id, version, reason, onRead }: ReadForPriceProps) {
  const query = useDetail<Shape<"ArtifactAccess">>(
    ["artifact-access", id],
    (signal) => api.get(`${path("artifacts", id)}/access`, undefined, signal),
    "",
  );
  const may = useCanAct();
  const { busy, act } = useAct();
  return (
    <Loaded query={query} what="its access">
      {({ people }) => {
        const reading = people.find((one) => one.action === "read");
        if (reading === undefined || !reading.allowed || reading.price === 0) {
          return <EmptyState title="No right to read">{reading?.reason ?? reason}</EmptyState>;
        }
        const pay = () =>
          act(async () => {
            onRead(await api.post(`${path("artifacts", id)}/read`, { version, price_max: reading.price }));
          });
        return (
          <EmptyState
            title={`Reading costs ${reading.price} scrip`}
            action={
              <Button
                busy={busy}
                disabled={!may.ok}
                title={may.ok ? undefined : may.why}
                onClick={() => void pay()}
              >
                Read for {reading.price} scrip
              </Button>
            }
          >
            The price goes to its owner each time that it is read.
          </EmptyState>
        );
      }}
    </Loaded>
  );
}
