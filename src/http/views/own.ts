import { Type } from '@sinclair/typebox'
import type { Role } from '../../actors/accounts/access.ts'
import type { GatewayHandle } from '../../actors/gateway-handle.ts'
import { RecentMixture } from '../../protocol/wire/admin/admin-mixtures.ts'
import { Explanation } from '../../protocol/wire/admin/explanation.ts'
import type { Transition } from '../../protocol/wire/admin/inspect.ts'
import { explanationView, mixtureView } from './admin.ts'

/** What this process keeps in its own memory: a route shows it together with what the other processes keep (§33). */
export function ownExplanation(gateway: GatewayHandle, requestId: string, role: Role): Explanation | null {
  const found = gateway.explain(requestId)
  return found === null ? null : explanationView(found, role)
}

/** Of whichever process of this gateway decided. */
export async function explanationOf(
  gateway: GatewayHandle,
  requestId: string,
  role: Role,
): Promise<Explanation | null> {
  const own = ownExplanation(gateway, requestId, role)
  if (own !== null) return own
  const [found] = await gateway.siblings.ask('explain', { request_id: requestId, role }, Explanation)
  return found ?? null
}

export function ownMixtures(gateway: GatewayHandle, limit: number, role: Role): RecentMixture[] {
  return gateway.mixtures.recent(limit).map((record) => mixtureView(record, role))
}

/** Of all processes of this gateway, newest first. */
export async function mixturesOfAll(gateway: GatewayHandle, limit: number, role: Role): Promise<RecentMixture[]> {
  const asked = { limit: String(limit), role }
  const elsewhere = await gateway.siblings.ask('mixtures', asked, Type.Array(RecentMixture))
  return newest([ownMixtures(gateway, limit, role), ...elsewhere], ({ ended_at: endedAt }) => endedAt, limit)
}

export function ownTransitions(
  gateway: GatewayHandle,
  machine: string,
  id: string | null,
  limit: number,
): readonly Transition[] {
  return gateway.consoles.history(machine, id, limit)
}

/** Newest first, from several lists that are. */
export function newest<T>(lists: readonly (readonly T[])[], at: (one: T) => string, limit: number): T[] {
  return lists
    .flat()
    .toSorted((a, b) => at(b).localeCompare(at(a)))
    .slice(0, limit)
}
