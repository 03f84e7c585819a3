import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import type { Credentials } from '../../src/host/data-folder.ts'
import type { Discovered } from '../../src/protocol/wire/nodes/discovery.ts'
import { waitFor } from '../support/gateways/gateway.ts'
import { firstMatch } from '../support/gateways/gateway-process.ts'
import { type HomeNetwork, makeHomeNetwork } from '../support/gateways/home-network.ts'
import { processesOf } from '../support/gateways/npm-start.ts'

const root = resolve(import.meta.dir, '../..')
const computers = ['gateway', 'attic', 'shed', 'phone', 'middle'] as const
type Computer = (typeof computers)[number]
const made = makeHomeNetwork(`psh${process.pid}`, computers)
const refusal = typeof made === 'string' ? made : ''
const minuteMs = 60_000
const program = (name: string) => ['bun', join(root, 'tests/support/nodes', name)]
const penstock = (...args: readonly string[]) => ['bun', join(root, 'src/cli/main.ts'), ...args]

/** A person at the terminal of a computer. */
interface Sitting {
  text(): string
  type(keys: string): void
  readonly exited: Promise<number>
}

describe.skipIf(refusal !== '')(`§39: a home of five computers ${refusal && `(${refusal})`}`.trim(), () => {
  const net = made as HomeNetwork<Computer>
  const children: Bun.Subprocess[] = []
  let dir = ''
  let gatewayUrl = ''

  const env = (computer: Computer) => ({
    PATH: `${join(dir, 'bin')}:${process.env.PATH}`,
    HOME: join(dir, computer),
    SVC_DATA_DIR: join(dir, 'data'),
    TERM: 'xterm',
  })
  async function begin(on: Computer, command: readonly string[], until: RegExp, more: object = {}): Promise<void> {
    const child = Bun.spawn([...net.on(on, command)], {
      cwd: root,
      env: { ...env(on), ...more },
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    children.push(child)
    await firstMatch(child.stdout, until)
  }
  async function run(on: Computer, command: readonly string[]) {
    const child = Bun.spawn([...net.on(on, command)], { cwd: root, env: env(on), stdio: ['ignore', 'pipe', 'pipe'] })
    const [out, err] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()])
    return { code: await child.exited, out, err }
  }
  function sit(on: Computer, command: readonly string[]): Sitting {
    const decoder = new TextDecoder()
    let text = ''
    const data = (_: unknown, bytes: Uint8Array) => {
      text += decoder.decode(bytes, { stream: true })
    }
    const child = Bun.spawn([...net.on(on, command)], {
      cwd: root,
      env: env(on),
      terminal: { cols: 100, rows: 30, data },
    })
    children.push(child)
    return {
      text: () => text.replaceAll(/\u001b\[[0-9;?]*[A-Za-z]/g, ''),
      type: (keys) => void child.terminal?.write(keys),
      exited: child.exited,
    }
  }
  const says = (person: Sitting, pattern: RegExp) =>
    waitFor(`${pattern} of ${person.text()}`, () => pattern.exec(person.text()), minuteMs)
  const wordsOf = async (person: Sitting) => {
    await says(person, /the same six words\? \[y\/N\]/)
    return /^ +([a-z]+(?: [a-z]+){5})\r?$/m.exec(person.text())?.[1] ?? ''
  }
  const agent = (...more: readonly string[]) => penstock('node', '--listen', '127.0.0.1:0', ...more)

  beforeAll(async () => {
    dir = realpathSync(mkdtempSync(join(tmpdir(), 'penstock-home-')))
    // The embedded PostgreSQL runs as another user.
    chmodSync(dir, 0o755)
    for (const name of [...computers, 'bin']) mkdirSync(join(dir, name))
    await Bun.write(join(dir, 'bin', 'bun'), `#!/bin/sh\nexec ${process.execPath} "$@"\n`)
    chmodSync(join(dir, 'bin', 'bun'), 0o755)
    gatewayUrl = `http://${net.addressOf('gateway')}:7070`
    await begin('gateway', ['bun', join(root, 'src/main.ts')], /is ready/, {
      SVC_HOST: '0.0.0.0',
      SVC_MDNS: 'true',
      SVC_DISCOVER: 'false',
      SVC_DEMO: 'never',
      SVC_LOG_LEVEL: 'warn',
      SVC_SHUTDOWN_GRACE_MS: '500',
    })
    const listen = (on: Computer) => `${on === 'attic' ? '127.0.0.1' : '0.0.0.0'}:8000`
    for (const on of ['attic', 'shed'] as const) {
      const served = ['--model', `of-${on}`, '--listen', listen(on), '--speaks', 'vllm', '--json']
      await begin(on, penstock('fake-node', ...served), /"url"/)
    }
  }, 2 * minuteMs)
  afterAll(async () => {
    for (const child of children.toReversed()) child.kill('SIGTERM')
    await Promise.all(children.map((child) => child.exited))
    const { postmaster } = processesOf(join(dir, 'data'))
    if (postmaster !== null) process.kill(postmaster, 'SIGKILL')
    if (typeof made !== 'string') made.remove()
    rmSync(dir, { recursive: true, force: true })
  }, minuteMs)

  test(
    'an agent finds the gateway by its announcement, both show the same words, and a phone chats with its model',
    async () => {
      const person = sit('attic', agent())
      await says(person, /announces itself as http:\/\/10\.214\.0\.1:7070\.[\s\S]*no TLS[\s\S]*\[y\/N\]/)
      person.type('y\r')
      const words = await wordsOf(person)
      const list = await run('gateway', penstock('nodes', 'join'))
      expect(list.out).toContain(words)
      const confirmed = await run('gateway', penstock('nodes', 'join', ...words.split(' '), '--name', 'attic'))
      expect([confirmed.code, confirmed.err]).toEqual([0, ''])
      person.type('y\r')
      await says(person, /This node is node_\w+/)
      const { gateway_key: key } = JSON.parse(
        readFileSync(join(dir, 'data', 'credentials.json'), 'utf8'),
      ) as Credentials
      const chat = ['curl', '-sS', '--max-time', '30', `${gatewayUrl}/v1/chat/completions`]
      const head = ['-H', `authorization: Bearer ${key}`, '-H', 'content-type: application/json', '-d']
      const body = '{"model":"of-attic","messages":[{"role":"user","content":"hi"}]}'
      await waitFor(
        'an answer on the phone',
        async () => (await run('phone', [...chat, ...head, body])).out.includes('"choices"'),
        minuteMs,
      )
      person.type('\u0003')
      expect(await person.exited).toBe(0)
    },
    2 * minuteMs,
  )

  test(
    'somebody in the middle is caught by the words, on both sides',
    async () => {
      const middle = net.addressOf('middle')
      await begin('middle', [...program('join-middle.ts'), gatewayUrl, middle, '7070'], /relays/)
      const person = sit('shed', agent('--no-discover', '--gateway', `http://${middle}:7070`, '--insecure'))
      const words = await wordsOf(person)
      const list = await run('gateway', penstock('nodes', 'join'))
      // The one in the middle waits there, with other words.
      expect(list.out).toContain('join_')
      expect(list.out).not.toContain(words)
      const typed = await run('gateway', penstock('nodes', 'join', ...words.split(' ')))
      expect([typed.code, typed.err]).toEqual([1, expect.stringContaining('somebody stands between')])
      person.type('n\r')
      expect(await person.exited).toBe(1)
      expect(person.text()).toContain('The words differ')
    },
    2 * minuteMs,
  )

  test(
    'a range finds the server of the shed and nothing else; so does its announcement',
    async () => {
      const shed = { url: `http://${net.addressOf('shed')}:8000`, runtime_kind: 'vllm', models: ['of-shed'] }
      const range = await run('gateway', penstock('nodes', 'discover', '10.214.0.0/28', '--json'))
      expect([range.code, range.err]).toEqual([0, ''])
      expect((JSON.parse(range.out) as Discovered).servers).toMatchObject([shed])
      const before = await run('gateway', penstock('nodes', 'discover', '--json'))
      expect((JSON.parse(before.out) as Discovered).servers).toEqual([])
      await begin('shed', [...program('announcing-server.ts'), net.addressOf('shed'), '8000'], /announces/)
      const heard = await run('gateway', penstock('nodes', 'discover', '--json'))
      expect((JSON.parse(heard.out) as Discovered).servers).toMatchObject([shed])
    },
    2 * minuteMs,
  )

  test('nothing leads out of the home', async () => {
    for (const computer of computers) expect(net.interfaces(computer).toSorted()).toEqual(['lan', 'lo'])
    const out = await run('gateway', ['curl', '-sS', '--max-time', '2', 'http://192.0.2.1/'])
    expect(out.code).not.toBe(0)
  })
})

test('this machine makes network namespaces, or says here why not', () => {
  expect(typeof made === 'string' ? made : 'made').not.toBe('')
})
