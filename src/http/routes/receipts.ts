import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import { brand } from '../../brand.ts'
import { getReceipt, type ReceiptRow } from '../../db/queries/money/receipts.ts'
import { Problem } from '../../errors.ts'
import { receiptText } from '../../protocol/receipts/receipt.ts'
import { toBase64url } from '../../protocol/signing/base64url.ts'
import { CustomerReceipt, ReceiptProof } from '../../protocol/wire/money/receipt.ts'
import { isoTime } from '../../time.ts'
import type { HttpContext } from '../frame/context.ts'
import { describe } from '../frame/route-table.ts'
import { admin } from '../plugins/admin.ts'
import { customer } from '../plugins/customer.ts'
import { publicReads } from '../plugins/rate-limit.ts'

const params = Type.Object({ receipt_hash: Type.String() })
const hashPattern = /^0x[0-9a-f]{64}$/

/** What is no hash is no receipt either. */
async function receiptOf({ gateway }: HttpContext, hash: string) {
  const row = hashPattern.test(hash) ? await getReceipt(gateway.db, hash) : null
  if (row === null) throw new Problem('receipt_not_found')
  return row
}

/** Under the root that the public settlement report shows at this moment. */
async function inclusionOf({ gateway }: HttpContext, row: ReceiptRow) {
  const { pendingRoot, proofOf } = await gateway.settlementView()
  const proof = proofOf(row.receiptHash)
  return {
    receipt_hash: row.receiptHash,
    status: row.status,
    received_at: isoTime(row.createdAt),
    batch_id: row.batchId,
    pending_root: pendingRoot,
    proof: proof === null ? null : [...proof],
  }
}

/** As they were hashed. */
const factsOf = (row: ReceiptRow): CustomerReceipt['receipt'] =>
  JSON.parse(receiptText({ ...row, startedAt: isoTime(row.startedAt), completedAt: isoTime(row.completedAt) }))

async function wholeReceipt(context: HttpContext, row: NonNullable<Awaited<ReturnType<typeof getReceipt>>>) {
  const signed = row.signatureEd25519 !== null && row.identityKey !== null
  return {
    object: `${brand}.receipt` as const,
    ...(await inclusionOf(context, row)),
    billed: row.billed,
    receipt: factsOf(row),
    signature_ed25519: row.signatureEd25519,
    public_key: signed ? toBase64url(row.identityKey) : null,
  }
}

/** Anybody: that a billed receipt stands below the public root (§14). */
const publicProofRoute = (context: HttpContext) =>
  new Elysia().use(publicReads(context, 'own')).get(
    '/v1/public/receipts/:receipt_hash',
    async ({ params: { receipt_hash: hash } }) => {
      const row = await receiptOf(context, hash)
      // Free work is its owner's own affair.
      if (!row.billed) throw new Problem('receipt_not_found')
      return { object: `${brand}.receipt_proof` as const, ...(await inclusionOf(context, row)) }
    },
    {
      params,
      response: { 200: ReceiptProof },
      detail: {
        ...describe({
          summary: 'Prove that a receipt stands below the public root',
          description: 'For receipts of billed work; `proof` is null once it is batched, and while it is held.',
          tags: ['Money (extension)'],
        }),
        security: [],
      },
    },
  )

/** The customer: the whole receipt of its own work, free or billed. */
const ownReceiptRoute = (context: HttpContext) =>
  new Elysia().use(customer(context)).get(
    '/v1/billing/receipts/:receipt_hash',
    async ({ access, params: { receipt_hash: hash } }) => {
      const row = await receiptOf(context, hash)
      if (row.customerId !== access.customerId) throw new Problem('receipt_not_found')
      return wholeReceipt(context, row)
    },
    {
      params,
      response: { 200: CustomerReceipt },
      detail: {
        ...describe({
          summary: 'One of your receipts, for `verify receipt`',
          description: 'The facts that were hashed, the signature of the node, and the proof below the public root.',
          tags: ['Money (extension)'],
        }),
        security: [{ customerId: [], customerToken: [] }],
      },
    },
  )

/** Operators: any receipt, which tells of its work but not for whom it was done. */
const adminReceiptRoute = (context: HttpContext) =>
  new Elysia()
    .use(admin(context))
    .get(
      '/v1/admin/receipts/:receipt_hash',
      async ({ params: { receipt_hash: hash } }) => wholeReceipt(context, await receiptOf(context, hash)),
      {
        action: 'receipt.read',
        params,
        response: { 200: CustomerReceipt },
        detail: describe({ summary: 'Read a receipt', tags: ['Money (extension)'] }),
      },
    )

export const receiptProofRoutes = (context: HttpContext) =>
  new Elysia().use(publicProofRoute(context)).use(ownReceiptRoute(context)).use(adminReceiptRoute(context))
