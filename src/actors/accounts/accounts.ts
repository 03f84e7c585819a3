import type { Database } from '../../db/client.ts'
import type { CustomerRow } from '../../db/queries/accounts/accounts.ts'
import * as rows from '../../db/queries/accounts/accounts.ts'
import { retireWebhookSecret } from '../../db/queries/jobs/webhooks.ts'
import { Problem } from '../../errors.ts'
import { type CustomerId, type KeyId, newId } from '../../ids.ts'
import { checkPrecondition, type Precondition } from '../../precondition.ts'
import type { GatewayPolicy, GatewayPolicyChanges, ModelPolicy } from '../../protocol/wire/admin/policy.ts'
import { displayPrefix } from '../../secrets.ts'
import { dayMs } from '../../time.ts'
import type { AuditContext, AuditTrail, Deed } from '../audit/audit-context.ts'
import type { AccountStatus } from './access.ts'
import { AccountReads, type Customer, type GatewayKey, shownCustomer, shownKey } from './account-reads.ts'
import { changedGatewayPolicy, changeKey, type KeyChangesInput } from './key-changes.ts'
import { mintToken, mintWebhookSecret } from './minting.ts'
import type { Sealing } from './sealing.ts'

export interface NewCustomerInput {
  readonly displayName: string
  readonly gatewayPolicy?: GatewayPolicy | null
}

export interface CustomerChanges {
  readonly displayName?: string
  readonly accountStatus?: AccountStatus
  readonly gatewayPolicy?: GatewayPolicy | null
  /** Fields of the policy; one that is null goes. Not beside a whole policy. */
  readonly policyChanges?: GatewayPolicyChanges
}

export interface NewKeyInput {
  readonly name: string
  readonly modelPolicy?: ModelPolicy | null
  readonly nodeScope?: readonly string[] | null
  readonly expiresAt?: Date | null
}

/** An issued key. Only this object ever holds the raw token. */
export interface IssuedKey {
  readonly key: GatewayKey
  readonly gatewayKey: string
}

export interface RotatedKey extends IssuedKey {
  readonly oldKeyExpiresAt: Date
}

export interface CreatedCustomer {
  readonly customer: Customer
  readonly customerToken: string
  /** `whsec_` and 32 bytes in base64 (Standard Webhooks). */
  readonly webhookSecret: string
}

export interface AccountsOptions {
  readonly db: Database
  /** SVC_TOKEN_PEPPER, newest first. */
  readonly peppers: readonly string[]
  readonly sealing: Sealing
  /** SVC_KEY_ROTATION_MS. */
  readonly keyRotationMs: number
  readonly trail: AuditTrail
  /** Marks this process's own copies as outdated at once, see `ChangeFeed.changedHere`. */
  readonly changedHere: (topic: 'customers' | 'gateway_keys') => void
  /** See `AccessDirectory.forgetKey`. */
  readonly forgetKey: (keyId: KeyId) => void
  readonly now?: () => number
}

const liveKeysMax = 10
const keyOverlapMsMax = 7 * dayMs
/** How long a replaced webhook secret signs beside the new one (§11). */
const webhookSecretOverlapMs = dayMs

export class Accounts extends AccountReads {
  constructor(private readonly options: AccountsOptions) {
    super(options.db)
  }

  /** The actions in the name of an admin. Each action and its audit event are one transaction. */
  by(audit: AuditContext): AccountVerbs {
    return new AccountVerbs(this.options, audit)
  }
}

/**
 * The verbs on customers and keys, one transaction each, with the event of the audit. They refuse with `customer_not_found`, `key_not_found`,
 * `key_limit_reached`, `precondition_failed`, `invalid_state` or `invalid_request`; what the driver throws goes through.
 */
export class AccountVerbs extends AccountReads {
  private readonly now: () => number

  constructor(
    private readonly options: AccountsOptions,
    private readonly audit: AuditContext,
  ) {
    super(options.db)
    this.now = options.now ?? Date.now
  }

  async createCustomer({ displayName, gatewayPolicy = null }: NewCustomerInput): Promise<CreatedCustomer> {
    const { token, hash } = mintToken('customer', this.options.peppers)
    const webhookSecret = mintWebhookSecret()
    const row = await this.db.transaction(async (tx) => {
      const made = await rows.insertCustomer(tx, {
        customerId: newId('cus'),
        displayName,
        gatewayPolicy,
        tokenHash: hash,
        webhookSecretSealed: this.options.sealing.seal('webhook_secret', webhookSecret),
      })
      await this.record(tx, made.customerId)
      return made
    })
    this.options.changedHere('customers')
    return { customer: shownCustomer(row), customerToken: token, webhookSecret }
  }

  async updateCustomer(
    customerId: string,
    { policyChanges, ...changes }: CustomerChanges,
    precondition: Precondition | null = null,
  ): Promise<Customer> {
    return this.change(customerId, (row) => {
      checkPrecondition(precondition, row)
      return policyChanges === undefined
        ? changes
        : { ...changes, gatewayPolicy: changedGatewayPolicy(row.gatewayPolicy, policyChanges) }
    })
  }

  async rotateCustomerToken(
    customerId: string,
  ): Promise<{ readonly customer: Customer; readonly customerToken: string }> {
    const { token, hash } = mintToken('customer', this.options.peppers)
    return { customer: await this.change(customerId, () => ({ tokenHash: hash })), customerToken: token }
  }

  /** The old secret keeps signing beside the new one for 24 hours. */
  async rotateWebhookSecret(customerId: string) {
    const webhookSecret = mintWebhookSecret()
    const webhookSecretSealed = this.options.sealing.seal('webhook_secret', webhookSecret)
    const expiresAt = new Date(this.now() + webhookSecretOverlapMs)
    const customer = await this.db.transaction(async (tx) => {
      const old = await rows.lockCustomer(tx, customerId)
      if (old === null) throw new Problem('customer_not_found')
      await retireWebhookSecret(tx, { customerId: old.customerId, secretSealed: old.webhookSecretSealed, expiresAt })
      const changed = shownCustomer(await rows.updateCustomer(tx, customerId, { webhookSecretSealed }))
      await this.record(tx, changed.customerId)
      return changed
    })
    this.options.changedHere('customers')
    return { customer, webhookSecret }
  }

  async issueKey(customerId: string, input: NewKeyInput): Promise<IssuedKey> {
    const now = new Date(this.now())
    if (input.expiresAt != null && input.expiresAt <= now) {
      throw new Problem('invalid_request', { param: 'expires_at', detail: 'expires_at must be in the future' })
    }
    const issued = await this.db.transaction(async (tx) => {
      if ((await rows.lockCustomer(tx, customerId)) === null) throw new Problem('customer_not_found')
      const made = await this.insertKey(tx, customerId, input, now)
      await this.record(tx, made.key.keyId)
      return made
    })
    this.options.changedHere('gateway_keys')
    return issued
  }

  /**
   * Issues a new key. The old one ends after `keepMs` (0 to 7 days, default SVC_KEY_ROTATION_MS), or at its own
   * earlier end.
   */
  async rotateKey(keyId: string, keepMs = this.options.keyRotationMs): Promise<RotatedKey> {
    if (!(keepMs >= 0 && keepMs <= keyOverlapMsMax)) {
      throw new Problem('invalid_request', { detail: 'The old key can be kept from 0 to 7 days' })
    }
    const now = new Date(this.now())
    const rotated = await this.db.transaction(async (tx) => {
      const found = await rows.getKey(tx, keyId)
      if (found === null || (await rows.lockCustomer(tx, found.customerId)) === null) throw new Problem('key_not_found')
      // The row is read again because another request could revoke or rotate the key before this one got the lock.
      const old = await rows.getKey(tx, keyId)
      if (old === null) throw new Problem('key_not_found')
      if (old.revokedAt !== null || (old.expiresAt !== null && old.expiresAt <= now)) throw new Problem('invalid_state')
      const until = new Date(Math.min(now.getTime() + keepMs, old.expiresAt?.getTime() ?? Number.POSITIVE_INFINITY))
      await rows.expireKey(tx, old.keyId, until)
      const made = await this.insertKey(tx, old.customerId, old, now)
      await this.record(tx, old.keyId)
      return { ...made, oldKeyExpiresAt: until, oldKeyId: old.keyId }
    })
    const { oldKeyId, ...answer } = rotated
    this.options.changedHere('gateway_keys')
    if (keepMs === 0) this.options.forgetKey(oldKeyId)
    return answer
  }

  /** See `changeKey`. */
  async updateKey(keyId: string, changes: KeyChangesInput, precondition: Precondition | null): Promise<GatewayKey> {
    const key = await this.db.transaction(async (tx) => {
      const changed = await changeKey(tx, keyId, changes, { precondition, now: new Date(this.now()) })
      await this.record(tx, changed.keyId)
      return shownKey(changed)
    })
    this.options.changedHere('gateway_keys')
    return key
  }

  /** The key stops working at once here and within 5 s on other gateways. Revoking a revoked key changes nothing. */
  async revokeKey(keyId: string): Promise<GatewayKey> {
    const key = await this.db.transaction(async (tx) => {
      const revoked = shownKey(await rows.revokeKey(tx, keyId, new Date(this.now())))
      await this.record(tx, revoked.keyId)
      return revoked
    })
    this.options.changedHere('gateway_keys')
    this.options.forgetKey(key.keyId)
    return key
  }

  private async change(
    customerId: string,
    changesOf: (row: CustomerRow) => Parameters<typeof rows.updateCustomer>[2],
  ): Promise<Customer> {
    const customer = await this.db.transaction(async (tx) => {
      const row = await rows.lockCustomer(tx, customerId)
      if (row === null) throw new Problem('customer_not_found')
      const changes = changesOf(row)
      const changed = shownCustomer(await rows.updateCustomer(tx, customerId, changes))
      await this.record(tx, changed.customerId)
      return changed
    })
    this.options.changedHere('customers')
    return customer
  }

  private record(tx: Database, targetId: Deed['targetId']): Promise<void> {
    return this.options.trail.record(tx, this.audit, { targetId })
  }

  /** The caller holds the lock of the customer's row, so two inserts at once see each other's key. */
  private async insertKey(tx: Database, customerId: string, input: NewKeyInput, now: Date): Promise<IssuedKey> {
    if ((await rows.countLiveKeys(tx, customerId, now)) >= liveKeysMax) {
      throw new Problem('key_limit_reached', { detail: `A customer may have ${liveKeysMax} live keys` })
    }
    const { token, hash } = mintToken('gateway', this.options.peppers)
    const row = await rows.insertKey(tx, {
      keyId: newId('key'),
      customerId: customerId as CustomerId,
      keyHash: hash,
      displayPrefix: displayPrefix(token),
      name: input.name,
      nodeScope: input.nodeScope == null ? null : [...input.nodeScope],
      modelPolicy: input.modelPolicy ?? null,
      expiresAt: input.expiresAt ?? null,
    })
    return { key: shownKey(row), gatewayKey: token }
  }
}
