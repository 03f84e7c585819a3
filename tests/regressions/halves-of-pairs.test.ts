import { expect, test } from 'bun:test'
import { startFakeNode } from '../../src/fake-node/fake-node.ts'
import { Binding } from '../../src/protocol/receipts/binding.ts'
import { textHash } from '../../src/protocol/receipts/receipt.ts'
import { verifyEd25519 } from '../../src/protocol/signing/ed25519.ts'
import { verifyReceipt } from '../../src/protocol/verify/receipt.ts'
import { startTestGateway } from '../support/gateways/gateway.ts'
import { fixture } from '../support/run/fixture.ts'

// RFC 8785 has no form for half of a surrogate pair; it was committed to as an escape that no other implementation writes.
const gateway = await fixture(startTestGateway())
const customer = await gateway.customer()
const node = await fixture(startFakeNode({ models: ['m'] }))
await gateway.node(node.url, { customerId: customer.customerId })

const ask = (content: string, nonce: Record<string, string>) =>
  fetch(`${gateway.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${customer.key}`, 'content-type': 'application/json', ...nonce },
    body: `{"model":"m","messages":[{"role":"user","content":"${content}"}]}`,
  })
const bound = { 'x-svc-nonce': 'nonce-of-client-1' }

test('§31: a request with half of a surrogate pair is refused where its receipt would commit to it, and only there', async () => {
  const refused = await ask('a \\ud83d b', bound)
  expect(refused.status).toBe(400)
  expect(((await refused.json()) as { error: { code: string } }).error.code).toBe('invalid_parameter')
  expect((await ask('a \\ud83d\\ude00 b', bound)).status).toBe(200)
  expect((await ask('a \\ud83d b', {})).status).toBe(200)
})

test('§31: an answer with half of a surrogate pair has no commitment', () => {
  const binding = Binding.of('nonce-of-client-1', {})
  const choices = (content: string) => [{ index: 0, finish_reason: 'stop', message: { content } }]
  expect(binding.facts('m', choices('\ud83d')).responseCommitment).toBeNull()
  expect(binding.facts('m', choices('\ud83d\ude00')).responseCommitment).not.toBeNull()
})

test('§31: a receipt with half of a surrogate pair is not valid, though its hash is that of the escape', () => {
  const receipt = { v: 'svc-receipt-v1', issuer: 'node', model_id: '\ud83d' }
  const hash = textHash('{"issuer":"node","model_id":"\\ud83d","v":"svc-receipt-v1"}')
  const trust = { logKeys: [], witnessKeys: [], nodeKeys: [], auditKeys: [], witnessesMin: 0, logNeeded: false }
  const known = { ...trust, remembered: () => [], verify: verifyEd25519 }
  const { checks, valid } = verifyReceipt({ object: 'svc.receipt', receipt, receipt_hash: hash }, known)
  expect([valid, checks.find(({ name }) => name === 'hash')?.ok]).toEqual([false, false])
})
