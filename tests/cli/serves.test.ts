import { afterAll, beforeAll, expect, test } from 'bun:test'
import type { AdminModelList } from '../../src/protocol/wire/admin/admin.ts'
import { startTestGateway, type TestCustomer, type TestGateway } from '../support/gateways/gateway.ts'
import { type ScriptedNode, startScriptedNode } from '../support/nodes/scripted-node.ts'
import { type CommandLine, commandLine } from './command-line.ts'

let gateway: TestGateway
let customer: TestCustomer
let node: ScriptedNode
let cli: CommandLine
beforeAll(async () => {
  gateway = await startTestGateway()
  customer = await gateway.customer()
  node = startScriptedNode('quiet-judge')
  cli = commandLine({ SVC_BASE_URL: gateway.url, SVC_ADMIN_TOKEN: gateway.tokens.admin })
})
afterAll(async () => {
  node.stop()
  await gateway.stop()
})

const entryOf = async (id: string) =>
  (await gateway.admin<AdminModelList>('GET', '/v1/admin/models')).models.find((model) => model.id === id)

test('§35: `nodes add --serves` says what the models of a new node are for; `models set --serves` says it of any', async () => {
  const added = await cli.run(['nodes', 'add', node.url, '--customer', customer.customerId, '--serves', 'rerank'])
  expect([added.code, added.err]).toEqual([0, ''])
  expect(await entryOf('quiet-judge')).toMatchObject({ in_catalogue: true, serves: ['rerank'] })
  const set = await cli.run(['models', 'set', 'quiet-judge', '--name', 'Judge', '--serves', 'chat, rerank'])
  expect(set.code).toBe(0)
  expect(set.out).toMatch(/^For +chat, rerank$/m)
  expect(await entryOf('quiet-judge')).toMatchObject({ name: 'Judge', serves: ['chat', 'rerank'] })
  expect((await cli.run(['models', 'set', 'quiet-judge', '--serves', 'none'])).code).toBe(0)
  expect(await entryOf('quiet-judge')).toMatchObject({ name: 'Judge', serves: null })
})

test('§35: a word that names no work is refused before anything is registered or changed', async () => {
  const other = startScriptedNode('other')
  try {
    const added = await cli.run(['nodes', 'add', other.url, '--customer', customer.customerId, '--serves', 'ranking'])
    expect(added.code).toBe(2)
    expect(added.err).toContain('--serves takes chat, embedding, rerank, audio, image, with commas between')
    expect(await entryOf('other')).toBeUndefined()
    expect((await cli.run(['models', 'set', 'quiet-judge', '--serves', ''])).code).toBe(2)
    expect(await entryOf('quiet-judge')).toMatchObject({ serves: null })
  } finally {
    other.stop()
  }
})

test('§35: a server that has named no model yet is registered, and it is said that nothing was declared', async () => {
  const url = 'http://127.0.0.1:9'
  const added = await cli.run([
    ...['nodes', 'add', url, '--anyway', '--customer', customer.customerId, '--serves', 'rerank'],
  ])
  expect(added.code).not.toBe(0)
  expect(added.err).toContain('./penstock models set MODEL --serves rerank')
})
