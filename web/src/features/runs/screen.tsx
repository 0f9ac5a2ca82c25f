import type { ScreenProps } from "@/shell/screens";
import { RunDetail } from "./RunDetail";
import { RunList } from "./RunList";

export default function Runs({ id }: ScreenProps) {
  return id === null ? <RunList /> : <RunDetail key={id} id={id} />;
}
