import { api, path } from "@/client/http";
import type { Shape } from "@/client/types";
import { useAttempt } from "@/shell/useAttempt";
import { useMayAct } from "@/shell/useMayAct";
import { ActionButton } from "@/shell/ActionButton";
import { EmptyState } from "@/ui/EmptyState";
import { Loaded } from "../parts/Loaded";
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
  const may = useMayAct();
  const { busy, attempt } = useAttempt();
  return (
    <Loaded query={query} what="its access">
      {({ people }) => {
        const reading = people.find((one) => one.action === "read");
        if (reading === undefined || !reading.allowed || reading.price === 0) {
          return <EmptyState title="No right to read">{reading?.reason ?? reason}</EmptyState>;
        }
        const pay = () =>
          attempt(async () => {
            onRead(await api.post(`${path("artifacts", id)}/read`, { version, price_max: reading.price }));
          });
        return (
          <EmptyState
            title={`Reading costs ${reading.price} scrip`}
            action={
              <ActionButton
                label={`Read for ${reading.price} scrip`}
                busy={busy}
                may={may}
                onClick={() => void pay()}
              />
            }
          >
            The price goes to its owner each time that it is read.
          </EmptyState>
        );
      }}
    </Loaded>
  );
}
