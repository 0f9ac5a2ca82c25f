import { readWorlds } from "@/client/worlds";
import { useFollowed } from "./useFollowed";

/** Worlds of the tenant, and the names of those that are shipped. */
export function useWorlds() {
  return useFollowed({ queryKey: ["worlds"], queryFn: readWorlds, follows: "worlds" });
}
