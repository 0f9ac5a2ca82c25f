import { cx } from "./cx";
import { TEXT_TONE, type Tone } from "./tone";

interface RingProps {
  readonly n: number;
  readonly m: number;
  /** What is counted: "iteration". */
  readonly label: string;
  readonly tone?: Tone;
  readonly size?: number;
}

const RADIUS = 15;
const ROUND = 2 * Math.PI * RADIUS;

/** n of m, as an arc and as numbers. */
export function Ring({ n, m, label, tone = "agent", size = 34 }: RingProps) {
  const share = m <= 0 ? 0 : Math.min(1, Math.max(0, n / m));
  return (
    <svg
      role="img"
      aria-label={`${label} ${n} of ${m}`}
      viewBox="0 0 36 36"
      width={size}
      height={size}
      className={cx("shrink-0", TEXT_TONE[tone])}
    >
      <circle cx="18" cy="18" r={RADIUS} fill="none" stroke="var(--line)" strokeWidth="3" />
      {share > 0 && (
        <circle
          cx="18"
          cy="18"
          r={RADIUS}
          fill="none"
          stroke="currentColor"
          strokeWidth="3"
          strokeDasharray={`${share * ROUND} ${ROUND}`}
          transform="rotate(-90 18 18)"
        />
      )}
      <text x="18" y="22" textAnchor="middle" fontSize="11" fill="var(--ink)">
        {n}/{m}
      </text>
    </svg>
  );
}
