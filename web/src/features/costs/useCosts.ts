import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { api } from "@/client/http";
import type { Shape } from "@/client/types";
import { useRefresh } from "@/state/refresh";

/** What events change a sum. */
const NEWS = ["model.", "tool.", "run.", "tenant."] as const;
const KEY = ["costs"] as const;

/** What was spent in the last days, and what the tenant has left. */
export function useCosts(days: number) {
  useRefresh(NEWS, KEY);
  const spending = useQuery({
    queryKey: [...KEY, "spending", days],
    queryFn: ({ signal }) => api.get<Shape<"Spending">>("/ledger/costs", { days }, signal),
    placeholderData: keepPreviousData,
  });
  const tenant = useQuery({
    queryKey: [...KEY, "tenant"],
    queryFn: ({ signal }) => api.get<Shape<"TenantShown">>("/tenants/me", {}, signal),
  });
  return {
    spending: spending.data,
    tenant: tenant.data,
    error: spending.error ?? tenant.error,
    isOld: spending.isPlaceholderData,
    retry: () => void Promise.all([spending.refetch(), tenant.refetch()]),
  };
}
