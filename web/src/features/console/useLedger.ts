import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { api, type Page } from "@/client/http";
import type { Shape } from "@/client/types";
import { type AccountLine, balances, type LedgerLine, ledgerLines } from "@/projection/rowsLedger";
import { useEvents } from "@/state/log";
import { useUi } from "@/state/ui";

const ACCOUNTS_MAX = 500;

export interface SumLine {
  readonly space: string;
  readonly asset: string;
  readonly accounts: number;
  readonly sum: number;
}

export interface Books {
  /** The newest first. */
  readonly lines: readonly LedgerLine[];
  readonly accounts: readonly AccountLine[];
  readonly sums: readonly SumLine[];
  /** Who added up: the server over its accounts, or this page over the events up to a moment of the past. */
  readonly isFromServer: boolean;
  readonly isCut: boolean;
  readonly isPending: boolean;
  readonly error: unknown;
  readonly retry: () => void;
}

/** What was moved, and where it is: as the server's books say now, or as the events say of the past. */
export function useLedger(): Books {
  const events = useEvents();
  const isNow = useUi((state) => state.travel === null);
  const lines = useMemo(() => ledgerLines(events), [events]);
  const past = useMemo(() => balances(lines), [lines]);
  const moved = lines.length;
  const shared = { enabled: isNow, placeholderData: keepPreviousData, gcTime: 10_000 } as const;
  const totals = useQuery({
    ...shared,
    queryKey: ["ledger", "totals", moved],
    queryFn: ({ signal }) => api.get<Shape<"Sums">>("/ledger/totals", {}, signal),
  });
  const accounts = useQuery({
    ...shared,
    queryKey: ["ledger", "accounts", moved],
    queryFn: ({ signal }) =>
      api.get<Page<Shape<"Account">>>("/ledger/accounts", { limit: ACCOUNTS_MAX }, signal),
  });
  return {
    lines: useMemo(() => lines.toReversed(), [lines]),
    accounts: isNow
      ? (accounts.data?.items ?? []).map((one) => ({
          ...one,
          id: `${one.space}|${one.account}|${one.asset}`,
        }))
      : past,
    sums: isNow ? (totals.data?.items ?? []) : sumsOf(past),
    isFromServer: isNow,
    isCut: isNow && accounts.data?.next !== null && accounts.data !== undefined,
    isPending: isNow && (totals.isPending || accounts.isPending),
    error: isNow ? (totals.error ?? accounts.error) : null,
    retry: () => {
      void totals.refetch();
      void accounts.refetch();
    },
  };
}

function sumsOf(accounts: readonly AccountLine[]): readonly SumLine[] {
  const found = new Map<string, SumLine>();
  for (const { space, asset, balance } of accounts) {
    const before = found.get(`${space}|${asset}`) ?? { space, asset, accounts: 0, sum: 0 };
    found.set(`${space}|${asset}`, {
      ...before,
      accounts: before.accounts + 1,
      sum: before.sum + balance,
    });
  }
  return [...found.values()];
}
