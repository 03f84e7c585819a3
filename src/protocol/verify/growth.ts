import type { Checkpoint } from '../log/checkpoint.ts'
import { seenBefore } from './seen-logs.ts'

/** What a file needs so that `verify` can follow its log from what was seen of it. */
export interface Growth {
  readonly consistency: readonly unknown[]
  readonly forks: readonly unknown[]
}

/** Asks how the log grew, and was forked, from what was seen to `now`. `ask`: answers a path below `/v1/public/log`. */
export async function growthTo(
  ask: (path: string) => Promise<unknown>,
  seen: readonly Checkpoint[],
  now: Checkpoint,
): Promise<Growth> {
  const before = seenBefore(seen, now)
  if (before === null) return { consistency: [], forks: [] }
  const [from, to] = [Math.min(before.size, now.size), Math.max(before.size, now.size)]
  const renamed = before.origin !== now.origin
  // What was seen of a log that then lost it is larger than all that is left.
  const grown = from !== to && !(renamed && before.size > now.size)
  const { forks = [] } = renamed ? ((await ask(`forks?to=${now.size}`)) as { forks?: readonly unknown[] }) : {}
  return { consistency: grown ? [await ask(`proof?from=${from}&to=${to}`)] : [], forks }
}
