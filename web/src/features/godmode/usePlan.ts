import { useState } from "react";
import { api, inWords } from "@/client/http";
import type { Shape } from "@/client/types";
import { currentRoute, href, navigate } from "@/shell/route";
import { setUi, toast } from "@/state/ui";
import { type GoalWishes, wishedFields } from "./goalWishes";

/** Asks for a plan. That it is being made, and that it is ready, is told by events. */
export function usePlan() {
  const [isAsking, setAsking] = useState(false);
  const ask = async (goal: string, wishes: GoalWishes): Promise<boolean> => {
    setAsking(true);
    try {
      const planned = await api.post<Shape<"Planned">>("/god-mode/plan", {
        goal,
        ...(await wishedFields(wishes)),
      });
      // The dialog opens by itself when this plan is ready.
      setUi({ plan: planned.mission });
      if (currentRoute().screen === "goals") navigate(href("goals", planned.mission));
      return true;
    } catch (error) {
      const { title, advice } = inWords(error);
      toast(title, { tone: "bad", advice });
      return false;
    } finally {
      setAsking(false);
    }
  };
  return { isAsking, ask };
}
