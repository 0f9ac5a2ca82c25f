import { inWords } from "@/client/http";
import { chooseTenant, signOut } from "@/client/session";
import { boot } from "@/shell/boot";
import { toast, useUi } from "@/state/ui";
import { Button } from "@/ui/Button";
import { Select } from "@/ui/Select";

async function attempt(task: () => Promise<void>): Promise<void> {
  try {
    await task();
    await boot();
  } catch (error) {
    const { title, advice } = inWords(error);
    toast(title, { tone: "bad", advice });
  }
}

/** Who is signed in, for which tenant, and the way out. */
export function Account() {
  const me = useUi((state) => state.me);
  const live = useUi((state) => state.live);
  if (me === null) return null;
  return (
    <section aria-labelledby="account" className="flex flex-col gap-3">
      <h2 id="account" className="text-15">
        Account
      </h2>
      <dl className="grid grid-cols-[8rem_1fr] gap-y-1.5">
        <dt className="text-ink-2">Name</dt>
        <dd>{me.name}</dd>
        <dt className="text-ink-2">Role</dt>
        <dd>{me.role}</dd>
        <dt className="text-ink-2">Tenant</dt>
        <dd>{me.tenant}</dd>
        <dt className="text-ink-2">Server</dt>
        <dd>
          Artelier <span className="num">{me.version}</span>,{" "}
          {live === "live" ? "connected" : live.replace("_", " ")}
        </dd>
      </dl>
      {me.tenants.length > 1 && (
        <Select
          label="Work for another tenant"
          value={me.tenant}
          options={me.tenants.map((tenant) => ({ value: tenant, label: tenant }))}
          onChange={(tenant) => void attempt(() => chooseTenant(tenant))}
          className="max-w-60"
        />
      )}
      <div>
        <Button onClick={() => void attempt(signOut)}>Sign out</Button>
      </div>
    </section>
  );
}
