import { expect, test } from 'bun:test'
import { newAccount } from '../../support/gateways/accounts.ts'
import { freePort } from '../../support/gateways/free-port.ts'
import { json, startTestGateway } from '../../support/gateways/http-gateway.ts'
import { fixture } from '../../support/run/fixture.ts'

const ollamaPort = freePort()
const publicUrl = 'https://llm.example.com'

const ask = async (method: string, path: string, body: object) => {
  const response = await gateway.ask(method, `/v1/admin/nodes${path}`, { as: 'operator', json: body })
  return { status: response.status, answer: await json(response) }
}

const gateway = await fixture(
  startTestGateway({ SVC_PUBLIC_URL: publicUrl, SVC_OLLAMA_LISTEN: `127.0.0.1:${ollamaPort}` }),
)
const { id: customerId } = await newAccount(gateway)

test('§23: no node is the gateway itself, whatever its public URL is, and whether it is made or changed', async () => {
  const rest = { customer_id: customerId, visibility: 'private', node_class: 'gpu', privacy_class: 'private' }
  const { answer: made } = await ask('POST', '', { ...rest, url: 'http://127.0.0.1:1' })
  const { port } = new URL(gateway.url)
  const itself = [
    publicUrl,
    `http://127.0.0.1:${port}`,
    `http://localhost:${port}/v1`,
    `http://[::1]:${port}`,
    `http://0.0.0.0:${port}`,
    `http://127.0.0.1:${ollamaPort}`,
  ]
  for (const url of itself) {
    for (const [method, path, body] of [
      ['POST', '', { ...rest, url }],
      ['POST', '/probe', { url }],
      ['PATCH', `/${made.node_id}`, { url }],
    ] as const) {
      const { status, answer } = await ask(method, path, body)
      const detail = 'This is the address of the gateway itself'
      expect([method, path, url, status, answer.detail]).toEqual([method, path, url, 400, detail])
    }
  }
  // Another program of the same computer.
  expect((await ask('PATCH', `/${made.node_id}`, { url: 'http://127.0.0.1:2' })).status).toBe(200)
})
