import { type Static, Type } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { foreignJson } from '../../protocol/json/foreign-json.ts'
import { modelId, strict } from '../../protocol/wire/shapes.ts'
import { hourMs } from '../../time.ts'
import type { Sealing } from '../accounts/sealing.ts'

const Ticket = Type.Object({ from: Type.String(), to: Type.String(), model: modelId, until_ms: Type.Integer() }, strict)
/** A copy that an operator has ordered: nodes by their ids, the model by its name at `from`. */
export type CopyTicket = Omit<Static<typeof Ticket>, 'until_ms'>

/** A pull may take a day, and others may stand before it. */
const ticketMs = 48 * hourMs

/**
 * What a copy was ordered with travels with the order and comes back with each request for it, sealed by the key that all gateways of
 * the pool have: no gateway needs to remember it.
 */
export function sealTicket(sealing: Pick<Sealing, 'seal'>, ticket: CopyTicket, nowMs = Date.now()): string {
  return sealing.seal('model_copy', JSON.stringify({ ...ticket, until_ms: nowMs + ticketMs })).toString('base64url')
}

/** null: no gateway of this pool has made it, or it is too old. */
export function openTicket(sealing: Pick<Sealing, 'open'>, text: string, nowMs = Date.now()): CopyTicket | null {
  const json = sealing.open('model_copy', Buffer.from(text, 'base64url'))
  const ticket = json === null ? undefined : foreignJson(json)
  if (!Value.Check(Ticket, ticket) || ticket.until_ms < nowMs) return null
  const { until_ms: _, ...rest } = ticket
  return rest
}
