import { wrongKindOfToken } from '../../credential-kinds.ts'
import type { Database } from '../../db/client.ts'
import { getCustomer } from '../../db/queries/accounts/accounts.ts'
import * as rows from '../../db/queries/pool/enrollment.ts'
import { addIdentity } from '../../db/queries/pool/node-identities.ts'
import { insertNode, type NodeRow } from '../../db/queries/pool/pool.ts'
import { Problem } from '../../errors.ts'
import { type CustomerId, newId } from '../../ids.ts'
import { excessOf } from '../../machines/rules/enrollment.ts'
import type { PrivacyClass, Visibility } from '../../machines/rules/routing.ts'
import { type VerifyKey, verifyKey } from '../../protocol/signing/ed25519.ts'
import { enrollMessage } from '../../protocol/signing/signatures.ts'
import type { EnrollRequest, RouterPublicKey } from '../../protocol/wire/nodes/agent.ts'
import { displayPrefix, hashToken, isWellFormedToken } from '../../secrets.ts'
import { mintToken } from '../accounts/minting.ts'
import type { AuditContext, AuditTrail } from '../audit/audit-context.ts'
import type { EndpointRules } from './endpoint-address.ts'
import { isOwnTransportKey } from './transport-keys.ts'

export type EnrollmentTokenRecord = Omit<rows.EnrollmentTokenRow, 'tokenHash'>

export interface NewEnrollmentToken {
  readonly customerId: string
  readonly name: string
  readonly visibility: Visibility
  readonly nodeClass: string
  readonly privacyClass: PrivacyClass
  readonly endpointUrlAllowed: boolean
}

export interface EnrolledNode {
  readonly node: Pick<NodeRow, 'nodeId' | 'nodeClass' | 'visibility' | 'privacyClass' | 'url'>
  readonly routerPublicKeys: readonly RouterPublicKey[]
}

/** Enrols nodes (§22). Errors of the database driver pass through. */
export interface Enrollment {
  /** Refuses with `customer_not_found`. Only this answer ever holds the raw token. */
  issue(
    input: NewEnrollmentToken,
    audit: AuditContext,
  ): Promise<{ readonly record: EnrollmentTokenRecord; readonly token: string }>
  /** Newest first, including used and expired ones. */
  tokens(limit: number): Promise<readonly EnrollmentTokenRecord[]>
  /** Refuses with `enrollment_token_not_found`. A node that has used the token stays enrolled. */
  withdraw(tokenId: string, audit: AuditContext): Promise<void>
  /**
   * Refuses with `signature_invalid`, `enrollment_token_invalid`, `invalid_request` (asks for more than the token allows)
   * or `invalid_state` (this identity was enrolled before). A refused request leaves the token as it was.
   */
  enroll(request: EnrollRequest): Promise<EnrolledNode>
  /** Whether this token could enrol a node now. It stays as it is. */
  isOpen(token: string): Promise<boolean>
}

export interface EnrollmentOptions {
  readonly db: Database
  readonly trail: AuditTrail
  /** SVC_TOKEN_PEPPER, newest first. */
  readonly peppers: readonly string[]
  /** SVC_ENROLLMENT_TTL_MS. */
  readonly lifeMs: number
  readonly endpoints: EndpointRules
  readonly routerPublicKeys: readonly RouterPublicKey[]
  /** See `ChangeFeed.changedHere`; its promise is awaited. */
  readonly changedHere: (topic: 'nodes') => unknown
}

export function createEnrollment(options: EnrollmentOptions): Enrollment {
  const { db, trail, peppers, lifeMs } = options
  return {
    issue: async (input, audit) => {
      const { token, hash } = mintToken('enroll', peppers)
      const row = await db.transaction(async (tx) => {
        if ((await getCustomer(tx, input.customerId)) === null) throw new Problem('customer_not_found')
        const customerId = input.customerId as CustomerId
        const fresh = { ...input, customerId, tokenHash: hash, displayPrefix: displayPrefix(token) }
        const made = await rows.insertEnrollmentToken(tx, fresh, lifeMs)
        await trail.record(tx, audit, { targetId: made.tokenId })
        return made
      })
      return { record: shown(row), token }
    },
    tokens: async (limit) => (await rows.listEnrollmentTokens(db, limit)).map(shown),
    withdraw: (tokenId, audit) =>
      db.transaction(async (tx) => {
        if (!(await rows.deleteEnrollmentToken(tx, tokenId))) throw new Problem('enrollment_token_not_found')
        await trail.record(tx, audit, { targetId: tokenId })
      }),
    enroll: (request) => enroll(request, options),
    isOpen: async (token) => (await findGrant(token, options)) !== null,
  }
}

function shown({ tokenHash: _, ...record }: rows.EnrollmentTokenRow): EnrollmentTokenRecord {
  return record
}

function tokenInvalid(token: string): Problem {
  const detail = wrongKindOfToken('enrollment_token', token, 'enroll')
  return new Problem('enrollment_token_invalid', { param: 'enrollment_token', ...(detail === null ? {} : { detail }) })
}
const refused = (param: string, detail: string) => new Problem('invalid_request', { param, detail })

/**
 * Verifies that the sender owns the identity key, and that the identity signed the transport keys. `message`: the text
 * that the request's own signature covers.
 */
export function provenKey(
  request: Pick<EnrollRequest, 'public_key_ed25519' | 'transport_keys' | 'signature_ed25519'>,
  message: string,
): VerifyKey {
  const key = verifyKey(request.public_key_ed25519)
  if (key === null) throw refused('public_key_ed25519', 'public_key_ed25519 is not an Ed25519 public key')
  if (!key.verify(message, request.signature_ed25519)) throw new Problem('signature_invalid')
  if (!request.transport_keys.every((transport) => isOwnTransportKey(transport, key))) {
    throw refused(
      'transport_keys',
      'A transport key is not signed by the identity, or its key_id does not match its bytes',
    )
  }
  return key
}

/** null: unknown, used, expired, or no such token at all. */
async function findGrant(token: string, { db, peppers }: EnrollmentOptions) {
  if (!isWellFormedToken(token, 'enroll')) return null
  const hashes = peppers.map((pepper) => hashToken(pepper, token))
  const grant = await rows.findEnrollmentToken(db, hashes)
  return grant === null ? null : { grant, hashes }
}

async function enroll(request: EnrollRequest, options: EnrollmentOptions): Promise<EnrolledNode> {
  const { db, endpoints } = options
  const key = provenKey(request, enrollMessage(request))
  const { enrollment_token: token, endpoint_url: endpointUrl } = request
  const found = await findGrant(token, options)
  if (found === null) throw tokenInvalid(request.enrollment_token)
  const { grant, hashes } = found
  const wish = { visibility: request.visibility, nodeClass: request.node_class, endpointUrl }
  const excess = excessOf(wish, grant)
  if (excess !== null) throw refused(excess, `The token does not allow this ${excess}`)
  // The name is looked up here, outside the transaction and only for a caller with a valid token.
  const url = endpointUrl === undefined ? null : await endpoints.check(endpointUrl)
  const node = await db.transaction((tx) => insertAgent(tx, hashes, request, url, key))
  await options.changedHere('nodes')
  return { node, routerPublicKeys: options.routerPublicKeys }
}

/**
 * If several requests use one token at once, only one succeeds. The others leave nothing behind, like a refusal here.
 */
async function insertAgent(
  tx: Database,
  hashes: readonly Buffer[],
  request: EnrollRequest,
  url: string | null,
  key: VerifyKey,
): Promise<NodeRow> {
  const nodeId = newId('node')
  const identityKey = Buffer.from(key.publicKey, 'base64url')
  const grant = await rows.useEnrollmentToken(tx, hashes, nodeId)
  if (grant === null) throw tokenInvalid(request.enrollment_token)
  if (!(await addIdentity(tx, identityKey, nodeId))) {
    throw new Problem('invalid_state', { detail: 'This identity was enrolled before; start with a fresh data folder' })
  }
  const node = {
    customerId: grant.customerId,
    kind: 'agent',
    name: request.name ?? grant.name,
    url,
    identityKey,
    transportKeys: request.transport_keys,
    visibility: request.visibility ?? grant.visibility,
    privacyClass: grant.privacyClass,
    nodeClass: grant.nodeClass,
    payoutAddress: request.payout_address ?? null,
  } as const
  return insertNode(tx, node, nodeId)
}
