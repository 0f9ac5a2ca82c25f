import { type ChangeEvent, type FormEvent, useState } from "react";
import { api } from "@/client/http";
import { queryClient } from "@/client/queries";
import type { Shape } from "@/client/types";
import { no } from "@/commands/command";
import { ActionButton } from "@/shell/ActionButton";
import { useAttempt } from "@/shell/useAttempt";
import { useMayAct } from "@/shell/useMayAct";
import { TextField } from "@/ui/TextField";
import { budgetError, changeOf, draftOf } from "./tenantDraft";

/** Budget and grants of the tenant, for its admins. */
export function TenantForm({ tenant }: { readonly tenant: Shape<"TenantShown"> }) {
  const [budget, setBudget] = useState(() => draftOf(tenant).budget);
  const [grants, setGrants] = useState(() => draftOf(tenant).grants);
  const mayAct = useMayAct();
  const { busy, attempt } = useAttempt();
  const wrong = budgetError(budget);
  const change = changeOf(tenant, { budget, grants });
  const may = !mayAct.ok
    ? mayAct
    : wrong !== undefined
      ? no(wrong)
      : Object.keys(change).length === 0
        ? no("Nothing is changed yet.")
        : mayAct;
  const save = async () => {
    const isDone = await attempt(
      () => api.patch("/tenants/me", change),
      "Changed: runs at work see it at their next step",
    );
    if (isDone) await queryClient.invalidateQueries();
  };
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (may.ok && !busy) void save();
  };
  return (
    <form onSubmit={submit} className="flex flex-col gap-3 border-t border-line pt-3">
      <TextField
        label="Budget in dollars"
        inputMode="decimal"
        value={budget}
        hint="Most that the tenant may spend in total; empty for no limit."
        error={wrong}
        onChange={(event) => setBudget(event.target.value)}
        className="max-w-60"
      />
      <TextField
        label="Grants, one a line"
        rows={Math.min(10, Math.max(3, grants.split("\n").length))}
        value={grants}
        spellCheck={false}
        hint="Patterns such as tools:* or models:openai:*. Without one its runs may use nothing."
        onChange={(event: ChangeEvent<HTMLTextAreaElement>) => setGrants(event.target.value)}
      />
      <div>
        <ActionButton
          label="Change budget and grants"
          variant="primary"
          may={may}
          busy={busy}
          onClick={() => void save()}
        />
      </div>
    </form>
  );
}
