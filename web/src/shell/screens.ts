import { type ComponentType, lazy, type LazyExoticComponent } from "react";
import {
  TaskIcon as GoalIcon,
  ArtifactsIcon,
  CanvasIcon,
  ChatIcon,
  CostsIcon,
  HistoryIcon,
  MarketIcon,
  MemoryIcon,
  OverviewIcon,
  RunsIcon,
  SettingsIcon,
  ToolIcon as SkillsIcon,
  WorldIcon,
} from "@/ui/icons/icons";
import { loadPart } from "./loadPart";

export interface ScreenProps {
  /** The thing that the address names, if it names one. */
  readonly id: string | null;
}

export interface Screen {
  readonly id: string;
  readonly label: string;
  readonly path: string;
  readonly icon: ComponentType<{ readonly size?: number }>;
  readonly shortcut: string | null;
  /** Whether it stands in the rail. */
  readonly inRail: boolean;
}

type Loader = () => Promise<{ readonly default: ComponentType<ScreenProps> }>;

/** A screen is there as soon as `features/<id>/screen.tsx` is, with the component as its default export. */
const loaders = import.meta.glob<{ readonly default: ComponentType<ScreenProps> }>(
  "../features/*/screen.tsx",
);

const TABLE: readonly Screen[] = [
  { id: "goals", label: "Goals", path: "/", icon: GoalIcon, shortcut: "g g", inRail: true },
  { id: "canvas", label: "Canvas", path: "/canvas", icon: CanvasIcon, shortcut: "g c", inRail: true },
  { id: "chat", label: "Chat", path: "/chat", icon: ChatIcon, shortcut: "g t", inRail: true },
  { id: "world", label: "World", path: "/world", icon: WorldIcon, shortcut: "g w", inRail: true },
  {
    id: "artifacts",
    label: "Artifacts",
    path: "/artifacts",
    icon: ArtifactsIcon,
    shortcut: "g a",
    inRail: true,
  },
  { id: "runs", label: "Runs", path: "/runs", icon: RunsIcon, shortcut: "g r", inRail: true },
  { id: "memory", label: "Memory", path: "/memory", icon: MemoryIcon, shortcut: "g m", inRail: true },
  { id: "skills", label: "Skills", path: "/skills", icon: SkillsIcon, shortcut: "g l", inRail: true },
  {
    id: "schedules",
    label: "Schedules",
    path: "/schedules",
    icon: HistoryIcon,
    shortcut: "g e",
    inRail: true,
  },
  { id: "market", label: "Market", path: "/market", icon: MarketIcon, shortcut: "g k", inRail: true },
  { id: "costs", label: "Costs", path: "/costs", icon: CostsIcon, shortcut: "g o", inRail: true },
  { id: "settings", label: "Settings", path: "/settings", icon: SettingsIcon, shortcut: "g s", inRail: true },
  {
    id: "overview",
    label: "Overview",
    path: "/overview",
    icon: OverviewIcon,
    shortcut: "g v",
    inRail: false,
  },
];

function loaderOf(id: string): Loader | undefined {
  return loaders[`../features/${id}/screen.tsx`];
}

/** Screens that are built. Until there is a canvas, its place in the rail is the overview's. */
export function builtScreens(): readonly Screen[] {
  const hasCanvas = loaderOf("canvas") !== undefined;
  return TABLE.filter((screen) => loaderOf(screen.id) !== undefined).map((screen) =>
    screen.id === "overview" ? { ...screen, inRail: !hasCanvas } : screen,
  );
}

const components = new Map<string, LazyExoticComponent<ComponentType<ScreenProps>>>();

/** The component of a screen, loaded when it is shown for the first time; undefined if there is none. */
export function screenComponent(id: string): LazyExoticComponent<ComponentType<ScreenProps>> | undefined {
  const known = components.get(id);
  if (known !== undefined) return known;
  const loader = loaderOf(id);
  if (loader === undefined) return undefined;
  const component = lazy(() => loadPart(loader));
  components.set(id, component);
  return component;
}

export function screenOf(id: string): Screen | undefined {
  return TABLE.find((screen) => screen.id === id);
}
