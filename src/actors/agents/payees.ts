import type { Database } from '../../db/client.ts'
import { nodeIdentityKey } from '../../db/queries/pool/node-identities.ts'
import { insertStatement, newestStatement, statementsOfDay } from '../../db/queries/pool/payee-statements.ts'
import { lockNode } from '../../db/queries/pool/pool.ts'
import { Problem } from '../../errors.ts'
import type { NodeId } from '../../ids.ts'
import { toBase64url } from '../../protocol/signing/base64url.ts'
import { verifyKey } from '../../protocol/signing/ed25519.ts'
import { isFresh, payeeMessage } from '../../protocol/signing/signatures.ts'
import { isoTime, secondMs } from '../../time.ts'

/** Each is an entry of the log for ever, and the check of the books reads them all. */
const statementsOfDayMax = 20
const retrySeconds = 3_600

export interface StatedPayee {
  readonly nodeId: string
  /** `0x` and 40 hex digits in lower case. */
  readonly payee: string
  readonly signedAt: string
  readonly signature: string
}

/** Takes what nodes say of where their earnings go (§36). */
export interface Payees {
  /**
   * Counts for what is earned from now on. Refuses with `signature_expired`, `signature_invalid` (also of a node that is not known), or
   * `invalid_state` where the node has signed a later one, with `rate_limited` after 20 of a day.
   */
  state(stated: StatedPayee): Promise<void>
}

export interface PayeesOptions {
  readonly db: Database
  readonly changedHere: (topic: 'nodes') => unknown
  /** Unix ms. */
  readonly now?: () => number
}

export function createPayees({ db, changedHere, now = Date.now }: PayeesOptions): Payees {
  return {
    state: async ({ nodeId, payee, signedAt, signature }) => {
      const at = new Date(signedAt)
      // The form of a text allows month 0, which is no time.
      const isTime = !Number.isNaN(at.getTime()) && isoTime(at) === signedAt
      if (!isTime || !isFresh(at.getTime() / secondMs, now())) throw new Problem('signature_expired')
      const raw = await nodeIdentityKey(db, nodeId)
      const key = raw === null ? null : verifyKey(toBase64url(raw))
      if (key === null || !key.verify(payeeMessage(nodeId, payee, signedAt), signature)) {
        throw new Problem('signature_invalid')
      }
      await db.transaction(async (tx) => {
        await lockNode(tx, nodeId)
        const before = await newestStatement(tx, nodeId)
        if (before?.signedAt.getTime() === at.getTime() && before.signatureEd25519 === signature) return
        if (before !== null && before.signedAt >= at) {
          throw new Problem('invalid_state', { detail: 'The node has signed a later payee' })
        }
        if ((await statementsOfDay(tx, nodeId)) >= statementsOfDayMax) {
          throw new Problem('rate_limited', { retryAfterSeconds: retrySeconds })
        }
        await insertStatement(tx, { nodeId: nodeId as NodeId, payee, signedAt: at, signatureEd25519: signature })
      })
      await changedHere('nodes')
    },
  }
}
