import type { World } from "@/client/worlds";

/** What every part of a world's page is told. */
export interface WorldPart {
  readonly world: World;
  /** The tick that one has travelled to; null is now. */
  readonly asOf: number | null;
  /** The chosen agent; "" for none. */
  readonly agent: string;
  readonly onAgent: (agent: string) => void;
}
