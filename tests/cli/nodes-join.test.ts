import { afterAll, expect, test } from 'bun:test'
import { isOpen } from '../../src/cli/commands/nodes/node-join.ts'
import { startFakeNode } from '../../src/fake-node/fake-node.ts'
import type { WaitingJoinList } from '../../src/protocol/wire/nodes/join.ts'
import { startTestGateway, waitFor } from '../support/gateways/gateway.ts'
import { untilState } from '../support/nodes/agents.ts'
import { fixture, scoped } from '../support/run/fixture.ts'
import { commandLine, type TerminalRun } from './command-line.ts'

/** The operator's. */

/** The other computer. */

const server = startFakeNode({ models: ['far'] })

afterAll(() => {
  server.stop()
})
const gateway = await fixture(startTestGateway({ env: { SVC_PUBLIC_RPM_PER_IP: '100000' } }))
const customer = await gateway.customer()
const cli = await fixture(commandLine({ SVC_BASE_URL: gateway.url, SVC_ADMIN_TOKEN: gateway.tokens.operator }))
const far = await fixture(commandLine())

const agent = ['node', '--no-discover', '--listen', '127.0.0.1:0', '--runtime', server.url]
const wordsOf = (run: TerminalRun) =>
  waitFor('the question', () =>
    run.text().includes('[y/N]') ? /^ +([a-z]+(?: [a-z]+){5})\r?$/m.exec(plain(run)) : null,
  )
const plain = (run: TerminalRun) => run.text().replaceAll(/\u001b\[[0-9;]*m/g, '')

test('§39: `node` shows six words, `nodes join` compares and confirms them, and the computer serves', async () => {
  const run = far.inTerminal([...agent, '--gateway', gateway.url])
  const [, words = ''] = await wordsOf(run)
  const listed = await cli.run(['nodes', 'join'])
  expect(listed.out).toContain(words)
  expect(listed.out).toContain('./penstock nodes join WORDS')
  // Words that nobody has, and too few of them.
  const wrong = await cli.run(['nodes', 'join', 'zoo', 'zoo', 'zoo', 'zoo', 'zoo', 'zoo'])
  expect([wrong.code, wrong.err]).toEqual([1, expect.stringContaining('No computer that waits has these words')])
  const few = await cli.run(['nodes', 'join', ...words.split(' ').slice(0, 5)])
  expect([few.code, few.err]).toEqual([2, expect.stringContaining('all six words')])
  const typed = words.toUpperCase().split(' ')
  const made = await cli.run(['nodes', 'join', ...typed, '--customer', customer.customerId, '--name', 'shed', '--json'])
  expect([made.code, made.err]).toEqual([0, ''])
  expect(JSON.parse(made.out)).toMatchObject({ name: 'shed', kind: 'agent' })
  expect(run.text()).not.toContain('This node is')
  run.type('y\r')
  const [, nodeId = ''] = await waitFor('the node', () => /This node is (node_\w+)/.exec(plain(run)))
  await untilState(gateway, nodeId, 'ready')
  const answer = await gateway.chat(customer.key, { model: 'far', messages: [{ role: 'user', content: 'x' }] })
  expect(answer.status).toBe(200)
  run.type('\u0003')
  expect(await run.exited).toBe(0)
  expect((await cli.run(['nodes', 'join'])).out).toContain('No computer asks to join')
})

const joins = async () => (await gateway.admin<WaitingJoinList>('GET', '/v1/admin/joins')).joins

test('§39: an id is confirmed by a person, or with --yes by who has compared; a refusal reaches the computer', async () => {
  const run = far.inTerminal([...agent, '--gateway', gateway.url, '--data-dir', `${far.home}/second`])
  const [, words = ''] = await wordsOf(run)
  const id = (await joins()).find((one) => one.words === words)?.join_id ?? ''
  const confirm = ['nodes', 'join', id, '--customer', customer.customerId]
  const script = await cli.run(confirm)
  expect([script.code, script.err]).toEqual([2, expect.stringContaining('Type the six words')])
  const person = cli.inTerminal(confirm)
  await waitFor('the question', () => person.text().includes(`Does the other computer show “${words}”?`))
  person.type('n\r')
  expect(await person.exited).toBe(1)
  expect((await joins()).map(({ join_id }) => join_id)).toContain(id)
  expect((await cli.run(['nodes', 'refuse', id])).out).toBe(`Refused ${id}.\n`)
  expect(await run.exited).toBe(1)
  expect(plain(run)).toContain('An operator of the gateway refused this computer.')
  expect((await cli.run([...confirm, '--yes'])).err).toContain('No computer that waits has this id')
})

test('§39: where nobody can compare, nothing is joined, and the gateway forgets the computer', async () => {
  const ended = await far.run([...agent, '--gateway', gateway.url, '--data-dir', `${far.home}/third`])
  expect([ended.code, ended.err]).toEqual([1, expect.stringContaining('nobody compared them')])
  expect(await joins()).toEqual([])
  const wish = await far.run([...agent, '--gateway', gateway.url, '--visibility', 'private'])
  expect([wish.code, wish.err]).toEqual([2, expect.stringContaining('need --token')])
})

test('§39: who says yes to a gateway that announces itself agrees to a connection without TLS only where it has none', () => {
  expect(['http://192.168.1.9:7070', 'http://penstock.local'].map(isOpen)).toEqual([true, true])
  expect(['https://llm.example.com', 'http://127.0.0.1:7070', 'http://localhost:1'].map(isOpen)).toEqual([
    false,
    false,
    false,
  ])
})

test('§39: at a gateway that is not ours the words differ: ours says so, and who says no joins neither', async () => {
  await using neighbour = await scoped(startTestGateway({ env: { SVC_PUBLIC_RPM_PER_IP: '100000' } }))
  const run = far.inTerminal([...agent, '--gateway', neighbour.url, '--data-dir', `${far.home}/strayed`])
  const [, words = ''] = await wordsOf(run)
  const typed = await cli.run(['nodes', 'join', ...words.split(' ')])
  expect([typed.code, typed.err]).toEqual([1, expect.stringContaining('it talks to another gateway')])
  run.type('n\r')
  expect(await run.exited).toBe(1)
  const theirs = await neighbour.admin<WaitingJoinList>('GET', '/v1/admin/joins')
  expect([theirs.joins, await joins()]).toEqual([[], []])
})
