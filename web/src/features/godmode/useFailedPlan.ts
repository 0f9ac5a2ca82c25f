import { useEffect } from "react";
import { useGraph } from "@/state/log";
import { setUi, toast } from "@/state/ui";

/** Says so when the plan that somebody waits for cannot be made. */
export function useFailedPlan(mission: string): void {
  const run = useGraph().runs.get(mission);
  const { status, message, reason, goal } = run ?? {};
  useEffect(() => {
    if (status === "cancelled") setUi({ plan: "" });
    if (status !== "failed") return;
    setUi({ plan: "" });
    toast(`No plan: ${goal ?? ""}`, {
      tone: "bad",
      advice: message || reason || "Say the goal in other words and plan it again.",
    });
  }, [status, message, reason, goal]);
}
