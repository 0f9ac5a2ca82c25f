import { useEffect, useState } from "react";

/** The time in milliseconds, to the second while it is followed. */
export function useNow(isFollowed: boolean): number {
  const [now, setNow] = useState(() => Date.now());
  useEffect(() => {
    if (!isFollowed) return;
    const timer = setInterval(() => setNow(Date.now()), 1000);
    return () => clearInterval(timer);
  }, [isFollowed]);
  return now;
}
