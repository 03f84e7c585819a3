import type { Checkpoint } from '../../../protocol/log/checkpoint.ts'
import { seenBefore } from '../../../protocol/verify/seen-logs.ts'
import type { GatewayClient } from '../../frame/gateway-client.ts'

/** What a file needs so that `verify` can follow its log from what this computer has seen of it. */
export interface Growth {
  readonly consistency: readonly unknown[]
  readonly forks: readonly unknown[]
}

/** Asks the gateway how its log grew, and was forked, from what was seen to `now`. */
export async function growthTo(
  gateway: Pick<GatewayClient, 'get'>,
  seen: readonly Checkpoint[],
  now: Checkpoint,
): Promise<Growth> {
  const before = seenBefore(seen, now)
  if (before === null) return { consistency: [], forks: [] }
  const ask = async (path: string) => (await gateway.get(`/v1/public/log/${path}`, false)).body
  const [from, to] = [Math.min(before.size, now.size), Math.max(before.size, now.size)]
  const renamed = before.origin !== now.origin
  // What was seen of a log that then lost it is larger than all that is left.
  const grown = from !== to && !(renamed && before.size > now.size)
  const { forks = [] } = renamed ? ((await ask(`forks?to=${now.size}`)) as { forks?: readonly unknown[] }) : {}
  return { consistency: grown ? [await ask(`proof?from=${from}&to=${to}`)] : [], forks }
}
