import { Account } from "./Account";
import { EraseCard } from "./EraseCard";
import { Keys } from "./Keys";
import { Look } from "./Look";
import { ServerCard } from "./ServerCard";
import { TenantCard } from "./TenantCard";
import { UsersCard } from "./UsersCard";

/** What belongs to this browser, to whoever is signed in, and to the tenant. */
export default function Settings() {
  return (
    <div className="mx-auto flex max-w-200 flex-col gap-4 p-4">
      <h1 className="text-20">Settings</h1>
      <Look />
      <Account />
      <TenantCard />
      <ServerCard />
      <UsersCard />
      <EraseCard />
      <Keys />
    </div>
  );
}
