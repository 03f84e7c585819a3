import type { Database } from '../../db/client.ts'
import * as rows from '../../db/queries/accounts/accounts.ts'
import { Problem } from '../../errors.ts'
import { checkPrecondition, type Precondition } from '../../precondition.ts'
import type { GatewayPolicy, ModelPolicyChanges } from '../../protocol/wire/admin/policy.ts'
import { sha256Hex } from '../../secrets.ts'

export interface KeyChangesInput {
  readonly name?: string
  /** Fields of the policy; one that is null goes. */
  readonly modelPolicyChanges?: ModelPolicyChanges
  /** null: all nodes. */
  readonly nodeScope?: readonly string[] | null
  /** null: never. */
  readonly expiresAt?: Date | null
}

type Edited = Pick<rows.KeyRow, 'keyId' | 'name' | 'nodeScope' | 'modelPolicy' | 'expiresAt' | 'revokedAt'>

/** Another one after each change of what can be edited. When a key was used last is no such change. */
export function keyRevision({ keyId, name, nodeScope, modelPolicy, expiresAt, revokedAt }: Edited): string {
  const policy = Object.entries(modelPolicy ?? {}).toSorted(([a], [b]) => (a < b ? -1 : 1))
  const edited = [keyId, name, nodeScope, policy, expiresAt?.getTime() ?? null, revokedAt?.getTime() ?? null]
  return sha256Hex(JSON.stringify(edited))
}

/** A policy without a field is the default. */
export function changedRules<P extends object>(
  policy: P | null,
  changes: { readonly [K in keyof P]?: P[K] | null },
): P | null {
  const fields = Object.entries({ ...policy, ...changes }).filter(([, value]) => value !== null)
  return fields.length === 0 ? null : (Object.fromEntries(fields) as P)
}

/** The whole policy of an account after a change of some fields. */
export const changedGatewayPolicy = (
  policy: GatewayPolicy | null,
  changes: { readonly [K in keyof GatewayPolicy]?: GatewayPolicy[K] | null },
): GatewayPolicy | null => changedRules<GatewayPolicy>(policy, changes)

/**
 * Changes what a key may do. Refuses with `key_not_found`, `invalid_state` (revoked), `invalid_request` (an end in the past) or
 * `precondition_failed`.
 */
export async function changeKey(
  tx: Database,
  keyId: string,
  { modelPolicyChanges, nodeScope, expiresAt, ...named }: KeyChangesInput,
  given: { readonly precondition: Precondition | null; readonly now: Date },
): Promise<rows.KeyRow> {
  const found = await rows.getKey(tx, keyId)
  if (found === null || (await rows.lockCustomer(tx, found.customerId)) === null) throw new Problem('key_not_found')
  // Read again: another request could have changed it before this one got the lock.
  const old = await rows.getKey(tx, keyId)
  if (old === null) throw new Problem('key_not_found')
  checkPrecondition(given.precondition, { revision: keyRevision(old) })
  if (old.revokedAt !== null) {
    throw new Problem('invalid_state', { detail: 'The key is revoked for good. Issue a new one.' })
  }
  if (expiresAt != null && expiresAt <= given.now) {
    throw new Problem('invalid_request', {
      param: 'expires_at',
      detail: 'expires_at must be in the future. To end a key now, revoke it.',
    })
  }
  const changed = await rows.updateKey(tx, keyId, {
    ...named,
    ...(modelPolicyChanges === undefined ? {} : { modelPolicy: changedRules(old.modelPolicy, modelPolicyChanges) }),
    ...(nodeScope === undefined ? {} : { nodeScope: nodeScope === null ? null : [...nodeScope] }),
    ...(expiresAt === undefined ? {} : { expiresAt }),
  })
  if (changed === null) throw new Problem('key_not_found')
  return changed
}
