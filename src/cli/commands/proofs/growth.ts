import type { Checkpoint } from '../../../protocol/log/checkpoint.ts'
import { type Growth, growthTo as grownTo } from '../../../protocol/verify/growth.ts'
import type { GatewayClient } from '../../frame/gateway-client.ts'

/** Asks the gateway how its log grew, and was forked, from what was seen to `now`. */
export const growthTo = (
  gateway: Pick<GatewayClient, 'get'>,
  seen: readonly Checkpoint[],
  now: Checkpoint,
): Promise<Growth> => grownTo(async (path) => (await gateway.get(`/v1/public/log/${path}`, false)).body, seen, now)
