import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import { type LoggedEntry, proofTextOf } from '../../../actors/log/public-log.ts'
import { brand } from '../../../brand.ts'
import { factsOfRow, getReceipt, type ReceiptRow } from '../../../db/queries/money/receipts.ts'
import { Problem } from '../../../errors.ts'
import { receiptText } from '../../../protocol/receipts/receipt.ts'
import { encodeBase64 } from '../../../protocol/signing/base64.ts'
import { toBase64url } from '../../../protocol/signing/base64url.ts'
import { CustomerReceipt, ReceiptProof } from '../../../protocol/wire/money/receipt.ts'
import { isoTime } from '../../../time.ts'
import type { HttpContext } from '../../frame/context.ts'
import { describe } from '../../frame/route-table.ts'
import { admin } from '../../plugins/admin.ts'
import { customer } from '../../plugins/customer.ts'
import { publicReads } from '../../plugins/rate-limit.ts'

const params = Type.Object({ receipt_hash: Type.String() })
const hashPattern = /^0x[0-9a-f]{64}$/

/** A malformed hash is reported as not found. */
async function receiptOf({ gateway }: HttpContext, hash: string) {
  const row = hashPattern.test(hash) ? await getReceipt(gateway.db, hash) : null
  if (row === null) throw new Problem('receipt_not_found')
  return row
}

/** The proof for the root that the public settlement report shows now. Only for what can stand below it: the tree is large. */
async function inclusionOf({ gateway }: HttpContext, row: ReceiptRow) {
  const view = row.billed && row.status === 'accepted' ? await gateway.settlementView() : null
  const proof = view?.proofOf(row.receiptHash) ?? null
  return {
    receipt_hash: row.receiptHash,
    status: row.status,
    received_at: isoTime(row.createdAt),
    batch_id: row.batchId,
    pending_root: view?.pendingRoot ?? null,
    proof: proof === null ? null : [...proof],
  }
}

/** The facts as they were hashed. */
const factsOf = (row: ReceiptRow): CustomerReceipt['receipt'] => JSON.parse(receiptText(factsOfRow(row)))

/** Checked when it was kept. */
const besideOf = ({ nodeReceipt }: ReceiptRow): CustomerReceipt['node_receipt'] =>
  nodeReceipt === null ? null : JSON.parse(nodeReceipt)

async function cutoffOf({ gateway }: HttpContext, logged: LoggedEntry) {
  const found = await gateway.publicLog.cutoff(logged)
  if (found === null) return null
  const { size, root, unsigned, unsignedHash } = found.facts
  return { size, root, unsigned, unsigned_hash: unsignedHash, proof: found.proof.map(encodeBase64) }
}

const logView = async (context: HttpContext, row: ReceiptRow, logged: LoggedEntry) => ({
  index: logged.index,
  size: logged.size,
  signature_ed25519: logged.signature,
  logged_at: logged.takenAt === null ? null : isoTime(logged.takenAt),
  log_proof: proofTextOf(logged),
  ...(row.issuer === 'node' && row.signatureEd25519 === null ? { cutoff: await cutoffOf(context, logged) } : {}),
})

async function wholeReceipt(context: HttpContext, row: Awaited<ReturnType<typeof receiptOf>>) {
  const logged = await context.gateway.publicLog.inclusion(row.receiptHash)
  const signed = row.signatureEd25519 !== null || row.nodeReceipt !== null
  return {
    object: `${brand}.receipt` as const,
    ...(await inclusionOf(context, row)),
    billed: row.billed,
    receipt: factsOf(row),
    signature_ed25519: row.signatureEd25519,
    ...(row.issuer === 'gateway' ? { node_key: row.identityKey === null ? null : toBase64url(row.identityKey) } : {}),
    public_key: signed && row.identityKey !== null ? toBase64url(row.identityKey) : null,
    node_receipt: besideOf(row),
    log: logged === null ? null : await logView(context, row, logged),
  }
}

/** Proves to anybody that a billed receipt is below the public root (§14). */
const publicProofRoute = (context: HttpContext) =>
  new Elysia().use(publicReads(context, 'own')).get(
    '/v1/public/receipts/:receipt_hash',
    async ({ params: { receipt_hash: hash } }) => {
      const row = await receiptOf(context, hash)
      // A receipt of free work is only for its owner.
      if (!row.billed) throw new Problem('receipt_not_found')
      return { object: `${brand}.receipt_proof` as const, ...(await inclusionOf(context, row)) }
    },
    {
      params,
      response: { 200: ReceiptProof },
      detail: {
        ...describe({
          summary: 'Prove that a receipt is below the public root',
          description:
            'For receipts of billed work. `pending_root` and `proof` are null while the receipt is on hold and when it is in a batch.',
          tags: ['Money (extension)'],
        }),
        security: [],
      },
    },
  )

/** The whole receipt for the customer whose work it was, free or billed. */
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
          summary: 'Read one of your receipts, for `verify receipt`',
          description: 'The answer has the hashed facts, the node’s signature and the proof below the public root.',
          tags: ['Money (extension)'],
        }),
        security: [{ CustomerId: [], CustomerToken: [] }],
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
