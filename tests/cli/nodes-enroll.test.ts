import { afterAll, beforeAll, expect, test } from 'bun:test'
import { existsSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type FakeNode, startFakeNode } from '../../src/fake-node/fake-node.ts'
import type { EnrollmentTokenIssued } from '../../src/protocol/wire/nodes/enrollment.ts'
import { sha256Hex } from '../../src/secrets.ts'
import { startTestGateway, type TestCustomer, type TestGateway } from '../support/gateways/gateway.ts'
import { firstMatch } from '../support/gateways/gateway-process.ts'
import { nodeOf, untilState } from '../support/nodes/agents.ts'
import { type CommandLine, commandLine } from './command-line.ts'

let gateway: TestGateway
let server: FakeNode
let customer: TestCustomer
let cli: CommandLine
/** The other machine: a home of its own, and Bun under its name. */
let home = ''

beforeAll(async () => {
  gateway = await startTestGateway()
  server = startFakeNode({ models: ['far'] })
  customer = await gateway.customer()
  cli = commandLine({ SVC_BASE_URL: gateway.url, SVC_ADMIN_TOKEN: gateway.tokens.admin })
  home = mkdtempSync(join(tmpdir(), 'penstock-far-'))
  symlinkSync(process.execPath, join(home, 'bun'))
})
afterAll(async () => {
  cli?.close()
  server?.stop()
  rmSync(home, { recursive: true, force: true })
  await gateway?.stop()
})

type Issued = EnrollmentTokenIssued & { readonly line: string }
const enroll = (...more: string[]) =>
  cli.json<Issued>('nodes', 'enroll', 'shed', '--customer', customer.customerId, ...more)
const paste = (line: string) =>
  Bun.spawn(['sh', '-c', `exec ${line}`], {
    env: { HOME: home, PATH: `${home}:${process.env.PATH}` },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
/** As somebody would change the line whose model server is not where the agent looks by itself. */
const beside = (line: string) =>
  line.replace(' --token ', ` --listen 127.0.0.1:0 --no-discover --runtime ${server.url} --token `)

test('§22: the pasted line fetches the agent, checks it, starts it, and the machine serves chats', async () => {
  const made = await enroll('--reason', 'new machine')
  const agent = paste(beside(made.line))
  const [, nodeId = ''] = await firstMatch(agent.stdout, /This node is (node_\w+)/)
  await untilState(gateway, nodeId, 'ready')
  expect(await nodeOf(gateway, nodeId)).toMatchObject({ kind: 'agent', name: 'shed', transport: 'tunnel' })
  const file = readFileSync(join(home, '.local/share/penstock/agent.mjs'))
  expect(sha256Hex(file)).toBe(made.agent.sha256)
  const answer = await gateway.chat(customer.key, { model: 'far', messages: [{ role: 'user', content: 'x' }] })
  expect(answer.status).toBe(200)
  const shown = await cli.run(['nodes', 'show', nodeId])
  expect(shown.out).toMatch(/Reached by +tunnel/)
  expect(shown.out).toMatch(/Identity +SHA256:/)
  expect(shown.out).toMatch(/far +far +yes/)
  expect(shown.out).toMatch(/other +ready .* lexical\/bm25/)
  expect((await cli.run(['nodes', 'list'])).out).toMatch(new RegExp(`${nodeId} +shed +ready .*tunnel`))
  expect((await cli.run(['nodes', 'tokens'])).out).toMatch(new RegExp(`${made.token_id} +shed +used .*${nodeId}`))
  expect((await cli.run(['nodes', 'drain', nodeId])).code).toBe(0)
  expect((await cli.run(['nodes', 'list'])).out).toMatch(new RegExp(`${nodeId} +shed +live, drained`))
  expect((await cli.run(['nodes', 'resume', nodeId])).code).toBe(0)
  expect((await cli.run(['nodes', 'list'])).out).toMatch(new RegExp(`${nodeId} +shed +ready`))
  agent.kill('SIGTERM')
  expect(await agent.exited).toBe(0)
})

test('§22: without Bun on the machine npm fetches it, and the agent stands in no shadow of npx', async () => {
  const made = await enroll()
  const tools = mkdtempSync(join(tmpdir(), 'penstock-npx-'))
  for (const tool of ['sh', 'mkdir', 'curl', 'sha256sum', 'mv']) symlinkSync(Bun.which(tool) ?? '', join(tools, tool))
  // In the place of npm's registry: the folder that it would have filled.
  const npx =
    '#!/bin/sh\n[ "$1 $2 $4" = "-y -p -c" ] && case "$3" in bun@*) PATH="$FETCHED:$PATH" exec sh -c "$5";; esac\n'
  writeFileSync(join(tools, 'npx'), npx, { mode: 0o755 })
  const agent = Bun.spawn(['sh', '-c', `exec ${beside(made.line)}`], {
    env: { HOME: join(tools, 'home'), PATH: tools, FETCHED: home },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const [, nodeId = ''] = await firstMatch(agent.stdout, /This node is (node_\w+)/)
  await untilState(gateway, nodeId, 'ready')
  agent.kill('SIGTERM')
  expect(await agent.exited).toBe(0)
  await untilState(gateway, nodeId, 'stale')

  rmSync(join(tools, 'npx'))
  const without = Bun.spawn(['sh', '-c', (await enroll()).line], {
    env: { HOME: join(tools, 'home'), PATH: tools },
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  expect(await without.exited).toBe(1)
  expect(await new Response(without.stderr).text()).toContain('Bun, or Node with npm')
  rmSync(tools, { recursive: true })
})

test('§22: what is not the very agent that the line speaks of is not started', async () => {
  const other = mkdtempSync(join(tmpdir(), 'penstock-other-'))
  const made = await enroll()
  const refused = Bun.spawn(['sh', '-c', made.line.replace(made.agent.sha256, '0'.repeat(64))], {
    env: { HOME: other, PATH: `${home}:${process.env.PATH}` },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  expect(await refused.exited).toBe(1)
  expect(await new Response(refused.stderr).text()).toContain('not the agent that this command expects')
  expect(existsSync(join(other, '.local/share/penstock/agent.mjs'))).toBe(false)
  rmSync(other, { recursive: true })
})

test('§24: the line is the last thing printed, with a warning when another machine cannot follow it', async () => {
  const { code, out, err } = await cli.run(['nodes', 'enroll', 'shed', '--customer', customer.customerId])
  expect(code).toBe(0)
  expect(out.trimEnd().split('\n').at(-1)).toMatch(/^sh -c 'set -e; .*'$/)
  expect(err).toContain('SVC_PUBLIC_URL')
})

test('§24: a token can be withdrawn, and an unknown one is a clear error', async () => {
  const made = await enroll('--visibility', 'public', '--direct')
  expect(made).toMatchObject({ visibility: 'public', endpoint_url_allowed: true })
  expect(await cli.json('nodes', 'withdraw', made.token_id)).toEqual({ token_id: made.token_id, withdrawn: true })
  const again = await cli.run(['nodes', 'withdraw', made.token_id])
  expect(again.code).not.toBe(0)
  expect(again.err).toContain('No such enrolment token')
})
