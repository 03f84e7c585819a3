import { Type } from '@sinclair/typebox'
import type { Role } from '../../actors/accounts/access.ts'
import type { GatewayHandle } from '../../actors/gateway-handle.ts'
import { Problem } from '../../errors.ts'
import { RecentMixture } from '../../protocol/wire/admin/admin-mixtures.ts'
import { Explanation } from '../../protocol/wire/admin/explanation.ts'
import type { Transition } from '../../protocol/wire/admin/inspect.ts'
import { explanationView, mixtureView } from './admin.ts'

/** What this process keeps in its own memory: a route shows it together with what the other processes keep (§33). */
export function ownExplanation(gateway: GatewayHandle, requestId: string, role: Role): Explanation | null {
  const found = gateway.explain(requestId)
  return found === null ? null : explanationView(found, role)
}

/** What one process of this gateway knows; null: none of those that answered. `silent`: how many did not answer in time. */
export interface Sought<T> {
  readonly found: T | null
  readonly silent: number
}

/** @throws request_not_found, service_unavailable — a process that did not answer may know it */
export function knownOf<T>({ found, silent }: Sought<T>): T {
  if (found !== null) return found
  if (silent === 0) throw new Problem('request_not_found')
  const detail = 'A process of this gateway did not answer in time, and it may know this request. Ask again.'
  throw new Problem('service_unavailable', { detail, retryAfterSeconds: 1 })
}

const OwnExplanations = Type.Array(Explanation, { maxItems: 1 })

/** Of whichever process of this gateway decided. */
export async function explanationOf(
  gateway: GatewayHandle,
  requestId: string,
  role: Role,
): Promise<Sought<Explanation>> {
  const own = ownExplanation(gateway, requestId, role)
  if (own !== null) return { found: own, silent: 0 }
  const asked = { request_id: requestId, role }
  const { answers, silent } = await gateway.siblings.survey('explain', asked, OwnExplanations)
  return { found: answers.flat()[0] ?? null, silent }
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
