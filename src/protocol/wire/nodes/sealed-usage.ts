import { type Static, Type } from '@sinclair/typebox'
import { brand } from '../../../brand.ts'
import { hash } from '../shapes.ts'
import { signature } from './agent-shapes.ts'

/** Where a gateway relays sealed inference to: this, and the path of the operation. */
export const sealedPath = `/${brand}/v1/sealed`
/** Where it asks afterwards what a call used: this, and the request's id. */
export const sealedUsagePath = `/${brand}/v1/sealed-usage`

/** What a sealed call used, in the node's own name; it goes to the gateway outside of the seal, once. */
export const SealedUsage = Type.Object({
  request_id: Type.String({ maxLength: 64 }),
  finish: Type.String({ maxLength: 32, description: 'A finish reason, or `error`, `aborted`' }),
  usage_estimated: Type.Boolean(),
  receipt_hash: hash,
  receipt: Type.Unknown({ description: 'Of the kind `hosted_sealed`; its tokens are what counts' }),
  signature_ed25519: signature,
})
export type SealedUsage = Static<typeof SealedUsage>
