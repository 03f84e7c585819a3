import { afterAll, expect, test } from 'bun:test'
import { existsSync, mkdtempSync, readFileSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startFakeNode } from '../../src/fake-node/fake-node.ts'
import type { EnrollmentTokenIssued } from '../../src/protocol/wire/nodes/enrollment.ts'
import { sha256Hex } from '../../src/secrets.ts'
import { startTestGateway } from '../support/gateways/gateway.ts'
import { firstMatch } from '../support/gateways/gateway-process.ts'
import { nodeOf, untilState } from '../support/nodes/agents.ts'
import { modelFolder, scriptModel } from '../support/nodes/model-files.ts'
import { fixture } from '../support/run/fixture.ts'
import { commandLine } from './command-line.ts'

/** The other machine: a home of its own, and Bun under its name. */
let home = ''

afterAll(() => {
  rmSync(home, { recursive: true, force: true })
})
const gateway = await fixture(startTestGateway())
const server = await fixture(startFakeNode({ models: ['far'] }))
const customer = await gateway.customer()
const cli = await fixture(commandLine({ SVC_BASE_URL: gateway.url, SVC_ADMIN_TOKEN: gateway.tokens.admin }))
home = mkdtempSync(join(tmpdir(), 'penstock-far-'))
symlinkSync(process.execPath, join(home, 'bun'))

type Issued = EnrollmentTokenIssued & { readonly line: string }
const enroll = (...more: string[]) =>
  cli.json<Issued>('nodes', 'enroll', 'shed', '--customer', customer.customerId, ...more)
const paste = (line: string) =>
  Bun.spawn(['sh', '-c', `exec ${line}`], {
    env: { HOME: home, PATH: `${home}:${process.env.PATH}` },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
/** As somebody would change the line whose model server is not where the agent looks by itself. */
const beside = (line: string) => `${line} --listen 127.0.0.1:0 --no-discover --runtime ${server.url}`

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
  expect(shown.out).toMatch(/far +far +chat +yes/)
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

  // A computer of the gateway's own platform gets the very Bun that the gateway runs on, before npm is asked.
  rmSync(join(tools, 'npx'))
  for (const tool of ['uname', 'chmod']) symlinkSync(Bun.which(tool) ?? '', join(tools, tool))
  const passedOn = await enroll()
  expect(passedOn.bun?.sha256).toBe(sha256Hex(readFileSync(process.execPath)))
  const second = Bun.spawn(['sh', '-c', `exec ${beside(passedOn.line)} --data-dir ${join(tools, 'second')}`], {
    env: { HOME: join(tools, 'home'), PATH: tools },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const [, secondId = ''] = await firstMatch(second.stdout, /This node is (node_\w+)/)
  expect(sha256Hex(readFileSync(join(tools, 'home/.local/share/penstock/bun')))).toBe(passedOn.bun?.sha256 ?? '')
  // An operator's revocation ends it, with a sentence and as an orderly end: a service manager need not start it again.
  await untilState(gateway, secondId, 'ready')
  await cli.json('nodes', 'revoke', secondId)
  expect(await second.exited).toBe(0)
  expect(await new Response(second.stderr).text()).toContain('An operator has revoked or removed this node')
  const locked = await fetch(passedOn.bun?.url ?? '', {
    headers: { authorization: `Bearer ${passedOn.enrollment_token}` },
  })
  expect(locked.status).toBe(401)

  for (const tool of ['uname', 'chmod']) rmSync(join(tools, tool))
  const without = Bun.spawn(['sh', '-c', (await enroll()).line], {
    env: { HOME: join(tools, 'home'), PATH: tools },
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  expect(await without.exited).toBe(1)
  expect(await new Response(without.stderr).text()).toContain('Bun, or Node with npm')
  rmSync(tools, { recursive: true })
})

test('§39: the line for PowerShell fetches the same file, checks it, and passes options on', async () => {
  const made = await enroll()
  const line = made.powershell_line ?? ''
  expect(line).toMatch(/^& \{ .* \}$/)
  expect(line).toContain(`Invoke-WebRequest -UseBasicParsing '${made.agent.url}' -OutFile agent.new; if (`)
  expect(line).toContain(`-ne '${made.agent.sha256}') { throw `)
  const starts = [
    ...line.matchAll(/\{ (bun|npx\.cmd -y bun@[\d.]+) agent\.mjs --gateway '(\S+)' --token '(\S+)'.* @args \}/g),
  ]
  expect(starts.map(([, , url, token]) => [url, token])).toEqual([[made.gateway_url, made.enrollment_token]])
  // PowerShell puts values into texts with double quotes, and ends a text at the first single one.
  expect(line).not.toContain('"')
  expect((line.match(/'/g) ?? []).length % 2).toBe(0)
  const { out } = await cli.run(['nodes', 'enroll', 'shed', '--customer', customer.customerId, '--windows'])
  expect(out).toMatch(/^Paste this into PowerShell on the other computer, .*\n\n& \{ .* \}\n$/)
})

/** Of npx: the package, perhaps once more for its kind. A third of what the retries make. */
const requestsWithoutRetries = 3

test('§22: without Bun and without a network the line ends at once, and says why', async () => {
  const tools = mkdtempSync(join(tmpdir(), 'penstock-cut-off-'))
  for (const tool of ['sh', 'mkdir', 'curl', 'sha256sum', 'mv', 'node', 'npx']) {
    symlinkSync(realpathSync(Bun.which(tool) ?? ''), join(tools, tool))
  }
  let asked = 0
  const registry = Bun.listen({
    hostname: '127.0.0.1',
    port: 0,
    socket: {
      open(socket) {
        asked++
        socket.terminate()
      },
      data() {},
    },
  })
  const cutOff = Bun.spawn(['sh', '-c', (await enroll()).line], {
    env: { HOME: join(tools, 'home'), PATH: tools, npm_config_registry: `http://127.0.0.1:${registry.port}` },
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  expect(await cutOff.exited).toBe(1)
  expect(await new Response(cutOff.stderr).text()).toContain('a network to fetch Bun')
  // With its retries npm would ask again after 10 s, and after 60 s more.
  expect(asked).toBeLessThanOrEqual(requestsWithoutRetries)
  registry.stop(true)
  rmSync(tools, { recursive: true })
})

test('§22: an agent that serves no model says why, server by server', async () => {
  const alone = cli.start(['node', '--listen', '127.0.0.1:0', '--no-discover', '--runtime', 'http://127.0.0.1:9'])
  await firstMatch(alone.stdout, /none yet\n +http:\/\/127\.0\.0\.1:9: Nothing listens there\. Is the server started/)
  alone.kill('SIGINT')
  expect(await alone.exited).toBe(0)
  const none = cli.start(['node', '--listen', '127.0.0.1:0', '--no-discover'])
  await firstMatch(none.stdout, /No model server was found .*: --runtime URL/)
  none.kill('SIGINT')
  expect(await none.exited).toBe(0)
})

test('§30: an agent names the models of its models.json before any of them is in memory', async () => {
  const folder = modelFolder({ memory_mb: 80, models: [scriptModel('cold-one')] })
  const agent = cli.start(['node', '--listen', '127.0.0.1:0', '--no-discover', '--data-dir', folder.path])
  const [text] = await firstMatch(agent.stdout, /Models [\s\S]*Ctrl-C/)
  agent.kill('SIGINT')
  expect(await agent.exited).toBe(0)
  folder.remove()
  expect(text).toMatch(/^Models {5}cold-one\n/)
  expect(text).not.toContain('--runtime')
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
  expect(out.trimEnd().split('\n').at(-1)).toMatch(/^sh -c 'set -e; .*' penstock$/)
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
