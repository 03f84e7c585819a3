import { afterAll, expect, test } from 'bun:test'
import { startFakeNode } from '../../src/fake-node/fake-node.ts'
import type { AdminRequest } from '../../src/protocol/wire/admin/requests.ts'
import { startTestGateway, waitFor } from '../support/gateways/gateway.ts'
import { fixture } from '../support/run/fixture.ts'
import { commandLine } from './command-line.ts'

const node = startFakeNode({ models: ['llama'] })
afterAll(() => {
  node.stop()
})
const gateway = await fixture(startTestGateway())
const customer = await gateway.customer()
const key = customer.key
const cli = await fixture(commandLine({ SVC_BASE_URL: gateway.url, SVC_ADMIN_TOKEN: gateway.tokens.viewer }))
await gateway.node(node.url, { customerId: customer.customerId })

const chat = async (model: string) => {
  const answer = await gateway.chat(key, { model, messages: [{ role: 'user', content: 'kept secret' }] })
  await answer.text()
  return answer.headers.get('x-request-id') ?? ''
}

test('§32: logs shows the requests as lines to read in a terminal, as JSON when piped, and follows', async () => {
  const first = await chat('llama')
  const refused = await chat('no-such-model')
  await waitFor('both rows', async () => (await cli.run(['logs'])).out.includes(refused))
  const piped = await cli.run(['logs', '--lines', '2'])
  const rows = piped.out
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as AdminRequest)
  expect(rows.map(({ request_id, status }) => [request_id, status])).toEqual([
    [first, 200],
    [refused, 404],
  ])
  const person = cli.inTerminal(['logs', '-f', '--lines', '1'])
  await waitFor('the refused one', () => person.text().includes(refused))
  expect(person.text()).toMatch(/\d\d:\d\d:\d\d {2}.*404.* chat .* model_not_found/)
  expect(person.text()).not.toContain(first)
  const later = await chat('llama')
  await waitFor('what came later', () => person.text().includes(later))
  expect(person.text()).toMatch(/200.* chat +llama .* ms/)
  expect(person.text()).not.toContain('kept secret')
  person.type('\u0003')
  expect(await person.exited).toBe(0)
})
