import { createConnection } from 'node:net'
import type { SigningKey } from '../../../src/protocol/signing/ed25519.ts'
import { newNonce, tunnelMessage } from '../../../src/protocol/signing/signatures.ts'

/** How an agent of another make greets: by the published text alone. */
export function helloHeaders(
  identity: SigningKey,
  nodeId: string,
  routerKid: string,
  { timestamp = Math.floor(Date.now() / 1_000), nonce = newNonce() }: { timestamp?: number; nonce?: string } = {},
): Record<string, string> {
  return {
    'x-svc-node-id': nodeId,
    'x-svc-node-timestamp': String(timestamp),
    'x-svc-node-nonce': nonce,
    'x-svc-node-signature': identity.sign(tunnelMessage(nodeId, timestamp, nonce, routerKid)),
  }
}

export const handshake = {
  upgrade: 'websocket',
  connection: 'Upgrade',
  'sec-websocket-version': '13',
  'sec-websocket-key': 'AAAAAAAAAAAAAAAAAAAAAA==',
  'sec-websocket-protocol': 'svc-tunnel-v1',
}

export interface HelloAnswer {
  readonly status: number
  readonly headers: string
  /** Of a refusal; empty after an upgrade. */
  readonly body: string
}

/** The answer to a request that asks for an upgrade; an upgraded connection is closed again. */
export function greet(gatewayUrl: string, headers: Readonly<Record<string, string>>): Promise<HelloAnswer> {
  const { hostname, port } = new URL(gatewayUrl)
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`)
  return new Promise((resolve, reject) => {
    let text = ''
    const socket = createConnection(Number(port), hostname, () => {
      socket.write(`GET /v1/node-agent/tunnel HTTP/1.1\r\nhost: ${hostname}:${port}\r\n${lines.join('')}\r\n`, 'latin1')
    })
    socket.on('error', reject)
    socket.on('close', () => reject(new Error('closed without an answer')))
    socket.on('data', (bytes) => {
      text += bytes.toString('latin1')
      const end = text.indexOf('\r\n\r\n')
      const length = Number(/content-length: (\d+)/i.exec(text)?.[1] ?? 0)
      if (end === -1 || text.length < end + 4 + length) return
      const status = Number(text.slice(9, 12))
      resolve({ status, headers: text.slice(0, end).toLowerCase(), body: text.slice(end + 4, end + 4 + length) })
      socket.destroy()
    })
  })
}
