import { expect, test } from 'bun:test'
import type { Socket } from 'bun'
import type { SealedNodeList } from '../../../src/protocol/wire/inference/sealed.ts'
import { sealed } from '../../support/clients/sealed-call.ts'
import { startTestGateway } from '../../support/gateways/gateway.ts'
import { enrollmentToken, startAgent, untilState } from '../../support/nodes/agents.ts'
import { nodeChunk, startScriptedNode } from '../../support/nodes/scripted-node.ts'
import { patientTimes } from '../../support/pools/sealed-pool.ts'
import { fixture } from '../../support/run/fixture.ts'
import { waitFor } from '../../support/run/wait-until.ts'

const MiB = 1024 * 1024
/** What sockets, tunnel, agent and gateway may hold on the way of one stream. */
const heldBytesMax = 48 * MiB
const piece = `data: ${JSON.stringify(nodeChunk({ content: 'x'.repeat(60 * 1024) }))}\n\n`

const gateway = await fixture(startTestGateway({ env: { SVC_SLOW_CLIENT_TIMEOUT_MS: '1000' } }))
const customer = await gateway.customer()
const node = await fixture(startScriptedNode('m'))
const { enrollment_token: token } = await enrollmentToken(gateway, customer.customerId)
const agent = await fixture(
  startAgent({ gatewayUrl: gateway.url, token, runtimes: [node.url], runtimeTimes: patientTimes }),
)
await untilState(gateway, agent.nodeId, 'ready')

/** Sends one sealed request on a bare socket, and reads nothing of its answer. */
async function deaf(): Promise<Socket> {
  const authorization = `Bearer ${customer.key}`
  const response = await fetch(`${gateway.url}/v1/sealed/nodes?model=m`, { headers: { authorization } })
  const [listed] = ((await response.json()) as SealedNodeList).data
  const [key] = listed?.keys ?? []
  if (key === undefined) throw new Error('the node offers no key')
  const messages = [{ role: 'user', content: 'hi' }]
  const { enc, bytes } = await sealed(key, { model: 'm', stream: true, messages })
  const { hostname, port, host } = new URL(gateway.url)
  const socket = await Bun.connect({ hostname, port: Number(port), socket: { data: () => {}, error: () => {} } })
  const head = [
    `POST /v1/sealed/nodes/${agent.nodeId}/chat/completions HTTP/1.1`,
    `Host: ${host}`,
    `Authorization: ${authorization}`,
    'X-SVC-Model: m',
    `Ehbp-Encapsulated-Key: ${Buffer.from(enc).toString('hex')}`,
    `Content-Length: ${bytes.length}`,
  ]
  socket.pause()
  socket.write(Buffer.concat([Buffer.from(`${head.join('\r\n')}\r\n\r\n`), bytes]))
  return socket
}

test('§38: a client that reads nothing holds back its node, and is cut off', async () => {
  const arriving = node.next()
  const socket = await deaf()
  const call = await arriving
  call.open()
  let gone = false
  void call.gone.then(() => {
    gone = true
  })
  let written = 0
  while (!gone && written <= heldBytesMax) {
    await Promise.race([call.raw(piece), call.gone])
    written += piece.length
  }
  await call.gone
  expect(written).toBeLessThan(heldBytesMax)
  const record = await waitFor('the record', async () => {
    type Listed = { readonly requests: readonly Readonly<Record<string, unknown>>[] }
    const path = `/v1/admin/requests?customer_id=${customer.customerId}`
    return (await gateway.admin<Listed>('GET', path)).requests[0]
  })
  expect(record).toMatchObject({ operation: 'sealed_chat', status: 499 })
  socket.end()
})
