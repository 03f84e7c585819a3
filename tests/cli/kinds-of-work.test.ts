import { expect, test } from 'bun:test'
import type { Node } from '../../src/protocol/wire/admin/admin.ts'
import type { AdminModelList } from '../../src/protocol/wire/admin/catalogue.ts'
import { startTestGateway } from '../support/gateways/gateway.ts'
import { startScriptedNode } from '../support/nodes/scripted-node.ts'
import { fixture } from '../support/run/fixture.ts'
import { commandLine } from './command-line.ts'

const gateway = await fixture(startTestGateway())
const cli = await fixture(commandLine({ SVC_BASE_URL: gateway.url, SVC_ADMIN_TOKEN: gateway.tokens.admin }))
const customer = (await gateway.customer()).customerId
const node = await fixture(startScriptedNode('foo'))

const shown = (id: string) => gateway.admin<Node>('GET', `/v1/admin/nodes/${id}`)
const kindsOf = ({ runtimes }: Node) => runtimes.flatMap(({ models }) => models.map(({ serves }) => serves))

test('§35: nodes add and set declare what models do, of the whole node or of one model, and take it back', async () => {
  const added = await cli.json<Node>('nodes', 'add', node.url, '--customer', customer, '--serves', 'rerank')
  expect([added.serves, kindsOf(added)]).toEqual([{ '*': ['rerank'] }, [['rerank']]])
  const id = added.node_id
  const set = await cli.run(['nodes', 'set', id, '--serves', 'foo=chat,embedding', '--serves', 'rerank'])
  expect(set.err).toBe('')
  expect(set.out).toMatch(/Declared work +rerank foo=chat,embedding/)
  expect(set.out).toMatch(/foo +foo +chat, embedding +/)
  expect((await shown(id)).serves).toEqual({ foo: ['chat', 'embedding'], '*': ['rerank'] })
  await cli.run(['nodes', 'set', id, '--serves', 'none'])
  expect([(await shown(id)).serves, kindsOf(await shown(id))]).toEqual([null, [['chat']]])
})

test('§35: models set declares it in the catalogue, and takes it back', async () => {
  const entry = async () =>
    (await gateway.admin<AdminModelList>('GET', '/v1/admin/models')).models.find(({ id }) => id === 'foo')
  const set = await cli.run(['models', 'set', 'foo', '--serves', 'rerank,chat'])
  expect(set.out).toMatch(/Serves +rerank, chat/)
  expect((await entry())?.serves).toEqual(['rerank', 'chat'])
  await cli.run(['models', 'set', 'foo', '--name', 'Foo'])
  expect((await entry())?.serves).toEqual(['rerank', 'chat'])
  await cli.run(['models', 'set', 'foo', '--serves', 'none'])
  expect((await entry())?.serves).toBeNull()
})

test.each([
  ['nodes set x --serves dancing', '"dancing" is no kind of work'],
  ['nodes set x --serves foo=chat,chat', '"chat" is no kind of work, or stands there twice'],
  ['nodes add 127.0.0.1:9 --serves foo=', '"" is no kind of work'],
  ['models set foo --serves chat,', '"" is no kind of work'],
])('§35: %s is refused with what it could be', async (line, says) => {
  const { code, err } = await cli.run([...line.split(' ')])
  expect(code).toBe(2)
  expect(err).toContain(says)
  expect(err).toContain('KIND is one of chat, embedding, rerank, audio, image')
})
