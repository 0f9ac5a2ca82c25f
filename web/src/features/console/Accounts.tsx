import { inWords } from "@/client/http";
import { ErrorState } from "@/ui/ErrorState";
import { CheckIcon, WarnIcon } from "@/ui/icons/icons";
import { Skeleton } from "@/ui/Skeleton";
import { amountIn } from "./amountIn";
import type { Books, SumLine } from "./useLedger";

/** Who holds what, and whether money is conserved: each sum over all accounts is zero. */
export function Accounts({ books }: { readonly books: Books }) {
  if (books.isPending) return <Skeleton label="the accounts" />;
  if (books.error !== null) return <ErrorState {...inWords(books.error)} onRetry={books.retry} />;
  return (
    <section aria-label="Accounts" className="text-12">
      <h2 className="text-ink-2">Accounts</h2>
      {books.accounts.length === 0 && (
        <p className="text-ink-2">No money has moved; the first paid call opens the accounts.</p>
      )}
      <ul>
        {books.accounts.map((one) => (
          <li key={one.id} className="flex min-h-6 items-baseline gap-2">
            <span className="min-w-0 flex-1 truncate" title={one.account}>
              {one.account}
              {one.space !== "main" && <span className="text-ink-3"> {one.space}</span>}
            </span>
            <span className="num">{amountIn(one.asset, one.balance)}</span>
          </li>
        ))}
      </ul>
      {books.isCut && (
        <p className="text-11 text-ink-3">More accounts are there; the Costs screen has them.</p>
      )}
      {books.sums.map((sum) => (
        <Sum
          key={`${sum.space} ${sum.asset}`}
          sum={sum}
          by={books.isFromServer ? "the server" : "these events"}
        />
      ))}
    </section>
  );
}

function Sum({ sum, by }: { readonly sum: SumLine; readonly by: string }) {
  const isZero = sum.sum === 0;
  return (
    <p className="flex min-h-6 items-center gap-2 border-t border-line font-medium">
      <span className={isZero ? "text-money" : "text-bad"}>
        {isZero ? <CheckIcon size={14} /> : <WarnIcon size={14} />}
      </span>
      <span className="flex-1">
        Sum of {sum.accounts} accounts{" "}
        <span className="font-normal text-ink-3">
          {sum.space}, by {by}
          {!isZero && "; money was made from nothing, run artelier verify"}
        </span>
      </span>
      <span className="num">{amountIn(sum.asset, sum.sum)}</span>
    </p>
  );
}
