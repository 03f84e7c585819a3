import { expect, test } from 'bun:test'
import { sign } from 'node:crypto'
import fc from 'fast-check'
import { canonicalJson } from '../../../src/protocol/json/canonical-json.ts'
import { type Receipt, receiptHash, receiptText } from '../../../src/protocol/receipts/receipt.ts'

const vector: Receipt = {
  issuer: 'gateway',
  requestId: 'req_0001',
  jobId: null,
  kind: 'hosted_chat',
  nodeId: 'node_0001',
  nodeClass: 'gpu',
  runtimeId: 'rt_0001',
  runtimeKind: 'llama.cpp',
  modelId: 'llama-3.1-8b',
  promptTokens: 9,
  completionTokens: 7,
  startedAt: '2026-11-20T15:59:59.000Z',
  completedAt: '2026-11-20T16:00:00.000Z',
}

test('§20: the receipt vector: text, hash and the signature over both', () => {
  expect(receiptText(vector)).toBe(
    '{"completed_at":"2026-11-20T16:00:00.000Z","completion_tokens":7,"issuer":"gateway","job_id":null,"kind":"hosted_chat","model_id":"llama-3.1-8b","node_class":"gpu","node_id":"node_0001","prompt_tokens":9,"request_id":"req_0001","runtime_id":"rt_0001","runtime_kind":"llama.cpp","started_at":"2026-11-20T15:59:59.000Z","v":"svc-receipt-v1"}',
  )
  const hash = receiptHash(vector)
  expect(hash).toBe('0x80feff6b906f818df58d817d3b15909864e6e83cbe2b1815bcb390399ede7466')
  const seed = Buffer.from(Array.from({ length: 32 }, (_, i) => 0x11 + i))
  const key = {
    key: Buffer.concat([Buffer.from('302e020100300506032b657004220420', 'hex'), seed]),
    format: 'der',
    type: 'pkcs8',
  } as const
  const message = Buffer.concat([Buffer.from('svc-receipt-v1:'), Buffer.from(hash.slice(2), 'hex')])
  expect(sign(null, message, key).toString('base64url')).toBe(
    'qiBYi8Bjfv6LyVO6CPdVG5onJrvqFzWQ-QajquE7Qzbw3bJjo3egWayTYVjH8sKuUW6JtYhiWLD-EfUqdDnfAA',
  )
})

test('§14: the text of any receipt is its canonical JSON', () => {
  const text = fc.string({ unit: 'binary', maxLength: 40 })
  const count = fc.nat(2_147_483_647)
  const receipts: fc.Arbitrary<Receipt> = fc.record({
    issuer: fc.constantFrom('node', 'gateway'),
    requestId: text,
    jobId: fc.option(text),
    kind: fc.constantFrom('hosted_chat', 'private_job'),
    nodeId: text,
    nodeClass: text,
    runtimeId: text,
    runtimeKind: text,
    modelId: text,
    promptTokens: count,
    completionTokens: count,
    startedAt: text,
    completedAt: text,
  })
  fc.assert(
    fc.property(receipts, (receipt) => {
      expect(receiptText(receipt)).toBe(canonicalJson(JSON.parse(receiptText(receipt))))
      expect(receiptHash(receipt)).toMatch(/^0x[0-9a-f]{64}$/)
    }),
  )
})

test('§14: every fact changes the hash', () => {
  const changes: readonly Partial<Receipt>[] = [
    { issuer: 'node' },
    { requestId: 'req_0002' },
    { jobId: 'job_0001' },
    { kind: 'private_job' },
    { nodeId: 'node_0002' },
    { nodeClass: 'cpu' },
    { runtimeId: 'rt_0002' },
    { runtimeKind: 'vllm' },
    { modelId: 'other' },
    { promptTokens: 10 },
    { completionTokens: 8 },
    { startedAt: vector.completedAt },
    { completedAt: vector.startedAt },
  ]
  expect(changes.map((change) => Object.keys(change)[0] ?? '').sort()).toEqual(Object.keys(vector).sort())
  const hashes = new Set([vector, ...changes.map((change) => ({ ...vector, ...change }))].map(receiptHash))
  expect(hashes.size).toBe(changes.length + 1)
})
