import { chooseTenant, type Role, signOut } from "@/client/session";
import { boot } from "@/shell/boot";
import { useAttempt } from "@/shell/useAttempt";
import { useUi } from "@/state/ui";
import { Button } from "@/ui/Button";
import { Select } from "@/ui/Select";
import { Fact, Facts, Section } from "./Section";

const MEANING: Readonly<Record<Role, string>> = {
  viewer: "looks at everything of the tenant and changes nothing",
  operator: "also gives goals, steers, approves and writes",
  admin: "also changes budget and grants of the tenant, and sees its users",
};

/** Who is signed in, for which tenant, and the way out. */
export function Account() {
  const me = useUi((state) => state.me);
  const { busy, attempt } = useAttempt();
  if (me === null) return null;
  const change = (task: () => Promise<void>) =>
    attempt(async () => {
      await task();
      await boot();
    });
  return (
    <Section title="Account">
      <Facts>
        <Fact name="Name">{me.name}</Fact>
        <Fact name="Role">
          {me.role}: {MEANING[me.role]}
        </Fact>
        <Fact name="Tenant">{me.tenant}</Fact>
      </Facts>
      <div className="flex flex-wrap items-end gap-3">
        {me.tenants.length > 1 && (
          <Select
            label="Work for another tenant"
            value={me.tenant}
            disabled={busy}
            options={me.tenants.map((tenant) => ({ value: tenant, label: tenant }))}
            onChange={(tenant) => void change(() => chooseTenant(tenant))}
            className="w-60"
          />
        )}
        <Button busy={busy} onClick={() => void change(signOut)}>
          Sign out
        </Button>
      </div>
    </Section>
  );
}
