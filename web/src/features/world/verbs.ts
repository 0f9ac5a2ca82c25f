import { api, path } from "@/client/http";
import { queryClient } from "@/client/queries";
import type { World } from "@/client/worlds";

const of = (world: string, verb: string): string => `${path("worlds", world)}/${verb}`;

/** What was asked for is under way before its first event, so the world is read again at once. */
async function told<T>(world: string, answer: Promise<T>): Promise<T> {
  const value = await answer;
  await queryClient.invalidateQueries({ queryKey: ["world", world] });
  return value;
}

export const run = (world: string, ticks: number): Promise<unknown> =>
  told(world, api.post(of(world, "run"), { ticks }));

export const pause = (world: string): Promise<World> => told(world, api.post<World>(of(world, "pause")));

export const resume = (world: string): Promise<World> => told(world, api.post<World>(of(world, "resume")));

export const tick = (world: string): Promise<unknown> =>
  told(world, api.post(of(world, "tick"), { count: 1 }));

/** One tick of a paused world: it is resumed for it, and paused again whatever comes of it. */
export async function step(world: string): Promise<void> {
  await api.post(of(world, "resume"));
  try {
    await api.post(of(world, "tick"), { count: 1 });
  } finally {
    await pause(world);
  }
}

export const inject = (world: string, text: string, to: readonly string[]): Promise<World> =>
  told(world, api.post<World>(of(world, "inject"), { text, to }));

export const fork = (
  world: string,
  wish: { readonly at: number | null; readonly id: string | null },
): Promise<World> => api.post<World>(of(world, "fork"), wish);
