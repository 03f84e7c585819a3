import type { InferenceRequest, Operation } from '../../actors/operations/operation.ts'
import { headers } from '../../brand.ts'
import { Problem } from '../../errors.ts'
import { foreignJson } from '../../protocol/json/foreign-json.ts'
import { isWellFormed, mayHoldHalves } from '../../protocol/json/well-formed.ts'
import { isClientNonce } from '../../protocol/receipts/binding.ts'

/** Of a body that is committed to, UTF-16 units: its canonical form is written in one piece, in which no stream moves. */
const boundUnitsMax = 1024 * 1024
const param = `header.${headers.clientNonce}`

/** The nonce to which the receipt shall be bound; null without one. What cannot be bound is refused, never left unbound in silence. */
export function readNonce(request: Request, operation: Operation, body: InferenceRequest, text: string): string | null {
  const nonce = request.headers.get(headers.clientNonce)
  if (nonce === null) return null
  if (!isClientNonce(nonce)) {
    throw new Problem('invalid_parameter', { param, detail: 'A nonce has 16 to 64 letters, digits or ._~+/=-' })
  }
  if (operation.bindable !== true || body.svc?.mixture !== undefined) {
    throw new Problem('invalid_parameter', { param, detail: 'Only one chat completion can have a bound receipt' })
  }
  if (text.length > boundUnitsMax) throw new Problem('payload_too_large', { param })
  if (mayHoldHalves(text) && !isWellFormed(foreignJson(text))) {
    throw new Problem('invalid_parameter', {
      param,
      detail:
        'A request that contains half of a surrogate pair (like \\ud800) has no canonical form to which a receipt could commit',
    })
  }
  return nonce
}
