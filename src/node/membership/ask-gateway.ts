import { Value } from '@sinclair/typebox/value'
import { headers } from '../../brand.ts'
import { foreignAnswer } from '../../protocol/json/foreign-json.ts'
import type { SigningKey } from '../../protocol/signing/ed25519.ts'
import { keyVerifyMessage, newNonce } from '../../protocol/signing/signatures.ts'
import { KeyVerifyResponse } from '../../protocol/wire/nodes/agent.ts'
import { secondMs } from '../../time.ts'
import type { AskGateway } from '../access/gateway-keys.ts'

const keyVerifyPath = '/v1/node-agent/keys/verify'
const answerTimeoutMs = 5_000
/** A verdict, or a refusal, and room to spare. */
const answerBytesMax = 64 * 1024

export interface AskGatewayOptions {
  readonly gatewayUrl: string
  readonly nodeId: string
  readonly identity: SigningKey
}

/** Asks the gateway, in this node's name, whether a gateway key may be used here (§12). */
export function createAskGateway({ gatewayUrl, nodeId, identity }: AskGatewayOptions): AskGateway {
  return async (key, model, signal) => {
    const body = JSON.stringify({ gateway_key: key, model })
    const timestamp = Math.floor(Date.now() / secondMs)
    const nonce = newNonce()
    const response = await fetch(gatewayUrl + keyVerifyPath, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        [headers.nodeId]: nodeId,
        [headers.nodeTimestamp]: String(timestamp),
        [headers.nodeNonce]: nonce,
        [headers.nodeSignature]: identity.sign(keyVerifyMessage(nodeId, timestamp, nonce, body)),
      },
      body,
      redirect: 'error',
      signal: AbortSignal.any([signal, AbortSignal.timeout(answerTimeoutMs)]),
    })
    const answer = await foreignAnswer(response, answerBytesMax)
    if (response.status !== 200 || !Value.Check(KeyVerifyResponse, answer)) throw new Error('no verdict')
    return answer.valid
  }
}
