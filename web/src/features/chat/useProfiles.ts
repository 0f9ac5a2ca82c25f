import { useQuery } from "@tanstack/react-query";
import { api } from "@/client/http";
import type { Shape } from "@/client/types";

type Profiles = Pick<Shape<"ProfilesPage">, "items" | "invalid">;

const PAGES_MAX = 10;

/** A page ends early where profiles are large. */
async function readProfiles(signal: AbortSignal): Promise<Profiles> {
  const found: Profiles = { items: [], invalid: [] };
  let after: string | null | undefined = null;
  for (let page = 0; page < PAGES_MAX; page += 1) {
    const answer: Shape<"ProfilesPage"> = await api.get("/profiles", { after, limit: 500 }, signal);
    found.items.push(...answer.items);
    found.invalid.push(...answer.invalid);
    after = answer.next ?? null;
    if (after === null) break;
  }
  return found;
}

/** The shipped profiles and those that are stored. */
export function useProfiles() {
  return useQuery({ queryKey: ["profiles"], queryFn: ({ signal }) => readProfiles(signal) });
}
