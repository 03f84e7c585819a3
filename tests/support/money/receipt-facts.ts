import { newId } from '../../../src/ids.ts'
import type { Receipt } from '../../../src/protocol/receipts/receipt.ts'

/** What a plain receipt of a chat says, but for what `more` changes. */
export const receiptFacts = (more: Partial<Receipt> = {}): Receipt => ({
  issuer: 'gateway',
  requestId: newId('req'),
  jobId: null,
  kind: 'hosted_chat',
  nodeId: 'node_a',
  nodeClass: 'gpu',
  runtimeId: 'rt_a',
  runtimeKind: 'vllm',
  modelId: 'm',
  promptTokens: 9,
  completionTokens: 7,
  startedAt: '2026-11-20T15:59:59.000Z',
  completedAt: '2026-11-20T16:00:00.000Z',
  ...more,
})
