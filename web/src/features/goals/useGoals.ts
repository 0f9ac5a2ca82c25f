import { api, type Page } from "@/client/http";
import type { Shape } from "@/client/types";
import { useFollowed } from "@/state/useFollowed";

export type Goal = Shape<"MissionShown">;
export type GoalLine = Shape<"MissionLine">;
export type GoalTask = Shape<"TaskLine">;

const NEWEST = 100;

/** The newest goals as the server lists them. */
export function useGoals() {
  return useFollowed({
    queryKey: ["missions", "list"],
    queryFn: (signal) => api.get<Page<GoalLine>>("/missions", { newest_first: true, limit: NEWEST }, signal),
    follows: "missions",
  });
}
