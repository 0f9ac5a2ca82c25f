import { useQuery } from "@tanstack/react-query";
import { api, inWords } from "@/client/http";
import type { Shape } from "@/client/types";
import { useRefresh } from "@/state/refresh";
import { useUi } from "@/state/ui";
import { dollars } from "@/ui/amounts";
import { Pill } from "@/ui/Badge";
import { ErrorState } from "@/ui/ErrorState";
import { Skeleton } from "@/ui/Skeleton";
import { limitWords, rateWords } from "./limits";
import { Fact, Facts, Section } from "./Section";
import { TenantForm } from "./TenantForm";

const NEWS = ["tenant."] as const;
const KEY = ["settings", "tenant"] as const;

/** A form begins anew when somebody else has changed what it is about. */
const settingsOf = (tenant: Shape<"TenantShown">) => JSON.stringify([tenant.budget_microusd, tenant.grants]);

/** What the tenant may do and spend; its admins change it. */
export function TenantCard() {
  const id = useUi((state) => state.me?.tenant);
  useRefresh(NEWS, KEY);
  const query = useQuery({
    queryKey: [...KEY, id],
    queryFn: ({ signal }) => api.get<Shape<"TenantShown">>("/tenants/me", {}, signal),
  });
  return (
    <Section title="Grants and limits" note={id === undefined ? "" : `of tenant ${id}`}>
      {query.error !== null ? (
        <ErrorState {...inWords(query.error)} onRetry={() => void query.refetch()} />
      ) : query.data === undefined ? (
        <Skeleton label="the tenant" />
      ) : (
        <TenantFacts tenant={query.data} />
      )}
    </Section>
  );
}

function TenantFacts({ tenant }: { readonly tenant: Shape<"TenantShown"> }) {
  const isAdmin = useUi((state) => state.me?.role === "admin");
  const { budget_microusd: budget, available_microusd: left } = tenant;
  return (
    <>
      <Facts>
        <Fact name="Grants">
          {tenant.grants.length === 0 ? (
            "none: its runs may use nothing"
          ) : (
            <span className="flex flex-wrap gap-1">
              {tenant.grants.map((grant) => (
                <Pill key={grant}>{grant}</Pill>
              ))}
            </span>
          )}
        </Fact>
        <Fact name="Budget">
          {budget === null || left === null
            ? "no limit"
            : `${dollars(budget)}, ${left < 0 ? `${dollars(-left)} over` : `${dollars(left)} left`}`}
        </Fact>
        {tenant.debt_microusd > 0 && (
          <Fact name="Debt">
            {`${dollars(tenant.debt_microusd)} billed beyond what was reserved; a higher budget pays it first`}
          </Fact>
        )}
        <Fact name="Unknown prices">
          {tenant.allow_unknown_price
            ? "models without a known price may be called"
            : "a model without a known price is refused"}
        </Fact>
        {tenant.limits.map((limit) => {
          const { name, words } = limitWords(limit);
          return (
            <Fact key={`${limit.scope} ${limit.unit}`} name={`Limit on ${name}`}>
              {words}
            </Fact>
          );
        })}
        {tenant.rates.map((rate) => (
          <Fact key={rate.name} name={`Speed of ${rate.name === "*" ? "all models" : rate.name}`}>
            {rateWords(rate)}
          </Fact>
        ))}
        {tenant.patterns.length > 0 && (
          <Fact name="Personal data">
            <span className="flex flex-wrap gap-1">
              {tenant.patterns.map((kind) => (
                <Pill key={kind}>{kind}</Pill>
              ))}
            </span>
          </Fact>
        )}
      </Facts>
      {isAdmin ? (
        <TenantForm key={settingsOf(tenant)} tenant={tenant} />
      ) : (
        <p className="text-12 text-ink-2">
          An admin of the tenant changes them here; runs at work see it at their next step.
        </p>
      )}
    </>
  );
}
