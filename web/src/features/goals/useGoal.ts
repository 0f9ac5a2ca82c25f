import { api, path } from "@/client/http";
import type { Shape } from "@/client/types";
import { useFollowed } from "@/state/useFollowed";
import type { Goal } from "./useGoals";

/** One goal as the server's views have it: status, cost and counts are told, never added up here. */
export function useGoal(id: string) {
  return useFollowed({
    queryKey: ["missions", id, "shown"],
    queryFn: (signal) => api.get<Goal>(path("missions", id), undefined, signal),
    follows: `mission:${id}`,
  });
}

/** A task with its iterations and verdicts, asked for again when its goal changes. */
export function useGoalTask(goal: string, task: string) {
  return useFollowed({
    queryKey: ["missions", goal, "task", task],
    queryFn: (signal) => api.get<Shape<"TaskShown">>(path("tasks", task), undefined, signal),
    follows: `mission:${goal}`,
    enabled: task !== "",
  });
}
