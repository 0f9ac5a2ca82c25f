import { bytes } from "@/ui/sizes";
import { Pill } from "@/ui/Badge";
import type { Column } from "@/ui/Table";
import { dayAndTime } from "@/ui/time";
import type { Found } from "./filter";

/** The table of a wide window. */
export const columns: readonly Column<Found>[] = [
  {
    id: "title",
    label: "Title",
    sortBy: ({ artifact }) => artifact.title.toLowerCase(),
    cell: ({ artifact, isByName }) => (
      <>
        <span className="font-medium">{artifact.title}</span>
        {artifact.title !== artifact.id && <span className="num ml-2 text-ink-3">{artifact.id}</span>}
        {!isByName && <span className="ml-2 text-11 text-ink-3">found in its content</span>}
      </>
    ),
  },
  {
    id: "kind",
    label: "Kind",
    width: "132px",
    sortBy: ({ artifact }) => artifact.kind,
    cell: ({ artifact }) => <Pill tone="artifact">{artifact.kind}</Pill>,
  },
  {
    id: "owner",
    label: "Owner",
    width: "18%",
    sortBy: ({ artifact }) => artifact.owner,
    cell: ({ artifact }) => <span title={artifact.owner}>{artifact.owner}</span>,
  },
  {
    id: "version",
    label: "Version",
    width: "84px",
    align: "right",
    sortBy: ({ artifact }) => artifact.version,
    cell: ({ artifact }) => `v${artifact.version}`,
  },
  {
    id: "size",
    label: "Size",
    width: "92px",
    align: "right",
    sortBy: ({ artifact }) => artifact.sizeBytes,
    cell: ({ artifact }) => bytes(artifact.sizeBytes),
  },
  {
    id: "changed",
    label: "Changed",
    width: "124px",
    align: "right",
    sortBy: ({ artifact }) => artifact.changedUs,
    cell: ({ artifact }) => dayAndTime(artifact.changedUs),
  },
];
