import type { Shape } from "@/client/types";

interface ToolSaid {
  readonly isOn: boolean;
  readonly why: string;
  /** Off for another reason than its own switch: moving the switch would change nothing. */
  readonly isFixed: boolean;
}

const BY_SWITCH = "switched off by steering";

/** A tool in words. `wanted` is the agent's own switch as it will be, `known` as the server knows it. */
export function toolWords(tool: Shape<"AgentTool">, wanted: boolean, known: boolean): ToolSaid {
  const about = [`${tool.risk} risk`, tool.side_effect ? "has side effects" : "reads only"].join(", ");
  const other = tool.why_off !== null && (tool.why_off !== BY_SWITCH || known);
  if (other) {
    const why = tool.why_off === BY_SWITCH ? "a membrane bars it" : (tool.why_off ?? "");
    return { isOn: false, why: `off: ${why}`, isFixed: known };
  }
  return wanted
    ? { isOn: true, why: about, isFixed: false }
    : { isOn: false, why: "off: by its switch", isFixed: false };
}
