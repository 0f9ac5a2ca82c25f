import { useServer } from "@/client/server";
import { useUi } from "@/state/ui";
import { Section } from "./Section";

/** Who may sign in for this tenant. Shown to its admins; the file of users is changed where the server is. */
export function UsersCard() {
  const tenant = useUi((state) => state.me?.tenant) ?? "";
  const users = useServer().data?.users ?? null;
  if (users === null) return null;
  return (
    <Section title="Users" note={`of tenant ${tenant}`}>
      <table className="w-full text-left">
        <thead className="text-12 text-ink-3">
          <tr>
            <th scope="col" className="py-1 pr-3 font-normal">
              Name
            </th>
            <th scope="col" className="py-1 pr-3 font-normal">
              Role
            </th>
            <th scope="col" className="py-1 font-normal">
              Tenants
            </th>
          </tr>
        </thead>
        <tbody>
          {users.map((user) => (
            <tr key={user.name} className="border-t border-line">
              <th scope="row" className="py-1 pr-3 font-normal break-all">
                {user.name}
              </th>
              <td className="py-1 pr-3">{user.role}</td>
              <td className="py-1 break-words">{user.tenants.join(", ")}</td>
            </tr>
          ))}
        </tbody>
      </table>
      <p className="text-12 text-ink-2">
        They stand in the file that the server was started with; a change there holds from its next start.
      </p>
    </Section>
  );
}
