import { expect, test } from 'bun:test'
import { signingKey } from '../../../src/protocol/signing/ed25519.ts'
import { webhookPublicKey, webhookSignature } from '../../../src/protocol/signing/webhook-signature.ts'

const seed = Uint8Array.from({ length: 32 }, (_, i) => 0x11 + i)
const body =
  '{"type":"private_job.completed","timestamp":"2026-11-20T16:00:00.000Z","data":{"job_id":"job_0001","node_id":"node_0001","model_id":"llama-3.1-8b","status":"completed","receipt_hash":null,"created_at":"2026-11-20T15:59:00.000Z","completed_at":"2026-11-20T16:00:00.000Z"}}'

test('§20: the vector of a signed webhook, asymmetric and symmetric', () => {
  const key = signingKey(seed)
  expect(webhookPublicKey(key)).toBe('whpk_7VSln7GsOlEjk1E2KUG4aOhaYOPXskhdgogh3Hppwnk=')
  const webhook = { webhookId: 'msg_job_0001', timestamp: 1_763_654_400, body }
  const secret = 'whsec_MTIzNDU2Nzg5Ojs8PT4/QEFCQ0RFRkdISUpLTE1OT1A='
  expect(webhookSignature(webhook, [key], [secret])).toBe(
    'v1a,aiXiqb5sdqxECGUeJwfsvkWTsqYKZH+VOrd7TNFiQlcZbDyvbQJkuKpu8yxqPIBL6jtro+xim4Co8adeXP3JDw== v1,xpeCx2LfRkY0LCmsPaIH6m/09+liPwr5GyoRPnUjJtY=',
  )
})
