import { expect, test } from 'bun:test'
import { payoutProofsMessage } from '../../../src/http/routes/node-payouts.ts'
import { fromHex, MerkleTree, payoutLeafOf, toHex, verifyProof } from '../../../src/protocol/receipts/merkle.ts'
import { signingKey } from '../../../src/protocol/signing/ed25519.ts'
import { json, startTestGateway, stillLog } from '../../support/gateways/http-gateway.ts'
import { payee, writtenBooks } from '../../support/money/tampering.ts'
import { fixture } from '../../support/run/fixture.ts'

interface Proof {
  readonly payout_id: string
  readonly entry_id: string
  readonly payee: string
  readonly amount_wei: string
  readonly leaf: string
  readonly proof: string[]
  readonly merkle_root: string
}

const gateway = await fixture(startTestGateway(stillLog))
const books = await writtenBooks(gateway)

const key = signingKey(new Uint8Array(32).fill(5))
const proofsOf = (signer = key, nonce = crypto.randomUUID().replaceAll('-', '')) => {
  const signedAt = new Date().toISOString()
  const message = payoutProofsMessage({ nodeId: 'node_a', signedAt, nonce })
  const query = new URLSearchParams({ signed_at: signedAt, nonce, signature_ed25519: signer.sign(message) })
  return gateway.ask('GET', `/v1/nodes/node_a/payouts/proofs?${query}`)
}

test('§31: the leaves of a batch are public, their ids are receipts, and they make its root', async () => {
  const body = await json(await gateway.ask('GET', `/v1/public/payout-batches/${books.batchId}/leaves`))
  const proofs = body.proofs as unknown as Proof[]
  expect(proofs.map(({ payout_id }) => payout_id).sort()).toEqual(books.hashes.slice(0, 3).sort())
  const leaves = proofs.map((one) =>
    payoutLeafOf({ receiptHash: one.payout_id, entryId: '', payee: one.payee, amountWei: BigInt(one.amount_wei) }),
  )
  expect(leaves.map(toHex)).toEqual(proofs.map(({ leaf }) => leaf))
  expect(MerkleTree.of(leaves).root()).toBe(String(body.merkle_root))
  for (const one of proofs) expect(verifyProof(fromHex(one.leaf, 32), one.proof, one.merkle_root)).toBe(true)
  const none = await gateway.ask('GET', '/v1/public/payout-batches/bat_none/leaves')
  expect([none.status, (await json(none)).code]).toEqual([404, 'batch_not_found'])
})

test('§31: a node gets its proofs by its own signature, once for each', async () => {
  const body = await json(await proofsOf())
  expect(body).toMatchObject({ object: 'svc.payout_proofs', node_id: 'node_a', count: 3 })
  expect((await json(await proofsOf(signingKey(new Uint8Array(32).fill(6))))).code).toBe('signature_invalid')
  const nonce = 'n'.repeat(22)
  expect((await proofsOf(key, nonce)).status).toBe(200)
  expect((await json(await proofsOf(key, nonce))).code).toBe('nonce_reused')
  expect((await json(await gateway.ask('GET', '/v1/nodes/node_a/payouts/proofs'))).code).toBe('missing_credentials')
})

test('§31: the payee is the one of the earning, whatever the address of the node is later', async () => {
  await gateway.database.sql`update nodes set payout_address = ${`0x${'99'.repeat(20)}`} where node_id = 'node_a'`
  const built = await json(await gateway.ask('POST', '/v1/admin/payout-batches', { as: 'admin', json: {} }))
  const { batch_id } = built.batch as { batch_id: string }
  const { proofs } = await json(await gateway.ask('GET', `/v1/public/payout-batches/${batch_id}/leaves`))
  expect((proofs as unknown as Proof[]).map((one) => one.payee)).toEqual([payee, payee])
})
