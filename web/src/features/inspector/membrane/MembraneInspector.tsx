import { counted } from "@/projection/counted";
import { shortName } from "@/projection/event";
import { useGraph } from "@/state/log";
import { MembraneIcon } from "@/ui/icons/icons";
import { Tabs } from "@/ui/Tabs";
import { Head } from "../parts/Head";
import { Loaded } from "../parts/Loaded";
import { useInspector } from "../state";
import { SteeringPanel } from "../steering/SteeringPanel";
import { Members } from "./Members";
import { Pool } from "./Pool";
import { useMembrane } from "./useMembrane";

/** A membrane: who is in it, what they share, and how it is steered. */
export function MembraneInspector({ id }: { readonly id: string }) {
  const query = useMembrane(id);
  const tab = useInspector((state) => state.membraneTab);
  const membrane = useGraph().membranes.get(id);
  const members = [...(membrane?.members ?? query.data?.members ?? [])];
  const count = membrane?.shared.size ?? query.data?.shared_count ?? 0;
  return (
    <div className="flex h-full min-h-0 flex-col">
      <Head
        icon={
          <span className="text-membrane">
            <MembraneIcon />
          </span>
        }
        name={query.data?.name ?? membrane?.name ?? shortName(id)}
        id={id}
        status={
          <span className="text-ink-2">
            {counted(members.length, "member")} · {count} shared
          </span>
        }
      />
      <Loaded query={query} what="the membrane" rows={6}>
        {(shown) => (
          <Tabs
            label="Membrane"
            tabs={[
              { id: "members", label: "Members", content: <Members id={id} members={members} /> },
              { id: "shared", label: "Shared", content: <Pool membrane={shown} ids={membrane?.shared} /> },
              {
                id: "steering",
                label: "Steering",
                content: <SteeringPanel key={id} about={id} used={shown.used_microusd} iteration={0} />,
              },
            ]}
            selected={tab}
            onSelect={(membraneTab) => useInspector.setState({ membraneTab })}
            className="flex-1"
          />
        )}
      </Loaded>
    </div>
  );
}
