import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import { brand } from '../../brand.ts'
import { chargedFacts } from '../../db/queries/money/charged-facts.ts'
import { batchesOfNode, nodePayouts, type PayoutRow, settlementGroups } from '../../db/queries/money/payouts.ts'
import { Problem } from '../../errors.ts'
import { type AskedReport, payoutReportMessage } from '../../protocol/signing/signatures.ts'
import { expected, mustBe } from '../../protocol/validation/words.ts'
import { NodePayoutProofs, NodePayoutReport } from '../../protocol/wire/money/money.ts'
import { filter, limitOf, type QueryValues, text, windowDays } from '../../protocol/wire/query.ts'
import { isoTime, secondMs } from '../../time.ts'
import type { HttpContext } from '../frame/context.ts'
import { asks, matches } from '../frame/query.ts'
import { refusedLogin } from '../frame/refused-login.ts'
import { describe } from '../frame/route-table.ts'
import { requestId } from '../plugins/request-id.ts'
import { groupView, instant, payoutProofView, windowStart } from '../views/money.ts'

const window = { window_days: windowDays, limit: limitOf(100, 500) } as const
const nodeIdPattern = /^[A-Za-z0-9_-]{1,64}$/
/** Of one answer with proofs: each may have 1,000 leaves to compute. */
const batchesMax = 20

/** What the node signs and its signature, as they are described; what is wrong with them has codes of its own. */
const stamp = {
  signed_at: text(
    '^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$',
    'a time such as 2026-11-20T16:00:00Z',
    'An RFC 3339 time, at most 300 s from now. It is part of the signed text.',
  ),
  nonce: text(
    '^[A-Za-z0-9_-]{16,64}$',
    '16 to 64 letters, digits, _ or -',
    '16 to 64 characters of `A-Z a-z 0-9 _ -`. Each nonce works once.',
  ),
  /** 64 bytes; padding is tolerated (§15). */
  signature_ed25519: text(
    '^[A-Za-z0-9_-]{86}(==)?$',
    'an Ed25519 signature as base64url, which is 86 characters',
    'The node’s Ed25519 signature in base64url',
  ),
} as const
const any = filter('', '^[\\s\\S]*$', 'any text')
const query = { ...window, signed_at: any, nonce: any, signature_ed25519: any } as const

const malformed = (name: keyof typeof stamp, given: string) =>
  new Problem('signature_malformed', { param: `query.${name}`, detail: `${name} ${mustBe(stamp[name], given)}.` })
const missing = (name: keyof typeof stamp) =>
  new Problem('missing_credentials', {
    param: `query.${name}`,
    detail: `${name} is missing. The node signs this request; send ${expected(stamp[name])}.`,
  })

/** The value in the query, or the default. */
function sent(url: string, name: 'window_days' | 'limit'): string {
  const cut = url.indexOf('?')
  return new URLSearchParams(cut === -1 ? '' : url.slice(cut + 1)).get(name) ?? String(window[name].default)
}

interface Stamp {
  readonly signedAt: string
  readonly nonce: string
  readonly signature: string
}

function readStamp(values: {
  readonly signed_at: string | null
  readonly nonce: string | null
  readonly signature_ed25519: string | null
}): Stamp & { readonly atMs: number } {
  const { signed_at: signedAt, nonce, signature_ed25519: signature } = values
  if (signedAt === null) throw missing('signed_at')
  if (nonce === null) throw missing('nonce')
  if (signature === null) throw missing('signature_ed25519')
  const atMs = new Date(signedAt).getTime()
  if (!matches(stamp.signed_at, signedAt) || Number.isNaN(atMs)) throw malformed('signed_at', signedAt)
  if (!matches(stamp.nonce, nonce)) throw malformed('nonce', nonce)
  if (!matches(stamp.signature_ed25519, signature)) throw malformed('signature_ed25519', signature)
  return { signedAt, nonce, signature, atMs }
}

interface ReportCall {
  readonly values: QueryValues<typeof query>
  readonly url: string
  readonly nodeId: string
  readonly address: string
}

/** Refuses unless the node has just signed this report for the first time. */
async function authenticate({ gateway }: HttpContext, { values, url, nodeId, address }: ReportCall): Promise<void> {
  const { signedAt, nonce, signature, atMs } = readStamp(values)
  if (!nodeIdPattern.test(nodeId)) throw new Problem('signature_malformed', { param: 'node_id' })
  const message = payoutReportMessage({
    nodeId,
    windowDays: sent(url, 'window_days'),
    limit: sent(url, 'limit'),
    signedAt,
    nonce,
  })
  const fault = await gateway.nodeProofs.check({ nodeId, timestamp: atMs / secondMs, nonce, signature, message })
  if (fault !== null) throw refusedLogin(gateway, address, new Problem(fault))
}

function statusOf({ settlementStatus, held }: PayoutRow) {
  if (settlementStatus === 'finalized') return 'paid'
  return held ? 'held' : 'accrued'
}

function payoutView(row: PayoutRow, requestId: string | null) {
  return {
    entry_id: row.entryId,
    private_job_id: row.privateJobId,
    receipt_hash: row.receiptHash,
    request_id: requestId,
    payee: row.payee,
    amount_wei: row.amountWei.toString(),
    status: statusOf(row) as 'accrued' | 'held' | 'paid',
    settlement_status: row.settlementStatus as Exclude<PayoutRow['settlementStatus'], 'void'>,
    payout_batch_id: row.batchId,
    settled_at: instant(row.settledAt),
    created_at: isoTime(row.createdAt),
    updated_at: isoTime(row.updatedAt),
  }
}

/** What the node signs to get its proofs (§31). */
export const payoutProofsMessage = ({ nodeId, signedAt, nonce }: Pick<AskedReport, 'nodeId' | 'signedAt' | 'nonce'>) =>
  `${brand}-node-payout-proofs-v1:${nodeId}:${signedAt}:${nonce}`

const stampQuery = { signed_at: any, nonce: any, signature_ed25519: any } as const

/** What one node needs to claim what it has earned: its own leaves of the batches that hold them. */
const proofsRoute = (context: HttpContext) =>
  new Elysia().use(requestId(context)).get(
    '/v1/nodes/:node_id/payouts/proofs',
    async ({ exchange, params: { node_id: nodeId }, query: values, set }) => {
      const { gateway } = context
      const { signedAt, nonce, signature, atMs } = readStamp(values)
      if (!nodeIdPattern.test(nodeId)) throw new Problem('signature_malformed', { param: 'node_id' })
      const message = payoutProofsMessage({ nodeId, signedAt, nonce })
      const fault = await gateway.nodeProofs.check({ nodeId, timestamp: atMs / secondMs, nonce, signature, message })
      if (fault !== null) throw refusedLogin(gateway, exchange.address, new Problem(fault))
      exchange.proved = true
      Object.assign(set.headers, await gateway.limits.takeNodeReport(nodeId))
      const proofs: ReturnType<typeof payoutProofView>[] = []
      for (const batchId of await batchesOfNode(gateway.db, nodeId, batchesMax)) {
        const batch = await gateway.settlement.batch(batchId)
        const members = await gateway.settlement.proofs(batchId)
        for (const member of members) if (member.nodeId === nodeId) proofs.push(payoutProofView(batch, member))
      }
      return { object: `${brand}.payout_proofs` as const, node_id: nodeId, count: proofs.length, proofs }
    },
    {
      params: Type.Object({ node_id: Type.String() }),
      response: { 200: NodePayoutProofs },
      ...asks(stampQuery, stamp),
      detail: {
        ...describe({
          summary: "The proofs of a node's payouts, to claim with",
          description: `Signed by the node's Ed25519 identity over \`${brand}-node-payout-proofs-v1:<node_id>:<signed_at>:<nonce>\`. Of the newest ${batchesMax} batches.`,
          tags: ['Money (extension)'],
        }),
        security: [],
      },
    },
  )

/** Endpoint 8: what one node has earned. No customer is named. */
const reportRoute = (context: HttpContext) =>
  new Elysia().use(requestId(context)).get(
    '/v1/nodes/:node_id/payouts',
    async ({ exchange, params, query: values, request: { url }, set }) => {
      const nodeId = params.node_id
      const { gateway } = context
      await authenticate(context, { values, url, nodeId, address: exchange.address })
      exchange.proved = true
      // The limit is counted after the signature was checked, so that strangers cannot use up a node's share.
      Object.assign(set.headers, await gateway.limits.takeNodeReport(nodeId))
      const nowMs = Date.now()
      const since = windowStart(nowMs, values.window_days)
      const groups = await settlementGroups(gateway.db, since, nodeId)
      const payouts = await nodePayouts(gateway.db, nodeId, since, values.limit)
      const facts = await chargedFacts(gateway.db, payouts)
      return {
        status: 'ok' as const,
        node_id: nodeId,
        generated_at: isoTime(nowMs),
        summary: {
          total_payout_wei: groups.reduce((sum, { payoutWei }) => sum + payoutWei, 0n).toString(),
          settlement_statuses: groups.map(groupView),
        },
        payouts: payouts.map((row) => payoutView(row, facts.get(row.receiptHash)?.requestId ?? null)),
      }
    },
    {
      params: Type.Object({ node_id: Type.String() }),
      response: { 200: NodePayoutReport },
      ...asks(query, { ...window, ...stamp }),
      detail: {
        ...describe({
          summary: "A node's payouts",
          description: `The node's Ed25519 identity signs \`${brand}-node-payout-report-v1:<node_id>:<window_days>:<limit>:<signed_at>:<nonce>\`.`,
          tags: ['Settlement'],
        }),
        security: [],
      },
    },
  )

export const nodePayoutRoutes = (context: HttpContext) =>
  new Elysia().use(reportRoute(context)).use(proofsRoute(context))
