import { secondsToUtcMidnight } from '../../../src/time.ts'

const neededSeconds = 120

/** For tests whose day must not end under them: returns once the UTC day has enough left, shortly after midnight at worst. */
export async function dayAhead(): Promise<void> {
  const leftSeconds = secondsToUtcMidnight(Date.now())
  if (leftSeconds < neededSeconds) await Bun.sleep(leftSeconds * 1_000)
}
