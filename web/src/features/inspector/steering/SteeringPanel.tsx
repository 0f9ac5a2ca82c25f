import { useUi } from "@/state/ui";
import { SteeringNow } from "./SteeringNow";
import { SteeringThen } from "./SteeringThen";

interface SteeringPanelProps {
  /** The agent or membrane. */
  readonly about: string;
  /** Micro-dollars that are used of its budget; null if that is not known. */
  readonly used: number | null;
  readonly iteration: number;
}

/** Steering as it is, or as it was at the moment that one looks at. */
export function SteeringPanel(props: SteeringPanelProps) {
  const travel = useUi((state) => state.travel);
  return travel === null ? <SteeringNow {...props} /> : <SteeringThen about={props.about} />;
}
